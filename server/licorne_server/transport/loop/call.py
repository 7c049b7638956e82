"""One call: its context, like that of grpc.aio, and the execution of its handler."""

import asyncio
import inspect
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Any, Protocol

import grpc
import structlog

from licorne_server.transport.interface import Details, Metadata, Prompt, Status
from licorne_server.transport.loop.metadata import (
    HEAD,
    MetadataError,
    Packed,
    Pairs,
    TooLarge,
    Unpacking,
    received,
    sent,
    trailers,
)

log = structlog.get_logger("core.transport")

TELL_BYTES = 32 * 1024
"""Number of bytes of consumed messages after which the peer gets credit for them while more messages wait."""

IN_A_ROW, BYTES_IN_A_ROW = 64, 256 * 1024
"""Number of messages, and of their bytes, that are read in a row before other tasks of the loop run."""

SETTLE_SECONDS = 0.1
"""Maximum number of seconds for which a refused call waits for its first message."""

OK = Status(grpc.StatusCode.OK)


def too_large(size: int, most: int) -> Status:
    """The status of a call with a message of `size` bytes, above the bound of `most`."""
    text = f"Received message larger than max ({size} vs. {most})"
    return Status(grpc.StatusCode.RESOURCE_EXHAUSTED, text)


class ServerTransport(Protocol):
    """The interface of a connection for a call."""

    peer: str

    def auth_context(self) -> dict[str, list[bytes]]:
        """Names in the peer's certificate."""
        ...

    def respond(self, stream: int, metadata: list[tuple[str, str]]) -> None:
        """Send the head of a response, unless it has been sent."""
        ...

    def send(self, stream: int, message: bytes) -> bool:
        """Send a message; returns True if the peer has to read before the next one is sent."""
        ...

    def consumed(self, stream: int, messages: int, size: int) -> None:
        """Record that messages were read, so that the peer may send more."""
        ...

    def stop_reading(self, stream: int) -> None:
        """Drop further messages of the call."""
        ...

    def authenticated(self) -> None:
        """Record that a caller of the connection was authenticated."""
        ...

    def finish(self, stream: int, head: list[tuple[str, str]], metadata: list[tuple[str, str]]) -> None:
        """End a response with its status, in `metadata`; `head` is sent first, unless it was sent before."""
        ...


class Incoming(Prompt):
    """The incoming side of a call: the caller, and the messages still to be read."""

    is_over: bool
    """True once the status of the call was sent, or the caller no longer waits for a status."""
    _transport: ServerTransport
    _stream: int
    _messages: deque[bytes]
    _has_ended: bool

    def authenticated(self) -> None:
        """Record that a service which requires authentication has authenticated the caller."""
        self._transport.authenticated()

    @property
    def has_come(self) -> bool:
        """True if the next message, or the end, has arrived already."""
        return bool(self._messages) or self._has_ended or self.is_over

    def stop_reading(self) -> None:
        """Drop all further messages, and give the caller no more credit for sending."""
        self._messages.clear()
        if not self._has_ended:
            self._has_ended = True
            self._transport.stop_reading(self._stream)


