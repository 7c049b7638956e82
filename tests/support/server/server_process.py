"""Servers in processes of their own.

A forked server begins after all imports: one process imports the modules and is forked for each server. So a
start takes a tenth of the time.
"""

import asyncio
import multiprocessing
import os
import resource
import signal
import sys
import urllib.request
from collections.abc import Sequence
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from typing import Protocol, Self

from licorne_cli.commands import main
from licorne_core.handlers import lifecycle
from licorne_core.model.apps.states import COMPLETING_TIME
from licorne_server.store.coordination import joining
from licorne_server.store.coordination.joining import PROTOCOLS
from support.patience import PATIENCE

PROGRAM = (sys.executable, "-m", "licorne_server")


class Process(Protocol):
    """The part of `asyncio.subprocess.Process` that tests use."""

    @property
    def pid(self) -> int:
        """The process id."""
        ...

    @property
    def returncode(self) -> int | None:
        """The exit code, after a wait."""
        ...

    @property
    def stdout(self) -> asyncio.StreamReader | None:
        """Its output."""
        ...

    def kill(self) -> None:
        """kill -9."""
        ...

    def send_signal(self, signal: int) -> None:
        """Send it a signal."""
        ...

    async def wait(self) -> int:
        """Wait until it has ended; return its exit code."""
        ...


def get(url: str) -> int:
    """The status of an answer."""
    with urllib.request.urlopen(url, timeout=PATIENCE) as response:
        status: int = response.status
        return status


class ServerProcess:
    """`licorne serve` on loopback. After a restart it listens on the same port."""

    def __init__(
        self,
        *flags: str,
        http: str = "off",
        stderr: int | None = None,
        program: Sequence[str] = PROGRAM,
        files: int = 0,
    ) -> None:
        """Create it unstarted.

        `http` is the address of REST; more `flags` are passed to `licorne serve`. `stderr` is a descriptor
        for its log, by default the one of this process. `program` replaces the real `licorne`. `files` is the
        maximum of open files; 0 means the maximum of this process.
        """
        self.target = "127.0.0.1:0"
        self.http = http
        self.line = ""
        """The line with its address."""
        self._flags = flags
        self._stderr = stderr
        self._program = program
        self._files = files
        self._process: Process | None = None

    async def __aenter__(self) -> Self:
        """Start it and wait until it is ready."""
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Kill it if it still runs."""
        await self.kill()

    @property
    def pid(self) -> int:
        """The process id."""
        assert self._process is not None
        return self._process.pid

    async def start(self) -> None:
        """Start it, and wait for the line with its address."""
        where = ("--listen", self.target, "--http", self.http)
        self._process = await self._begin(["serve", "--log-level", "error", *where, *self._flags])
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), PATIENCE)
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
        """Fail all writes beyond this size of a file in bytes from now on, as on a full disk."""
        assert self._process is not None
        _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE, (size, most))

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    async def stop(self) -> int:
        """Stop it by SIGTERM; return its exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return await self.ended()

    async def ended(self) -> int:
        """Wait until it has ended; return its exit code."""
        assert self._process is not None
        return await self._process.wait()

    async def last_words(self) -> str:
        """Its output after the line with its address, once it has ended."""
        assert self._process is not None
        assert self._process.stdout is not None
        return (await self._process.stdout.read()).decode()

    async def restart(self) -> None:
        """kill -9, and start again on the same port."""
        await self.kill()
        await self.start()


_FORKING = multiprocessing.get_context("forkserver")
_FORKING.set_forkserver_preload(["licorne_server.commands.serve", "licorne_server.assembly.server"])


def fork_licorne(
    arguments: Sequence[str],
    *,
    folder: str = "",
    completing: float = COMPLETING_TIME,
    protocols: tuple[int, ...] = PROTOCOLS,
) -> tuple[ForkServerProcess, Connection]:
    """`licorne` with these arguments, in that folder; returns the process, and the pipe of its output.

    Applications remain Completing for this number of seconds. `protocols` are the supported ones between
    members.
    """
    read, write = _FORKING.Pipe(duplex=False)
    given = (arguments, write, folder, completing, protocols)
    process = _FORKING.Process(target=_run, args=given, daemon=True)
    process.start()
    write.close()
    return process, read


class ForkedServer(ServerProcess):
    """`licorne serve` on loopback, like `ServerProcess`, for tests that start many servers."""

    def __init__(
        self,
        *flags: str,
        http: str = "off",
        completing: float = 0.0,
        protocols: tuple[int, ...] = PROTOCOLS,
    ) -> None:
        """Create it unstarted. Applications are Completing for `completing` seconds; 0 means the default.

        `protocols` are those between members that it supports from its next start on.
        """
        super().__init__(*flags, http=http)
        self._completing = completing or COMPLETING_TIME
        self.protocols = protocols

    async def _begin(self, arguments: Sequence[str]) -> Process:
        process, read = fork_licorne(arguments, completing=self._completing, protocols=self.protocols)
        said = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(said), os.fdopen(os.dup(read.fileno()), "rb")
        )
        read.close()
        return _Forked(process, said)


class _Forked:
    """The process of a forked server."""

    def __init__(self, process: ForkServerProcess, stdout: asyncio.StreamReader) -> None:
        self._process = process
        self.stdout = stdout

    @property
    def pid(self) -> int:
        number = self._process.pid
        assert number is not None
        return number

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def kill(self) -> None:
        self._process.kill()

    def send_signal(self, signal: int) -> None:
        os.kill(self.pid, signal)

    async def wait(self) -> int:
        if self._process.exitcode is None:
            ended = asyncio.Event()
            loop = asyncio.get_running_loop()
            loop.add_reader(self._process.sentinel, ended.set)
            try:
                await ended.wait()
            finally:
                loop.remove_reader(self._process.sentinel)
        self._process.join()
        code = self._process.exitcode
        assert code is not None
        return code


def _run(
    arguments: Sequence[str],
    stdout: Connection,
    folder: str,
    completing: float,
    protocols: tuple[int, ...],
) -> None:
    """Run `licorne` in the new process."""
    if folder:
        os.chdir(folder)
    os.dup2(stdout.fileno(), 1)
    stdout.close()
    lifecycle.COMPLETING_TIME = completing  # type: ignore[attr-defined]
    joining.PROTOCOLS = protocols
    sys.exit(main(arguments))
