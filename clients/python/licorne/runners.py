"""Runs the caller's functions beside the stream, so that none of them can delay it."""

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Generic, TypeVar

from licorne.callbacks import Callbacks, PredicateCheck, Predicates, Refusals, answer
from licorne.session import Stamp
from licorne.stats import Stats
from licorne.v1.session_pb2 import UpdateRequest

LOG = logging.getLogger("licorne")

T = TypeVar("T")


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


class PredicateRunner:
    """Answers predicate checks with the caller's function.

    An async function runs as one task for each check, all at once. A plain function runs in a
    thread of its own, for one check at a time. A check that it fails on or takes too long for is
    counted in `Stats.unanswered`, and not answered.
    """

    def __init__(
        self, function: Predicates, send: Callable[[Stamp, UpdateRequest], None], stats: Stats
    ) -> None:
        """Give the answers to `send`, each with the stamp of the session that asked."""
        self._function = function
        self._is_async = inspect.iscoroutinefunction(function)
        self._send = send
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread: ThreadPoolExecutor | None = None
        self._stats = stats

    def start(self, stamp: Stamp, check: PredicateCheck) -> None:
        """Begin to answer a predicate check."""
        task = asyncio.create_task(self._answer(stamp, check))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def stop(self) -> None:
        """Answer nothing more."""
        for task in self._tasks:
            task.cancel()
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)

    async def _answer(self, stamp: Stamp, check: PredicateCheck) -> None:
        try:
            async with asyncio.timeout(check.deadline):
                refused = await self._refusals(check)
            self._send(stamp, answer(check, refused))
        except TimeoutError:
            self._stats.unanswered += 1
            LOG.warning("no answer about %s within %.3f s", check.key, check.deadline)
        except Exception:
            self._stats.unanswered += 1
            LOG.exception("no answer about %s: %r failed", check.key, self._function)

    async def _refusals(self, check: PredicateCheck) -> Refusals:
        result: Any
        if self._is_async:
            result = self._function(check)
        else:
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, "licorne-predicates")
            call = partial(self._function, check)
            result = await asyncio.get_running_loop().run_in_executor(self._thread, call)
        refused: Refusals = await result if inspect.isawaitable(result) else result
        return refused


class CallbackRunners:
    """The runners of all callbacks; None for each callback that the caller has not given."""

    def __init__(
        self,
        callbacks: Callbacks,
        send: Callable[[Stamp, UpdateRequest], None],
        stats: Stats,
        limit: int,
    ) -> None:
        """Let about `limit` event records wait; a gap in their ids shows that some were dropped."""
        self.predicates = (
            PredicateRunner(callbacks.predicates, send, stats) if callbacks.predicates else None
        )
        self.states = Feed(callbacks.container_states) if callbacks.container_states else None
        self.events = Feed(callbacks.events, limit) if callbacks.events else None

    def stop(self) -> None:
        """Call nothing more."""
        for part in (self.predicates, self.states, self.events):
            if part is not None:
                part.stop()
