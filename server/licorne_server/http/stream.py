"""JSON and text bodies, made and sent in time slices, and made only once for concurrent requests.

A long list must not delay the scheduler, so a body is made in time slices. Each row is read when it
is sent: the rows of one body show different moments.
"""

import asyncio
import json
import socket
import struct
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Hashable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from itertools import chain
from time import monotonic
from typing import Any, Generic, TypeVar

import grpc
import structlog
from aiohttp import web

from licorne_core.values.errors import NotFound
from licorne_server.process.bounds import peer_of
from licorne_server.process.fair import TimeSlices
from licorne_server.reads.sources import SOURCES
from licorne_server.security.access import Caller
from licorne_server.wire.errors import CallError

log = structlog.get_logger("core.http.stream")

JsonObject = dict[str, object]
T = TypeVar("T")

CHUNK = 32 * 1024
"""Maximum number of bytes that are sent in one piece."""

GZIP_FROM = 1400
"""Minimum number of bytes of bodies that are compressed for readers that accept it (spec § 12.4)."""

AS_IT_COMES = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
"""Headers that forbid caches and proxies to store or buffer an answer."""

STALL_SECONDS = 30.0
"""Seconds without progress after which a reader is cut off."""

CALLER = web.RequestKey("caller", Caller)
"""The sender of a request; absent for paths that are open to all."""

IDENTIFIED = web.RequestKey("identified", bool)
"""True if the member that received the request identifies its senders; present whenever `CALLER` is."""

BY_MEMBER = web.RequestKey("by_member", bool)
"""Present if the request was passed on by another member."""

MISSING_NAMES: web.RequestKey[list[str]] = web.RequestKey("missing_names", list)
"""The names of members whose parts are missing in the answer."""

ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
encode = ENCODER.encode
"""Encode a value as JSON."""


@dataclass(frozen=True, slots=True)
class Rows:
    """A list whose items become JSON one by one.

    An item is left out if `to_json` returns None or raises NotFound, as it may have been removed. A time
    slice may end at a None in place of an item. By default items are rows already.
    """

    items: Iterable[Any]
    to_json: Callable[[Any], JsonObject | None] = dict


@dataclass(frozen=True, slots=True)
class Verbatim:
    """A value that is JSON already, in pieces."""

    pieces: Iterable[str]


def array_of(values: Iterable[object]) -> Verbatim:
    """A long list of short values; a time slice may end at a None in place of a value."""
    texts = (None if value is None else encode(value) for value in values)
    return Verbatim(enclosed("[", texts, "]"))


def object_of(members: Iterable[tuple[str, str]]) -> Verbatim:
    """An object with very many members."""
    return Verbatim(enclosed("{", (f"{encode(k)}:{encode(v)}" for k, v in members), "}"))


def text_of(text: str) -> Verbatim:
    """A long text: a configuration may have megabytes."""
    parts = (text[start : start + CHUNK] for start in range(0, len(text), CHUNK))
    return Verbatim(chain('"', (encode(part)[1:-1] for part in parts), '"'))


def enclosed(begin: str, items: Iterable[str | None], end: str) -> Iterator[str]:
    """Items of JSON between `begin` and `end`, with commas; an empty piece for each None."""
    separator = begin
    for item in items:
        if item is None:
            yield ""
        else:
            yield separator + item
            separator = ","
    yield begin + end if separator == begin else end


def fragments(value: JsonObject | Rows | Verbatim) -> Iterator[str]:
    """The JSON of an object or a list in pieces; `Rows` may be values of an object.

    An empty piece marks an item that was left out.
    """
    if isinstance(value, Rows):
        yield from _list_fragments(value)
        return
    if isinstance(value, Verbatim):
        yield from value.pieces
        return
    lists = {key: item for key, item in value.items() if isinstance(item, Rows | Verbatim)}
    text = encode({key: item for key, item in value.items() if key not in lists})
    if not lists:
        yield text
        return
    separator = text[:-1] if text == "{}" else text[:-1] + ","
    for key, rows in lists.items():
        yield f"{separator}{encode(key)}:"
        yield from fragments(rows)
        separator = ","
    yield "}"


def _list_fragments(rows: Rows) -> Iterator[str]:
    separator = "["
    for item in rows.items:
        try:
            value = None if item is None else rows.to_json(item)
        except NotFound:
            value = None
        if value is None:
            yield ""
            continue
        yield separator
        yield from fragments(value)
        separator = ","
    yield "[]" if separator == "[" else "]"


