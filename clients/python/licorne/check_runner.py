"""Runs the caller's functions in tasks and threads, so that they do not delay the stream.

The functions decide checks, handle callbacks, and dump the caller's state.
"""

import asyncio
import inspect
import json
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from licorne.callbacks import Callbacks, OnStateDump, answer, preemption_answer
from licorne.session import Stamp, Stats
from licorne.v1.session_pb2 import PredicateAnswer, PreemptionAnswer, StateDump, StateDumpWanted

MAX_BYTES = 1024 * 1024
"""Maximum bytes of the JSON that the server accepts."""

MAX_ERROR = 1000
"""Maximum characters of an error's text."""


class StateDumper:
    """Answers the server's requests for a state dump with the caller's function, one at a time."""

    def __init__(self, function: OnStateDump, send: Callable[[Stamp, StateDump], None]) -> None:
        """Pass the answers to `send`, each with the stamp of the session that has asked."""
        self._function = function
        self._send = send
        self._task: asyncio.Task[None] | None = None

    def start(self, stamp: Stamp, wanted: StateDumpWanted) -> None:
        """Begin to answer; an unfinished answer to an earlier request is dropped."""
        self.stop()
        self._task = asyncio.create_task(self._answer(stamp, wanted))

    def stop(self) -> None:
        """Drop an unfinished answer."""
        if self._task is not None:
            self._task.cancel()

    async def _answer(self, stamp: Stamp, wanted: StateDumpWanted) -> None:
        answer = StateDump(id=wanted.id)
        seconds = wanted.deadline_milliseconds / 1000
        try:
            async with asyncio.timeout(seconds):
                state = self._function()
                if inspect.isawaitable(state):
                    state = await state
            answer.json = _document(state)
        except TimeoutError:
            LOG.warning("no state for a dump within %.3f s", seconds)
            return
        except Exception as error:
            LOG.exception("%r failed", self._function)
            answer.error = f"{type(error).__name__}: {error}"[:MAX_ERROR]
        self._send(stamp, answer)


def _document(state: Any) -> str:
    """The state as JSON; a text is assumed to be JSON. Raises ValueError above `MAX_BYTES`."""
    text = state if isinstance(state, str) else json.dumps(state, allow_nan=False)
    size = len(text.encode())
    if size > MAX_BYTES:
        raise ValueError(f"the state has {size} bytes, at most {MAX_BYTES} are taken")
    return text


LOG = logging.getLogger("licorne")

HAND_OVER_SECONDS = 0.002
"""Seconds for which an answer waits for others, to share a message with them."""


class Check(Protocol):
    """Common fields of all kinds of check."""

    @property
    def key(self) -> str:
        """Key of the checked ask."""

    @property
    def deadline(self) -> float:
        """Seconds within which the answer must arrive."""


C = TypeVar("C", bound=Check)
R = TypeVar("R")
W = TypeVar("W")

Judged = tuple[C, R | Awaitable[R] | Exception]
"""A check, and the result or exception of the function."""


