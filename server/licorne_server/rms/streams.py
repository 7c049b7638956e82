"""One open bidirectional call: its reader, its worker, its single writer, and its end.

Three rules avoid faults of grpc.aio (ecosystem § 1.2):

* All writes come from one coroutine: two tasks that write to one stream break it.
* When the RM's side ends, requests that were read are carried out and queued messages are written before the
  stream ends: a reader cannot tell a lost client from one that has only closed its own side.
* A cancellation is never swallowed: that leaks native memory.

There is one exception to the last rule. Once begun, a request is completed and counted before the stream
counts as closed, because the core cannot undo half of it. Requests that were read after it are dropped with
the stream: the RM may have registered again meanwhile.

Shims send one item in each message. Queued requests are carried out as one, so that the core does not make a
turn for every item. A single request is carried out at once. In a rush of requests at short intervals the
next ones are awaited, because gRPC delivers messages one by one, and their number is unknown.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import grpc

from licorne_server.security.access import PassedOn
from licorne_server.security.connections import Link
from licorne_server.transport.interface import Prompt
from licorne_server.wire.errors import CallError, Malformed, unavailable
from licorne_server.wire.framing import Split
from licorne_server.wire.responses import Kind

FLUSH_SECONDS = 5.0
"""Seconds within which queued messages may still be written after the RM's side has ended."""

GATHER_SECONDS = 0.002
"""Seconds after a message for which the next message gathers items, while there is scheduling to do."""

PASSED_GATHER_SECONDS = 0.004
"""`GATHER_SECONDS` of a call that another member passes on, whose messages are read and written twice."""

ENOUGH_ITEMS = 256
"""Number of items at which a message is sent at once."""

FEW_ITEMS = 8
"""After a message with fewer items than this, the next message is sent immediately."""

GONE = "its client has gone"
"""The usual reason for the end of a stream."""


@dataclass(slots=True)
class Traffic:
    """Traffic of one stream. Bytes are those of messages, without framing."""

    messages_read: int = 0
    bytes_read: int = 0
    messages_written: int = 0
    bytes_written: int = 0