def reader_of(request: web.Request) -> str:
    """The peer whose time slices make an answer: the identity of the sender, or its host."""
    caller = request.get(CALLER)
    return peer_of(request.remote or "") if caller is None else caller.peer


def slice_for(request: web.Request) -> AbstractAsyncContextManager[Callable[[], bool]]:
    """A time slice of the sender, for a read in one piece."""
    return request.app[SOURCES].time_slices.slice(reader_of(request))


async def sliced(pieces: Iterator[str], time_slices: TimeSlices, peer: str) -> AsyncGenerator[bytes, None]:
    """The pieces as chunks of UTF-8, made in time slices. Invalid characters become ``?``."""
    more = True
    while more:
        parts: list[str] = []
        room = CHUNK
        while more and room > 0:
            async with time_slices.slice(peer) as over:
                more, room = _take(pieces, parts, room, over)
        if chunk := "".join(parts).encode(errors="replace"):
            yield chunk


def _take(pieces: Iterator[str], parts: list[str], room: int, over: Callable[[], bool]) -> tuple[bool, int]:
    """Collect pieces until room or slice is used up; returns if there may be more, and the remaining room."""
    for piece in pieces:
        parts.append(piece)
        room -= len(piece)
        if room <= 0 or over():
            return True, room
    return False, room


def made(steps: Iterable[T | None], to_json: Callable[[T], JsonObject | Rows]) -> Verbatim:
    """The JSON of the only value in `steps`; any number of None may precede it."""

    def pieces() -> Iterator[str]:
        for value in steps:
            if value is None:
                yield ""
            else:
                yield from fragments(to_json(value))

    return Verbatim(pieces())


async def send_json(request: web.Request, value: JsonObject | Rows | Verbatim) -> web.StreamResponse:
    """Answer with JSON."""
    body = sliced(fragments(value), request.app[SOURCES].time_slices, reader_of(request))
    return await send(request, "application/json; charset=utf-8", body)


async def send_bytes(request: web.Request, content_type: str, body: bytes) -> web.StreamResponse:
    """Answer with a body that is complete already."""

    async def chunks() -> AsyncGenerator[bytes, None]:
        for start in range(0, len(body), CHUNK):
            yield body[start : start + CHUNK]

    return await send(request, content_type, chunks())


async def send(
    request: web.Request, content_type: str, body: AsyncGenerator[bytes, None]
) -> web.StreamResponse:
    """Answer with a body while it is being made; a short body is sent in one piece with its length."""
    headers = {"Content-Type": content_type, "Vary": "Accept, Accept-Encoding"}
    async with aclosing(body) as chunks:
        begin = b""
        async for chunk in chunks:
            begin += chunk
            if len(begin) >= GZIP_FROM:
                break
        else:
            return web.Response(body=begin, headers=headers)
        response = web.StreamResponse(headers=headers)
        compressed = accepts_gzip(request.headers.get("Accept-Encoding", ""))
        if request.method == "HEAD":
            # Only set the header here, as aiohttp's compressor would write its trailer after the headers.
            if compressed:
                response.headers["Content-Encoding"] = "gzip"
            await response.prepare(request)
            return response
        if compressed:
            response.enable_compression(web.ContentCoding.gzip)
        await response.prepare(request)
        await send_rest(request, response, begin, chunks)
    return response


async def send_live(
    request: web.Request,
    content_type: str,
    lines: AsyncGenerator[bytes, None],
    farewell: Callable[[int, str], bytes],
) -> web.StreamResponse:
    """Answer with live lines, never compressed.

    Proxies must not cache or buffer them. The answer ends when the rights of the reader are reduced.
    `farewell` returns the last line, given the status and the reason.
    """
    headers = {"Content-Type": content_type, **AS_IT_COMES}
    response = web.StreamResponse(headers=headers)
    allowed = while_allowed(request, lines, farewell)
    async with aclosing(lines), aclosing(allowed) as chunks:
        await response.prepare(request)
        if request.method != "HEAD":
            await send_rest(request, response, await anext(chunks), chunks)
    return response


