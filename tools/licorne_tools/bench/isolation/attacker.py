"""The bench's side of an attack: starts its process, lets it act, and ends it."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from licorne_server.commands.server_process import ServerProcess
from licorne_tools.bench.driver import BenchError

STOP_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What an attack has done: acts, and how many of them were refused or cut off."""

    acts: int
    refused: int


class Attacker:
    """An attack that is prepared."""

    def __init__(self, name: str, process: asyncio.subprocess.Process) -> None:
        """Take the process after it has said that it is ready."""
        self._name = name
        self._process = process

    async def begin(self) -> None:
        """Let it act."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"go\n")
        await self._process.stdin.drain()

    async def end(self) -> Done:
        """Stop it, and ask what it has done; BenchError if it has failed."""
        try:
            async with asyncio.timeout(STOP_SECONDS):
                output, _ = await self._process.communicate(b"")
        except TimeoutError:
            raise BenchError(f"the attack {self._name} did not end in {STOP_SECONDS:.0f} s") from None
        if self._process.returncode != 0:
            raise BenchError(f"the attack {self._name} failed")
        return Done(**json.loads(output))


@asynccontextmanager
async def attacking(name: str, server: ServerProcess, percent: int) -> AsyncIterator[Attacker]:
    """Start an attack and wait until it is prepared; its process ends in the end."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "licorne_tools.bench.isolation.program"),
        *(name, server.target, server.http, str(percent)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        if await process.stdout.readline() != b"ready\n":
            raise BenchError(f"the attack {name} could not be prepared")
        yield Attacker(name, process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
