"""Calls outside the session: their arguments, deadlines and channel, and the client's errors for them."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

import grpc
from google.protobuf.message import Message
from grpc import aio

from licorne.channel import Dialer, config_error, connects, reason_of, text_of
from licorne.errors import (
    CallFailed,
    Closed,
    ConnectionLost,
    EventsMissed,
    LicorneError,
    NotFound,
    StaleRevision,
    Unauthorized,
)
from licorne.model import DEFAULT_PARTITION
from licorne.values import INT32, Check, Range, amounts, flag, seconds, shown, tags, text, whole

if TYPE_CHECKING:
    from grpc.aio import UnaryStreamMultiCallable, UnaryUnaryMultiCallable

LOG = logging.getLogger("licorne")

UINT32 = Range(0, 2**32 - 1, "0 and 2^32 - 1")
UINT64 = Range(0, 2**64 - 1, "0 and 2^64 - 1")
_REVISION = partial(whole, UINT64)
_MOMENT = partial(whole, Range(0, 2**63 - 1, "0 and 2^63 - 1"))

ARGUMENTS: Mapping[str, Check] = {
    "application": text,
    "application_id": text,
    "audit": flag,
    "base_revision": _REVISION,
    "by": text,
    "budgets": text,
    "comment": text,
    "compare": flag,
    "config": text,
    "count": partial(whole, UINT32),
    "deadline_seconds": partial(whole, UINT32),
    "drain": flag,
    "extra_config": tags,
    "force": flag,
    "held": flag,
    "instance": text,
    "key": text,
    "level": text,
    "limit": partial(whole, UINT32),
    "logger": text,
    "member": text,
    "message": text,
    "name": text,
    "node_id": text,
    "partition": text,
    "policy_group": text,
    "priority": partial(whole, INT32),
    "queue": text,
    "reason": text,
    "reset_priority": flag,
    "revision": _REVISION,
    "rm_id": text,
    "schedulable": flag,
    "shape": amounts,
    "since": _MOMENT,
    "start": partial(whole, UINT64),
    "state": text,
    "stopped": flag,
    "strict": flag,
    "until": _MOMENT,
    "with_config": flag,
}
"""The check of each argument, by its name."""

# The right type for each check. A value of another type is a TypeError; other problems are ValueErrors.
_TYPES: Mapping[Check, type] = {text: str, tags: Mapping, amounts: Mapping, flag: bool}


def check_arguments(**values: object) -> None:
    """Check the arguments of a call, given by their names.

    Raises TypeError for the first argument of the wrong type, or ValueError for the first one out of range.
    """
    for name, value in values.items():
        check = ARGUMENTS[name]
        if problem := check(name, value):
            fits = isinstance(value, _TYPES.get(check, int)) and not isinstance(value, bool)
            raise (ValueError if fits else TypeError)(problem)


TIMEOUT = 10.0
"""Default timeout of a call, in seconds."""


class PageRequest(Protocol):
    """A request for one page of a list."""

    page_token: str


class PageResponse(Protocol):
    """A response with one page of a list."""

    next_page_token: str


Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)
P = TypeVar("P", bound=PageRequest)
R = TypeVar("R", bound=PageResponse)
T = TypeVar("T")

GONE = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.UNKNOWN,
)
"""Status codes after which the outcome of the call is unknown."""
ANEW = (*GONE, grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED)
"""Status codes after which the next call opens a new channel, and reads the certificates again."""
LONGEST = 86_400.0
"""Maximum seconds of a call."""


@dataclass(eq=False, slots=True)
class _Line:
    """A channel, its address, and the number of calls that use it."""

    channel: aio.Channel
    address: str
    wanted: str
    """The preferred address; `address` differs if no server answered there."""
    users: int = 0


class Calls:
    """Makes calls over one channel, and replaces the channel when it fails.

    Every method raises `Unauthorized`, `NotFound`, `ConfigInvalid`, `StaleRevision`, `EventsMissed` or
    `CallFailed` according to the server's answer, `ConnectionLost` if no answer arrives in time, and `Closed`
    after `close`.
    """

    def __init__(self, dialer: Dialer, timeout: float = TIMEOUT) -> None:
        """Connect with the first call. `timeout` is in seconds, for each call."""
        if problem := seconds("timeout", timeout, 0.001, LONGEST):
            raise ValueError(problem)
        self._dialer = dialer
        self.timeout = timeout
        self._line: _Line | None = None
        self._closed = False

    def _check(self) -> None:
        if self._closed:
            raise Closed("the client was closed")

    async def close(self) -> None:
        """End the running calls, which raise `Closed`, and refuse further ones."""
        self._closed = True
        line, self._line = self._line, None
        if line is not None:
            await line.channel.close()

    async def call(
        self,
        method: "Callable[[aio.Channel], UnaryUnaryMultiCallable[Request, Response]]",
        request: Request,
        *,
        at_least: float = 0.0,
    ) -> Response:
        """The answer to one request. The timeout is `at_least` seconds, if that is longer than `timeout`."""
        limit = max(at_least, self.timeout)
        ends = asyncio.get_running_loop().time() + limit
        async with self._used(limit) as line:
            metadata = self._dialer.metadata(line.address)
            left = max(0.0, ends - asyncio.get_running_loop().time())
            answer = await method(line.channel)(request, timeout=left, metadata=metadata)
            _note_missing(answer)
            return answer

    async def gathered(
        self,
        method: "Callable[[aio.Channel], UnaryUnaryMultiCallable[P, R]]",
        request: P,
        items: Callable[[R], Iterable[T]],
    ) -> list[T]:
        """The items of all pages of a list, from `items` for each page. The timeout applies to each page."""
        found: list[T] = []
        async with self._used(self.timeout) as line:
            while True:
                call = method(line.channel)
                metadata = self._dialer.metadata(line.address)
                page = await call(request, timeout=self.timeout, metadata=metadata)
                _note_missing(page)
                found += items(page)
                if not page.next_page_token:
                    return found
                request.page_token = page.next_page_token

    async def stream(
        self,
        method: "Callable[[aio.Channel], UnaryStreamMultiCallable[Request, Response]]",
        request: Request,
        *,
        may_rest: bool = False,
    ) -> AsyncGenerator[Response, None]:
        """The responses to one request, each within the timeout.

        With `may_rest` the timeout applies only to the first response, because later ones wait for changes.
        """
        limit: float | None = self.timeout
        async with self._used(self.timeout) as line:
            call = method(line.channel)(request, metadata=self._dialer.metadata(line.address))
            responses = aiter(call)
            try:
                while True:
                    try:
                        async with asyncio.timeout(limit):
                            response = await anext(responses)
                    except StopAsyncIteration:
                        return
                    yield response
                    limit = None if may_rest else self.timeout
            finally:
                call.cancel()

    @asynccontextmanager
    async def _used(self, limit: float) -> AsyncIterator[_Line]:
        """The channel, for a call of at most `limit` seconds; converts gRPC errors to the client's."""
        self._check()
        line = None
        try:
            line = await self._present(limit)
            yield line
        except aio.AioRpcError as error:
            if error.code() in ANEW:
                self._give_up(line)
            raise call_error(error, limit) from error
        except aio.UsageError:
            raise Closed("the client was closed") from None
        except TimeoutError:
            self._give_up(line)
            raise ConnectionLost(_too_late(limit)) from None
        except OSError as error:
            # The file of a certificate or a token cannot be read.
            raise ConnectionLost(str(error)) from error
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and not task.cancelling():
                # The caller was not cancelled: the channel was closed during the call.
                self._check()
            raise
        finally:
            if line is not None:
                line.users -= 1
                if line is not self._line and not line.users:
                    await line.channel.close()

    async def _present(self, limit: float) -> _Line:
        """The channel to the current address, for one more call."""
        line = self._line
        if line is not None and line.wanted == self._dialer.addresses.current:
            line.users += 1
            return line
        line = await self._opened(limit)
        if self._closed:
            # The client was closed in the meantime, and has no reference to this channel.
            await line.channel.close()
            self._check()
        line.users = 1
        older, self._line = self._line, line
        # The last call that still uses the old channel closes it.
        if older is not None and not older.users:
            await older.channel.close()
        return line

    async def _opened(self, limit: float) -> _Line:
        """A channel to the current address, or to the first other address with a server.

        With several addresses, no call is sent before a channel has connected, so that none is made twice.
        """
        first, *others = addresses = self._dialer.addresses.known()
        for address in addresses if others else ():
            channel = self._dialer.channel(address)
            connected = False
            try:
                connected = await connects(channel, limit / 2 / len(addresses))
            finally:
                if not connected:
                    await channel.close()
            if connected:
                return _Line(channel, address, first)
        return _Line(self._dialer.channel(first), first, first)

    def _give_up(self, line: _Line | None) -> None:
        """Make the next call open another channel, and read the certificates again. This never waits."""
        if line is self._line:
            self._line = None


