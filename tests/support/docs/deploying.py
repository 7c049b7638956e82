"""Checks of a page's commands for Docker, Helm and kubectl, which are not run."""

import re
import subprocess
from itertools import pairwise
from typing import Any

import yaml

from licorne_cli.commands import parser_for
from support.deployment import CHART, services
from support.docs.pages import ROOT


def try_deploying(words: list[str]) -> None:
    """Check all references in a command: services, files, values, and the inner command."""
    match words:
        case ["docker", "compose", "exec", *rest]:
            _inside([word for word in rest if word != "-T"])
        case ["docker", "compose", verb, *options]:
            assert verb in ("up", "down"), verb
            assert all(option.startswith("--") for option in options)
        case ["helm", ("install" | "upgrade"), "licorne", chart, *options]:
            assert ROOT / chart == CHART
            _values(options)
        case ["kubectl", "apply", "--kustomize", folder]:
            assert (ROOT / folder / "kustomization.yaml").is_file()
        case ["kubectl", *rest]:
            made = re.findall(r"=tls/(\w+)\.", " ".join(rest))
            assert set(made) <= {"licorne", "ca"}
            assert {"leases", "namespace", "port-forward", "secret"} & set(rest), rest
        case ["sh", script, *rest]:
            subprocess.run(["sh", ROOT / script, *rest], check=True, capture_output=True)
        case _:
            raise AssertionError(f"nobody knows how to try {' '.join(words)}")


def _inside(words: list[str]) -> None:
    """A command of `licorne` in a container."""
    service, program, *command = words
    assert service in services()
    assert program == "licorne"
    if "<" in command:
        command = command[: command.index("<")]
    parser_for(command[0]).parse_known_args(command)


def _values(options: list[str]) -> None:
    """Check that each given value exists in the chart."""
    known: Any = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    for option, given in pairwise(options):
        if option == "--set":
            value = known
            for key in given.partition("=")[0].split("."):
                assert key in value, given
                value = value[key]
