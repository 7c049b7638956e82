"""Runs the caller's functions in tasks and threads, so that none delays the stream."""

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from licorne.callbacks import Callbacks, answer
from licorne.check_runner import CheckRunner, JudgeThread
from licorne.dumps import StateDumper
from licorne.session import Stamp
from licorne.stats import Stats
from licorne.v1.session_pb2 import PredicateAnswer, PreemptionAnswer, StateDump
from licorne.victims import preemption_answer

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


class CallbackRunners:
    """The runners of all callbacks; None for each callback that the caller has not given."""

    def __init__(
        self,
        callbacks: Callbacks,
        send: Callable[[Stamp, PredicateAnswer | PreemptionAnswer], None],
        send_dump: Callable[[Stamp, StateDump], None],
        stats: Stats,
        limit: int,
    ) -> None:
        """Let about `limit` event records wait; a gap in their ids shows that some were dropped."""
        thread = JudgeThread()
        self.predicates = (
            CheckRunner(callbacks.predicates, answer, send, stats, thread)
            if callbacks.predicates
            else None
        )
        self.victims = (
            CheckRunner(callbacks.judge_victims, preemption_answer, send, stats, thread)
            if callbacks.judge_victims
            else None
        )
        self.states = Feed(callbacks.container_states) if callbacks.container_states else None
        self.events = Feed(callbacks.events, limit) if callbacks.events else None
        self.dumps = StateDumper(callbacks.state_dump, send_dump) if callbacks.state_dump else None

    def stop(self) -> None:
        """Call nothing more."""
        for part in (self.predicates, self.victims, self.states, self.events, self.dumps):
            if part is not None:
                part.stop()
