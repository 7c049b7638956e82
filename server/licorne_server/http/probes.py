"""Liveness and readiness for a supervisor, and the heartbeat of the event loop.

The heartbeat measures the lag of the loop. So it reads the process's own clock.
"""

import asyncio
from collections.abc import Callable
from time import monotonic

from aiohttp import web

from licorne_server.http.sources import Status
from licorne_server.telemetry.measures.histogram import WORK, Histogram

BEAT_SECONDS = 0.25

PROBES = frozenset({"/livez", "/readyz"})
"""Paths of the probes, which need no identity."""


class Heartbeat:
    """A timer of the loop that notes when it fired, and how late that was."""

    delays: Histogram
    """Lags of the beats, in seconds."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        """`clock` gives seconds that never go back. The first beat comes after `start`."""
        self._clock = clock
        self._last = clock()
        self._worst = 0.0
        self.delays = Histogram(WORK)
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to beat in the running loop."""
        self._last = self._clock()
        self._timer = asyncio.get_running_loop().call_later(BEAT_SECONDS, self.beat)

    def stop(self) -> None:
        """Stop beating."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def beat(self) -> None:
        """Note how late this beat is, and wait for the next one."""
        late = max(0.0, self.silence() - BEAT_SECONDS)
        self._worst = max(self._worst, late)
        self.delays.observe(late)
        self.stop()
        self.start()

    def silence(self) -> float:
        """Seconds since the last beat."""
        return self._clock() - self._last

    def worst_lag(self) -> float:
        """By how many seconds the latest beat was late, since this was last asked."""
        worst = max(self._worst, self.silence() - BEAT_SECONDS, 0.0)
        self._worst = 0.0
        return worst


def ill(status: Status) -> str:
    """The reason for a restart of the server; empty for none.

    The lag of the loop does not count: an answer shows that it turns. Stalls are detected by the
    watchdog's thread.
    """
    return status.failure or status.stall


def unready(status: Status) -> str:
    """The reason against sending RMs here; empty if the server is ready."""
    if not status.started:
        return "starting"
    return "draining" if status.draining else ill(status)


class Probes:
    """``/livez`` and ``/readyz``: 200 and ``ok``, or 503 and the problem."""

    def __init__(self, status: Status) -> None:
        """Read from this status."""
        self._status = status

    async def live(self, request: web.Request) -> web.Response:
        """Liveness: the process works, also while it drains."""
        return _verdict(ill(self._status))

    async def ready(self, request: web.Request) -> web.Response:
        """Readiness: RMs may be sent here."""
        return _verdict(unready(self._status))


def _verdict(reason: str) -> web.Response:
    headers = {"Cache-Control": "no-store"}
    return web.Response(text=f"{reason or 'ok'}\n", status=503 if reason else 200, headers=headers)
