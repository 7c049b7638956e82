"""Programs, each in its own process with a log, which can be started, ended, paused and restarted."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from licorne_server.commands.server_process import cpu_seconds
from licorne_tools.bench.driver import BenchError

START_SECONDS = 240.0
STOP_SECONDS = 15.0
POLL_SECONDS = 0.05
SHOWN_LINES = 15
BOUND = Path(__file__).with_name("bound.py")

Check = Callable[[], Coroutine[Any, Any, bool]]
"""Returns True once a program is ready."""


@dataclass(slots=True)
class Program:
    """A running or ended program: its command line, and a test of its readiness."""

    name: str
    command: Sequence[str]
    ready: Check
    environment: Mapping[str, str] = field(default_factory=dict)
    process: asyncio.subprocess.Process | None = None
    begun: int = 0
    """Size of the log in bytes at the last start."""
    spent: float = 0.0
    """CPU seconds of earlier processes of the program."""


class Processes:
    """Programs by name, which `close` ends in reverse order of their first starts."""

    def __init__(self, folder: Path) -> None:
        """Write the log of each program to a file in `folder`."""
        self._folder = folder
        self._programs: dict[str, Program] = {}

    def log(self, name: str) -> Path:
        """The log of a program."""
        return self._folder / f"{name}.log"

    async def start(self, program: Program) -> None:
        """Start a program, and wait until it is ready.

        Raises:
            BenchError: the program ends, or is not ready in time; the text has the last lines of its log.
        """
        if self.runs(program.name):
            await self.stop(program.name)
        self._programs[program.name] = program
        await self.restart(program.name)

    async def restart(self, name: str) -> None:
        """Start an ended program again. See `start`."""
        program = self._programs[name]
        with self.log(name).open("ab") as log:
            program.begun = log.tell()
            program.process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", str(BOUND)),
                *program.command,
                env={**os.environ, **program.environment},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # In its own process group, so that an interrupt reaches only this process, which ends all.
                process_group=0,
            )
        try:
            async with asyncio.timeout(START_SECONDS):
                while not await program.ready():
                    if program.process.returncode is not None:
                        raise BenchError(f"{name} did not start:\n{self.last_lines(name)}")
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            text = f"{name} is not ready after {START_SECONDS:.0f} s:\n{self.last_lines(name)}"
            raise BenchError(text) from None

    async def stop(self, name: str, *, kill: bool = False) -> None:
        """End a program with SIGTERM, or with SIGKILL if `kill`; no effect if it does not run."""
        program = self._programs[name]
        process = program.process
        if process is None or process.returncode is not None:
            return
        # The process may end by itself at any moment.
        with suppress(OSError):
            program.spent += cpu_seconds(process.pid)
            # A paused process handles the signal only after SIGCONT.
            process.send_signal(signal.SIGCONT)
            process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal to a program. SIGCONT resumes it; SIGSTOP has stopped it when this returns."""
        process = self._programs[name].process
        assert process is not None
        process.send_signal(number)
        if number == signal.SIGSTOP:
            until_stopped(process.pid)

    def runs(self, name: str) -> bool:
        """True if a program of that name runs."""
        program = self._programs.get(name)
        return program is not None and program.process is not None and program.process.returncode is None

    def cpu_seconds(self, name: str) -> float:
        """CPU seconds of all processes of a program so far."""
        program = self._programs[name]
        process = program.process
        runs = process is not None and process.returncode is None
        return program.spent + (cpu_seconds(process.pid) if runs and process is not None else 0.0)

    async def has_logged(self, name: str, text: str) -> bool:
        """True if a program's log has the text since its last start."""
        return await asyncio.to_thread(self._has_logged, name, text.encode())

    def _has_logged(self, name: str, text: bytes) -> bool:
        with self.log(name).open("rb") as log:
            log.seek(self._programs[name].begun)
            return text in log.read()

    async def ended(self) -> str:
        """Wait until one of the current programs ends; returns its name."""
        waits = {
            asyncio.ensure_future(program.process.wait()): name
            for name, program in self._programs.items()
            if program.process is not None
        }
        try:
            done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        return waits[done.pop()]

    def last_lines(self, name: str) -> str:
        """The end of a program's log."""
        lines = self.log(name).read_text(errors="replace").splitlines()
        return "\n".join(lines[-SHOWN_LINES:])

    async def close(self) -> None:
        """End all programs."""
        for name in reversed(self._programs):
            await self.stop(name)


def until_stopped(pid: int) -> None:
    """Return once all threads of a process have stopped after SIGSTOP: a running one answers requests."""
    while any(_state_of(task) not in "TtXZ" for task in Path(f"/proc/{pid}/task").iterdir()):
        time.sleep(POLL_SECONDS / 10)


def _state_of(task: Path) -> str:
    """The state of a thread, such as ``R`` for running and ``T`` for stopped; X if it has just ended."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return (task / "stat").read_text().rpartition(") ")[2][0]
    return "X"
