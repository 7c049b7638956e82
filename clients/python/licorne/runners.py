"""Runs the caller's functions beside the stream, so that none of them can delay it."""

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Generic, TypeVar

from licorne.callbacks import Callbacks, PredicateCheck, Predicates, Refusals, answer
from licorne.dumps import StateDumper
from licorne.session import Stamp
from licorne.stats import Stats
from licorne.v1.session_pb2 import PredicateAnswer, StateDump

LOG = logging.getLogger("licorne")

T = TypeVar("T")

HAND_OVER_SECONDS = 0.002
"""How long judged checks wait for others that were judged, to be answered in one message."""

Judged = tuple[PredicateCheck, Refusals | Awaitable[Refusals] | Exception]
"""A check, and what the function made of it."""


class Feed(Generic[T]):
    """Hands lists to a function in order, one at a time.

    Lists wait while the function runs. The oldest are dropped while more than `limit` items wait.
    """

    def __init__(
        self, function: Callable[[Sequence[T]], Awaitable[None] | None], limit: int | None = None
    ) -> None:
        """Start with nothing. Without a `limit` no list is dropped."""
        self._function = function
        self._limit = limit
        self._waiting: deque[list[T]] = deque()
        self._size = 0
        self._task: asyncio.Task[None] | None = None

    def put(self, items: list[T]) -> None:
        """Hand over a list after those before it. Must be called in a running loop."""
        self._waiting.append(items)
        self._size += len(items)
        while self._limit is not None and self._size > self._limit and len(self._waiting) > 1:
            self._size -= len(self._waiting.popleft())
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    def stop(self) -> None:
        """Hand over nothing more."""
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while self._waiting:
            items = self._waiting.popleft()
            self._size -= len(items)
            try:
                result = self._function(items)
                if inspect.isawaitable(result):
                    await result
            except Exception:
                LOG.exception("%r failed on %d items", self._function, len(items))


def _judged(function: Predicates, check: PredicateCheck) -> Judged:
    """Call the function; an async one has not begun then."""
    try:
        return check, function(check)
    except Exception as error:
        return check, error


class _Batch:
    """The checks of one message on their way through a plain function, in a thread."""

    def __init__(
        self,
        function: Predicates,
        checks: Sequence[PredicateCheck],
        take: Callable[[Sequence[Judged]], None],
    ) -> None:
        """`take` is called in the loop with what the function is through with, in order."""
        self._function = function
        self._checks = checks
        self._take = take
        self._loop = asyncio.get_running_loop()
        self._judged: deque[Judged] = deque()
        self._taken = 0
        # Whether the loop knows that there is something to take.
        self._is_due = False
        self._given_up = False

    def judge(self) -> None:
        """Call the function for one check after the other; runs in the thread."""
        for check in self._checks:
            if self._given_up:
                return
            self._judged.append(_judged(self._function, check))
            if not self._is_due:
                self._is_due = True
                self._loop.call_soon_threadsafe(self._take_soon)

    def take(self) -> None:
        """Hand over what the function is through with, and nobody has taken."""
        # First: what is judged from here on is announced again.
        self._is_due = False
        judged = []
        while self._judged:
            judged.append(self._judged.popleft())
        self._taken += len(judged)
        if judged:
            self._take(judged)

    def give_up(self) -> int:
        """The time is over: how many checks were not taken, and will not be."""
        self._given_up = True
        return len(self._checks) - self._taken

    def _take_soon(self) -> None:
        """However long the next check takes, what is there does not wait for it."""
        self._loop.call_later(HAND_OVER_SECONDS, self._take_late)

    def _take_late(self) -> None:
        if not self._given_up:
            self.take()


class PredicateRunner:
    """Answers predicate checks with the caller's function.

    An async function runs as one task for each check, all at once. A plain function runs in a
    thread of its own, for one check after the other. A check that it fails on or takes too long
    for is counted in `Stats.unanswered`, and not answered.
    """

    def __init__(
        self, function: Predicates, send: Callable[[Stamp, PredicateAnswer], None], stats: Stats
    ) -> None:
        """Give the answers to `send`, each with the stamp of the session that asked."""
        self._function = function
        self._is_async = inspect.iscoroutinefunction(function)
        self._send = send
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread: ThreadPoolExecutor | None = None
        self._stats = stats

    def start(self, stamp: Stamp, checks: Sequence[PredicateCheck]) -> None:
        """Begin to answer the predicate checks of one message, in their order."""
        if not self._is_async:
            self._begin(self._judge_in_thread(stamp, checks))
            return
        self._take(stamp, [_judged(self._function, check) for check in checks])

    def stop(self) -> None:
        """Answer nothing more."""
        for task in self._tasks:
            task.cancel()
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _judge_in_thread(self, stamp: Stamp, checks: Sequence[PredicateCheck]) -> None:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "licorne-predicates")
        batch = _Batch(self._function, checks, partial(self._take, stamp))
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(checks[0].deadline):
                await loop.run_in_executor(self._thread, batch.judge)
            batch.take()
        except asyncio.CancelledError:
            batch.give_up()
            raise
        except TimeoutError:
            batch.take()
            late = batch.give_up()
            self._stats.unanswered += late
            LOG.warning("no answer to %d checks within %.3f s", late, checks[0].deadline)

    def _take(self, stamp: Stamp, judged: Sequence[Judged]) -> None:
        """Send what the function has come to; what it is still to come to when that is there."""
        for check, result in judged:
            if isinstance(result, Exception):
                self._failed(check, result)
            elif inspect.isawaitable(result):
                self._begin(self._await(stamp, check, result))
            else:
                self._reply(stamp, check, result)

    async def _await(
        self, stamp: Stamp, check: PredicateCheck, result: Awaitable[Refusals]
    ) -> None:
        try:
            async with asyncio.timeout(check.deadline):
                refused = await result
        except TimeoutError:
            self._stats.unanswered += 1
            LOG.warning("no answer about %s within %.3f s", check.key, check.deadline)
        except Exception as error:
            self._failed(check, error)
        else:
            self._reply(stamp, check, refused)

    def _reply(self, stamp: Stamp, check: PredicateCheck, refused: Refusals) -> None:
        try:
            wire = answer(check, refused)
        except Exception as error:
            self._failed(check, error)
        else:
            self._send(stamp, wire)

    def _failed(self, check: PredicateCheck, error: Exception) -> None:
        self._stats.unanswered += 1
        LOG.error("no answer about %s: %r failed", check.key, self._function, exc_info=error)


class CallbackRunners:
    """The runners of all callbacks; None for each callback that the caller has not given."""

    def __init__(
        self,
        callbacks: Callbacks,
        send: Callable[[Stamp, PredicateAnswer], None],
        send_dump: Callable[[Stamp, StateDump], None],
        stats: Stats,
        limit: int,
    ) -> None:
        """Let about `limit` event records wait; a gap in their ids shows that some were dropped."""
        self.predicates = (
            PredicateRunner(callbacks.predicates, send, stats) if callbacks.predicates else None
        )
        self.states = Feed(callbacks.container_states) if callbacks.container_states else None
        self.events = Feed(callbacks.events, limit) if callbacks.events else None
        self.dumps = StateDumper(callbacks.state_dump, send_dump) if callbacks.state_dump else None

    def stop(self) -> None:
        """Call nothing more."""
        for part in (self.predicates, self.states, self.events, self.dumps):
            if part is not None:
                part.stop()
