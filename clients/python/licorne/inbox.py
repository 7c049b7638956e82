"""Events on their way from the stream to the caller."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from licorne.errors import LicorneError
from licorne.events import Event
from licorne.session import Stamp


class Inbox:
    """A bounded buffer with one reader. What it was handed counts as dealt with when it
    comes back for more."""

    def __init__(self, limit: int, consumed: Callable[[Stamp, int], None]) -> None:
        """About `limit` events may wait; `consumed` hears which responses are dealt with."""
        self._limit = limit
        self._consumed = consumed
        self._batches: deque[tuple[Stamp, int, deque[Event]]] = deque()
        self._size = 0
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._closed = False
        self._failure: LicorneError | None = None

    def put(self, stamp: Stamp, number: int, events: Sequence[Event]) -> None:
        """Add what one response brought; number 0 for what the client says by itself."""
        self._batches.append((stamp, number, deque(events)))
        # An answer without events has to be acknowledged in its turn, and takes room as well.
        self._size += len(events) + 1
        self._news.set()
        if self._size >= self._limit and not self._closed:
            self._room.clear()

    async def room(self) -> None:
        """Wait until there is room for more."""
        await self._room.wait()

    def close(self, failure: LicorneError | None = None) -> None:
        """No more will come; what is there can still be taken, then the failure is raised."""
        self._closed = True
        self._failure = failure
        self._room.set()
        self._news.set()

    async def next_batch(self) -> list[Event] | None:
        """All that is left of the oldest response, or None after the end."""
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
