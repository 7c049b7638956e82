"""A server with two RMs, and a user's `licorne` commands."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from licorne_cli.commands import main
from licorne_server.process.clock import Clock
from licorne_server.testing import FakeRM, serve
from support.patience import PATIENCE

CONFIG = """\
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: prod
            resources: {guaranteed: {vcore: 2}, max: {vcore: 4, memory: 64Gi}}
          - name: dev
            properties: {application.sort.policy: fair}
"""


@dataclass(frozen=True, slots=True)
class Result:
    """Output and exit code of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The output as parsed JSON."""
        return json.loads(self.out)

    @property
    def rows(self) -> list[list[str]]:
        """The words of each line."""
        return [line.split() for line in self.out.splitlines()]


class Shell:
    """Runs commands against one server."""

    def __init__(self, target: str, capsys: pytest.CaptureFixture[str]) -> None:
        """`capsys` captures the output of commands."""
        self.target = target
        self._capsys = capsys

    async def __call__(self, command: str, *arguments: str) -> Result:
        """Run `licorne COMMAND ARGUMENTS --target …` outside the server's loop, with a long timeout."""
        given = [command, *arguments, "--target", self.target]
        if "--timeout" not in arguments:
            given += ["--timeout", str(PATIENCE)]
        # Drop the earlier log lines of the server, which are not output of the command.
        self._capsys.readouterr()
        code = await asyncio.to_thread(main, given)
        captured = self._capsys.readouterr()
        return Result(code, captured.out, captured.err)


@dataclass(frozen=True, slots=True)
class Town:
    """Two RMs: `blue` has one full queue, `green` has only a node."""

    shell: Shell
    blue: FakeRM
    green: FakeRM


@asynccontextmanager
async def busy_town(clock: Clock | None = None) -> AsyncIterator[tuple[str, FakeRM, FakeRM]]:
    """The address and both RMs: `blue` runs 4 of the 6 asks of an application in root.prod, its maximum."""
    async with AsyncExitStack() as stack:
        served = await stack.enter_async_context(serve(CONFIG, clock=clock))
        blue = await stack.enter_async_context(FakeRM(served.target, rm_id="blue"))
        green = await stack.enter_async_context(FakeRM(served.target, rm_id="green"))
        await blue.add_nodes(2)
        await green.add_nodes(1, prefix="meadow")
        await blue.submit("shop", queue="root.prod", user="ann")
        await blue.submit("idle", queue="root.dev", user="bob")
        await blue.ask("shop", 6, priority=7)
        await blue.allocated(4)
        yield served.target, blue, green


@asynccontextmanager
async def interrupted(*arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A command in a process, with its output; it is interrupted at the end, and must exit with 130."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "licorne_server", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(PATIENCE):
            assert await process.wait() == 130
    finally:
        if process.returncode is None:
            process.kill()
