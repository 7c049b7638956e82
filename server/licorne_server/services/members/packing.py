"""Calls packed into one stream: one end of the stream between two members.

A message of the stream has all queued frames, up to a bound in bytes. A frame is sent at once, except in a
rush: then frames are gathered for a moment, because gRPC delivers messages one by one, and few frames would
queue up.

Each direction of a call has a window of bytes, which grows as its reader takes messages. So the stream
itself is always read, a slow reader stops only its own call, and the backlog is bounded at both ends.
Calls take turns, frame by frame. Long messages travel in pieces.

A separate gRPC call for each call would not need these windows. But a caller of grpc.aio that writes while
its call ends loses the status and all unread messages (`set_internal_error`), so an RM would not receive the
reason why its owner has ended a stream.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from math import inf

import grpc

from licorne_server.process.fair import RoundRobin
from licorne_server.store.coordination.pb import members_pb2 as pb
from licorne_server.wire.errors import Malformed, call_error, unavailable
from licorne_server.wire.framing import delimited
from licorne_server.wire.items import parse

SERVICE = "licorne.members.Members"
"""The service that executes passed calls."""

CANCELLED: int = grpc.StatusCode.CANCELLED.value[0]
_UNKNOWN = grpc.StatusCode.UNKNOWN

ACCEPTED = b""
"""The first message of the called member: it has accepted the secret."""

WINDOW = 256 * 1024
"""Maximum number of unread bytes in one direction of a call; the next piece waits until there are fewer."""

FRAME_COST = 64
"""Number of bytes added to the size of each frame, so that empty messages are bounded too."""

PIECE = 32 * 1024
"""Maximum number of bytes of a message in one frame."""

PACK = 128 * 1024
"""Number of bytes of frames at which a message of the stream is full."""

PACK_FRAMES = 512
"""Number of frames at which a message is full: reading them takes about a millisecond."""

CLOSE = 8
"""Number of frames at short intervals that make a rush."""

RUSH_SECONDS = 0.004
"""Seconds within which the frames of a rush have arrived."""

GATHER_SECONDS = 0.002
"""Seconds between two messages of the stream in a rush."""

ENOUGH = 64
"""Number of waiting frames at which gathering ends."""

MOST_PACKED = PACK + PIECE + 1024 * 1024
"""Maximum bytes of a message of the stream: an opening frame has names of any length that gRPC accepts."""

MOST_MESSAGE = 64 * 1024 * 1024
"""Maximum number of bytes of a call's message, which is sent in pieces."""

MOST_CALLS = 16 * 1024
"""Maximum number of calls of one stream."""

_FRAMES = pb.Frames.FRAMES_FIELD_NUMBER


