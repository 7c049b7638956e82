"""Errors of the service, each with the status that the caller gets (google.rpc.Status).

It also formats the problems of a configuration for editors and people.
"""

import uuid
from collections.abc import Iterable, Sequence

import grpc
from google.protobuf import any_pb2
from google.protobuf.message import DecodeError, Message
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]
from grpc_status import rpc_status  # type: ignore[import-untyped]

from licorne_core.values.errors import Problem

DOMAIN = "licorne"
_DETAILS = "grpc-status-details-bin"
MAX_VIOLATIONS = 50
"""Maximum number of problems of a configuration in an error, because trailing metadata is bounded."""

MAX_MESSAGE = 2048
"""Maximum number of characters of a status message; longer messages are cut."""


class CallError(Exception):
    """Ends a call or a stream with a status that explains the error to its caller."""

    def __init__(self, code: grpc.StatusCode, message: str, details: Sequence[Message] = ()) -> None:
        """`details` are messages of google.rpc, such as BadRequest and ErrorInfo, or packed into Any."""
        super().__init__(message)
        self.code = code
        self.message = message if len(message) <= MAX_MESSAGE else f"{message[:MAX_MESSAGE]}…"
        self.details = details

    @property
    def reason(self) -> str:
        """The stable code for programs, or the name of the status if there is none."""
        for detail in self.details:
            if isinstance(detail, error_details_pb2.ErrorInfo):
                return str(detail.reason)
        return str(self.code.name)

    def status(self) -> grpc.Status:
        """The status in grpc's form, with the details in the trailing metadata."""
        packed = []
        for detail in self.details:
            wrapped = any_pb2.Any()
            if isinstance(detail, any_pb2.Any):
                wrapped.CopyFrom(detail)
            else:
                wrapped.Pack(detail)
            packed.append(wrapped)
        number: int = self.code.value[0]
        status: grpc.Status = rpc_status.to_status(
            status_pb2.Status(code=number, message=self.message, details=packed)
        )
        return status


def packed_details(status: grpc.Status) -> bytes:
    """The details of a status in gRPC's encoding; empty if there are none."""
    metadata = status.trailing_metadata or ()
    return b"".join(value for key, value in metadata if key == _DETAILS and isinstance(value, bytes))


def call_error(code: grpc.StatusCode, message: str, packed: bytes) -> CallError:
    """The error with which a call has ended on another server, with its `packed_details`.

    Details of unknown types stay packed. Invalid details are dropped, because the status itself is enough.
    """
    details: list[Message] = []
    try:
        for wrapped in status_pb2.Status.FromString(packed).details:
            detail = next((kind() for kind in _KINDS if wrapped.Is(kind.DESCRIPTOR)), None)
            if detail is not None:
                wrapped.Unpack(detail)
            details.append(wrapped if detail is None else detail)
    except DecodeError:
        details = []
    return CallError(code, message, details)


_KINDS = (error_details_pb2.ErrorInfo, error_details_pb2.BadRequest, error_details_pb2.RetryInfo)


class Defect(Exception):
    """The core failed; the log has the exception with the same correlation id."""

    def __init__(self, correlation_id: str) -> None:
        """The caller gets only the `correlation_id`."""
        super().__init__(f"internal error, correlation id {correlation_id}")
        self.correlation_id = correlation_id


class Stopped(Exception):
    """The engine no longer handles commands; the caller should retry at another server."""

    def __init__(self) -> None:
        """Make the error with its fixed reason."""
        super().__init__("the server is about to stop")


class Malformed(Exception):
    """Bytes that do not encode the expected message."""


def new_correlation_id() -> str:
    """A new id that links an answer to the log."""
    return uuid.uuid4().hex[:12]


def error_info(reason: str, **metadata: str) -> error_details_pb2.ErrorInfo:
    """The detail with a stable code for programs."""
    return error_details_pb2.ErrorInfo(reason=reason, domain=DOMAIN, metadata=metadata)


def bad_request(problems: Iterable[tuple[str, str]]) -> error_details_pb2.BadRequest:
    """The detail with field paths and their problems."""
    return error_details_pb2.BadRequest(
        field_violations=[
            error_details_pb2.BadRequest.FieldViolation(field=field, description=shown_text)
            for field, shown_text in problems
        ]
    )


