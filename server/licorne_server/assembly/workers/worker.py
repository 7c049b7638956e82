"""One worker: it runs a process that serves, and restarts an ended one after a back-off."""

import asyncio
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import StrEnum

import structlog

from licorne_server.process.clock import Clock
from licorne_server.process.coordination import worker_name

FIRST = 0.5
"""Seconds before the second restart in a row; the first one is immediate."""

MOST = 30.0
"""Maximum seconds between two starts."""

MAX_DOUBLINGS = 16

HEALTHY = 60.0
"""Seconds of service after which the number of failures in a row is reset."""

LOOP = 3
"""Failures in a row, without `HEALTHY` seconds of service between them, that count as a loop."""

HOPELESS = 6
"""Failures in a row of every worker after which the supervisor ends, unless a worker serves."""


class Restarts:
    """Counts the failures of one worker."""

    count: int
    """Restarts since the supervisor's start."""

    def __init__(self) -> None:
        """Start without a failure."""
        self.count = 0
        self._row = 0
        self._ready: float | None = None

    def ready(self, now: float) -> None:
        """Record that the worker serves, from `now` on."""
        self._ready = now

    def ended(self, now: float) -> float:
        """Record that the worker has ended; returns the seconds until its next start."""
        self.look(now)
        self._ready = None
        self._row += 1
        self.count += 1
        if self._row == 1:
            return 0.0
        return min(MOST, FIRST * 2.0 ** min(self._row - 2, MAX_DOUBLINGS))

    def look(self, now: float) -> None:
        """Reset the failures in a row if the worker has served for `HEALTHY` seconds."""
        if self._ready is not None and now - self._ready >= HEALTHY:
            self._row = 0

    @property
    def looping(self) -> bool:
        """True if the worker restarts in a loop."""
        return self._row >= LOOP

    @property
    def hopeless(self) -> bool:
        """True if the worker does not serve, and has failed too often in a row."""
        return self._ready is None and self._row >= HOPELESS


log = structlog.get_logger("core.workers")

START_SECONDS = 120.0
"""Seconds within which a worker has to serve."""

READY = b"listening "
"""Beginning of the line that a process prints once it serves."""


class State(StrEnum):
    """The states of a worker."""

    STARTING = "starting"
    READY = "ready"
    WAITING = "waiting"
    """The process has ended, and will be restarted."""
    ENDED = "ended"
    """The process has ended, and the supervisor is about to end."""


class Worker:
    """A worker, across its processes: `run` restarts an ended process."""

    number: int
    """Number of the worker, from 1 up, as in logs and metrics."""
    state: State
    restarts: Restarts

    def __init__(
        self,
        number: int,
        command: Sequence[str],
        stderr: int,
        clock: Clock,
        changed: Callable[["Worker"], None],
    ) -> None:
        """Run this command; its log goes to the descriptor `stderr`.

        `changed` is called after each change of the state.
        """
        self.number = number
        self.state = State.STARTING
        self.restarts = Restarts()
        self._command = command
        self._stderr = stderr
        self._clock = clock
        self._changed = changed
        self._stopping = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None

    @property
    def name(self) -> str:
        """The name of the worker as a member."""
        return worker_name(self.number)

    @property
    def pid(self) -> int:
        """Id of the process; 0 while there is none."""
        return 0 if self._process is None else self._process.pid

    async def run(self) -> int:
        """Run the process, and a new one after each end, until `stop`; returns the last exit code."""
        while True:
            self._enter(State.STARTING)
            code = await self._run_once()
            if not self._stopping.is_set():
                wait = self.restarts.ended(self._clock.now())
                self._log_end(code, wait)
                self._enter(State.WAITING)
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), wait)
            if self._stopping.is_set():
                self._enter(State.ENDED)
                return code

    def stop(self) -> None:
        """Let the process drain and end, and start no new one."""
        self._stopping.set()
        self._signal(signal.SIGTERM)

    def reload(self) -> None:
        """Let the process read its files again; a starting process reads them anyway."""
        if self.state is State.READY:
            self._signal(signal.SIGHUP)

    def kill(self, reason: str) -> None:
        """End the process immediately."""
        log.error("worker killed", worker=self.number, pid=self.pid, reason=reason)
        self._signal(signal.SIGKILL)

    async def _run_once(self) -> int:
        """Run one process to its end; returns its exit code, negative for a signal."""
        pipe = asyncio.subprocess.PIPE
        # A separate group: a signal of the terminal reaches only the supervisor, which passes it on.
        self._process = process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=pipe,
            stdout=pipe,
            stderr=self._stderr,
            process_group=0,
        )
        try:
            if self._stopping.is_set():
                self._signal(signal.SIGTERM)
            assert process.stdout is not None
            try:
                line = await asyncio.wait_for(process.stdout.readline(), START_SECONDS)
            except TimeoutError:
                self.kill(f"it does not serve after {START_SECONDS:g} s")
                line = b""
            if line.startswith(READY):
                self.restarts.ready(self._clock.now())
                self._enter(State.READY)
            while await process.stdout.read(1024):
                pass
            code = await process.wait()
            # Before the process serves, the signal of `stop` ends it like any program.
            is_well = self._stopping.is_set() and self.state is State.STARTING and code == -signal.SIGTERM
            return 0 if is_well else code
        finally:
            self._signal(signal.SIGKILL)
            self._process = None

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    def _enter(self, state: State) -> None:
        self.state = state
        self._changed(self)

    def _log_end(self, code: int, wait: float) -> None:
        how = {"signal": signal.Signals(-code).name} if code < 0 else {"code": code}
        served = self.state is State.READY
        log.error("worker ended", worker=self.number, served=served, restart_in=wait, **how)
        if self.restarts.looping:
            log.critical("worker restarts in a loop", worker=self.number, restarts=self.restarts.count)