class Call(Incoming):
    """The context of a call, with the part of grpc.aio's interface that services use."""

    method: str
    pack: Callable[[Any], bytes] | None
    """Serializes the messages of the handler; None if they are bytes already."""

    def __init__(
        self, transport: ServerTransport, stream: int, method: str, headers: Pairs, unpacking: Unpacking
    ) -> None:
        """`method` is the path, such as ``/licorne.v1.State/GetServer``."""
        self.method = method
        self._headers = headers
        self._metadata: Metadata | None = None
        self.is_over = False
        self._transport = transport
        self._stream = stream
        self._unpacking = unpacking
        self._task: asyncio.Task[None] | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._messages: deque[bytes] = deque()
        self._has_begun = self._has_ended = False
        self._has_head = False
        # Number of messages, and of their bytes, that were consumed since the last credit to the peer.
        self._consumed = self._consumed_bytes = 0
        # Number of messages, and of their bytes, that were read since other tasks have run.
        self._in_a_row = self._in_a_row_bytes = 0
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None
        self.pack = None

    # The interface of a context.

    def peer(self) -> str:
        """The caller's address, as gRPC writes it."""
        return self._transport.peer

    def invocation_metadata(self) -> Metadata:
        """The caller's metadata, which is decoded on the first call.

        Raises:
            grpc.aio.AbortError: the metadata breaks gRPC's rules.
        """
        if self._metadata is None:
            try:
                self._metadata = received(self._headers)
            except MetadataError as error:
                self.status = Status(grpc.StatusCode.INTERNAL, str(error))
                raise grpc.aio.AbortError from None
        return self._metadata

    def auth_context(self) -> dict[str, list[bytes]]:
        """Names in the caller's certificate, by gRPC's names for their kinds."""
        return self._transport.auth_context()

    async def send_initial_metadata(self, metadata: Metadata) -> None:
        """Send the head of the response, at most once."""
        if not self._has_head:
            self._has_head = True
            self._transport.respond(self._stream, [*HEAD, *sent(metadata)])

    async def read(self) -> Any:
        """The caller's next message, or gRPC's EOF."""
        if self._in_a_row >= IN_A_ROW or self._in_a_row_bytes >= BYTES_IN_A_ROW:
            self._in_a_row = self._in_a_row_bytes = 0
            await asyncio.sleep(0)
        while not self._messages:
            if self._has_ended or self.is_over:
                return grpc.aio.EOF
            self._in_a_row = self._in_a_row_bytes = 0
            await self._came()
        message = self._next()
        if isinstance(message, Packed):
            try:
                message = self._unpacking.unpacked(message)
            except MetadataError as error:
                await self.abort(grpc.StatusCode.UNIMPLEMENTED, str(error))
            except TooLarge:
                most = self._unpacking.most
                await self.abort_with_status(too_large(most + 1, most))
        self._in_a_row += 1
        self._in_a_row_bytes += len(message)
        return message

    def waiting(self) -> list[bytes]:
        """Read further messages that have already arrived, but only a few."""
        found: list[bytes] = []
        messages, room = self._messages, BYTES_IN_A_ROW - self._in_a_row_bytes
        while messages and room > 0 and self._in_a_row < IN_A_ROW and not isinstance(messages[0], Packed):
            found.append(self._next())
            self._in_a_row += 1
            room -= len(found[-1])
        self._in_a_row_bytes = BYTES_IN_A_ROW - room
        return found

    def _next(self) -> bytes:
        message = self._messages.popleft()
        self._consumed += 1
        self._consumed_bytes += len(message)
        if not self._messages or self._consumed_bytes >= TELL_BYTES:
            self._transport.consumed(self._stream, self._consumed, self._consumed_bytes)
            self._consumed = self._consumed_bytes = 0
        return message

    async def _came(self) -> None:
        """Wait until messages or the end have arrived."""
        self._reader = asyncio.get_running_loop().create_future()
        try:
            await self._reader
        finally:
            self._reader = None

    async def write(self, message: Any) -> None:
        """Send a message; returns when the next one may be written. One writer at a time."""
        if self.is_over:
            return
        if not self._has_head:
            await self.send_initial_metadata(())
        raw: bytes = message if self.pack is None else self.pack(message)
        if self._transport.send(self._stream, raw):
            self._writer = asyncio.get_running_loop().create_future()
            try:
                await self._writer
            finally:
                self._writer = None

    # Notifications of the connection.

    def begin(self, find: Callable[[Any], Awaitable[Any]], seconds: float | None) -> asyncio.Task[None]:
        """Run the handler that `find` returns; it may take `seconds`, or any time if that is None."""
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(self._serve(find), name=self.method)
        if seconds is not None:
            late = Status(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded")
            self._deadline = loop.call_later(seconds, self.end, late)
        return self._task

    def heard(self, messages: list[bytes]) -> None:
        """Add received messages to the call."""
        if self._has_ended:
            return
        self._has_begun = True
        self._messages.extend(messages)
        _wake(self._reader)

    def has_ended(self) -> None:
        """Record that the caller has sent its last message."""
        self._has_ended = True
        _wake(self._reader)

    def may_write(self) -> None:
        """Wake a waiting writer, because enough was sent."""
        _wake(self._writer)

    def end(self, status: grpc.Status | None) -> None:
        """End the call from outside, with a status, or without a status if its caller has disconnected."""
        if self.is_over:
            return
        # The task is cancelled before the objects for which it waits are notified of the end.
        if self._task is not None:
            self._task.cancel()
            self._task = None
        if status is None:
            self._over()
        else:
            self._finish(status)

    # The execution of the handler.

    async def _serve(self, find: Callable[[Any], Awaitable[Any]]) -> None:
        """Run the handler, and end the call with the handler's status."""
        status: grpc.Status = Status(grpc.StatusCode.CANCELLED, "the call was cancelled")
        try:
            status = await self._served(find)
            if status.code is not grpc.StatusCode.OK:
                await self._settle()
        finally:
            # A task refers to the error with which it ends, which refers to this frame, and so to this call:
            # only garbage collection would free them.
            self._task = None
            self._finish(status)

    async def _served(self, find: Callable[[Any], Awaitable[Any]]) -> grpc.Status:
        """Run the handler; returns the status of the call."""
        try:
            handler = await find(Details(self.method))
            if handler is None:
                return Status(grpc.StatusCode.UNIMPLEMENTED, "Method not found!")
            await carry_out(handler, self)
        except grpc.aio.AbortError:
            assert self.status is not None, "a call is aborted with a status"
            return self.status
        except Exception as error:
            log.exception("call failed", method=self.method)
            # Logging may leave the error, and with it this call, in a reference cycle.
            error.__traceback__ = None
            return Status(grpc.StatusCode.UNKNOWN, f"Unexpected {type(error)}")
        return OK

    async def _settle(self) -> None:
        """Wait for the first message of a call before refusing it.

        If a call ends while a client of grpc.aio begins to write to it, the client fails with another error,
        and never receives the status.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_SECONDS):
                while not (self._has_begun or self._has_ended):
                    await self._came()

    def _finish(self, status: grpc.Status) -> None:
        if self.is_over:
            return
        self._over()
        try:
            self._transport.finish(self._stream, HEAD, trailers(status))
        except ValueError as error:
            log.error("status cannot be sent", method=self.method, error=str(error))
            text = "the status has metadata that is not valid in HTTP/2"
            self._transport.finish(self._stream, HEAD, trailers(Status(grpc.StatusCode.INTERNAL, text)))

    def _over(self) -> None:
        self.is_over = True
        if self._deadline is not None:
            self._deadline.cancel()
        # Wake tasks of the handler that have not ended with it.
        _wake(self._reader)
        _wake(self._writer)


async def carry_out(handler: Any, call: Call) -> None:
    """Serve a call with its handler, in the way of grpc.aio."""
    call.pack = handler.response_serializer
    unpack: Callable[[bytes], Any] = handler.request_deserializer or bytes
    if handler.request_streaming:
        request: Any = _Requests(call, unpack)
        serve = handler.stream_stream if handler.response_streaming else handler.stream_unary
    else:
        raw = await call.read()
        if raw is grpc.aio.EOF:
            await call.abort(grpc.StatusCode.INTERNAL, "the call has ended without a request")
        call.stop_reading()
        request = unpack(raw)
        serve = handler.unary_stream if handler.response_streaming else handler.unary_unary
    if handler.response_streaming and inspect.isasyncgenfunction(serve):
        async with aclosing(serve(request, call)) as responses:
            async for response in responses:
                await call.write(response)
    else:
        response = await serve(request, call)
        if not handler.response_streaming:
            await call.write(response)


class _Requests:
    """Asynchronous iterator of the messages of a call."""

    def __init__(self, call: Call, unpack: Callable[[bytes], Any]) -> None:
        self._call = call
        self._unpack = unpack

    def __aiter__(self) -> "_Requests":
        return self

    async def __anext__(self) -> Any:
        raw = await self._call.read()
        if raw is grpc.aio.EOF:
            raise StopAsyncIteration
        return self._unpack(raw)

    @property
    def has_come(self) -> bool:
        """True if the next message has arrived already."""
        return self._call.has_come

    async def aclose(self) -> None:
        """Drop all further messages."""
        self._call.stop_reading()


def _wake(waiting: asyncio.Future[None] | None) -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(None)
