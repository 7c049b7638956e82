"""A server in a separate process, and the resources that it uses."""

import asyncio
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from licorne_server.commands.settings.sources import without_settings

START_SECONDS = 60.0
STOP_SECONDS = 60.0
SHOWN_LOG_LINES = 15
ANY_PORT = "127.0.0.1:0"
# With -P no modules are loaded from the current folder.
PROGRAM = (sys.executable, "-P", "-m", "licorne_server.commands.child")
"""Command line that runs `licorne` with the interpreter of this process, and ends with this process."""


class ServerFailed(Exception):
    """A server that did not start, or ended early; the text has the end of its log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Usage of a process: CPU seconds, and bytes of memory now and at the peak."""

    cpu_seconds: float
    rss: int
    peak_rss: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerProcess:
    """A running server: its addresses and its process."""

    target: str
    http: str
    process: asyncio.subprocess.Process

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self.process.pid

    def usage(self) -> Usage:
        """Usage of the process so far."""
        return usage_of(self.pid)


def usage_of(pid: int) -> Usage:
    """Usage of a process, from the kernel's files (Linux)."""
    process = Path("/proc") / str(pid)
    status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines() if ":" in line)
    return Usage(
        cpu_seconds=cpu_seconds(pid),
        rss=kilobytes(status["VmRSS"]),
        peak_rss=kilobytes(status["VmHWM"]),
    )


def cpu_seconds(pid: int) -> float:
    """CPU seconds of a process so far, user and system, from its clock (Linux)."""
    # Identifier of the clock of a process: see clock_getcpuclockid(3). /proc is only precise to
    # hundredths of a second.
    return time.clock_gettime(~pid << 3 | 2)


def kilobytes(text: str) -> int:
    """``"  1234 kB"`` in bytes."""
    return int(text.split(maxsplit=1)[0]) * 1024


@asynccontextmanager
async def running_server(
    *,
    program: Sequence[str] = PROGRAM,
    listen: str = ANY_PORT,
    http: str = "off",
    more: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
) -> AsyncIterator[ServerProcess]:
    """Start `licorne serve`; stop the server at the end of the block.

    The server also stops when this process ends or is killed. `program` takes the arguments of the command.
    `listen` and `http` are addresses as in `--listen` and `--http`; by default gRPC listens on a free port of
    loopback, and HTTP is off. `more` are further options, and `variables` are added to the environment of
    this process.

    Raises:
        ServerFailed: the server does not start, or ends early; the text has the last lines of its log.
    """
    with tempfile.TemporaryFile() as log:
        process = await asyncio.create_subprocess_exec(
            *program,
            *("serve", "--listen", listen, "--http", http),
            *more,
            env={**without_settings(os.environ), **(variables or {})},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
        )
        try:
            addresses = await listening(process, log)
            yield ServerProcess(target=addresses["grpc"], http=addresses.get("http", ""), process=process)
            if process.returncode is not None:
                raise ServerFailed(f"the server ended by itself:\n{last_lines(log)}")
        finally:
            await stop(process)


async def listening(process: asyncio.subprocess.Process, log: IO[bytes]) -> dict[str, str]:
    """Wait for the line with the server's addresses; returns the addresses by name."""
    assert process.stdout is not None
    try:
        async with asyncio.timeout(START_SECONDS):
            async for line in process.stdout:
                word, *parts = line.decode().split()
                if word == "listening":
                    return dict(part.split("=", 1) for part in parts)
    except TimeoutError:
        raise ServerFailed(f"the server is not ready after {START_SECONDS:.0f} s") from None
    raise ServerFailed(f"the server did not start:\n{last_lines(log)}")


def last_lines(log: IO[bytes]) -> str:
    """Last lines of the server's log."""
    log.seek(0)
    lines = log.read().decode(errors="replace").splitlines()
    return "\n".join(lines[-SHOWN_LOG_LINES:])


async def stop(process: asyncio.subprocess.Process) -> None:
    """End the process with SIGTERM, or after a timeout with SIGKILL."""
    if process.returncode is not None:
        return
    process.send_signal(signal.SIGTERM)
    try:
        async with asyncio.timeout(STOP_SECONDS):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