def _note_missing(answer: object) -> None:
    """Log a warning that names the members whose part of an answer is missing."""
    missing: Iterable[str] = getattr(answer, "missing_members", ())
    if missing:
        names = ", ".join(map(shown, missing))
        LOG.warning("members %s did not answer: what is theirs is not in the answer", names)


def call_error(error: aio.AioRpcError, limit: float) -> LicorneError:
    """The client's error for a call that failed or exceeded its limit of `limit` seconds."""
    text = text_of(error)
    reason, added = reason_of(error)
    match error.code():
        case grpc.StatusCode.UNAUTHENTICATED | grpc.StatusCode.PERMISSION_DENIED:
            return Unauthorized(text)
        case grpc.StatusCode.NOT_FOUND:
            return NotFound(text)
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return ConnectionLost(_too_late(limit))
        case code if code in GONE:
            return ConnectionLost(text)
        case grpc.StatusCode.FAILED_PRECONDITION if reason == "RM_NOT_REGISTERED":
            return NotFound(text)
        case grpc.StatusCode.INVALID_ARGUMENT if (refused := config_error(error)) is not None:
            return refused
    if reason == "STALE_REVISION":
        return StaleRevision(text, _number(added.get("revision", "")))
    if "next_id" in added:
        return EventsMissed(text, added.get("instance", ""), _number(added["next_id"]))
    return CallFailed(text, reason)


