"""Fairness between peers: peers take turns, and none occupies all places or all of the time.

A peer is an identity: the names in a certificate, or a token. A caller without either is identified by its
address.
"""

import asyncio
import traceback
from collections import deque
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Generic, TypeVar

from licorne_server.process.loop import SLOW_SECONDS, SlowSteps
from licorne_server.wire.errors import CallError, exhausted

SLICE_SECONDS = 0.001
"""Seconds of a reader's slice, unless the turns of the engine are longer."""

PAUSE_FACTOR = 3.0
"""Length of the pause after a slice while the engine is busy, in lengths of the slice."""

OVERRUN = 2.0
"""A slice that takes more than this multiple of its planned length is followed by a pause in any case."""

SHOWN_FRAMES = 4
"""Maximum number of a reader's functions that the log names."""

_PACKAGE, _SELF = Path(__file__).parents[1], Path(__file__).stem

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

Refusal = Callable[[int, str], Exception]
"""Makes the error for a reached bound; the name of the peer is empty for the bound on all peers."""


class RoundRobin(Generic[K, T]):
    """A queue for each key. The keys take turns; a queue is served in the order of arrival."""

    def __init__(self) -> None:
        """Start empty."""
        # The first key is served next. Keys without items have no entry.
        self._lines: dict[K, deque[T]] = {}
        self.size = 0
        """Number of items in all queues."""

    def line(self, key: K) -> Sequence[T]:
        """The items of a key, in order."""
        return self._lines.get(key, ())

    @property
    def keys(self) -> int:
        """Number of keys with a queue."""
        return len(self._lines)

    def put(self, key: K, item: T) -> None:
        """Put an item at the end of a queue."""
        self._lines.setdefault(key, deque()).append(item)
        self.size += 1

    def put_first(self, key: K, item: T) -> None:
        """Put an item at the beginning of a key's queue; the key keeps its turn."""
        self._lines.setdefault(key, deque()).appendleft(item)
        self.size += 1

    def take(self) -> T:
        """Take the first item of the next key, which moves behind all other keys."""
        key = next(iter(self._lines))
        line = self._lines.pop(key)
        item = line.popleft()
        if line:
            self._lines[key] = line
        self.size -= 1
        return item

    def remove(self, key: K, item: T) -> None:
        """Remove an item from its queue, if it is still there."""
        line = self._lines.get(key)
        if line is not None and item in line:
            line.remove(item)
            self.size -= 1
            if not line:
                del self._lines[key]

    def clear(self) -> list[T]:
        """Empty all queues; returns the items."""
        items = [item for line in self._lines.values() for item in line]
        self._lines.clear()
        self.size = 0
        return items


class PeerQuota:
    """A bounded number of places for all peers together, with a bound for each peer."""

    total: int
    each: int

    def __init__(self, total: int, each: int, refusal: Refusal) -> None:
        """Start with all places free; `refusal` creates the error when none is free."""
        self.total = total
        self.each = each
        self._refusal = refusal
        self._taken: dict[str, int] = {}
        self.taken = 0

    @contextmanager
    def place(self, peer: str) -> Iterator[None]:
        """A block in which the peer occupies one more place.

        Raises:
            Exception: the refusal: the peer has reached its bound, or no place is free.
        """
        count = self._taken.get(peer, 0)
        if count >= self.each:
            raise self._refusal(self.each, peer)
        if self.taken >= self.total:
            raise self._refusal(self.total, "")
        self._taken[peer] = count + 1
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1
            self._taken[peer] -= 1
            if not self._taken[peer]:
                del self._taken[peer]


