"""A server in a process of its own, to be killed."""

import asyncio
import resource
import signal
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Protocol, Self

START_SECONDS = 60.0
PROGRAM = (sys.executable, "-m", "licorne_server")


class Process(Protocol):
    """What is needed of a process of `asyncio`."""

    @property
    def pid(self) -> int:
        """Its number."""
        ...

    @property
    def returncode(self) -> int | None:
        """What it has ended with, if somebody has waited for that."""
        ...

    @property
    def stdout(self) -> asyncio.StreamReader | None:
        """What it says."""
        ...

    def kill(self) -> None:
        """kill -9."""
        ...

    def send_signal(self, signal: int) -> None:
        """Send it a signal."""
        ...

    async def wait(self) -> int:
        """Wait until it has ended; its exit code."""
        ...


class ServerProcess:
    """`licorne serve` on loopback. Started again, it listens on the same port."""

    def __init__(
        self,
        *flags: str,
        http: str = "off",
        stderr: int | None = None,
        program: Sequence[str] = PROGRAM,
        files: int = 0,
    ) -> None:
        """Not started.

        `http` is where it serves REST; more `flags` go to `licorne serve`. `stderr` is a descriptor
        for its log, that of this process if not given. `program` is what is run in place of the
        real `licorne`. It may open so many `files`; 0 means as many as this process.
        """
        self.target = "127.0.0.1:0"
        self.http = http
        self.line = ""
        """What it says once it is ready."""
        self._flags = flags
        self._stderr = stderr
        self._program = program
        self._files = files
        self._process: Process | None = None

    async def __aenter__(self) -> Self:
        """Start it and wait until it is ready."""
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Kill it if it still runs."""
        await self.kill()

    async def start(self) -> None:
        """Start it and wait for the line that says where it listens."""
        where = ("--listen", self.target, "--http", self.http)
        self._process = await self._begin(["serve", "--log-level", "error", *where, *self._flags])
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), START_SECONDS)
        self.line = line.decode()
        words = dict(word.split("=") for word in self.line.split()[1:])
        self.target, self.http = words["grpc"], words["http"]

    async def _begin(self, arguments: Sequence[str]) -> Process:
        """Start `licorne` with these arguments."""
        return await asyncio.create_subprocess_exec(
            *(*self._program, *arguments),
            stdout=asyncio.subprocess.PIPE,
            stderr=self._stderr,
            preexec_fn=self._limit_files if self._files else None,
        )

    def _limit_files(self) -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (self._files, self._files))

    async def kill(self) -> None:
        """kill -9."""
        assert self._process is not None
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()

    def limit_size_of_files(self, size: int) -> None:
        """Let it write no file beyond so many bytes from now on, as if the disk were full there."""
        assert self._process is not None
        _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE, (size, most))

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    async def stop(self) -> int:
        """Let it stop in order; its exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return await self.ended()

    async def ended(self) -> int:
        """Wait until it has ended; its exit code."""
        assert self._process is not None
        return await self._process.wait()

    async def last_words(self) -> str:
        """What it has said since the line that it is ready, once it has ended."""
        assert self._process is not None
        assert self._process.stdout is not None
        return (await self._process.stdout.read()).decode()

    async def restart(self) -> None:
        """kill -9, and start again on the same port."""
        await self.kill()
        await self.start()
