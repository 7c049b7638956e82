"""The image and the composition: what they name is there, what they run is understood."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from licorne_server.__main__ import parser_for, settings_of
from licorne_server.build_info import COMPILED, PURE, BuildInfo

ROOT = Path(__file__).parent.parent
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile, each with the rest of its line."""
    text = re.sub(r"^\s*#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    pairs = (line.partition(" ") for line in lines if line.strip())
    return [(word, re.sub(r"\s+", " ", rest).strip()) for word, _, rest in pairs]


def last_stage() -> dict[str, str]:
    """What holds in the image that is run: of each instruction, the last."""
    whole = instructions()
    begin = max(place for place, (word, _) in enumerate(whole) if word == "FROM")
    return dict(whole[begin:])


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_is_hardened(name: str) -> None:
    """Each has all that `x-hardened` says, and that is a read-only root and no privileges."""
    hardened = COMPOSE["x-hardened"]
    assert hardened["read_only"] is True
    assert hardened["cap_drop"] == ["ALL"]
    assert hardened["security_opt"] == ["no-new-privileges:true"]
    assert hardened["pids_limit"] > 0
    assert hardened.items() <= SERVICES[name].items()
    assert not SERVICES[name].keys() & {"privileged", "cap_add", "user", "network_mode", "pid"}


@pytest.mark.parametrize("name", SERVICES)
def test_no_service_takes_the_memory_of_the_machine(name: str) -> None:
    """Each has a limit of memory, and no swap beyond it."""
    service = SERVICES[name]
    assert re.fullmatch(r"[1-9]\d*[mg]", service["mem_limit"])
    assert service["memswap_limit"] == service["mem_limit"]


@pytest.mark.parametrize("name", SERVICES)
def test_every_command_is_one_of_ours(name: str) -> None:
    """What a container is started with is understood, and what serves may be served so."""
    command = SERVICES[name]["command"]
    args = parser_for(command[0]).parse_args(command)
    assert args.command == command[0]
    if args.command == "serve":
        settings_of(args).check()


def test_clients_find_the_server_and_its_ports() -> None:
    """Fake RMs go to a service that is there, at the port where it listens, once it is healthy."""
    core = settings_of(parser_for("serve").parse_args(SERVICES["core"]["command"]))
    assert core.http is not None
    ports = {core.listen.port, core.http.port}
    assert {int(text.rpartition(":")[2]) for text in SERVICES["core"]["ports"]} == ports
    assert {int(port) for port in last_stage()["EXPOSE"].split()} == ports
    for service in SERVICES.values():
        if service["command"][0] == "fake-rm":
            args = parser_for("fake-rm").parse_args(service["command"])
            assert args.target == f"core:{core.listen.port}"
            assert service["depends_on"] == {"core": {"condition": "service_healthy"}}


def test_ports_are_open_to_this_machine_only() -> None:
    """Without TLS nothing is published beyond loopback."""
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_the_image_runs_the_fast_form() -> None:
    """It is not built unless it is compiled, and its Python was built with optimizations."""
    [pattern] = [
        found[1]
        for word, rest in instructions()
        if word == "RUN" and (found := re.search(r"licorne version --client \| grep '(.*)'$", rest))
    ]
    info = BuildInfo(version="1.0.0", form=COMPILED, python="CPython 3.11.9", optimized=True)
    assert re.search(pattern, str(info))
    assert not re.search(pattern, str(replace(info, form=PURE)))
    assert not re.search(pattern, str(replace(info, optimized=False)))


def test_copied_files_are_there() -> None:
    """All that is copied into the image exists, and is sent to the builder."""
    sent = (ROOT / ".dockerignore").read_text().split()
    assert "*" in sent
    sources = [
        source
        for word, rest in instructions()
        if word == "COPY" and "--from=" not in rest
        for source in rest.split()[:-1]
    ]
    assert sources
    for source in sources:
        assert (ROOT / source).exists(), source
        assert f"!{source}" in sent


def test_image_is_not_root_and_says_how_it_is() -> None:
    """It runs under a number that is not root's, and its check and commands are ours."""
    stage = last_stage()
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", stage["USER"])
    assert json.loads(stage["ENTRYPOINT"]) == ["licorne"]
    _, _, check = stage["HEALTHCHECK"].partition("CMD ")
    program, *arguments = json.loads(check)
    assert (program, parser_for(arguments[0]).parse_args(arguments).command) == (
        "licorne",
        "healthcheck",
    )
    default = json.loads(stage["CMD"])
    assert parser_for(default[0]).parse_args(default).command == "serve"
