"""The image, built and run as documented, and the compose file with it, by podman."""

import json
import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from support.containers import BUILD_SECONDS, Podman, podman
from support.docs.pages import ROOT
from support.patience import PATIENCE

pytestmark = [pytest.mark.image, pytest.mark.timeout(2 * BUILD_SECONDS)]

BASE = os.environ.get("BASE") or "localhost/licorne-base"
"""The base of the image, by default one that was made here from Debian's packages."""
WHEELS = os.environ.get("WHEELS", "")
"""A folder with the compiled server; without one, the build of the image compiles it."""
PORTS = (7070, 9080)
NETWORK = "cluster"
COMPOSE = Path(sys.executable).with_name("podman-compose")
PROJECT = "licorne-tested"


@pytest.fixture(scope="module")
def engine() -> Iterator[Podman]:
    """A store of podman with the image."""
    with podman() as own:
        make = partial(own.program, "make", "--no-print-directory", "ENGINE=podman", seconds=BUILD_SECONDS)
        if BASE.startswith("localhost/"):
            make("image-base")
        make("image", f"BASE={BASE}", f"PYTHON={sys.executable}", f"WHEELS={WHEELS}")
        own("network", "create", NETWORK)
        yield own


@pytest.fixture(scope="module")
def core(engine: Podman) -> str:
    """The server of `docs/installing.md`, hardened, with free ports."""
    text = (ROOT / "docs/installing.md").read_text("utf-8").replace("\\\n", " ")
    [command] = re.findall("^docker (run .*)", text, re.MULTILINE)
    for port in PORTS:
        command = command.replace(f"127.0.0.1:{port}:{port}", f"127.0.0.1::{port}")
    run, *words = shlex.split(command)
    engine(run, "--detach", "--name", "core", "--network", NETWORK, *words)
    until(lambda: engine.program("podman", "exec", "core", *check(engine), ok=False).returncode == 0)
    return "core"


def check(engine: Podman) -> list[str]:
    """The command of the image's health check."""
    kind, *command = map(str, engine.inspect("licorne", "image")["Healthcheck"]["Test"])
    assert kind == "CMD"
    return command


def until(look: Callable[[], object]) -> None:
    """Poll until the condition holds."""
    end = time.monotonic() + PATIENCE
    while not look():
        assert time.monotonic() < end
        time.sleep(0.2)


def get(engine: Podman, name: str, path: str) -> str:
    """The body of a successful HTTP answer, requested from outside of the container."""
    with urlopen(f"http://{engine.published(name, 9080)}{path}", timeout=PATIENCE) as answer:
        assert answer.status == 200
        text: str = answer.read().decode()
        return text


def gauge(engine: Podman, name: str, pattern: str) -> float:
    """The first value of a scrape whose name and labels match, or 0."""
    found = re.search(rf"^{pattern} (\S+)$", get(engine, name, "/metrics"), re.MULTILINE)
    return float(found[1]) if found else 0.0


def test_the_image_has_the_settings_of_the_dockerfile(engine: Podman) -> None:
    """User, signal and health check survive the build, because the format of the image has them."""
    config = engine.inspect("licorne", "image")["Config"]
    assert config["User"] == "10001:10001"
    assert config["StopSignal"] == "SIGTERM"
    assert check(engine) == ["licorne", "healthcheck"]


def test_the_image_is_compiled_without_build_tools(engine: Podman) -> None:
    """The image has the compiled form, and no compiler, headers or inputs of pip."""
    said = engine("run", "--rm", "licorne", "version", "--client")
    assert ", compiled, " in said
    places = "/usr/bin/gcc /usr/include/python3*/Python.h /etc/pip.conf /run/secrets/* /src /wheels"
    found = engine("run", "--rm", "--entrypoint", "sh", "licorne", "-c", f"ls -d {places} 2> /dev/null; true")
    assert found == ""


