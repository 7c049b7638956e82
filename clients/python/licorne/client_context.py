"""State of the client that outlives a stream: the cache, the session, and the events for the caller."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from licorne.answers import Answers
from licorne.cache import Cache
from licorne.callbacks import Callbacks
from licorne.check_runner import CallbackRunners
from licorne.errors import Closed, LicorneError
from licorne.events import Event
from licorne.options import GangOptions, Limits
from licorne.outgoing import Outgoing, Packer
from licorne.session import Session, Stamp, Stats
from licorne.v1.session_pb2 import PredicateAnswer, PreemptionAnswer, StateDump


class Inbox:
    """A bounded buffer of events with one reader.

    An event counts as processed when the reader requests the next event.
    """

    def __init__(self, limit: int, consumed: Callable[[Stamp, int], None]) -> None:
        """Let about `limit` events wait; `consumed` gets stamp and number of each processed response."""
        self._limit = limit
        self._consumed = consumed
        self._batches: deque[tuple[Stamp, int, deque[Event]]] = deque()
        """For each response: its stamp, its number, and its remaining events."""
        self._size = 0
        """Number of queued events, plus 1 for each unprocessed response."""
        self._news = asyncio.Event()
        """Set when there may be an event for the reader, and after the end."""
        self._room = asyncio.Event()
        """Set while `_size` is below the limit, and after the end."""
        self._room.set()
        self._closed = False
        self._failure: LicorneError | None = None
        """The error that the reader gets after the last event; None if the client was closed."""

    def put(self, stamp: Stamp, number: int, events: Sequence[Event]) -> None:
        """Add the events of the response with this number; 0 for events that the client creates."""
        self._batches.append((stamp, number, deque(events)))
        # A response without events counts too, because it waits for its acknowledgement.
        self._size += len(events) + 1
        self._news.set()
        if self._size >= self._limit and not self._closed:
            self._room.clear()

    @property
    def is_empty(self) -> bool:
        """True if the reader has processed everything."""
        return not self._batches

    async def room(self) -> None:
        """Wait until the buffer is below its limit, or closed."""
        await self._room.wait()

    def close(self, failure: LicorneError | None = None) -> None:
        """Close the buffer. The reader gets the queued events, and then the failure, if there is one."""
        self._closed = True
        self._failure = failure
        self._room.set()
        self._news.set()

    async def next_batch(self) -> list[Event] | None:
        """The remaining events of the oldest response; None after the end."""
        batch = await self._head()
        if batch is None:
            return None
        events = list(batch)
        batch.clear()
        self._taken(len(events))
        return events

    async def next_event(self) -> Event | None:
        """The oldest event; None after the end."""
        batch = await self._head()
        if batch is None:
            return None
        self._taken(1)
        return batch.popleft()

    async def _head(self) -> deque[Event] | None:
        """The first batch with remaining events."""
        while True:
            while self._batches:
                stamp, number, events = self._batches[0]
                if events:
                    return events
                # The reader requests more, so it has processed all events of this response.
                self._batches.popleft()
                self._taken(1)
                if number:
                    self._consumed(stamp, number)
            if self._closed:
                if self._failure is not None:
                    raise self._failure
                return None
            self._news.clear()
            await self._news.wait()

    def _taken(self, count: int) -> None:
        self._size -= count
        if self._size < self._limit:
            self._room.set()


M = TypeVar("M")

ACK_EVERY = 64
"""Number of processed responses that are acknowledged at once. Fewer wait for `ACK_DELAY`."""


class ClientContext:
    """The cache, the session and the queues of one client."""

    def __init__(
        self, session: Session, limits: Limits, callbacks: Callbacks, gangs: GangOptions, join_window: float
    ) -> None:
        """Start without state."""
        self.session = session
        self.cache = Cache()
        self.answers = Answers(self.cache, gangs, self.queue)
        self.stats = Stats()
        self.callbacks = CallbackRunners(callbacks, self._answer, self._dump, self.stats, limits.events)
        self.wake = asyncio.Event()
        """Set when the stream's writer may have something to send."""
        self.outgoing = Outgoing(limits.outgoing, join_window)
        self.inbox = Inbox(limits.events, self.consumed)
        self.live = asyncio.Event()
        """Set while a stream is open and needs no replay, and permanently after the end."""
        self.leaving = asyncio.Event()
        """Set when the caller closes the client."""
        self.unregister = False
        """True if the goodbye of the closing client asks the server to forget the RM."""
        self.failure: LicorneError | None = None
        """The error that every method raises after the end; None before."""

    def consumed(self, stamp: Stamp, number: int) -> None:
        """Record that the caller has processed a response."""
        self.session.consumed(stamp, number)
        # The first response starts the writer's `ACK_DELAY`; a full batch ends it.
        if self.session.unacknowledged in (1, ACK_EVERY):
            self.wake.set()

    def leave(self, *, unregister: bool) -> None:
        """Make the stream send a goodbye after all queued messages, and prevent further streams."""
        self.unregister = unregister
        self.leaving.set()
        self.wake.set()

    def end(self, failure: LicorneError | None) -> None:
        """End the client permanently, with an error or, for None, `Closed`. Only the first call counts."""
        if self.failure is not None:
            return
        self.failure = failure or Closed("the client was closed")
        self.callbacks.stop()
        self.outgoing.close()
        self.inbox.close(failure)
        self.live.set()

    def check(self) -> None:
        """Raise the error that has ended the client, if there is one."""
        if self.failure is not None:
            raise self.failure

    def queue(self, add: Callable[[Packer, Iterable[M]], None], items: Iterable[M]) -> None:
        """Queue items for the session.

        Without a session nothing is queued: the next replay sends all items of the cache.
        """
        if self.outgoing.is_open:
            add(self.outgoing.packer, items)
            if not self.outgoing.is_held:
                self.wake.set()

    async def send(self, add: Callable[[Packer, Iterable[M]], None], items: Iterable[M]) -> None:
        """Queue items for the session, and wait while too many are queued."""
        self.check()
        if not self.outgoing.is_open:
            return
        self.queue(add, items)
        if not await self.outgoing.room():
            # Too many items are queued, and there is no stream to send them.
            self.give_up_session()
        self.check()

    def give_up_session(self) -> None:
        """Drop all queued items: the next stream begins with a replay, which sends them from the cache."""
        self.session.forget()
        self.outgoing.close()

    def _answer(self, stamp: Stamp, answer: PredicateAnswer | PreemptionAnswer) -> None:
        """Send an answer, unless the session that asked has ended."""
        if stamp == self.session.stamp and self.outgoing.is_open:
            self.outgoing.answer(answer)
            self.wake.set()

    def _dump(self, stamp: Stamp, dump: StateDump) -> None:
        """Send the caller's state, unless the session that asked has ended."""
        if stamp == self.session.stamp and self.outgoing.is_open:
            self.outgoing.dump(dump)
            self.wake.set()
