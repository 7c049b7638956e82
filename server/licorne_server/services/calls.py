"""The outermost part of every RPC: turns all errors inside into statuses.

An unforeseen error is logged, and its caller sees a correlation id and no more. Handlers take and
give bytes. A request is parsed in here, so that garbage is INVALID_ARGUMENT.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn, TypeAlias, TypeVar

import grpc
import structlog
from google.protobuf.message import Message

from licorne_core.values.errors import NotFound
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

log = structlog.get_logger("core.errors_to_status")
Request = TypeVar("Request", bound=Message)

Method: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
"""One RPC of a service, bytes in and bytes out."""


def stream_handler(serve: Callable[[Any], Awaitable[None]]) -> Method:
    """A bidirectional RPC; `serve` gets the context, and reads and writes bytes through it."""

    async def handle(_: Any, context: Any) -> None:
        try:
            # Metadata leaves with the first message otherwise. If that were cancelled half-way, no
            # status could be sent any more, and the caller would wait for ever.
            await context.send_initial_metadata(())
            await serve(context)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            await abort(context, error)

    return grpc.stream_stream_rpc_method_handler(handle)


def unary_handler(
    request: type[Request], serve: Callable[[Request, Any], Awaitable[Message | bytes]]
) -> Method:
    """A unary RPC; `serve` gets the parsed request and the context, and gives the response.

    A response may have been turned into bytes elsewhere.
    """

    async def handle(raw: bytes, context: Any) -> bytes:
        try:
            response = await serve(_parsed(request, raw), context)
            return response if isinstance(response, bytes) else response.SerializeToString()
        except asyncio.CancelledError:
            raise
        except Exception as error:
            await abort(context, error)

    return grpc.unary_unary_rpc_method_handler(handle)


def watch_handler(request: type[Request], serve: Callable[[Request, Any], Awaitable[None]]) -> Method:
    """An RPC of one request and many responses; `serve` writes these through the context."""

    async def handle(raw: bytes, context: Any) -> None:
        try:
            await context.send_initial_metadata(())
            await serve(_parsed(request, raw), context)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            await abort(context, error)

    return grpc.unary_stream_rpc_method_handler(handle)


def _parsed(request: type[Request], raw: bytes) -> Request:
    """A request, if it has no more fields than any may have: each costs time.

    Raises:
        CallError: it has more.
        Malformed: the bytes are no such message.
    """
    check_fields(request.DESCRIPTOR.name, raw)
    return parse(request, raw)


async def abort(context: Any, error: Exception) -> NoReturn:
    """End a call with the status that stands for an error.

    Raises:
        asyncio.CancelledError: the call has ended meanwhile, so that a status has no receiver.
    """
    if isinstance(error, grpc.aio.InternalError):
        # gRPC says so of a message to a caller that has gone while it was being written.
        log.debug("caller gone", peer=context.peer())
        raise asyncio.CancelledError from None
    failure = _status(error)
    # grpc keeps what `abort` raises in a cycle. What led to it knows the whole stream, and what
    # waited there: without this only the garbage collector would free that.
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
