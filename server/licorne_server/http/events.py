"""Events over REST (spec § 12.2): past events in batches, new events as lines."""

import asyncio
from collections.abc import AsyncGenerator

from aiohttp import web

from licorne_server.http.stream import Rows, encode, reader_of, send_json, send_live
from licorne_server.http.units import failure_json, rm_asked
from licorne_server.reads.sources import SOURCES
from licorne_server.rms.event_log import Ending, EventLog, TooManyStreams
from licorne_server.rms.event_watch import Over, Overtaken, Watch
from licorne_server.wire.events import record_json, record_line

CONTENT_TYPE = "application/json; charset=utf-8"
MAX_ID = 2**64 - 1

LOOK_SECONDS = 1.0
"""Seconds between two checks whether the reader is connected, while there is nothing to send."""


def routes() -> list[web.RouteDef]:
    """The paths below ``events``."""
    return [web.get("/ws/v1/events/batch", batch), web.get("/ws/v1/events/stream", stream)]


async def batch(request: web.Request) -> web.StreamResponse:
    """At most `count` past events from the id `start` on, within the limit for one answer."""
    log = _log(request)
    most = log.settings.event_response_size
    start = _number(request, "start", log.lowest_id)
    count = _number(request, "count", most)
    if not count:
        raise _no_value("count", "0")
    kept = log.lowest_id <= start < log.next_id
    rows = Rows(log.read(start, min(count, most)), lambda event: record_json(event[1]))
    answer = {
        "InstanceUUID": log.instance,
        "LowestID": log.lowest_id,
        "HighestID": max(0, log.next_id - 1),
        "EventRecords": rows if kept else None,
    }
    return await send_json(request, answer)


async def stream(request: web.Request) -> web.StreamResponse:
    """A line with the instance, then a line for each event: the last `count`, and then new events."""
    log = _log(request)
    start = log.next_id - _number(request, "count", 0)
    peer, time_slices = reader_of(request), request.app[SOURCES].time_slices
    watch = Watch(log, max(start, log.lowest_id), time_slices, peer)
    try:
        with log.watched_by(peer):
            lines = _lines(request, log, watch)
            return await send_live(request, CONTENT_TYPE, lines, last_line)
    except TooManyStreams:
        raise web.HTTPServiceUnavailable(text="Too many streaming connections") from None


def _log(request: web.Request) -> EventLog:
    """The event log of the RM in the parameter `rm`; by default the log of the first RM."""
    log = request.app[SOURCES].events.get(rm_asked(request))
    if not log.settings.event_tracking:
        raise web.HTTPInternalServerError(text="Event tracking is disabled")
    return log


async def _lines(request: web.Request, log: EventLog, watch: Watch) -> AsyncGenerator[bytes, None]:
    """All lines, until the reader disconnects. If the events end, the last line gives the reason."""
    yield _line({"InstanceUUID": log.instance})
    while True:
        try:
            if not await _arrived(request, watch):
                return
            batch = await watch.next(record_line)
        except Overtaken as error:
            text = f"this reader did not keep up: the first event that is kept is {error.next_id}"
            yield _line(failure_json(503, text))
            return
        except Over as error:
            status = 404 if error.ending is Ending.FORGOTTEN else 503
            yield _line(failure_json(status, error.ending.value))
            return
        yield batch.data


async def _arrived(request: web.Request, watch: Watch) -> bool:
    """Wait for an event; return False if the reader has disconnected."""
    while request.transport is not None and not request.transport.is_closing():
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                await watch.arrival()
        except TimeoutError:
            continue
        return True
    return False


def last_line(status: int, reason: str) -> bytes:
    """The last line of a stream that is cut off."""
    return _line(failure_json(status, reason))


def _line(value: dict[str, object]) -> bytes:
    return encode(value).encode() + b"\n"


def _number(request: web.Request, name: str, default: int) -> int:
    """A whole number of the query, or the default.

    Raises:
        HTTPBadRequest: the text is no whole number in range.
    """
    text = request.query.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(MAX_ID))):
        raise _no_value(name, text)
    return min(int(text), MAX_ID)


def _no_value(name: str, text: str) -> web.HTTPBadRequest:
    return web.HTTPBadRequest(text=f'{text[:64]} is not a valid value for "{name}"')
