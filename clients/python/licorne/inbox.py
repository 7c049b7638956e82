"""The queue of events from the stream to the caller."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from licorne.errors import LicorneError
from licorne.events import Event
from licorne.session import Stamp


class Inbox:
    """A bounded buffer of events with one reader.

    The reader has dealt with an event when it comes back for the next one.
    """

    def __init__(self, limit: int, consumed: Callable[[Stamp, int], None]) -> None:
        """Let about `limit` events wait. `consumed` is called with each processed response."""
        self._limit = limit
        self._consumed = consumed
        self._batches: deque[tuple[Stamp, int, deque[Event]]] = deque()
        """For each response: its stamp, its number and its events not taken yet."""
        self._size = 0
        """Events that wait, plus one for each response that is not dealt with."""
        self._news = asyncio.Event()
        """Set when the reader may find something, or the end."""
        self._room = asyncio.Event()
        """Set while `_size` is below the limit, and after the end."""
        self._room.set()
        self._closed = False
        self._failure: LicorneError | None = None
        """The reader's error after the last event; None for a plain end."""

    def put(self, stamp: Stamp, number: int, events: Sequence[Event]) -> None:
        """Add the events of one response. Number 0 is for events of the client's own."""
        self._batches.append((stamp, number, deque(events)))
        # A response without events is acknowledged in its turn too, so it takes room too.
        self._size += len(events) + 1
        self._news.set()
        if self._size >= self._limit and not self._closed:
            self._room.clear()

    async def room(self) -> None:
        """Wait until there is room for more."""
        await self._room.wait()

    def close(self, failure: LicorneError | None = None) -> None:
        """Take no more events. The reader gets the queued ones, and then the failure, if any."""
        self._closed = True
        self._failure = failure
        self._room.set()
        self._news.set()

    async def next_batch(self) -> list[Event] | None:
        """The remaining events of the oldest response, or None after the end."""
        batch = await self._head()
        if batch is None:
            return None
        events = list(batch)
        batch.clear()
        self._taken(len(events))
        return events

    async def next_event(self) -> Event | None:
        """The oldest event, or None after the end."""
        batch = await self._head()
        if batch is None:
            return None
        self._taken(1)
        return batch.popleft()

    async def _head(self) -> deque[Event] | None:
        """The first batch that has events left."""
        while True:
            while self._batches:
                stamp, number, events = self._batches[0]
                if events:
                    return events
                # All its events were handed out before, and the reader is back for more.
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
