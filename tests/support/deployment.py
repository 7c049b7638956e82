"""Compose file, Kubernetes manifests, alert rules and dashboard: their contents, and servers started by them.

The commands of the compose file are run without containers, on loopback. Paths in containers become paths of
this machine, by the volumes, and addresses become those where a process really listens. Everything else is as
in the file.
"""

import asyncio
import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Self

import yaml

from licorne_cli.commands import parser_for
from licorne_server.commands.serve_options import settings_of
from licorne_server.process.settings import Settings
from support.docs.pages import ROOT
from support.patience import PATIENCE

OURS = "licorne"
"""The image that is built here."""
LICORNE = (sys.executable, "-m", "licorne_server")


@cache
def composition() -> dict[str, Any]:
    """The parsed compose file."""
    document: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))
    return document


def services() -> dict[str, dict[str, Any]]:
    """The services by name."""
    found: dict[str, dict[str, Any]] = composition()["services"]
    return found


def ours() -> dict[str, dict[str, Any]]:
    """The services that run our image with a command of `licorne`."""
    return {
        name: service
        for name, service in services().items()
        if service["image"] == OURS and "entrypoint" not in service
    }


@dataclass(frozen=True, slots=True)
class Mount:
    """A mount of a container: a named volume, or a path of the checkout."""

    source: str
    path: str
    read_only: bool

    @property
    def is_volume(self) -> bool:
        """True if it is a named volume."""
        return not self.source.startswith(".")


def mounts(service: Mapping[str, Any]) -> list[Mount]:
    """The mounts of a service."""
    found = []
    for text in service.get("volumes", ()):
        source, path, *mode = text.split(":")
        assert mode in ([], ["ro"]), text
        found.append(Mount(source, path, read_only=mode == ["ro"]))
    return found


@dataclass(slots=True)
class Play:
    """The processes of the compose file, on this machine. Volumes are folders in `folder`."""

    folder: Path
    addresses: dict[str, str] = field(default_factory=dict)
    """The real address for each address in the compose file."""
    _processes: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def __aenter__(self) -> Self:
        """Start without processes."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """End the running processes."""
        await self._processes.aclose()

    def here(self, service: Mapping[str, Any], text: str) -> str:
        """A word of a service with the paths and addresses of this machine."""
        known = {mount.path: str(self.place(mount)) for mount in mounts(service)} | self.addresses
        if not known:
            return text
        whole = "|".join(map(re.escape, known))
        return re.sub(rf"(?<![\w.-])({whole})(?![\w.-])", lambda found: known[found[1]], text)

    def place(self, mount: Mount) -> Path:
        """The path of a mount on this machine; the folder of a volume is created on first use."""
        if not mount.is_volume:
            return ROOT / mount.source
        place = self.folder / mount.source
        place.mkdir(exist_ok=True)
        return place

    def environment(self, service: Mapping[str, Any]) -> dict[str, str]:
        """The environment of a service: its own variables, and those that any process needs."""
        given = service.get("environment", {})
        own = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "PYTHONUNBUFFERED": "1"}
        return own | {name: self.here(service, value) for name, value in given.items()}

    async def run(self, service: Mapping[str, Any], *command: str) -> str:
        """Run a command with the files and variables of a service; return its output."""
        process = await asyncio.create_subprocess_exec(
            *(self.here(service, word) for word in command),
            env=self.environment(service),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(PATIENCE):
            out, err = await process.communicate()
        assert process.returncode == 0, err.decode()
        return out.decode()

    async def start(
        self,
        service: Mapping[str, Any],
        program: tuple[str, ...],
        *,
        stdout: int | None = None,
        stderr: int | None = None,
    ) -> asyncio.subprocess.Process:
        """Start a service's command; `program` replaces the one in its image."""
        process = await asyncio.create_subprocess_exec(
            *(*program, *(self.here(service, word) for word in service["command"])),
            env=self.environment(service),
            stdout=stdout,
            stderr=stderr,
        )
        self._processes.push_async_callback(_end, process)
        return process

    async def certificates(self) -> str:
        """Run the service that generates certificates; return its output."""
        return await self.finish("certificates")

    async def finish(self, name: str) -> str:
        """Run a service that ends by itself; return its output."""
        service = services()[name]
        program, *words = service["entrypoint"]
        # The image's Python has our packages, as the tests' Python has.
        program = sys.executable if program == "python" else program
        return await self.run(service, program, *words, *service["command"])

    async def core(self) -> None:
        """Start the core on free ports of loopback, and wait until it is ready."""
        self.addresses |= {"0.0.0.0:7070": "127.0.0.1:0", "0.0.0.0:9080": "127.0.0.1:0"}
        process = await self.start(services()["core"], LICORNE, stdout=asyncio.subprocess.PIPE)
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            line = (await process.stdout.readline()).decode()
        words = dict(word.split("=") for word in line.split()[1:])
        self.addresses |= {"core:7070": words["grpc"], "core:9080": words["http"]}

    async def rms(self) -> set[str]:
        """Start the fake RMs; return their names."""
        wanted = {name for name, service in ours().items() if service["command"][0] == "fake-rm"}
        for name in sorted(wanted):
            await self.start(ours()[name], LICORNE, stderr=asyncio.subprocess.DEVNULL)
        return wanted


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
    async with asyncio.timeout(PATIENCE):
        await process.wait()


