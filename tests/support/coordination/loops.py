"""Faulty clocks, and event loops that are stepped by a world and can be paused."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from heapq import heappop, heappush
from math import inf
from typing import Any, TypeVar, TypeVarTuple

_Ts = TypeVarTuple("_Ts")
T = TypeVar("T")

LATE = 1e-6
"""Seconds by which each timer is late."""
MOST_CALLS = 20_000
"""The maximum of callbacks of a loop at one time."""
MOST_ENDS = 4
"""The maximum of cancellations of a task, whose clean-up may wait as well."""


class Time:
    """True time, and the calls due at each time; equal times are in the order of their creation."""

    def __init__(self) -> None:
        """Begin at 0."""
        self.now = 0.0
        self._events: list[tuple[float, int, Callable[..., object], tuple[object, ...]]] = []
        self._made = 0

    def after(self, delay: float, call: Callable[[*_Ts], object], *arguments: *_Ts) -> None:
        """Call back after this number of seconds."""
        self._made += 1
        heappush(self._events, (self.now + delay, self._made, call, arguments))

    def run(self, until: float) -> None:
        """Make all calls that are due until then."""
        events = self._events
        while events and events[0][0] <= until:
            self.now, _, call, arguments = heappop(events)
            call(*arguments)
        self.now = until


class DriftingClock:
    """A member's clocks: their start and rate differ from true time, and the wall clock has a skew."""

    def __init__(self, time: Time, rate: float, start: float, skew: float) -> None:
        """Run at `rate` times true time."""
        self._time = time
        self._rate = rate
        self._start = start
        self._skew = skew

    def elapsed(self) -> float:
        """Seconds of this clock."""
        return self._start + self._rate * self._time.now

    def unix(self) -> float:
        """The wall clock."""
        return 1_700_000_000.0 + self._skew + self._rate * self._time.now

    def true_time(self, elapsed: float) -> float:
        """The true time at which this clock shows that many seconds."""
        return (elapsed - self._start) / self._rate


class MemberLoop(asyncio.AbstractEventLoop):
    """The loop of one process. While it is paused or dead it runs nothing, but its clock continues."""

    def __init__(self, time: Time, clock: DriftingClock) -> None:
        """Start without work."""
        self._world = time
        self._clock = clock
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._made = 0
        self._woken_at = inf
        self._is_running = False
        self._tasks: dict[asyncio.Task[Any], None] = {}
        # Seconds during which the machine was suspended: the clock counts them, timers do not.
        self._suspended = 0.0
        self._suspended_at: float | None = None
        self.is_paused = False
        self.errors: list[dict[str, Any]] = []
        """Errors of tasks that nothing has awaited."""

    def post(self, call: Callable[[*_Ts], object], *arguments: *_Ts) -> None:
        """Deliver data from outside: make a call in this loop."""
        self.call_soon(call, *arguments)
        self.go_on()

    def go_on(self) -> None:
        """Run everything that is due."""
        if self._is_running or self.is_paused:
            return
        self._is_running = True
        asyncio._set_running_loop(self)
        try:
            self._run()
        finally:
            asyncio._set_running_loop(None)
            self._is_running = False
        if self._timers and self._timers[0][0] < self._woken_at and not self.is_paused:
            self._woken_at = self._timers[0][0]
            due = self._clock.true_time(self._woken_at + self._suspended)
            # A timer fires a little late, as on a real loop; otherwise rounding would make it early.
            self._world.after(max(0.0, due - self._world.now) + LATE, self._wake, self._woken_at)

    def pause(self, *, is_suspended: bool = False) -> None:
        """Stop, even between two callbacks that are due. On a suspended machine timers stop, too."""
        self.is_paused = True
        if is_suspended and self._suspended_at is None:
            self._suspended_at = self._clock.elapsed()

    def resume(self) -> None:
        """Continue with everything that became due in the pause."""
        self.is_paused = False
        if self._suspended_at is not None:
            self._suspended += self._clock.elapsed() - self._suspended_at
            self._suspended_at = None
        # A wake-up scheduled before the pause may be too early.
        self._woken_at = inf
        self.go_on()

    def end(self) -> None:
        """Cancel the remaining tasks, so that none is destroyed while it is pending."""
        for _ in range(MOST_ENDS):
            for task in list(self._tasks):
                task.cancel()
            self.resume()
        assert not self._tasks, "a task cannot be cancelled"

    def _wake(self, due: float) -> None:
        if due == self._woken_at:
            self._woken_at = inf
            self.go_on()

    def _run(self) -> None:
        ready, timers = self._ready, self._timers
        for _ in range(MOST_CALLS):
            if self.is_paused:
                return
            due = self.time()
            while timers and (timers[0][2].cancelled() or timers[0][0] <= due):
                timer = heappop(timers)[2]
                if not timer.cancelled():
                    ready.append(timer)
            if not ready:
                return
            handle = ready.popleft()
            if not handle.cancelled():
                handle._run()
        raise RuntimeError("this loop goes round and round, and time does not pass")

    def time(self) -> float:
        """The process' own time, at which its timers fire."""
        return self._clock.elapsed() - self._suspended

    def call_soon(
        self, callback: Callable[[*_Ts], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Add a callback after those that are due."""
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_later(
        self, delay: float, callback: Callable[[*_Ts], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call back after this number of seconds of this process."""
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*_Ts], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call back at a time of this process."""
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        self._made += 1
        heappush(self._timers, (when, self._made, timer))
        return timer

    def create_future(self) -> "asyncio.Future[Any]":
        """A future of this loop."""
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> "asyncio.Task[T]":
        """A task of this loop."""
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)
        return task

    def get_debug(self) -> bool:
        """Never."""
        return False

    def is_running(self) -> bool:
        """True during a step."""
        return self._is_running

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Do nothing: a cancelled handle is skipped when it is due."""

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Record the exception."""
        self.errors.append(context)