class Stream:
    """A call that others may end: for a newer stream, a drain, or a failure of the core."""

    wrote_at: float
    """Time of the last write, in seconds of the loop's time."""
    wrote_items: int
    """Number of items of the last message that had items."""
    finishing: asyncio.Event
    """Set when the writer should write the queued messages and then return."""
    over: bool
    """True once the stream has ended: no message is read, carried out or written any more."""
    is_handling: bool
    """True while a request is carried out, which is completed even if the stream ends first."""
    is_leaving: bool
    """True once the RM was asked to disconnect."""
    is_writing: bool
    """True until gRPC has accepted the message that is being written."""
    closed: asyncio.Event
    """Set when all tasks of the stream have ended."""
    peer: str
    """The caller's address, as gRPC writes it."""
    traffic: Traffic
    reason: str
    """Reason for the stream's end, for the log; empty before the end."""

    def __init__(self, context: Any, link: Link | None = None) -> None:
        """`context` is a `grpc.aio` servicer context, `link` its connection."""
        self._context = context
        self._link = link or Link()
        self._gather_seconds = PASSED_GATHER_SECONDS if isinstance(context, PassedOn) else GATHER_SECONDS
        # Done when the call was ended from outside; the result is its error.
        self._ended: asyncio.Future[CallError | None] = asyncio.get_running_loop().create_future()
        # The error that ends the call after the writer has written the queued messages.
        self._last_word: CallError | None = None
        # Wakes a waiting writer, which checks its state.
        self._wake: Callable[[], None] | None = None
        # Start of the wait for a message, in the loop's time; None while there is no wait.
        self._reading_since: float | None = None
        self.over = self.is_handling = self.is_leaving = self.is_writing = False
        self.peer = context.peer()
        self.traffic = Traffic()
        self.reason = ""
        self.wrote_at = 0.0
        self.wrote_items = 0
        self.finishing = asyncio.Event()
        self.closed = asyncio.Event()

    def end(self, error: CallError | None = None) -> None:
        """End the call from outside, with an error or normally; only the first call has an effect.

        From now on its tasks read and write no messages; they are cancelled later.
        """
        self.over = True
        if not self._ended.done():
            self._ended.set_result(error)

    def when_leaving(self, leave: Callable[[str, float], object]) -> None:
        """Register a callback with `PassedOn.when_leaving`, if another member passes the call on."""
        if isinstance(self._context, PassedOn):
            self._context.when_leaving(leave)

    def finish(self, error: CallError | None = None) -> None:
        """End the call, with an error or normally, once its writer has written all queued messages."""
        self._last_word = self._last_word or error
        self.finishing.set()
        if self._wake is not None:
            self._wake()

    async def first(self, seconds: float) -> bytes | None:
        """The first message of the RM; None when its side has ended without one.

        The RM of the stream is unknown until then.

        Raises:
            CallError: UNAVAILABLE, no message arrived within `seconds`.
        """
        try:
            async with asyncio.timeout(seconds):
                return await self.read()
        except TimeoutError:
            message = f"nothing was said for {seconds:g} s after the stream was opened"
            raise unavailable(message, 0.0) from None

    async def read(self) -> bytes | None:
        """The next message of the RM; None when the stream or its side of it has ended."""
        if self.over:
            return None
        self._reading_since = asyncio.get_running_loop().time()
        raw = await self._context.read()
        self._reading_since = None
        if raw is grpc.aio.EOF or self.over:
            return None
        message: bytes = raw
        self._heard(1, len(message))
        return message

    def _heard(self, messages: int, size: int) -> None:
        self._link.heard(messages, size)
        self.traffic.messages_read += messages
        self.traffic.bytes_read += size

    async def read_all(self) -> Sequence[bytes]:
        """The RM's next messages that have arrived together; empty when the stream has ended."""
        first = await self.read()
        if first is None:
            return ()
        if not isinstance(self._context, Prompt):
            return (first,)
        others = self._context.waiting()
        self._heard(len(others), sum(map(len, others)))
        return (first, *others)

    def silence(self) -> float:
        """Seconds since the wait for the RM's next message began."""
        since = self._reading_since
        return 0.0 if since is None else asyncio.get_running_loop().time() - since

    async def write(self, raw: bytes) -> None:
        """Send a message. Only the stream's one writer may call this."""
        self.wrote_at = asyncio.get_running_loop().time()
        self._link.told(len(raw))
        self.traffic.messages_written += 1
        self.traffic.bytes_written += len(raw)
        self.is_writing = True
        await self._context.write(raw)
        self.is_writing = False

    async def more_may_come(self, items: int, *, busy: bool) -> bool:
        """Wait a moment if the next message, which has `items` items so far, should gather more.

        It should if the last message was sent recently and had many items, and the engine is `busy`, because
        messages have a fixed cost. Returns True after a wait: the outbox has to be examined again.
        """
        if items >= ENOUGH_ITEMS or self.wrote_items < FEW_ITEMS or not busy:
            return False
        pause = self.wrote_at + self._gather_seconds - asyncio.get_running_loop().time()
        if pause <= 0:
            return False
        await asyncio.sleep(pause)
        return True

    async def run(
        self,
        read: Coroutine[Any, Any, None],
        carry_out: Coroutine[Any, Any, None],
        write: Coroutine[Any, Any, None],
        wake: Callable[[], None],
    ) -> None:
        """Run the three coroutines until all requests are carried out and the writer has ended, or one fails.

        `carry_out` ends after `read`, whose requests it handles. `wake` makes a waiting writer check
        its state again.

        Raises:
            CallError: the call was ended from outside, or by one of the three.
        """
        try:
            await self._run((read, carry_out, write), wake)
        except asyncio.CancelledError:
            self.reason = GONE
            raise
        except Exception as error:
            self.reason = _why(error)
            raise
        self.reason = self.reason or "its client has ended it"

    async def _run(self, parts: Sequence[Coroutine[Any, Any, None]], wake: Callable[[], None]) -> None:
        """Run the reader, the worker and the writer; see `run`."""
        self._wake = wake
        self._link.streams += 1
        every: list[asyncio.Future[Any]] = [asyncio.ensure_future(part) for part in parts]
        reader, worker, writer = every
        ended: asyncio.Future[Any] = self._ended
        try:
            await asyncio.wait((worker, writer, ended), return_when=asyncio.FIRST_COMPLETED)
            if worker.done() and not worker.exception() and not self._ended.done():
                self.finish()
                await asyncio.wait(
                    (writer, ended), timeout=FLUSH_SECONDS, return_when=asyncio.FIRST_COMPLETED
                )
        finally:
            self.over = True
            self._link.streams -= 1
            writer.cancel()
            reader.cancel()
            if not self.is_handling:
                worker.cancel()
            await self._settle(every)
        if self._ended.done():
            error = self._ended.result()
            if error is not None:
                raise error
        for task in every:
            if not task.cancelled() and (failure := task.exception()) is not None:
                raise failure
        if self._last_word is not None:
            raise self._last_word

    async def _settle(self, every: Sequence[asyncio.Future[Any]]) -> None:
        """Wait for all tasks to end, then set `closed`, even if this is cancelled meanwhile."""
        settled = asyncio.ensure_future(asyncio.wait(every))
        try:
            await asyncio.shield(settled)
        except asyncio.CancelledError:
            settled.add_done_callback(lambda _: self.closed.set())
            raise
        self.closed.set()


