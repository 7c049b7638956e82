"""One open stream of an RM: its requests are read, carried out in order, and answered.

Real shims send one item in each message. Queued requests are carried out as one, so that a turn of
the core is not made for every item. A single request is carried out at once. In a rush, each close
behind the one before, the next ones are awaited: gRPC hands messages over one by one, so their
number is unknown.

`Exchange` is a stream of `si.v1`: it carries one kind of request, no numbers and no farewell. A
message that was written is taken as received. `services/session_exchange.py` adds what a session
says.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from math import inf
from typing import NoReturn

from licorne_core.messages.commands import UpdateAllocations
from licorne_core.messages.effects import Effect
from licorne_core.values.errors import shown
from licorne_server.engine.engine import Engine
from licorne_server.rms.outbox import Batch
from licorne_server.rms.registry import Rms, check_registered
from licorne_server.rms.rm import Rm
from licorne_server.rms.streams import Stream
from licorne_server.wire.errors import CallError, Malformed, invalid_argument, unavailable
from licorne_server.wire.framing import Split, split
from licorne_server.wire.requests import REQUESTS
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


class Entry:
    """A queued request."""

    kind: Kind
    """Its kind; SESSION for a message without items, which is carried out by itself."""
    number: int
    """Its number in the session; 0 for none."""
    request: Split | None
    """Its items."""
    field: int
    """For the kind SESSION: the number of its field. 0 for a request that was carried out when it
    was read, and only counts as such in its turn."""
    payload: bytes
    """For the kind SESSION: its message."""
    size: int
    """Its bytes."""
    time: float
    """Time of reading, in unix seconds; of joined requests, that of the first."""

    def __init__(
        self,
        kind: Kind,
        number: int,
        request: Split | None = None,
        *,
        field: int = 0,
        payload: bytes = b"",
        size: int = 0,
        time: float = 0.0,
    ) -> None:
        """As its fields say."""
        self.kind = kind
        self.number = number
        self.request = request
        self.field = field
        self.payload = payload
        self.size = size
        self.time = time


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
        # Error that ends the stream once all requests before it are done; None for none.
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
        """Join the next entries to the first one, which gets the number of the last of them."""
        # The first field of a request has its additions, the others have its removals.
        additions = next(iter(request.items.values()))
        while self._joins(first.kind, request.total, removes=len(additions) < request.total):
            entry = self._pop()
            first.number = entry.number
            if entry.request is not None:
                request.join(entry.request)
        return first

    def _joins(self, kind: Kind, count: int, *, removes: bool) -> bool:
        """True if the next entry can be carried out together with so many items of a kind before it."""
        if not self._waiting:
            return False
        entry = self._waiting[0]
        if entry.request is None:
            return not entry.field
        if entry.kind is not kind or count + entry.request.total > MAX_JOINED:
            return False
        return not (removes and next(iter(entry.request.items.values())))

    def _pop(self) -> Entry:
        entry = self._waiting.popleft()
        self._size -= entry.size + ENTRY_COST
        if self.is_full and self._size <= MAX_WAITING:
            self.is_full = False
            self._room.set()
        return entry


class Exchange:
    """Reads and writes one stream after its first message."""

    def __init__(
        self,
        engine: Engine,
        rms: Rms,
        rm: Rm,
        stream: Stream,
        kinds: Sequence[Kind],
        check_rm: Callable[[str], None] | None = None,
    ) -> None:
        """Over an open stream of an RM; it carries responses of these `kinds`.

        `check_rm` refuses RMs of other callers.
        """
        self._engine = engine
        self._rms = rms
        self._rm = rm
        self._stream = stream
        self._kinds = kinds
        self._check_rm = check_rm
        self._intake = Intake()
        # Reading and carrying out each have a pace of their own.
        self._reading, self._carrying_out = rms.pace(), rms.pace()

    def put(self, entry: Entry) -> None:
        """Queue a request that was read already."""
        self._intake.put(entry)

    async def run(self) -> None:
        """Read and write until the stream has ended.

        Raises:
            CallError: the stream was ended from outside, or its RM has to register anew.
            Malformed: a message makes no sense. Requests before it were carried out.
        """
        await self._stream.run(self._read(), self._carry_out(), self._write(), self._rm.outbox.wake)

    async def _read(self) -> None:
        """Read requests until the RM's side ends or a message is malformed."""
        intake = self._intake
        try:
            while messages := await self._stream.read_all():
                for raw in messages:
                    if self._stream.over or not await self._take(raw):
                        return
                    if intake.is_full:
                        await intake.room()
        except (CallError, Malformed) as error:
            # What came before it is carried out.
            intake.end(error)
        finally:
            intake.end()

    async def _take(self, raw: bytes) -> bool:
        """Put a message into the intake; returns False after the RM's last one."""
        await self._queue(self._kinds[0], raw)
        return True

    async def _queue(self, kind: Kind, payload: bytes, number: int = 0) -> None:
        """Put a request with items into the intake."""
        now = self._engine.now()
        request = await split(payload, REQUESTS[kind].layout, self._reading)
        if request.rm_id and request.rm_id != self._rm.rm_id:
            self._refuse_foreign(kind, request.rm_id)
        self._intake.put(Entry(kind, number, request, size=len(payload), time=now))

    def _refuse_foreign(self, kind: Kind, rm_id: str) -> NoReturn:
        """Refuse with the reason that the RM of that id would read, if there is one."""
        if self._check_rm is not None:
            self._check_rm(rm_id)
            self._rms.get(rm_id, REQUESTS[kind].layout.message)
        raise invalid_argument(f"rmID is {shown(rm_id)} on a stream of RM {self._rm.rm_id}", "rmID")

    async def _carry_out(self) -> None:
        """Carry out the queued requests, until there is nothing more or the stream has ended."""
        rm, stream = self._rm, self._stream
        while not self._stream.over and (entry := await self._intake.take()) is not None:
            if entry.request is not None:
                await rm.outbox.room.wait()
                await rm.settled.wait()
                rm.check()
                if stream.over:
                    return
            # The core cannot take half of a request back: once begun, it comes to its end.
            stream.is_handling = True
            try:
                await self.handle(entry)
            finally:
                stream.is_handling = False

    async def handle(self, entry: Entry) -> int:
        """Carry out an entry to its end; returns the number of items refused before the core saw them.

        If the RM registers anew meanwhile, the rest is dropped.

        Raises:
            CallError: the RM is not registered any more.
        """
        assert entry.request is not None, "without a session all entries are requests with items"
        engine, rm, tracing = self._engine, self._rm, self._rms.tracing
        is_current, reader = rm.registration.is_current, rm.reader
        reader.time = entry.time
        layout, steps_of = REQUESTS[entry.kind]
        taken = await steps_of(reader, entry.request, engine.budget.items, self._carrying_out)
        for step in taken.steps:
            if not isinstance(step, Effect):
                if tracing is not None and isinstance(step, UpdateAllocations):
                    await tracing.asked(rm.rm_id, step)
                try:
                    effects = await engine.submit(step, is_current=is_current)
                finally:
                    if tracing is not None:
                        tracing.carried_out(rm.rm_id, step)
                check_registered(effects, layout.message)
            elif is_current():
                self._rms.route([step])
                await asyncio.sleep(0)
        return taken.refused

    async def _write(self) -> None:
        """Write what the outbox has for the stream, until there is nothing more to say."""
        rm, stream, outbox = self._rm, self._stream, self._rm.outbox
        may_decide = self._engine.may_decide
        if may_decide is None or may_decide():
            await self._begin()
        while not stream.over:
            rm.check()
            if may_decide is not None and not may_decide():
                raise unavailable("another member may serve the RM by now")
            batch = outbox.peek(self._kinds)
            if batch is not None:
                if await stream.more_may_come(batch.items, busy=self._engine.busy):
                    continue
                await self._send(batch)
                stream.wrote_items = batch.items
            elif stream.finishing.is_set():
                return
            else:
                await self._idle()

    async def _begin(self) -> None:
        """Write what comes before all else."""

    async def _send(self, batch: Batch) -> None:
        """Write a batch and remove it from the outbox."""
        await self._stream.write(batch.data)
        self._rm.outbox.sent(batch)

    async def _idle(self) -> None:
        """Wait for something to write."""
        await self._rm.outbox.wait(self._kinds)