class Turns:
    """One caller has the turn at a time. Peers take turns, and their waiting callers queue."""

    def __init__(self) -> None:
        """Start with the turn free."""
        self.taken = False
        self._waiting: RoundRobin[str, asyncio.Future[None]] = RoundRobin()

    async def wait(self, peer: str) -> None:
        """Wait for the turn, which lasts until `pass_on`. A caller that is cancelled leaves the queue."""
        if not self.taken:
            self.taken = True
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.put(peer, turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                # The caller was cancelled after it had got the turn, so pass the turn on.
                self.pass_on()
            else:
                self._waiting.remove(peer, turn)
            raise

    def pass_on(self) -> None:
        """Give the turn to the next peer's first caller.

        A caller that was just cancelled is in the queue until its task has run: it is skipped.
        """
        while self._waiting.size:
            turn = self._waiting.take()
            if not turn.done():
                turn.set_result(None)
                return
        self.taken = False

    def close(self, error: Exception) -> None:
        """Empty the queue: waiting callers get the error."""
        for turn in self._waiting.clear():
            if not turn.done():
                turn.set_exception(error)


class FairLock:
    """A lock that peers take in turn, with a bounded queue.

    A waiting caller that is cancelled leaves the queue immediately, which frees its place.
    """

    def __init__(
        self, what: str, reason: str, total: int, each: int | None = None, retry_after: float = 0.0
    ) -> None:
        """A refusal names the waiting items by `what`, in the plural; `reason` is the code of the refusal.

        The queue has `total` places, of which each peer may take `each`; None means no bound for a single
        peer. If `retry_after` is not 0, a refused caller is advised to retry after that number of seconds.
        """

        def refusal(most: int, peer: str) -> CallError:
            of_peer = f" of {peer}" if peer and each is not None else ""
            return exhausted(f"{what}: {most}{of_peer} wait already", reason, retry_after)

        self.turns = Turns()
        """The turns of the lock: one is taken while the lock is held."""
        self._places = PeerQuota(total, total if each is None else each, refusal)

    @property
    def waiting(self) -> int:
        """Number of waiting callers."""
        return self._places.taken

    def close(self, error: Exception) -> None:
        """Raise the error in all waiting callers."""
        self.turns.close(error)

    @asynccontextmanager
    async def turn(self, peer: str) -> AsyncIterator[None]:
        """Wait for a turn of the peer, and hold the lock inside the block.

        Raises:
            CallError: RESOURCE_EXHAUSTED: too many callers are waiting.
        """
        await self._wait(peer)
        try:
            yield
        finally:
            self.turns.pass_on()

    async def __aenter__(self) -> None:
        """Wait for the lock without a peer; such callers are served in the order of arrival.

        Raises:
            CallError: RESOURCE_EXHAUSTED: too many callers are waiting.
        """
        await self._wait("")

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Pass the lock to the next caller."""
        self.turns.pass_on()

    async def _wait(self, peer: str) -> None:
        if self.turns.taken:
            with self._places.place(peer):
                await self.turns.wait(peer)
        else:
            await self.turns.wait(peer)


class TimeSlices:
    """Time slices of the loop for all readers of the core's state.

    An answer is computed in slices, one slice at a time for all readers. While there is scheduling to do, no
    slice begins for three times the length of the last one: so all readers together, whatever their number,
    take at most a quarter of the loop's time. Peers take turns, and the readers of one peer are served in the
    order of arrival. A slice that took far too long is always followed by a pause.
    """

    def __init__(
        self,
        busy: Callable[[], bool],
        turn: Callable[[], float] = lambda: SLICE_SECONDS,
        slow: SlowSteps | None = None,
    ) -> None:
        """`busy` is True while there is scheduling to do; otherwise there are no pauses.

        `turn` returns the seconds of a turn of the engine, the bound of a slice. Slices that are slow
        nevertheless are recorded in `slow`.
        """
        self._slow = slow or SlowSteps()
        self._busy = busy
        self._turn_seconds = turn
        # The end of the last slice.
        self._ended = perf_counter()
        # A turn lasts from the beginning of a slice to the end of the pause after it.
        self._turns = Turns()
        # Seconds of pause that are still owed.
        self._debt = 0.0

    @asynccontextmanager
    async def slice(
        self, peer: str, more: float = 0.0, *, whole: bool = False
    ) -> AsyncIterator[Callable[[], bool]]:
        """Give the caller a slice, as a function that returns True once the slice is over.

        `more` is the later use of the loop for the result, such as sending it, in seconds. Work that cannot
        be split into slices is done as a `whole`. A pause follows in any case, as after a slice of more than
        `OVERRUN` times its length, because the busy flag is outdated by then. Nothing may be awaited inside.
        Failed work counts too. The pause delays the next caller: disconnecting does not avoid it.
        """
        await self._turns.wait(peer)
        begin = perf_counter()
        length = self._length(begin - self._ended)
        try:
            yield lambda: perf_counter() - begin >= length
        finally:
            self._ended = perf_counter()
            spent = self._ended - begin
            if spent > SLOW_SECONDS:
                self._slow.note("slice", spent, peer=peer, reader=_reader())
            pause = self._owed(spent + more, always=whole or spent > OVERRUN * length)
            if pause:
                asyncio.get_running_loop().call_later(pause, self._turns.pass_on)
            else:
                # All other tasks of the loop run once before the next reader.
                try:
                    await asyncio.sleep(0)
                finally:
                    self._turns.pass_on()

    def _length(self, gap: float) -> float:
        """Length in seconds of a slice that begins `gap` seconds after the last one.

        A slice begins only between two rounds of the engine. If rounds are long, as with a single RM, slices
        are longer too: the readers get their quarter of the time, and subscribers keep up with the decisions.
        While the engine is idle slices are short, because a command may arrive at any time.
        """
        if not self._busy():
            return SLICE_SECONDS
        return max(SLICE_SECONDS, min(gap / PAUSE_FACTOR, self._turn_seconds()))

    def _owed(self, spent: float, *, always: bool) -> float:
        """Seconds of pause due after a slice of `spent` seconds; `always` even if the engine is idle."""
        if always or self._busy():
            self._debt += spent * PAUSE_FACTOR
        # A shorter pause is added to the next pause, as the loop's timer is too coarse for it.
        if self._debt < SLICE_SECONDS:
            return 0.0
        pause, self._debt = self._debt, 0.0
        return pause


def refusing(what: str, reason: str) -> Refusal:
    """Make a refusal of calls: `what` names the users of the places, in the plural; `reason` is the code."""

    def refusal(most: int, peer: str) -> CallError:
        return exhausted(f"{what}: at most {most}{' of one peer' if peer else ''}", reason)

    return refusal


def _reader() -> list[str]:
    """The functions that led to a slice, outermost first."""
    ours = [
        f"{path.stem}.{frame.name}"
        for frame in traceback.extract_stack()
        if (path := Path(frame.filename)).is_relative_to(_PACKAGE) and path.stem != _SELF
    ]
    return ours[-SHOWN_FRAMES:]


Slices = Callable[[], AbstractAsyncContextManager[Callable[[], bool]]]
"""Provides time slices, such as those of `TimeSlices` for one peer."""


async def walked(steps: Iterable[T | None], slices: Slices) -> list[T]:
    """Run all steps in slices; return their results that are not None."""
    given: list[T] = []
    rest, more = iter(steps), True
    while more:
        async with slices() as over:
            more = _walk(rest, given, over)
    return given


def _walk(steps: Iterator[T | None], given: list[T], over: Callable[[], bool]) -> bool:
    """Run steps until the slice is over; return True if there may be more."""
    for one in steps:
        if one is not None:
            given.append(one)
        if over():
            return True
    return False
