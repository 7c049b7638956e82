"""Calls of all services: their admission, their quotas, and their final statuses.

The guard intercepts every call, authenticates its caller and enforces the quotas of the caller's peer. No
peer can take all places. A stream needs no place once its RM is known, because an RM has one stream of each
kind.

Errors inside a call become statuses. An unexpected error is logged, and the caller gets only its correlation
id. Handlers take and return bytes. This module parses requests, so that garbage is INVALID_ARGUMENT.
"""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import (
    AbstractContextManager,
    aclosing,
    asynccontextmanager,
    contextmanager,
    nullcontext,
    suppress,
)
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeAlias, TypeVar

import grpc
import structlog
from google.protobuf.message import Message

from licorne_core.values.errors import NotFound
from licorne_server.process.bounds import PeerBounds, host_of, peer_of
from licorne_server.process.fair import PeerQuota, refusing
from licorne_server.rms.streams import Stream
from licorne_server.security.access import Access
from licorne_server.security.connections import Connections, Link
from licorne_server.services.members.packing import SERVICE as MEMBERS
from licorne_server.telemetry.measures import Calls, Method
from licorne_server.transport.interface import Prompt
from licorne_server.wire.errors import (
    CallError,
    Defect,
    Malformed,
    Stopped,
    invalid_argument,
    new_correlation_id,
    not_found,
    unavailable,
)
from licorne_server.wire.framing import check_fields
from licorne_server.wire.items import parse

if TYPE_CHECKING:
    from licorne_server.telemetry.tracing.tracing import Tracing

log = structlog.get_logger("core.errors_to_status")
Request = TypeVar("Request", bound=Message)

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
"""One RPC of a service, bytes in and bytes out."""


def _with_status(serve: Callable[[Any, Any], Awaitable[Any]]) -> Callable[[Any, Any], Awaitable[Any]]:
    """Wrap a method, so that an error ends its call with the matching status."""

    async def handle(request: Any, context: Any) -> Any:
        try:
            return await serve(request, context)
        except grpc.aio.AbortError:
            raise
        except Exception as error:
            await abort(context, error)

    return handle


async def send_metadata(context: Any) -> None:
    """Send the initial metadata of a stream before its first message, completely.

    If this was cancelled half-way, for example because rights are revoked, gRPC could no longer send a
    status, and the caller would wait forever.
    """
    sending = asyncio.ensure_future(context.send_initial_metadata(()))
    try:
        await asyncio.shield(sending)
    except asyncio.CancelledError:
        with suppress(grpc.aio.InternalError):  # the caller has gone
            await sending
        raise


def stream_handler(serve: Callable[[Any], Awaitable[None]]) -> Handler:
    """A bidirectional RPC; `serve` gets the context, through which it reads and writes bytes."""

    async def handle(_: Any, context: Any) -> None:
        await send_metadata(context)
        await serve(context)

    return grpc.stream_stream_rpc_method_handler(_with_status(handle))


def unary_handler(
    request: type[Request], serve: Callable[[Request, Any], Awaitable[Message | bytes]]
) -> Handler:
    """A unary RPC; `serve` gets the parsed request and the context, and returns the response.

    A response may be bytes already.
    """

    async def handle(raw: bytes, context: Any) -> bytes:
        response = await serve(parsed(request, raw), context)
        return response if isinstance(response, bytes) else response.SerializeToString()

    return grpc.unary_unary_rpc_method_handler(_with_status(handle))


def watch_handler(request: type[Request], serve: Callable[[Request, Any], Awaitable[None]]) -> Handler:
    """An RPC with one request and many responses, which `serve` writes through the context."""

    async def handle(raw: bytes, context: Any) -> None:
        await send_metadata(context)
        await serve(parsed(request, raw), context)

    return grpc.unary_stream_rpc_method_handler(_with_status(handle))


def parsed(request: type[Request], raw: bytes) -> Request:
    """Parse a request, unless it has too many fields, each of which costs time.

    Raises:
        CallError: the request has too many fields.
        Malformed: the bytes are no such message.
    """
    check_fields(request.DESCRIPTOR.name, raw)
    return parse(request, raw)


async def abort(context: Any, error: Exception) -> NoReturn:
    """End a call with the status that matches an error.

    Raises:
        asyncio.CancelledError: the call has ended meanwhile, so that a status has no receiver.
    """
    if isinstance(error, grpc.aio.InternalError):
        # gRPC raises this if the caller disconnects while a message is being written.
        log.debug("caller gone", peer=context.peer())
        raise asyncio.CancelledError from None
    failure = _status(error)
    # grpc keeps the exception of `abort` in a cycle. Its traceback refers to the whole stream, and to
    # everything that waited there: without this, only garbage collection would free them.
    error.__traceback__ = None
    try:
        await context.abort_with_status(failure.status())
    except grpc.aio.AbortError as ended:
        ended.__context__ = None
        raise
    except grpc.aio.InternalError:
        raise asyncio.CancelledError from None
    raise AssertionError("abort does not return")


