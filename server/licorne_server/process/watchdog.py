"""Detection, from a separate thread, of stalls of loop and engine, and of addresses that are shut.

The event loop serves the probes. If the loop stalls, probes get no answer, which a supervisor treats as a
failure. If only the engine stalls, or has ended, probes answer with the reason. If a stall lasts for twice
the limit, the process ends with an error. An address that is shut (`doors.py`) fails the probes, and the
server stops immediately: only a restart opens it again.

Time is counted in checks of the watchdog. Between two checks at most twice the usual interval counts, so that
a pause of the whole process is not mistaken for a stall of the server.
"""

import asyncio
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from math import inf
from time import monotonic
from typing import Protocol

import structlog

from licorne_server.process.doors import Door

log = structlog.get_logger("core.watchdog")

LOOKS = 10
"""Number of checks within the limit of a stall; there is at least one check a second."""

MAX_INTERVAL = 1.0
STOP_SECONDS = 30.0
"""Seconds within which a server has to stop after the end of its engine."""

SHOWN_FRAMES = 20

FAILED, SHUT = 1, 8
"""Exit codes: for a server that has failed, and for an address that was shut."""


class Turning(Protocol):
    """The part of an engine that the watchdog's thread reads."""

    rounds: int

    @property
    def has_work(self) -> bool:
        """True if a round is running or due."""
        ...


class Watched(Protocol):
    """The part of a server that the watchdog uses."""

    @property
    def engine(self) -> Turning:
        """The engine, which has to complete rounds while it has work."""
        ...

    @property
    def failed(self) -> asyncio.Event:
        """Set when only a restart will help; the server then stops."""
        ...

    def fail(self, reason: str, concern: str) -> None:
        """Set `failed` with a reason, in the loop; `concern` is the concern of the finding."""
        ...

    def stalled(self, reason: str) -> None:
        """Record the reason of a stall, in the loop; an empty text ends the stall."""
        ...


class Watchdog:
    """Watches a server with its `doors` and the current event loop, from `start` to `stop`."""

    exit_code: int
    """Exit code of the process after a failure of its server."""

    def __init__(
        self, server: Watched, limit: float, end: Callable[[str, int], None], doors: Sequence[Door] = ()
    ) -> None:
        """Allow stalls of `limit` seconds; 0 for no limit.

        `end` is called with the reason and an exit code, in the watchdog's thread, if the process has to end
        immediately.
        """
        self.exit_code = FAILED
        self._doors = doors
        # False once the server stops, as it may then close its addresses.
        self._is_asking = True
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._limit = limit or inf
        self._end = end
        self._interval = min(self._limit / LOOKS, MAX_INTERVAL)
        # True if the loop has called back since the last check; then, the engine's rounds at that check.
        self._answered = True
        self._rounds = -1
        # Seconds without progress, of the loop and then of the engine.
        self._loop_still = 0.0
        self._engine_still = 0.0
        self._since_failure = 0.0
        self._reported = ""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread."""
        self._over.set()

    def leave_doors(self) -> None:
        """Stop probing addresses, as a stopping server closes them."""
        self._is_asking = False

    def look(self, elapsed: float) -> None:
        """Check once, `elapsed` seconds after the last check."""
        counted = min(elapsed, 2 * self._interval)
        self._look_at_loop(counted)
        self._look_at_engine(counted)
        self._judge(max(self._loop_still, self._engine_still))
        # A stalled loop answers no probe; this counts as a stall, and not as a shut address.
        self._look_at_doors(0.0 if self._loop_still else counted)
        if self._server.failed.is_set():
            self._since_failure += counted
            if self._since_failure >= STOP_SECONDS:
                self._end("the server has failed, and does not stop", self.exit_code)

    def _run(self) -> None:
        last = monotonic()
        while not self._over.wait(self._interval):
            now = monotonic()
            self.look(now - last)
            last = now

    def _look_at_loop(self, counted: float) -> None:
        if self._answered:
            self._answered = False
            self._loop_still = 0.0
            self._call(self._answer)
        else:
            self._loop_still += counted

    def _answer(self) -> None:
        self._answered = True

    def _look_at_engine(self, counted: float) -> None:
        engine = self._server.engine
        rounds = engine.rounds
        if rounds != self._rounds or not engine.has_work:
            self._rounds = rounds
            self._engine_still = 0.0
        else:
            self._engine_still += counted

    def _look_at_doors(self, counted: float) -> None:
        for door in self._doors:
            if not self._is_asking:
                door.close()
            elif reason := door.look(counted):
                self.leave_doors()
                self.exit_code = SHUT
                log.critical("address shut", reason=reason)
                self._call(self._server.fail, reason, "listener")

    def _judge(self, still: float) -> None:
        """Report the beginning or end of a stall; end the process if the stall continues."""
        if still < self._limit:
            if self._reported:
                self._reported = ""
                log.warning("server continues")
                self._call(self._server.stalled, "")
        elif not self._reported:
            what = "the event loop" if self._loop_still >= self._limit else "the engine"
            self._reported = f"{what} has not turned for {self._limit:g} s"
            self._call(self._server.stalled, self._reported)
            log.error("server stands still", reason=self._reported, at=self._stack())
        elif still >= 2 * self._limit:
            self._end(self._reported, self.exit_code)

    def _call(self, function: Callable[..., None], *args: str) -> None:
        """Schedule a call in the loop, unless the loop is closed."""
        try:
            self._loop.call_soon_threadsafe(function, *args)
        except RuntimeError:  # the loop is closed: the process is ending
            self._over.set()

    def _stack(self) -> list[str]:
        """Stack of the loop's thread, outermost frame first."""
        frame = sys._current_frames().get(self._loop_thread)
        frames = traceback.extract_stack(frame)[-SHOWN_FRAMES:]
        return [f"{at.filename}:{at.lineno} {at.name}" for at in frames]
