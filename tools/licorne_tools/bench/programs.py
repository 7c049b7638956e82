"""Programs that run beside a benchmark, each in its own process with pipes for stdin and stdout."""

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from licorne_tools.bench.driver import BenchError

READY = "ready"
LONGEST_LINE = 64 * 1024 * 1024
"""Maximum number of bytes of a line that a program prints."""


class Program:
    """A prepared program: it has printed ``ready``, and begins its work after a line on stdin."""

    def __init__(self, name: str, process: Process) -> None:
        """Wrap the process; `name` is for messages."""
        self._name = name
        self._process = process

    async def begin(self) -> None:
        """Let the program begin its work."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"go\n")
        await self._process.stdin.drain()

    async def answer(self, line: bytes) -> bytes:
        """Send a line; returns the line with the program's answer.

        Raises:
            BenchError: the program has ended.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(ConnectionError):
            self._process.stdin.write(line + b"\n")
            await self._process.stdin.drain()
        answer = await self._process.stdout.readline()
        if not answer:
            raise BenchError(f"{self._name} failed")
        return answer

    async def end(self, seconds: float | None = None) -> bytes:
        """Close stdin, and wait for the program to end; returns its output.

        Raises:
            BenchError: the program has failed, or does not end in `seconds`.
        """
        try:
            async with asyncio.timeout(seconds):
                output, _ = await self._process.communicate(b"")
        except TimeoutError:
            raise BenchError(f"{self._name} did not end in {seconds:.0f} s") from None
        if self._process.returncode != 0:
            raise BenchError(f"{self._name} failed")
        return output


@asynccontextmanager
async def prepared(name: str, module: str, *arguments: str) -> AsyncIterator[Program]:
    """A prepared program of `licorne_tools.bench`, for the duration of the block."""
    async with begun(name, *python(module), *arguments) as program:
        yield program


@asynccontextmanager
async def begun(name: str, *command: str) -> AsyncIterator[Program]:
    """A prepared program in any language, for the duration of the block."""
    async with process_of(*command) as process:
        assert process.stdout is not None
        if await process.stdout.readline() != f"{READY}\n".encode():
            raise BenchError(f"{name} could not be prepared")
        yield Program(name, process)


def python(module: str) -> tuple[str, ...]:
    """The command that runs a module of `licorne_tools.bench`."""
    return sys.executable, "-m", f"licorne_tools.bench.{module}"


@asynccontextmanager
async def process_of(*command: str) -> AsyncIterator[Process]:
    """A process with pipes, for the duration of the block."""
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, limit=LONGEST_LINE)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def told_to_begin() -> bool:
    """In the program: print ``ready``, and wait for a line on stdin; False if stdin ends first."""
    print(READY, flush=True)
    return bool(await asyncio.to_thread(sys.stdin.readline))
