"""JSON and text bodies, made and sent a slice at a time.

A list of ten thousand applications must not keep the scheduler waiting, so that it
is made in slices of about a millisecond, with a turn of everything else between two. Each row
is a report of its own moment: a body is no picture of one instant, but each row of it is true.
"""

import asyncio
import json
import socket
import struct
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import structlog
from aiohttp import web

from licorne_core.errors import NotFound

log = structlog.get_logger(__name__)

JsonObject = dict[str, object]

SLICE_SECONDS = 0.001
"""How long rows are made before everything else gets a turn."""

CHUNK = 32 * 1024
"""Bytes that are sent at once."""

GZIP_FROM = 1400
"""Bodies of so many bytes are compressed for those who take that (spec § 12.4)."""

STALL_SECONDS = 30.0
"""How long a reader may take nothing before it is cut off."""

MAKING = web.AppKey("making", asyncio.Lock)
"""Held by the one answer that is being made."""

_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


@dataclass(frozen=True, slots=True)
class Rows:
    """A list whose items become JSON when their turn comes.

    An item is left out when there is nothing to show of it (None), or it is gone by then.
    """

    items: Iterable[Any]
    to_json: Callable[[Any], JsonObject | None]


def fragments(value: JsonObject | Rows) -> Iterator[str]:
    """The pieces of an object's or a list's JSON; `Rows` may be values of an object.

    A piece may be empty: then some work was done and came to nothing.
    """
    if isinstance(value, Rows):
        yield from _list_fragments(value)
        return
    lists = {key: item for key, item in value.items() if isinstance(item, Rows)}
    text = _encode({key: item for key, item in value.items() if key not in lists})
    if not lists:
        yield text
        return
    separator = text[:-1] if text == "{}" else text[:-1] + ","
    for key, rows in lists.items():
        yield f"{separator}{_encode(key)}:"
        yield from _list_fragments(rows)
        separator = ","
    yield "}"


def _list_fragments(rows: Rows) -> Iterator[str]:
    separator = "["
    for item in rows.items:
        try:
            value = rows.to_json(item)
        except NotFound:
            value = None
        if value is None:
            yield ""
            continue
        yield separator
        yield from fragments(value)
        separator = ","
    yield "[]" if separator == "[" else "]"


async def sliced(pieces: Iterator[str], making: asyncio.Lock) -> AsyncGenerator[bytes, None]:
    """A text in chunks of its pieces' UTF-8, giving way to others between slices.

    `making` is held while a chunk is made: however many ask at once, no more than one slice
    of all their answers lies between two turns of the scheduler.
    """
    while True:
        async with making:
            chunk = await _next_chunk(pieces)
        if not chunk:
            return
        yield chunk


async def _next_chunk(pieces: Iterator[str]) -> bytes:
    """The next chunk, empty when there is nothing left; what is no Unicode becomes ``?``."""
    parts: list[str] = []
    size = 0
    stop = perf_counter() + SLICE_SECONDS
    for piece in pieces:
        parts.append(piece)
        size += len(piece)
        if size >= CHUNK:
            break
        if perf_counter() > stop:
            await asyncio.sleep(0)
            stop = perf_counter() + SLICE_SECONDS
    await asyncio.sleep(0)
    return "".join(parts).encode(errors="replace")


async def send_json(request: web.Request, value: JsonObject | Rows) -> web.StreamResponse:
    """Answer with JSON."""
    body = sliced(fragments(value), request.app[MAKING])
    return await send(request, "application/json; charset=utf-8", body)


async def send_bytes(request: web.Request, content_type: str, body: bytes) -> web.StreamResponse:
    """Answer with a body that is there already."""

    async def chunks() -> AsyncGenerator[bytes, None]:
        for start in range(0, len(body), CHUNK):
            yield body[start : start + CHUNK]

    return await send(request, content_type, chunks())


async def send(
    request: web.Request, content_type: str, body: AsyncGenerator[bytes, None]
) -> web.StreamResponse:
    """Answer with a body as it is made; a short one is sent whole, with its length."""
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
            # Only named: the compressor would write its trailer behind the headers.
            if compressed:
                response.headers["Content-Encoding"] = "gzip"
            await response.prepare(request)
            return response
        if compressed:
            response.enable_compression(web.ContentCoding.gzip)
        await response.prepare(request)
        await _send_rest(request, response, begin, chunks)
    return response


async def send_live(
    request: web.Request, content_type: str, lines: AsyncGenerator[bytes, None]
) -> web.StreamResponse:
    """Answer with lines as they come, however long that takes; never compressed."""
    response = web.StreamResponse(headers={"Content-Type": content_type})
    async with aclosing(lines) as chunks:
        await response.prepare(request)
        if request.method != "HEAD":
            await _send_rest(request, response, await anext(chunks), chunks)
    return response


async def _send_rest(
    request: web.Request, response: web.StreamResponse, begin: bytes, rest: AsyncIterator[bytes]
) -> None:
    """Send what is left; the status is out, so that all that can still be done is to cut it off."""
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
    """End the connection at once; what the kernel still holds for it is thrown away."""
    if request.transport is not None:
        connection = request.transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        request.transport.abort()


async def _write(response: web.StreamResponse, chunk: bytes) -> None:
    async with asyncio.timeout(STALL_SECONDS):
        await response.write(chunk)


def accepts_gzip(header: str) -> bool:
    """Whether an Accept-Encoding takes gzip."""
    for choice in header.lower().split(","):
        coding, _, parameters = choice.partition(";")
        if coding.strip() in {"gzip", "*"}:
            return parameters.replace(" ", "") not in {"q=0", "q=0.0", "q=0.00", "q=0.000"}
    return False