class PackedCall:
    """One end of a call."""

    def __init__(self, stream: "PackedStream", number: int) -> None:
        """Only `PackedStream` makes calls."""
        self.number = number
        self.end: pb.End | None = None
        """The end of the call; None before."""
        self.ended = asyncio.Event()
        """Set once the call has ended. Messages that have arrived may still be read."""
        self.on_end: Callable[[], object] | None = None
        """Called when the call has ended."""
        self.leaving: asyncio.Future[pb.Leave] = asyncio.get_running_loop().create_future()
        """Done once the other side has asked the RM to leave."""
        self._stream = stream
        # Number of bytes that may be sent; a frame is sent completely as long as this is above 0.
        self._room = WINDOW
        self._has_room = asyncio.Event()
        # Unread messages, each with the bytes to credit once it is read.
        self._messages: deque[tuple[bytes, int]] = deque()
        # Pieces of an incomplete message, their total bytes, and the number of bytes not credited yet.
        self._pieces: list[bytes] = []
        self._pieces_size = self._pieces_owed = 0
        # Number of unread bytes; number of read bytes that are not credited to the sender yet.
        self._untaken = self._owed = 0
        self._is_awaited = False
        self._is_half = self._has_halved = False
        self._news = asyncio.Event()

    async def send(self, message: bytes) -> None:
        """Send a message as soon as the window has room; it is dropped if the call has ended."""
        for begin in range(0, max(len(message), 1), PIECE):
            while self._room <= 0 and self.end is None:
                self._has_room.clear()
                await self._has_room.wait()
            if self.end is not None or self._has_halved:
                return
            piece = message[begin : begin + PIECE]
            self._room -= len(piece) + FRAME_COST
            if begin + PIECE < len(message):
                self._stream.put(pb.Frame(call=self.number, piece=piece))
            else:
                self._stream.put(pb.Frame(call=self.number, message=piece))

    def half(self) -> None:
        """End this side's messages."""
        if self.end is None and not self._has_halved:
            self._has_halved = True
            self._stream.put(pb.Frame(call=self.number, half=pb.Half()))

    def ask_to_leave(self, leave: pb.Leave) -> None:
        """Ask the other side to end the call normally, and its RM to leave."""
        self._stream.put(pb.Frame(call=self.number, leave=leave))

    def finish(self, code: int = 0, message: str = "", details: bytes = b"") -> None:
        """End the call, unless it has ended; the peer receives the status after all sent messages."""
        if self.end is None:
            end = pb.End(code=code, message=message, details=details)
            self._stream.put(pb.Frame(call=self.number, end=end))
            self.over(end)

    def lose(self, code: int, message: str) -> None:
        """End the call locally with a status, unless it has ended and all its messages were received."""
        if self.end is None:
            self._stream.put(pb.Frame(call=self.number, end=pb.End(code=CANCELLED)))
        elif not self._messages:
            return
        self.end = None
        self._messages.clear()
        self.over(pb.End(code=code, message=message))

    async def receive(self) -> bytes | None:
        """The next message; None when the other side has ended its messages, or the call has ended."""
        while not self._messages:
            if self.end is not None or self._is_half:
                return None
            self._credit(self._pieces_owed)
            self._pieces_owed = 0
            self._is_awaited = True
            self._news.clear()
            try:
                await self._news.wait()
            finally:
                self._is_awaited = False
        message, owed = self._messages.popleft()
        self._credit(owed)
        return message

    def _credit(self, size: int) -> None:
        """Allow the sender to send `size` more bytes."""
        self._untaken -= size
        self._owed += size
        if self._owed >= WINDOW // 2 and self.end is None:
            self._stream.put(pb.Frame(call=self.number, credit=self._owed))
            self._owed = 0

    def take(self, frame: pb.Frame, part: str) -> None:
        """Process a frame of the other side.

        Raises:
            Malformed: the other side has sent more than it may.
        """
        if part in ("message", "piece"):
            self._take_piece(frame.message if part == "message" else frame.piece, whole=part == "message")
        elif part == "credit":
            self._room = min(self._room + frame.credit, WINDOW)
            self._has_room.set()
        elif part == "half":
            self._is_half = True
            self._news.set()
        elif part == "leave" and not self.leaving.done():
            self.leaving.set_result(frame.leave)
        elif part == "end":
            self.over(frame.end)

    def _take_piece(self, piece: bytes, *, whole: bool) -> None:
        cost = len(piece) + FRAME_COST
        self._untaken += cost
        if self._untaken > WINDOW + PIECE + FRAME_COST:
            raise Malformed(f"call {self.number} has more on its way than its window")
        if self._pieces_size + len(piece) > MOST_MESSAGE:
            raise Malformed(f"call {self.number} has a message of more than {MOST_MESSAGE} bytes")
        if whole:
            message = b"".join((*self._pieces, piece)) if self._pieces else piece
            self._messages.append((message, self._pieces_owed + cost))
            self._pieces, self._pieces_size, self._pieces_owed = [], 0, 0
            self._news.set()
            return
        self._pieces.append(piece)
        self._pieces_size += len(piece)
        if self._is_awaited and not self._messages:
            # The reader waits for this message, which may exceed the window: credit its bytes immediately.
            self._credit(cost)
        else:
            self._pieces_owed += cost

    def over(self, end: pb.End) -> None:
        """Record that the call has ended; only the first end counts."""
        if self.end is None:
            self.end = end
            self._stream.forget(self.number)
            self.ended.set()
            self._news.set()
            self._has_room.set()
            if self.on_end is not None:
                self.on_end()

    def check(self) -> None:
        """Raise the error with which the call has ended, if any.

        Raises:
            CallError: the status is not OK; the error has all its details.
        """
        end = self.end
        if end is not None and end.code:
            code = next((code for code in grpc.StatusCode if code.value[0] == end.code), _UNKNOWN)
            raise call_error(code, end.message, end.details)


