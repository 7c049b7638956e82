"""An event loop and a clock that a test moves: no sockets, no waiting, the same steps every time."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context
from math import inf
from typing import TypeVar, TypeVarTuple

import pytest
import structlog

from licorne_server.engine.engine import WorkBudget

START = 1_700_000_000.0
MAX_ROUNDS = 100_000
_Ts = TypeVarTuple("_Ts")
T = TypeVar("T")


BUDGET = WorkBudget(items=2, inbox=1.0, turn=1.0, rounds=1)
"""A small number of items at a time, so that other work may run between the items of a request."""


@contextmanager
def stillness() -> Iterator[None]:
    """Within it the server reads no clock of the machine, logs nothing, and has a small work budget."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("licorne_server.engine.engine.perf_counter", lambda: 0.0)
            patch.setattr("licorne_server.process.fair.perf_counter", lambda: 0.0)
            for name in ("ALONE", "TOGETHER"):
                patch.setattr(f"licorne_server.engine.engine.{name}", BUDGET)
            yield
    finally:
        structlog.configure(**before)


class StillLoop(asyncio.SelectorEventLoop):
    """A loop that runs on request, with a time of its own that stands still while the loop runs."""

    def __init__(self) -> None:
        """Start without work."""
        self._now = 0.0
        self._asked = 0
        super().__init__()

    def time(self) -> float:
        """Seconds, for timers."""
        return self._now

    def call_soon(
        self,
        callback: Callable[[*_Ts], object],
        *args: *_Ts,
        context: Context | None = None,
    ) -> asyncio.Handle:
        """Count the calls: a round that adds none is the last one."""
        self._asked += 1
        return super().call_soon(callback, *args, context=context)

    def run_in_executor(self, executor: object, func: Callable[[*_Ts], T], *args: *_Ts) -> asyncio.Future[T]:
        """Run work for a thread in the next round, as the loop has no threads."""
        future: asyncio.Future[T] = self.create_future()

        def work() -> None:
            if future.cancelled():
                return
            try:
                future.set_result(func(*args))
            except Exception as error:
                future.set_exception(error)

        self.call_soon(work)
        return future

    def round(self) -> bool:
        """Run one round; return whether another round is needed."""
        super().call_soon(self.stop)
        before = self._asked
        self.run_forever()
        return self._asked != before

    def rest(self) -> None:
        """Run rounds until there is no work at the present time."""
        for _ in range(MAX_ROUNDS):
            if not self.round():
                return
        raise AssertionError("the server never comes to rest")

    def rounds(self, count: int) -> None:
        """Run at most this number of rounds, which may leave work unfinished."""
        for _ in range(count):
            if not self.round():
                return

    def later(self, seconds: float) -> None:
        """Advance the loop's time, so that pauses and delays of acknowledgements end."""
        self._now += seconds
        self.rest()


class StillClock:
    """The core's time; its waiters are woken when it is moved."""

    def __init__(self) -> None:
        """Start at a fixed time."""
        self._now = START
        self._waiting: dict[asyncio.Event, float] = {}

    def now(self) -> float:
        """Unix seconds."""
        return self._now

    async def wait(self, until: float | None, event: asyncio.Event) -> None:
        """Return once the event is set or the clock was moved to `until`."""
        self._waiting[event] = inf if until is None else until
        try:
            await event.wait()
        finally:
            del self._waiting[event]

    def deadline(self) -> float:
        """The earliest time that a task waits for; infinite for none."""
        return min(self._waiting.values(), default=inf)

    def move(self, to: float) -> None:
        """Advance the time, which may be well after an awaited one."""
        self._now = max(self._now, to)
        for event, until in list(self._waiting.items()):
            if until <= self._now:
                event.set()