def _too_late(limit: float) -> str:
    return f"no answer within {limit:g} s"


def _number(text: str) -> int:
    """A number sent by the server; 0 if it is malformed."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 20 else 0


class OfOneRm:
    """Calls about one resource manager, or about all if none is named."""

    def __init__(self, calls: Calls, rm_id: str = "") -> None:
        """Without `rm_id`, partitions must be given by their full names, such as ``[rm1]default``.

        Raises TypeError for a value that is no text.
        """
        check_arguments(rm_id=rm_id)
        self._calls = calls
        self.rm_id = rm_id

    def _partition(self, name: str) -> str:
        """The name of a partition to send: the full name if the RM is named."""
        check_arguments(partition=name)
        if not self.rm_id or name.startswith("["):
            return name
        return f"[{self.rm_id}]{name or DEFAULT_PARTITION}"

    def _rm(self, call: str) -> str:
        """The id of the RM. Raises ValueError if none was named."""
        if not self.rm_id:
            raise ValueError(f"rm_id is empty: `{call}` is about one resource manager")
        return self.rm_id


class Standalone:
    """A client with its own connection, for programs without a `Client`."""

    _calls: Calls

    async def __aenter__(self) -> Self:
        """Enter without connecting; the first call connects."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Call `close`."""
        await self.close()

    async def close(self) -> None:
        """End the running calls, which raise `Closed`, and refuse further ones."""
        await self._calls.close()