class PackedStream:
    """One end of a stream between two members, and its calls."""

    def __init__(
        self,
        read: Callable[[], Awaitable[bytes | None]],
        write: Callable[[bytes], Awaitable[None]],
        opened: Callable[[PackedCall, pb.Open], None] | None = None,
    ) -> None:
        """Pack calls into a stream of bytes, whose `read` returns None at its end.

        `opened` is called with each call of the other side; without it the other side may begin no calls.
        """
        self._read = read
        self._write = write
        self._opened = opened
        self._calls: dict[int, PackedCall] = {}
        self._last = 0
        # Queued frames of each call.
        self._waiting: RoundRobin[int, bytes] = RoundRobin()
        self._news = asyncio.Event()
        # Times of the last queued frames, and of the last message, in the loop's time.
        self._loop = asyncio.get_running_loop()
        self._put: deque[float] = deque([-inf] * CLOSE, CLOSE)
        self._wrote = -inf
        # Reason for the stream's end; empty before.
        self._over = ""
        self._closed = asyncio.Event()

    def open(self, opening: pb.Open) -> PackedCall:
        """Begin a call.

        Raises:
            CallError: UNAVAILABLE, the stream has ended, or has too many calls.
        """
        if self._over:
            raise unavailable(self._over)
        if len(self._calls) >= MOST_CALLS:
            raise unavailable(f"{MOST_CALLS} calls are passed to this member already")
        self._last += 1
        call = self._calls[self._last] = PackedCall(self, self._last)
        self.put(pb.Frame(call=call.number, open=opening))
        return call

    def put(self, frame: pb.Frame) -> None:
        """Queue a frame behind the other queued frames of its call."""
        if not self._over:
            self._put.append(self._loop.time())
            self._waiting.put(frame.call, delimited(_FRAMES, frame.SerializeToString()))
            self._news.set()

    @property
    def is_idle(self) -> bool:
        """True if there are no calls."""
        return not self._calls

    def forget(self, number: int) -> None:
        """Remove an ended call; later frames of the call are dropped."""
        self._calls.pop(number, None)

    async def run(self) -> None:
        """Read and write until the stream ends, or fails.

        Raises:
            Malformed: the other side violates the protocol.
        """
        parts = (self._read_all(), self._write_all(), self._closed.wait())
        tasks = [asyncio.ensure_future(part) for part in parts]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            self.close("the connection between two members has ended")
            await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error

    def finish(self, reason: str) -> None:
        """End all calls with UNAVAILABLE; the stream ends once it has sent all queued frames."""
        for call in tuple(self._calls.values()):
            call.finish(grpc.StatusCode.UNAVAILABLE.value[0], reason)
        self._over = self._over or reason
        self._news.set()

    def close(self, reason: str) -> None:
        """End the stream, and all calls with UNAVAILABLE."""
        self._over = self._over or reason
        self._closed.set()
        self._waiting.clear()
        for call in tuple(self._calls.values()):
            call.over(pb.End(code=grpc.StatusCode.UNAVAILABLE.value[0], message=self._over))

    async def _read_all(self) -> None:
        while (raw := await self._read()) is not None:
            if len(raw) > MOST_PACKED:
                raise Malformed(f"a message of frames has {len(raw)} bytes, more than {MOST_PACKED}")
            for number, frame in enumerate(parse(pb.Frames, raw).frames, 1):
                self._take(frame)
                if not number % PACK_FRAMES:
                    await asyncio.sleep(0)

    def _take(self, frame: pb.Frame) -> None:
        part = frame.WhichOneof("part")
        if part == "open":
            self._begin(frame)
        elif part is not None and (call := self._calls.get(frame.call)) is not None:
            call.take(frame, part)

    def _begin(self, frame: pb.Frame) -> None:
        """Begin a call of the other side."""
        if self._opened is None or frame.call <= self._last:
            raise Malformed(f"call {frame.call} cannot be opened")
        if len(self._calls) >= MOST_CALLS:
            raise Malformed(f"more than {MOST_CALLS} calls")
        self._last = frame.call
        call = self._calls[frame.call] = PackedCall(self, frame.call)
        self._opened(call, frame.open)

    async def _write_all(self) -> None:
        while self._waiting.size or not self._over:
            if self._waiting.size:
                await self._gather()
                self._wrote = self._loop.time()
                await self._write(self._pack())
            else:
                self._news.clear()
                await self._news.wait()

    async def _gather(self) -> None:
        """Wait a moment during a rush, so that more frames are queued."""
        if self._put[-1] - self._put[0] >= RUSH_SECONDS or self._waiting.size >= ENOUGH:
            return
        pause = self._wrote + GATHER_SECONDS - self._loop.time()
        if pause > 0:
            await asyncio.sleep(pause)

    def _pack(self) -> bytes:
        """Join queued frames into one message; the calls take turns."""
        frames: list[bytes] = []
        size = 0
        while self._waiting.size and size < PACK and len(frames) < PACK_FRAMES:
            frame = self._waiting.take()
            frames.append(frame)
            size += len(frame)
        return b"".join(frames)