PROMETHEUS = ROOT / "deploy/prometheus"
GRAFANA = ROOT / "deploy/grafana"
WORDS = frozenset({"and", "or", "unless", "bool", "offset", "group_left", "group_right"})
"""Words in an expression that are no metrics."""


@cache
def alerts() -> dict[str, dict[str, Any]]:
    """The alert rules by name."""
    read = yaml.safe_load((PROMETHEUS / "alerts.yml").read_text(encoding="utf-8"))
    rules = [rule for group in read["groups"] for rule in group["rules"]]
    named = {rule["alert"]: rule for rule in rules}
    assert len(named) == len(rules), "two alerts have one name"
    return named


@cache
def dashboard() -> dict[str, Any]:
    """The dashboard, as its program draws it."""
    spec = importlib.util.spec_from_file_location("dashboard", GRAFANA / "dashboard.py")
    assert spec is not None
    assert spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    document: dict[str, Any] = json.loads(program.dashboard())
    return document


def panels() -> list[dict[str, Any]]:
    """All panels of the dashboard without the headings of rows; those of closed rows are included."""
    every = [one for panel in dashboard()["panels"] for one in (panel, *panel.get("panels", ()))]
    return [panel for panel in every if panel["type"] != "row"]


def targets() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every target of the dashboard, with the title of its panel, and the expressions of its annotations."""
    for panel in panels():
        for target in panel["targets"]:
            yield panel["title"], target
    for one in dashboard()["annotations"]["list"]:
        yield one["name"], {**one, "legendFormat": one["titleFormat"]}


def queries() -> Iterator[tuple[str, str]]:
    """The queries of the dashboard's variables, by name: the inner part of ``label_values``."""
    for variable in dashboard()["templating"]["list"]:
        if variable["type"] == "query":
            found = re.fullmatch(r"label_values\((.*), \w+\)", variable["definition"])
            assert found, variable["definition"]
            yield variable["name"], found[1]


def without_variables(expression: str) -> str:
    """The expression with a value for each variable of Grafana."""
    expression = expression.replace("$__rate_interval", "5m")
    return re.sub(r"\$\w+", ".*", expression)


def metrics_of(expression: str) -> set[str]:
    """The names of the metrics that an expression reads."""
    rest = re.sub(r'"(?:[^"\\]|\\.)*"', "", expression)
    rest = re.sub(r"\{[^}]*\}|\[[^\]]*\]", " ", rest)
    rest = re.sub(r"\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)", " ", rest)
    rest = re.sub(r"\boffset\s+\w+", " ", rest)
    names = re.findall(r"(?<![\w.])[a-zA-Z_:][\w:]*(?!\w*\s*\()", rest)
    return set(names) - WORDS


