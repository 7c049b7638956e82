"""A server in a process of its own that begins where Python has loaded all that it needs.

One process does the loading, in an interpreter of its own. It is forked for each server, and does
nothing else. So a start takes a tenth of the time.
"""

import asyncio
import multiprocessing
import os
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess

from licorne_cli.commands import main
from licorne_core.handlers import lifecycle
from licorne_core.model.apps.states import COMPLETING_TIME
from support.server.server_process import Process, ServerProcess

_FORKING = multiprocessing.get_context("forkserver")
_FORKING.set_forkserver_preload(["licorne_server.commands.serve", "licorne_server.serving.app"])


def fork_licorne(
    arguments: Sequence[str], *, folder: str = "", completing: float = COMPLETING_TIME
) -> tuple[ForkServerProcess, Connection]:
    """`licorne` with these arguments, in that folder; the process, and what it says.

    Applications are Completing for so many seconds.
    """
    read, write = _FORKING.Pipe(duplex=False)
    given = (arguments, write, folder, completing)
    process = _FORKING.Process(target=_run, args=given, daemon=True)
    process.start()
    write.close()
    return process, read


class ForkedServer(ServerProcess):
    """`licorne serve` on loopback, as `ServerProcess`, for tests that start many."""

    def __init__(self, *flags: str, http: str = "off", completing: float = 0.0) -> None:
        """Not started. Applications are Completing for so many seconds; 0 for the usual time."""
        super().__init__(*flags, http=http)
        self._completing = completing or COMPLETING_TIME

    async def _begin(self, arguments: Sequence[str]) -> Process:
        process, read = fork_licorne(arguments, completing=self._completing)
        said = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(said), os.fdopen(os.dup(read.fileno()), "rb")
        )
        read.close()
        return _Forked(process, said)


class _Forked:
    """The process of such a server."""

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


def _run(arguments: Sequence[str], stdout: Connection, folder: str, completing: float) -> None:
    """In the new process: be `licorne`."""
    if folder:
        os.chdir(folder)
    os.dup2(stdout.fileno(), 1)
    stdout.close()
    lifecycle.COMPLETING_TIME = completing  # type: ignore[attr-defined]
    sys.exit(main(arguments))