class JudgeThread:
    """The thread that runs plain functions. A client has only one, so that its functions need no locks."""

    def __init__(self) -> None:
        """Prepare the thread; `executor` starts it."""
        self._executor: ThreadPoolExecutor | None = None

    def executor(self) -> ThreadPoolExecutor:
        """The thread, which the first call starts."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, "licorne-checks")
        return self._executor

    def stop(self) -> None:
        """Cancel queued checks, but not the running check."""
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)


def _judged(function: Callable[[C], R | Awaitable[R]], check: C) -> Judged[C, R]:
    """Call the function; the call of an async function only returns its coroutine."""
    try:
        return check, function(check)
    except Exception as error:
        return check, error


class _Batch(Generic[C, R]):
    """The checks of one message, for a plain function in a thread."""

    def __init__(
        self,
        function: Callable[[C], R | Awaitable[R]],
        checks: Sequence[C],
        take: Callable[[Sequence[Judged[C, R]]], None],
    ) -> None:
        """`take` is called in the loop with the available results, in the order of the checks."""
        self._function = function
        self._checks = checks
        self._take = take
        self._loop = asyncio.get_running_loop()
        self._judged: deque[Judged[C, R]] = deque()
        self._taken = 0
        # True while a call of `take` is scheduled in the loop.
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
        """Pass on the results that were not yet passed on."""
        # Reset first: results that arrive from now on need another call.
        self._is_due = False
        judged = []
        while self._judged:
            judged.append(self._judged.popleft())
        self._taken += len(judged)
        if judged:
            self._take(judged)

    def give_up(self) -> int:
        """Stop after the current check; returns the number of checks without a result."""
        self._given_up = True
        return len(self._checks) - self._taken

    def _take_soon(self) -> None:
        """Schedule the transfer of the available results, without waiting for the next check."""
        self._loop.call_later(HAND_OVER_SECONDS, self._take_late)

    def _take_late(self) -> None:
        if not self._given_up:
            self.take()


class CheckRunner(Generic[C, R, W]):
    """Answers checks of one kind with the caller's function.

    For an async function all checks run concurrently, each in a task. For a plain function they run in a
    thread, one after the other. If the function fails or takes too long, the check is not answered, but
    counted in `Stats.unanswered`.
    """

    def __init__(
        self,
        function: Callable[[C], R | Awaitable[R]],
        answer: Callable[[C, R], W],
        send: Callable[[Stamp, W], None],
        stats: Stats,
        thread: JudgeThread | None = None,
    ) -> None:
        """Pass the answers to `send`, each with the stamp of the session that has asked.

        A plain function runs in `thread`, or in its own thread if that is None.
        """
        self._function = function
        self._answer = answer
        self._is_async = inspect.iscoroutinefunction(function)
        self._send = send
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = thread or JudgeThread()
        self._stats = stats

    def start(self, stamp: Stamp, checks: Sequence[C]) -> None:
        """Begin to answer the checks of one message, in their order."""
        if not self._is_async:
            self._begin(self._judge_in_thread(stamp, checks))
            return
        self._take(stamp, [_judged(self._function, check) for check in checks])

    @property
    def unanswered(self) -> int:
        """Number of running tasks: one per check for an async function, one per message for a plain one."""
        return len(self._tasks)

    def stop(self) -> None:
        """Cancel all checks without answering them."""
        for task in self._tasks:
            task.cancel()
        self._thread.stop()

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _judge_in_thread(self, stamp: Stamp, checks: Sequence[C]) -> None:
        batch = _Batch(self._function, checks, partial(self._take, stamp))
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(checks[0].deadline):
                await loop.run_in_executor(self._thread.executor(), batch.judge)
            batch.take()
        except asyncio.CancelledError:
            batch.give_up()
            raise
        except TimeoutError:
            batch.take()
            late = batch.give_up()
            self._stats.unanswered += late
            LOG.warning("no answer to %d checks within %.3f s", late, checks[0].deadline)

    def _take(self, stamp: Stamp, judged: Sequence[Judged[C, R]]) -> None:
        """Send the available results; an awaitable result is sent when it is complete."""
        for check, result in judged:
            if isinstance(result, Exception):
                self._failed(check, result)
            elif inspect.isawaitable(result):
                self._begin(self._await(stamp, check, result))
            else:
                self._reply(stamp, check, result)

    async def _await(self, stamp: Stamp, check: C, result: Awaitable[R]) -> None:
        try:
            async with asyncio.timeout(check.deadline):
                found = await result
        except TimeoutError:
            self._stats.unanswered += 1
            LOG.warning("no answer about %s within %.3f s", check.key, check.deadline)
        except Exception as error:
            self._failed(check, error)
        else:
            self._reply(stamp, check, found)

    def _reply(self, stamp: Stamp, check: C, found: R) -> None:
        try:
            wire = self._answer(check, found)
        except Exception as error:
            self._failed(check, error)
        else:
            self._send(stamp, wire)

    def _failed(self, check: C, error: Exception) -> None:
        self._stats.unanswered += 1
        LOG.error("no answer about %s: %r failed", check.key, self._function, exc_info=error)


T = TypeVar("T")


class ListFeed(Generic[T]):
    """Passes lists of items to a function in order, one call at a time.

    Lists wait while the function runs. While more than `limit` items wait, the oldest lists are dropped.
    """

    def __init__(
        self, function: Callable[[Sequence[T]], Awaitable[None] | None], limit: int | None = None
    ) -> None:
        """Start without items. If `limit` is None, no list is dropped."""
        self._function = function
        self._limit = limit
        self._waiting: deque[list[T]] = deque()
        self._size = 0
        self._task: asyncio.Task[None] | None = None

    def put(self, items: list[T]) -> None:
        """Queue a list for the function. Must be called in a running loop."""
        self._waiting.append(items)
        self._size += len(items)
        while self._limit is not None and self._size > self._limit and len(self._waiting) > 1:
            self._size -= len(self._waiting.popleft())
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())

    @property
    def is_running(self) -> bool:
        """True while the function runs, or is about to run."""
        return self._task is not None and not self._task.done()

    def stop(self) -> None:
        """Drop the waiting items, and cancel the function."""
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
    """The runners of all callbacks; None for each callback that the caller has not set."""

    def __init__(
        self,
        callbacks: Callbacks,
        send: Callable[[Stamp, PredicateAnswer | PreemptionAnswer], None],
        send_dump: Callable[[Stamp, StateDump], None],
        stats: Stats,
        limit: int,
    ) -> None:
        """Let about `limit` event records wait; beyond it the oldest are dropped, a gap in their ids."""
        thread = JudgeThread()
        self.predicates = (
            CheckRunner(callbacks.predicates, answer, send, stats, thread) if callbacks.predicates else None
        )
        self.victims = (
            CheckRunner(callbacks.judge_victims, preemption_answer, send, stats, thread)
            if callbacks.judge_victims
            else None
        )
        self.states = ListFeed(callbacks.container_states) if callbacks.container_states else None
        self.notices = ListFeed(callbacks.preemption_notices) if callbacks.preemption_notices else None
        self.events = ListFeed(callbacks.events, limit) if callbacks.events else None
        self.dumps = StateDumper(callbacks.state_dump, send_dump) if callbacks.state_dump else None

    @property
    def running(self) -> int:
        """Number of checks and lists that callbacks are processing."""
        judges = (self.predicates, self.victims)
        feeds = (self.states, self.notices, self.events)
        return sum(judge.unanswered for judge in judges if judge) + sum(
            feed.is_running for feed in feeds if feed
        )

    def stop(self) -> None:
        """Stop all callbacks; no function is called afterwards."""
        for part in (self.predicates, self.victims, self.states, self.notices, self.events, self.dumps):
            if part is not None:
                part.stop()
