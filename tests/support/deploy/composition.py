"""The composition, and a play of it without containers: its own commands, on loopback.

Paths in containers become paths of this machine, as the volumes say, and addresses become those
where a process really listens. Everything else is as in the file.
"""

import asyncio
import os
import re
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from support.docs.pages import ROOT

PATIENCE = 120.0
OURS = "licorne"
"""The image that is built here."""
LICORNE = (sys.executable, "-m", "licorne_server")


@cache
def composition() -> dict[str, Any]:
    """What the file says."""
    document: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))
    return document


def services() -> dict[str, dict[str, Any]]:
    """The services by name."""
    found: dict[str, dict[str, Any]] = composition()["services"]
    return found


def ours() -> dict[str, dict[str, Any]]:
    """Those that are run from our image with a command of `licorne`."""
    return {
        name: service
        for name, service in services().items()
        if service["image"] == OURS and "entrypoint" not in service
    }


@dataclass(frozen=True, slots=True)
class Mount:
    """What a container has at a path: a named volume, or something of the checkout."""

    source: str
    path: str
    read_only: bool

    @property
    def is_volume(self) -> bool:
        """Whether it is a named volume."""
        return not self.source.startswith(".")


def mounts(service: Mapping[str, Any]) -> list[Mount]:
    """What a service has mounted."""
    found = []
    for text in service.get("volumes", ()):
        source, path, *mode = text.split(":")
        assert mode in ([], ["ro"]), text
        found.append(Mount(source, path, read_only=mode == ["ro"]))
    return found


@dataclass(slots=True)
class Play:
    """The processes of the composition, on this machine. Volumes are folders of `folder`."""

    folder: Path
    addresses: dict[str, str] = field(default_factory=dict)
    """Where what listens at an address of the composition listens in truth."""
    _processes: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def __aenter__(self) -> Self:
        """Nothing runs yet."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End what runs."""
        await self._processes.aclose()

    def here(self, service: Mapping[str, Any], text: str) -> str:
        """A word of a service as it is on this machine."""
        known = {mount.path: str(self.place(mount)) for mount in mounts(service)} | self.addresses
        if not known:
            return text
        whole = "|".join(map(re.escape, known))
        return re.sub(rf"(?<![\w.-])({whole})(?![\w.-])", lambda found: known[found[1]], text)

    def place(self, mount: Mount) -> Path:
        """Where something mounted is; a volume is made when it is first needed."""
        if not mount.is_volume:
            return ROOT / mount.source
        place = self.folder / mount.source
        place.mkdir(exist_ok=True)
        return place

    def environment(self, service: Mapping[str, Any]) -> dict[str, str]:
        """The variables of a service, and those that any process needs; no others."""
        given = service.get("environment", {})
        own = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "PYTHONUNBUFFERED": "1"}
        return own | {name: self.here(service, value) for name, value in given.items()}

    async def run(self, service: Mapping[str, Any], *command: str) -> str:
        """Run a command beside a service, with its files and variables; what it prints."""
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
        """Start a service's command with the program that its image has for it."""
        process = await asyncio.create_subprocess_exec(
            *(*program, *(self.here(service, word) for word in service["command"])),
            env=self.environment(service),
            stdout=stdout,
            stderr=stderr,
        )
        self._processes.push_async_callback(_end, process)
        return process

    async def certificates(self) -> str:
        """Run the service that makes certificates; what it says."""
        return await self.finish("certificates")

    async def finish(self, name: str) -> str:
        """Run a service that ends by itself; what it prints."""
        service = services()[name]
        program, *words = service["entrypoint"]
        # The image's Python has our packages, as that of the tests has.
        program = sys.executable if program == "python" else program
        return await self.run(service, program, *words, *service["command"])

    async def core(self) -> None:
        """Start the core, on free ports of loopback, and wait until it is ready."""
        self.addresses |= {"0.0.0.0:7070": "127.0.0.1:0", "0.0.0.0:9080": "127.0.0.1:0"}
        process = await self.start(services()["core"], LICORNE, stdout=asyncio.subprocess.PIPE)
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            line = (await process.stdout.readline()).decode()
        words = dict(word.split("=") for word in line.split()[1:])
        self.addresses |= {"core:7070": words["grpc"], "core:9080": words["http"]}

    async def rms(self) -> set[str]:
        """Start the fake RMs; their names."""
        wanted = {name for name, service in ours().items() if service["command"][0] == "fake-rm"}
        for name in sorted(wanted):
            await self.start(ours()[name], LICORNE, stderr=asyncio.subprocess.DEVNULL)
        return wanted


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
    async with asyncio.timeout(PATIENCE):
        await process.wait()
