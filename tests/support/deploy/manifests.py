"""Manifests for Kubernetes: what is in them, and the server that they start."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from licorne_cli.commands import parser_for
from licorne_server.commands.serve_options import settings_of
from licorne_server.process.settings import Settings
from support.docs.pages import ROOT

CHART = ROOT / "deploy/helm/licorne"
EXAMPLES = sorted((ROOT / "deploy/helm/examples").glob("*.yaml"))
PLAIN = ROOT / "deploy/kubernetes"
CONFIG = "/etc/licorne/queues/queues.yaml"

Objects = Sequence[Mapping[str, Any]]


def objects(text: str) -> Objects:
    """The objects of a manifest."""
    return [document for document in yaml.safe_load_all(text) if document]


def only(found: Objects, kind: str, name: str = "") -> Any:
    """The one object of a kind, and of a name if there are several."""
    [one] = [item for item in found if item["kind"] == kind and name in ("", item["metadata"]["name"])]
    return one


def pod(found: Objects) -> Any:
    """The pod that they make."""
    return only(found, "StatefulSet")["spec"]["template"]["spec"]


def service(found: Objects) -> Any:
    """The service that clients use. The stateful set has another one, which has no address."""
    own = only(found, "StatefulSet")["spec"]["serviceName"]
    others = [item for item in found if item["metadata"]["name"] != own]
    return only(others, "Service")


def core(found: Objects) -> Any:
    """The container of the core in it."""
    return next(one for one in pod(found)["containers"] if one["name"] == "licorne")


def unmounted(found: Objects) -> list[str]:
    """The files in the arguments of the core that are in nothing that is mounted."""
    mounted = {mount["mountPath"] for mount in core(found)["volumeMounts"]}
    words = [word.rpartition("=")[2] for word in core(found)["args"]]
    files = [word for word in words if word.startswith("/")]
    assert files
    return [file for file in files if not {file, str(Path(file).parent)} & mounted]


def settings(found: Objects, folder: Path) -> Settings:
    """What the core is started with, as the real parser has it, and checked.

    The file of queues is written into `folder`, if it is among the objects.
    """
    queues = folder / "queues.yaml"
    given = [one["data"]["queues.yaml"] for one in found if "queues.yaml" in one.get("data", {})]
    queues.write_text(given[0] if given else "partitions: [{name: default, queues: [{name: root}]}]")
    words = [word.replace(CONFIG, str(queues)) for word in core(found)["args"]]
    read = settings_of(parser_for(words[0]).parse_args(words))
    read.check()
    return read


def tool(variable: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run one of the tools that `make lint-deploy` has made and named in the environment."""
    return subprocess.run(
        [os.environ[variable], *arguments],
        cwd=ROOT,
        text=True,
        capture_output=True,
        check=False,
        timeout=120,
    )


def helm(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run Helm."""
    return tool("LICORNE_HELM", *arguments)


def check(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the program in `deploy/check`."""
    return tool("LICORNE_CHECK", *arguments)


def template(*arguments: str | Path) -> str:
    """What the chart makes, under the name and in the namespace of the plain manifests."""
    made = helm("template", "licorne", CHART, "--namespace", "licorne", *arguments)
    assert made.returncode == 0, made.stderr
    return made.stdout