def _status(error: Exception) -> CallError:
    match error:
        case CallError():
            return error
        case Malformed():
            return invalid_argument(f"malformed message: {error}")
        case NotFound():
            return not_found(str(error))
        case Stopped():
            return unavailable(str(error))
        case Defect():
            return CallError(grpc.StatusCode.INTERNAL, str(error))
        case _:
            correlation_id = new_correlation_id()
            log.error("rpc failed", correlation_id=correlation_id, exc_info=error)
            message = f"internal error, correlation id {correlation_id}"
            return CallError(grpc.StatusCode.INTERNAL, message)


Take = Callable[[Any, "Entered"], Awaitable[Any]]
"""Returns the request of a running call, from the argument of its handler."""


async def _given(request: Any, _: "Entered") -> Any:
    """Return the request itself, which was complete before the handler was called."""
    return request


def _writing(serve: Any) -> Any:
    """Wrap a unary method, so that it writes its answer as a streaming method does."""

    async def handle(requests: Any, context: Any) -> None:
        await context.write(await serve(requests, context))

    return _with_status(handle)


OPEN_TO_ALL = frozenset({"grpc.health.v1.Health", MEMBERS})
"""Services whose callers are not authenticated here: probes have no token, and members have a secret."""


class Quotas:
    """Quotas of calls: one object for authenticated callers, another for unauthenticated ones."""

    def __init__(self, bounds: PeerBounds) -> None:
        """Start with all places free."""
        self.silent = PeerQuota(
            bounds.calls,
            bounds.calls_share,
            refusing("calls without a whole message", "TOO_MANY_SILENT_CALLS"),
        )
        self.calls = PeerQuota(
            bounds.calls, bounds.calls_share, refusing("calls under way", "TOO_MANY_CALLS")
        )
        self.watchers = PeerQuota(
            bounds.watchers, bounds.watchers_share, refusing("watchers", "TOO_MANY_STREAMS")
        )


class Entered(NamedTuple):
    """A running call."""

    link: Link
    """Connection of the call."""
    peer: str
    """Peer that is charged for the call's places."""
    quotas: Quotas
    """Quotas in which the call has places."""