def all_metrics() -> dict[str, list[str]]:
    """Every metric in alerts and dashboard, with the names of its readers."""
    found: dict[str, list[str]] = {}
    expressions = [
        *((name, rule["expr"]) for name, rule in alerts().items()),
        *((title, target["expr"]) for title, target in targets()),
        *((f"variable {name}", query) for name, query in queries()),
    ]
    for name, expression in expressions:
        for metric in metrics_of(expression):
            found.setdefault(metric, []).append(name)
    return found


CHART = ROOT / "deploy/helm/licorne"
EXAMPLES = sorted((ROOT / "deploy/helm/examples").glob("*.yaml"))
PLAIN = ROOT / "deploy/kubernetes"
POD = "licorne-members-0"
"""The name in the environment of a members' pod."""

CONFIG = "/etc/licorne/queues/queues.yaml"
SETTINGS = "/etc/licorne/settings/licorne.toml"

Objects = Sequence[Mapping[str, Any]]


def objects(text: str) -> Objects:
    """The objects of a manifest."""
    return [document for document in yaml.safe_load_all(text) if document]


def only(found: Objects, kind: str, name: str = "") -> Any:
    """The only object of a kind, or of a kind and name."""
    [one] = [item for item in found if item["kind"] == kind and name in ("", item["metadata"]["name"])]
    return one


def pod(found: Objects) -> Any:
    """The pod template of the stateful set."""
    return only(found, "StatefulSet")["spec"]["template"]["spec"]


def service(found: Objects) -> Any:
    """The service for clients, in contrast to the headless one of the stateful set."""
    own = only(found, "StatefulSet")["spec"]["serviceName"]
    others = [item for item in found if item["metadata"]["name"] != own]
    return only(others, "Service")


def core(found: Objects) -> Any:
    """The container of the core in the pod."""
    return next(one for one in pod(found)["containers"] if one["name"] == "licorne")


def settings_text(found: Objects) -> str:
    """The file of settings with which the core is started."""
    [text] = [one["data"]["licorne.toml"] for one in found if "licorne.toml" in one.get("data", {})]
    assert isinstance(text, str)
    return text


def unmounted(found: Objects) -> list[str]:
    """The files in arguments and settings of the core that no mount contains."""
    mounted = {mount["mountPath"] for mount in core(found)["volumeMounts"]}
    words = [word.rpartition("=")[2] for word in core(found)["args"]]
    files = [word for word in (*words, *re.findall('"(.*?)"', settings_text(found))) if word.startswith("/")]
    assert files
    return [file for file in files if not {file, str(Path(file).parent)} & mounted]


def settings(found: Objects, folder: Path) -> Settings:
    """The settings of the core's command, as parsed and checked by the server's own reader.

    The files of queues and settings among the objects are written into `folder`.
    """
    queues = folder / "queues.yaml"
    given = [one["data"]["queues.yaml"] for one in found if "queues.yaml" in one.get("data", {})]
    queues.write_text(given[0] if given else "partitions: [{name: default, queues: [{name: root}]}]")
    (folder / "licorne.toml").write_text(settings_text(found).replace(CONFIG, str(queues)))
    words = [word.replace(SETTINGS, str(folder / "licorne.toml")) for word in core(found)["args"]]
    environ = core(found).get("env", [])
    variables = {one["name"]: one.get("value", "").replace("$(POD_NAME)", POD) for one in environ}
    read = settings_of(parser_for(words[0]).parse_args(words), variables)
    read.check()
    return read


def tool(variable: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run one of the tools that `make lint-deploy` has installed; an environment variable has its path."""
    return subprocess.run(
        [os.environ[variable], *arguments],
        cwd=ROOT,
        text=True,
        capture_output=True,
        check=False,
        timeout=PATIENCE,
    )


def helm(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run Helm."""
    return tool("LICORNE_HELM", *arguments)


def check(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the program in `deploy/check`."""
    return tool("LICORNE_CHECK", *arguments)


WITH_IMAGE = ("--set", "image.repository=licorne")
"""The value with the place of the image, which the examples set themselves."""


def template(*arguments: str | Path) -> str:
    """The chart, rendered with the name and namespace of the plain manifests."""
    image = () if "--values" in arguments else WITH_IMAGE
    made = helm("template", "licorne", CHART, "--namespace", "licorne", *image, *arguments)
    assert made.returncode == 0, made.stderr
    return made.stdout