def test_the_server_has_no_privileges(engine: Podman, core: str) -> None:
    """The server is not root, gets no capability, cannot write its root, and reads its limits."""
    status = dict(line.split(":\t", 1) for line in engine("exec", core, "cat", "/proc/1/status").splitlines())
    assert status["Uid"].split() == ["10001"] * 4
    assert {int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
    assert status["NoNewPrivs"] == "1"
    written = engine.program("podman", "exec", core, "touch", "/opt/licorne/file", ok=False)
    assert "Read-only file system" in written.stderr
    assert engine.inspect(core)["HostConfig"]["PidsLimit"] == 256
    assert gauge(engine, core, "licorne_memory_limit_bytes") == pytest.approx(0.8 * 2**30)


def test_the_server_is_healthy(engine: Podman, core: str) -> None:
    """The image's check passes in the container, and the probes do from outside."""
    engine("healthcheck", "run", core)
    for path in ("/livez", "/readyz"):
        assert get(engine, core, path)


def test_an_rm_in_another_container_gets_allocations(engine: Podman, core: str) -> None:
    """An RM finds the server by its name, and the server's metrics have its allocations."""
    engine(*shlex.split(f"run --detach --name rm --network {NETWORK} licorne fake-rm --target {core}:7070"))
    until(lambda: gauge(engine, core, r'licorne_allocations\{.*rm="batch".*\}'))


def test_the_server_drains_at_sigterm(engine: Podman, core: str) -> None:
    """On SIGTERM the server drains and exits with 0 in time, and is not killed."""
    engine("stop", core)
    state = engine.inspect(core)["State"]
    assert (state["Status"], state["ExitCode"], state["OOMKilled"]) == ("exited", 0, False)
    last = json.loads(engine.program("podman", "logs", core).stderr.splitlines()[-1])
    assert last["event"] == "stopped"


@pytest.fixture(scope="module")
def composition(engine: Podman, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """`docker-compose.yml` with free ports."""
    free = tmp_path_factory.mktemp("composition") / "ports.yml"
    ports = json.dumps([f"127.0.0.1::{port}" for port in PORTS])
    free.write_text(f"services: {{core: {{ports: !override {ports}}}}}\n")
    files = ("--file", ROOT / "docker-compose.yml", "--file", free)

    def run(*words: str) -> str:
        return engine.program(COMPOSE, "--project-name", PROJECT, *files, *words).stdout

    return run


def composed(engine: Podman, service: str) -> str:
    """The container of a service."""
    label = f"label=com.docker.compose.project={PROJECT}"
    own = f"label=com.docker.compose.service={service}"
    return engine("ps", "--all", "--quiet", "--filter", label, "--filter", own)


def test_the_compose_file_runs(engine: Podman, composition: Callable[..., str]) -> None:
    """Certificates are made; an RM shows its own to the core and gets allocations; ports answer."""
    composition("up", "--detach", "--no-build", "core", "batch")
    core = composed(engine, "core")
    until(lambda: engine.program("podman", "exec", core, *check(engine), ok=False).returncode == 0)
    until(lambda: gauge(engine, core, r'licorne_allocations\{.*rm="batch".*\}'))
    told = composition("exec", "-T", "core", "licorne", "rms", "-o", "json")
    shown: list[dict[str, Any]] = json.loads(told)["rms"]
    assert {rm["rmId"]: rm["connected"] for rm in shown} == {"batch": True}
    made = engine.inspect(composed(engine, "certificates"))["State"]
    assert (made["Status"], made["ExitCode"]) == ("exited", 0)
    assert engine.inspect(core)["HostConfig"]["Memory"] == 2**30


def test_the_compose_file_is_removed_completely(engine: Podman, composition: Callable[..., str]) -> None:
    """Compose removes its containers, networks and volumes."""
    composition("up", "--detach", "--no-build", "core")
    composition("down", "--volumes")
    assert engine("ps", "--all", "--quiet", "--filter", f"label=com.docker.compose.project={PROJECT}") == ""
    assert [name for name in engine("volume", "ls", "--quiet").split() if name.startswith(PROJECT)] == []
    assert [name for name in engine("network", "ls", "--quiet").split() if name.startswith(PROJECT)] == []