class CallGuard(grpc.aio.ServerInterceptor):
    """Admits calls, and enforces the quotas of each peer."""

    def __init__(
        self,
        access: Access,
        connections: Connections,
        bounds: PeerBounds,
        own: frozenset[str],
        measures: Calls | None = None,
        tracing: "Tracing | None" = None,
    ) -> None:
        """The services in `own` enforce the quota of their streams themselves, by `first`.

        Calls are counted in `measures`; `tracing` receives their trace contexts.
        """
        self._tracing = tracing
        self._measures = measures or Calls()
        self._access = access
        self._connections = connections
        self._seconds = bounds.first_message
        self._own = own
        self._waiting = PeerQuota(
            bounds.waiting,
            bounds.waiting_share,
            refusing("streams that have sent nothing", "TOO_MANY_SILENT_STREAMS"),
        )
        self._quotas, self._open_quotas = Quotas(bounds), Quotas(bounds)

    def stream(self, context: Any) -> Stream:
        """The stream of a call that an RM has opened; `first` reads its first message."""
        return Stream(context, self._connections.link(context.peer()))

    async def first(self, stream: Stream, context: Any) -> bytes | None:
        """The first message of a stream; None when the RM's side has ended without one.

        Raises:
            CallError: the message did not arrive in time, or too many streams of its peer wait for one.
        """
        with self._waiting.place(self._access.caller(context).peer):
            first = await stream.first(self._seconds)
        self._access.ended_by(context, stream.end)
        return first

    async def intercept_service(
        self, continuation: Callable[[Any], Awaitable[Any]], handler_call_details: Any
    ) -> Any:
        """The handler of a call from the network, wrapped by this guard.

        The wrapper reads the request, so that it can authenticate the caller before the message is complete.
        """
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        guarded = self.guarded(handler, handler_call_details.method, self._request)
        serve = guarded.unary_stream or guarded.stream_stream or _writing(guarded.unary_unary)
        kinds = {"unary_unary": None, "unary_stream": None, "stream_stream": serve}
        return handler._replace(request_streaming=True, response_streaming=True, **kinds)

    def guarded(self, handler: Any, method: str, take: Take = _given) -> Any:
        """A handler wrapped by this guard; `take` returns its request from the handler's argument."""
        if handler.unary_unary is not None:
            called = Method.of(method, "unary")
            return handler._replace(unary_unary=self._unary(handler.unary_unary, called, take))
        if handler.unary_stream is not None:
            called = Method.of(method, "server_stream")
            return handler._replace(unary_stream=self._streaming(handler.unary_stream, called, take))
        called = Method.of(method, "bidi_stream")
        if inspect.isasyncgenfunction(handler.stream_stream):
            return handler._replace(stream_stream=self._generator(handler.stream_stream, called))
        return handler._replace(stream_stream=self._streaming(handler.stream_stream, called, _given))

    async def _request(self, requests: Any, entered: Entered) -> Any:
        """The single request of a unary call: the first of `requests`; further ones are not read.

        Raises:
            CallError: no request arrived in time, or too many calls of its peer wait for one.
        """
        # gRPC's own transport does not show whether the request has arrived.
        is_there = getattr(requests, "has_come", False)
        async with aclosing(aiter(requests)) as one:
            with nullcontext() if is_there else entered.quotas.silent.place(entered.peer):
                request = await self._first_of(one)
        if request is None:
            raise CallError(grpc.StatusCode.INTERNAL, "the call has ended without a request")
        entered.link.heard(1, _size(request))
        return request

    async def _first_of(self, requests: AsyncIterator[Any]) -> Any:
        """The first request of a call; None if it has ended without one.

        Raises:
            CallError: the request did not arrive in time.
        """
        try:
            async with asyncio.timeout(self._seconds):
                return await anext(aiter(requests), None)
        except TimeoutError:
            message = f"no whole message came for {self._seconds:g} s after the call was opened"
            raise unavailable(message, 0.0) from None

    async def _timely(self, requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """The requests of a call, the first of which has to arrive in time."""
        first = await self._first_of(requests)
        if first is not None:
            yield first
        async for request in requests:
            yield request

    def _unary(self, serve: Any, method: Method, take: Take) -> Any:
        async def handle(requests: Any, context: Any) -> Any:
            with self._entered(context, method) as entered:
                request = await take(requests, entered)
                with entered.quotas.calls.place(entered.peer):
                    answer = await serve(request, context)
                entered.link.told(_size(answer))
                return answer

        return _with_status(handle)

    def _streaming(self, serve: Any, method: Method, take: Take) -> Any:
        async def handle(requests: Any, context: Any) -> None:
            with self._entered(context, method) as entered:
                async with self._open(context, method):
                    request = await take(requests, entered)
                    with self._watching(method, entered):
                        await serve(request, context)

        return _with_status(handle)

    def _generator(self, serve: Any, method: Method) -> Any:
        async def handle(requests: Any, context: Any) -> AsyncIterator[Any]:
            try:
                with self._entered(context, method) as entered, self._watching(method, entered):
                    async with self._open(context, method):
                        async for answer in serve(self._timely(requests), context):
                            yield answer
            except grpc.aio.AbortError:
                raise
            except Exception as error:
                await abort(context, error)

        return handle

    def _watching(self, method: Method, entered: Entered) -> AbstractContextManager[None]:
        """Take a place for a stream inside the block.

        Raises:
            CallError: the quota of its peer is used up.
        """
        return nullcontext() if method.service in self._own else entered.quotas.watchers.place(entered.peer)

    @asynccontextmanager
    async def _open(self, context: Any, method: Method) -> AsyncIterator[None]:
        """Open a stream inside the block; the block is interrupted if the caller has no right to the stream.

        Raises:
            CallError: the caller has lost rights meanwhile.
        """
        if method.service in OPEN_TO_ALL:
            yield
            return
        errors: list[CallError] = []
        limit = asyncio.timeout(None)

        def end(error: CallError) -> None:
            if not errors:
                errors.append(error)
                limit.reschedule(0.0)

        try:
            async with limit:
                with self._access.opened(context, end):
                    yield
        except TimeoutError:
            if errors:
                raise errors[0] from None
            raise

    @contextmanager
    def _entered(self, context: Any, method: Method) -> Iterator[Entered]:
        """Count a running call inside the block.

        Raises:
            CallError: the caller is not authenticated.
        """
        link = self._connections.link(context.peer())
        link.called()
        begin, code = perf_counter(), grpc.StatusCode.OK.name
        self._measures.begin(method)
        try:
            if self._tracing is not None:
                self._tracing.called(context.invocation_metadata() or ())
            if method.service in OPEN_TO_ALL:
                yield Entered(link, peer_of(host_of(context.peer())), self._open_quotas)
            else:
                peer = self._access.caller(context).peer
                if isinstance(context, Prompt):
                    context.authenticated()
                yield Entered(link, peer, self._quotas)
        except asyncio.CancelledError:
            link.resets += 1
            code = grpc.StatusCode.CANCELLED.name
            raise
        except Exception as error:
            code = _code_of(context, error)
            raise
        finally:
            link.ended()
            self._measures.end(method, code, perf_counter() - begin)


def _code_of(context: Any, error: Exception) -> str:
    """The name of the status with which a call ends."""
    if isinstance(error, CallError):
        return error.code.name
    if isinstance(error, grpc.aio.AbortError):
        given = context.code()
        return next(code.name for code in grpc.StatusCode if given in (code, code.value[0]))
    return grpc.StatusCode.INTERNAL.name


def _size(message: Any) -> int:
    """The bytes of a message; 0 if a library parses or serializes it."""
    return len(message) if isinstance(message, bytes) else 0