def _why(error: Exception) -> str:
    """The reason for a stream's end by an error; internal failures are logged separately."""
    if isinstance(error, grpc.aio.InternalError):
        return GONE
    if isinstance(error, CallError):
        return f"{error.code.name}: {error.message}"
    return str(error) if isinstance(error, Malformed) else "INTERNAL"


MAX_WAITING = 1024 * 1024
"""Maximum number of bytes of queued requests; above it no more requests are read."""

ENTRY_COST = 256
"""Number of bytes added to the size of each request, so that the number of requests is bounded too."""

MAX_JOINED = 1_000
"""Maximum number of items of requests that are carried out as one."""

CLOSE = 8
"""Number of requests at short intervals that make a rush."""

RUSH_SECONDS = 0.004
"""Seconds within which the requests of a rush have arrived."""

RUSH_PAUSE = 0.002
"""Seconds for which the first queued request of a rush waits for further ones."""

ENOUGH = 64
"""Number of queued requests at which gathering ends."""


class Entry:
    """A queued request."""

    kind: Kind
    """Kind of the request; SESSION for a message without items, which is carried out by itself."""
    number: int
    """Number of the request in the session; 0 if there is none."""
    request: Split | None
    """Items of the request; None for the kind SESSION."""
    field: int
    """For the kind SESSION: the number of the message's field; 0 for a request that was handled already and
    is only counted.
    """
    payload: bytes
    """For the kind SESSION: the message."""
    size: int
    """Size of the request in bytes."""
    time: float
    """Time at which the request was read, in unix seconds; for joined requests, the time of the first."""

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
        """For the parameters see the fields."""
        self.kind = kind
        self.number = number
        self.request = request
        self.field = field
        self.payload = payload
        self.size = size
        self.time = time


class Intake:
    """The requests of one stream that were read but not begun, the oldest first."""

    def __init__(self) -> None:
        """Make an empty intake."""
        self._waiting: deque[Entry] = deque()
        self._size = 0
        self._ended = False
        # Times at which the last requests arrived, in the loop's time; the time of the first queued request.
        self._loop = asyncio.get_running_loop()
        self._came: deque[float] = deque([-inf] * CLOSE, CLOSE)
        self._since = 0.0
        # Error that ends the stream after all requests ahead of it; None if there is none.
        self._failure: Exception | None = None
        # Set when there may be a queued request, or the intake is closed.
        self._news = asyncio.Event()
        # Cleared while no more requests should be read.
        self._room = asyncio.Event()
        self._room.set()
        self.is_full = False
        """True if no more requests should be read; `room` then waits."""

    async def room(self) -> None:
        """Wait until more requests should be read."""
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
        """Close the intake; after the queued requests `take` raises the failure, if any.

        Only the first call has an effect.
        """
        if not self._ended:
            self._ended = True
            self._failure = failure
            self._news.set()

    async def take(self) -> Entry | None:
        """Wait for the next requests, joined as far as their order allows; None at the end.

        Requests of one kind are joined as long as no addition follows a removal: the core
        makes the additions of a request first.

        Raises:
            Exception: the failure that ends the stream.
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
        """Wait a moment during a burst, so that more requests are queued."""
        pause = self._since + RUSH_PAUSE - self._loop.time()
        if pause > 0 and len(self._waiting) < ENOUGH and not self._ended:
            await asyncio.sleep(pause)

    def _joined(self, first: Entry, request: Split) -> Entry:
        """Join the following entries to the first entry, which gets the number of the last entry."""
        # The first field of a request has additions, and the others have removals.
        additions = next(iter(request.items.values()))
        while self._joins(first.kind, request.total, removes=len(additions) < request.total):
            entry = self._pop()
            first.number = entry.number
            if entry.request is not None:
                request.join(entry.request)
        return first

    def _joins(self, kind: Kind, count: int, *, removes: bool) -> bool:
        """True if the next entry can be carried out together with `count` items of a kind ahead of it."""
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
