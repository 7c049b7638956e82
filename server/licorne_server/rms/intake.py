"""Requests of a stream that are read and not carried out: bounded, in order, and joined.

Real shims send one item in each message. Queued requests are carried out as one, so that a turn of
the core is not made for every item. A single request is carried out at once. In a rush, each close
behind the one before, the next ones are awaited: gRPC hands messages over one by one, so their
number is unknown.

Also here:

* Carrying out what an RM requests, over `si.v1` and over a session alike.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from math import inf
from typing import NamedTuple, assert_never

from licorne_core.messages.commands import UpdateAllocations
from licorne_core.messages.effects import Effect
from licorne_server.engine.engine import Engine
from licorne_server.rms.registry import Rms, check_registered
from licorne_server.rms.rm import Rm
from licorne_server.wire.framing import ALLOCATION_REQUEST, APPLICATION_REQUEST, NODE_REQUEST, Pace, Split
from licorne_server.wire.requests import Steps, allocation_batch, application_batch, node_batch
from licorne_server.wire.responses import Kind

MAX_WAITING = 1024 * 1024
"""Bytes of requests that wait, above which no more are read."""

ENTRY_COST = 256
"""Bytes added to the size of each request, so that their number is bounded too."""

MAX_JOINED = 1_000
"""Items of requests that are carried out as one."""

CLOSE = 8
"""Number of closely following requests that make a rush."""

RUSH_SECONDS = 0.004
"""Seconds within which the requests of a rush came."""

GATHER_SECONDS = 0.002
"""Seconds that the first queued request of a rush gathers others behind it."""

ENOUGH = 64
"""Number of queued requests at which gathering ends."""


class Entry(NamedTuple):
    """A queued request."""

    kind: Kind
    """Its kind; SESSION for a message without items, which is carried out by itself."""
    number: int
    """Its number in the session; 0 for none."""
    request: Split | None = None
    """Its items."""
    field: int = 0
    """For the kind SESSION: the number of its field. 0 for a request that was carried out when it
    was read, and only counts as such in its turn."""
    payload: bytes = b""
    """For the kind SESSION: its message."""
    size: int = 0
    """Its bytes."""
    time: float = 0.0
    """Time of reading, in unix seconds; of joined requests, that of the first."""


class Intake:
    """The requests of one stream that were read and not begun, oldest first."""

    def __init__(self) -> None:
        """Make an empty intake."""
        self._waiting: deque[Entry] = deque()
        self._size = 0
        self._ended = False
        # When the last requests came, in the loop's time, and the first of those that wait.
        self._loop = asyncio.get_running_loop()
        self._came: deque[float] = deque([-inf] * CLOSE, CLOSE)
        self._since = 0.0
        # What the stream ends with, once all before it is done.
        self._failure: Exception | None = None
        # Set when there may be something to take, or the end.
        self._news = asyncio.Event()
        # Cleared while no more should be read.
        self._room = asyncio.Event()
        self._room.set()
        self.is_full = False
        """True if no more should be read: then wait for `room`."""

    async def room(self) -> None:
        """Wait until more should be read."""
        await self._room.wait()

    def put(self, entry: Entry) -> None:
        """Add a request that was read."""
        now = self._loop.time()
        self._came.append(now)
        if not self._waiting:
            self._since = now
        self._waiting.append(entry)
        self._size += entry.size + ENTRY_COST
        self._news.set()
        if self._size > MAX_WAITING:
            self.is_full = True
            self._room.clear()

    def end(self, failure: Exception | None = None) -> None:
        """Close the intake; after the queued requests `take` raises the failure, if there is one.

        The first call counts.
        """
        if not self._ended:
            self._ended = True
            self._failure = failure
            self._news.set()

    async def take(self) -> Entry | None:
        """Wait for the next requests, joined as far as their order allows; None at the end.

        Requests of one kind are joined as long as no addition comes behind a removal: the core
        makes the additions of a request first.

        Raises:
            Exception: what the stream ends with.
        """
        while not self._waiting:
            if self._ended:
                if self._failure is not None:
                    raise self._failure
                return None
            self._news.clear()
            await self._news.wait()
        if self._came[-1] - self._came[0] < RUSH_SECONDS:
            await self._gather()
        entry = self._pop()
        if not self._waiting or entry.kind is Kind.SESSION or entry.request is None:
            return entry
        return self._joined(entry, entry.request)

    async def _gather(self) -> None:
        """Wait a moment in a rush for more requests to join those queued."""
        pause = self._since + GATHER_SECONDS - self._loop.time()
        if pause > 0 and len(self._waiting) < ENOUGH and not self._ended:
            await asyncio.sleep(pause)

    def _joined(self, first: Entry, request: Split) -> Entry:
        """The entry and its neighbours as one, with the number of the last of them."""
        if not self._joins(first, request):
            return first
        items = {field: list(found) for field, found in request.items.items()}
        whole = Split(request.rm_id, items)
        number = first.number
        while self._joins(first, whole):
            entry = self._pop()
            number = entry.number
            if entry.request is not None:
                for field, found in entry.request.items.items():
                    items[field] += found
        return first._replace(number=number, request=whole)

    def _joins(self, first: Entry, whole: Split) -> bool:
        """True if the next entry can be carried out together with the joined ones."""
        if not self._waiting:
            return False
        entry = self._waiting[0]
        if entry.request is None:
            return not entry.field
        if entry.kind is not first.kind:
            return False
        count = sum(len(found) for part in (entry.request, whole) for found in part.items.values())
        if count > MAX_JOINED:
            return False
        # The first field of a request has its additions, the others have its removals.
        added, *removed = whole.items
        return not (entry.request.items[added] and any(whole.items[field] for field in removed))

    def _pop(self) -> Entry:
        entry = self._waiting.popleft()
        self._size -= entry.size + ENTRY_COST
        if self.is_full and self._size <= MAX_WAITING:
            self.is_full = False
            self._room.set()
        return entry


LAYOUTS = {
    Kind.NODES: NODE_REQUEST,
    Kind.APPLICATIONS: APPLICATION_REQUEST,
    Kind.ALLOCATIONS: ALLOCATION_REQUEST,
}


async def handle_request(
    engine: Engine,
    rms: Rms,
    rm: Rm,
    kind: Kind,
    request: Split,
    is_current: Callable[[], bool],
    read_time: float,
    pace: Pace,
) -> int:
    """Carry out one request of an RM; returns the number of items refused before the core saw them.

    `is_current` is True while the registration of the request is the RM's current one. If it is
    not, the rest of the request is dropped. The request was read at `read_time`, in unix seconds;
    its items are read at the `pace` of its stream.

    Raises:
        CallError: the RM is not registered any more.
    """
    rm.reader.time = read_time
    taken = await _steps(rm, kind, request, engine.budget.items, pace)
    for step in taken.steps:
        if not isinstance(step, Effect):
            if rms.tracing is not None and isinstance(step, UpdateAllocations):
                await rms.tracing.asked(rm.rm_id, step)
            try:
                effects = await engine.submit(step, is_current=is_current)
            finally:
                if rms.tracing is not None:
                    rms.tracing.carried_out(rm.rm_id, step)
            check_registered(effects, LAYOUTS[kind].message)
        elif is_current():
            rms.route([step])
            await asyncio.sleep(0)
    return taken.refused


async def _steps(rm: Rm, kind: Kind, request: Split, batch_size: int, pace: Pace) -> Steps:
    match kind:
        case Kind.NODES:
            return await node_batch(rm.rm_id, request, batch_size, pace)
        case Kind.APPLICATIONS:
            return await application_batch(rm.rm_id, request, batch_size, pace)
        case Kind.ALLOCATIONS:
            return await allocation_batch(rm.rm_id, request, batch_size, rm.reader, pace)
        case Kind.CHECKS | Kind.VICTIMS | Kind.SESSION:
            raise AssertionError("what only a session can say is no request with items")
        case _:
            assert_never(kind)