def invalid_argument(message: str, field: str = "", reason: str = "", **metadata: str) -> CallError:
    """INVALID_ARGUMENT: the request is wrong in any state; `reason` is a code for programs."""
    details: list[Message] = [bad_request([(field, message)])] if field else []
    if reason:
        details.append(error_info(reason, **metadata))
    return CallError(grpc.StatusCode.INVALID_ARGUMENT, message, details)


def config_refused(reason: str, problems: Sequence[Problem]) -> CallError:
    """INVALID_ARGUMENT: a configuration has problems."""
    details = [_problems_of("config", problems), error_info("CONFIG_INVALID")]
    return CallError(grpc.StatusCode.INVALID_ARGUMENT, reason, details)


def text_refused(field: str, reason: str, problems: Sequence[Problem]) -> CallError:
    """INVALID_ARGUMENT: a text in this field has problems."""
    return CallError(grpc.StatusCode.INVALID_ARGUMENT, reason, [_problems_of(field, problems)])


def _problems_of(field: str, problems: Sequence[Problem]) -> Message:
    """The problems of a text, each with its path, and with line:column in the description."""
    details: Message = bad_request(
        [
            (
                problem.path or field,
                f"{problem.line}:{problem.column}: {problem.message}" if problem.line else problem.message,
            )
            for problem in problems[:MAX_VIOLATIONS]
        ]
    )
    return details


def failed_precondition(message: str, reason: str, **metadata: str) -> CallError:
    """FAILED_PRECONDITION: the request does not fit the current state."""
    return CallError(grpc.StatusCode.FAILED_PRECONDITION, message, [error_info(reason, **metadata)])


def not_found(message: str) -> CallError:
    """NOT_FOUND: the named object does not exist."""
    return CallError(grpc.StatusCode.NOT_FOUND, message, [error_info("NOT_FOUND")])


def aborted(message: str, reason: str, **metadata: str) -> CallError:
    """ABORTED: another stream has replaced this one, or this one was too slow."""
    return CallError(grpc.StatusCode.ABORTED, message, [error_info(reason, **metadata)])


def out_of_range(message: str, reason: str, **metadata: str) -> CallError:
    """OUT_OF_RANGE: the requested ids are not retained, or belong to another instance."""
    return CallError(grpc.StatusCode.OUT_OF_RANGE, message, [error_info(reason, **metadata)])


def exhausted(message: str, reason: str, retry_after: float = 0.0) -> CallError:
    """RESOURCE_EXHAUSTED: a cap is reached; `retry_after` is the recommended pause in seconds, or 0."""
    details: list[Message] = [error_info(reason)]
    if retry_after:
        details.append(_retry_info(retry_after))
    return CallError(grpc.StatusCode.RESOURCE_EXHAUSTED, message, details)


def unavailable(message: str, retry_after: float = 1.0) -> CallError:
    """UNAVAILABLE: the caller should retry after `retry_after` seconds, possibly at another server."""
    return CallError(grpc.StatusCode.UNAVAILABLE, message, [_retry_info(retry_after)])


def _retry_info(seconds: float) -> error_details_pb2.RetryInfo:
    retry = error_details_pb2.RetryInfo()
    retry.retry_delay.FromMilliseconds(int(seconds * 1000))
    return retry


def unauthenticated(message: str) -> CallError:
    """UNAUTHENTICATED: the caller has no valid identity."""
    return CallError(grpc.StatusCode.UNAUTHENTICATED, message, [error_info("NOT_AUTHENTICATED")])


def permission_denied(message: str) -> CallError:
    """PERMISSION_DENIED: the peer's certificate or token does not allow the call."""
    return CallError(grpc.StatusCode.PERMISSION_DENIED, message, [error_info("NOT_ALLOWED")])


def located(file: str, problems: Iterable[Problem]) -> list[str]:
    """A line for each problem, ``file:line:column: path: message``; unknown parts are left out."""
    return [f"{file}:{'' if problem.line else ' '}{problem}" for problem in problems]