async def while_allowed(
    request: web.Request,
    lines: AsyncGenerator[bytes, None],
    farewell: Callable[[int, str], bytes],
) -> AsyncGenerator[bytes, None]:
    """The lines until the rights of the reader are reduced, and then a last line."""
    errors: list[CallError] = []
    waiting: asyncio.Timeout | None = None

    def end(error: CallError) -> None:
        errors.append(error)
        if waiting is not None and len(errors) == 1:
            waiting.reschedule(0.0)

    with request.app[SOURCES].access.openings.of(reader_of(request), end) as opening:
        opening.needs(_less, "")
        chunk = b""
        while not errors:
            try:
                async with asyncio.timeout(None) as waiting:
                    chunk = await anext(lines)
            except StopAsyncIteration:
                return
            except TimeoutError:
                if not errors:
                    raise
                break
            finally:
                waiting = None
            yield chunk
        # Never insert a message into an incomplete line.
        if chunk.endswith(b"\n"):
            status = 401 if errors[0].code is grpc.StatusCode.UNAUTHENTICATED else 403
            yield farewell(status, errors[0].message)


def _less(_: Caller, __: str) -> str:
    """The reason for ending the stream of a reader who was allowed to see everything (`Opening.needs`)."""
    return "may not see all of this"


async def send_rest(
    request: web.Request, response: web.StreamResponse, begin: bytes, rest: AsyncIterator[bytes]
) -> None:
    """Send the remaining body. If that fails the body is cut off, as the status was sent before."""
    try:
        await _write(response, begin)
        async for chunk in rest:
            await _write(response, chunk)
    except ConnectionError:
        return  # the reader is gone
    except TimeoutError:
        log.warning("reader stalled", path=request.path, remote=request.remote)
        _cut_off(request)
    except Exception:
        log.exception("answer cut off", path=request.path)
        _cut_off(request)


def _cut_off(request: web.Request) -> None:
    """End the connection immediately, and drop the kernel's send buffer."""
    if request.transport is not None:
        connection = request.transport.get_extra_info("socket")
        if connection is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        request.transport.abort()


async def _write(response: web.StreamResponse, chunk: bytes) -> None:
    if not chunk:
        return
    async with asyncio.timeout(STALL_SECONDS):
        await response.write(chunk)


def accepts_gzip(header: str) -> bool:
    """True if an Accept-Encoding accepts gzip; the weight of gzip overrides that of `*`."""
    taken: dict[str, bool] = {}
    for choice in header.lower().split(","):
        coding, _, parameters = choice.partition(";")
        # A weight of 0, with up to three decimals, means "not acceptable".
        refused = parameters.replace(" ", "") in {"q=0", "q=0.0", "q=0.00", "q=0.000"}
        taken[coding.strip()] = not refused
    return taken.get("gzip", taken.get("*", False))


class _Making(Generic[T]):
    """A running task, and the number of its waiting callers."""

    def __init__(self, task: asyncio.Task[tuple[T, float]]) -> None:
        self.task = task
        self.waiting = 0


class Together(Generic[T]):
    """Computes a result once for all concurrent callers, and caches the latest results while they are fresh.

    A result is computed in a separate task, which continues if the first caller disconnects.
    """

    def __init__(self, most: int = 16) -> None:
        """Start without tasks and results; `most` results are cached."""
        self._most = most
        self._under_way: dict[Hashable, _Making[T]] = {}
        self._made: OrderedDict[Hashable, tuple[T, float]] = OrderedDict()

    async def get(self, key: Hashable, make: Callable[[], Coroutine[Any, Any, tuple[T, float]]]) -> T:
        """The result for a key, computed by `make` unless there is a fresh one.

        `make` returns the result, and the time of `monotonic` until which it is fresh. All waiting callers
        get the same result or the same error. The task is cancelled when no caller waits.
        """
        thing, until = self._made.get(key, (None, 0.0))
        if thing is not None and monotonic() < until:
            return thing
        making = self._under_way.get(key)
        if making is None:
            making = self._under_way[key] = _Making(asyncio.create_task(make(), name=str(key)))
        making.waiting += 1
        try:
            made = self._made[key] = await asyncio.shield(making.task)
        finally:
            making.waiting -= 1
            if making.task.done() or not making.waiting:
                if self._under_way.get(key) is making:
                    del self._under_way[key]
                making.task.cancel()
        self._made.move_to_end(key)
        while len(self._made) > self._most:
            self._made.popitem(last=False)
        return made[0]

    def forget(self) -> None:
        """Drop all cached results."""
        self._made.clear()
