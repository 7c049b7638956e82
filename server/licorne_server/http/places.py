"""Requests that other members answer, wholly or in part.

A request about one RM is passed on to the member that serves the RM. An answer about all RMs has the parts of
all members, in order of their names; a member that does not answer in time is left out, and named in the
answer. A request that another member has passed on is always answered here, even if the RM has moved, so no
request circulates.
"""

import json
from bisect import bisect_right
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from aiohttp import web

from licorne_core.values.errors import shown
from licorne_core.values.ids import PartitionName, RmId, rm_of
from licorne_server.http import pages
from licorne_server.http.events import last_line
from licorne_server.http.stream import (
    BY_MEMBER,
    CALLER,
    CHUNK,
    IDENTIFIED,
    MISSING_NAMES,
    JsonObject,
    Rows,
    Together,
    Verbatim,
    fragments,
    reader_of,
    send_rest,
    while_allowed,
)
from licorne_server.http.units import RM_MEANT
from licorne_server.reads.members import OK, Answer, Members, Unreachable
from licorne_server.reads.sources import SOURCES, Sources
from licorne_server.security.access import Caller
from licorne_server.store.coordination.store import Member
from licorne_server.wire.errors import CallError

OF_ONE_RM = frozenset(
    {
        "/ws/v1/config",
        "/ws/v1/events/batch",
        "/ws/v1/events/stream",
        "/ws/v1/scheduler/healthcheck",
        *pages.OF_ONE_RM,
    }
)
"""Paths that show only the RM in `rm`. A state dump is not included: it has the history of
all RMs."""

DUMP = "/debug/fullstatedump"
BY_RM = OF_ONE_RM | {DUMP}
"""Paths that are passed on to the member of the RM in `rm`."""

DUMP_SECONDS = 30.0
"""Seconds within which a member has to begin sending a state dump: it asks its RMs first."""

OF_THE_FIRST = frozenset(
    {"/ws/v1/config", "/ws/v1/events/batch", "/ws/v1/events/stream", f"{pages.API}/events"}
)
"""Paths that show the RM that registered first, unless `rm` is given."""

LIVE = frozenset({"/ws/v1/events/stream"})
"""Paths whose answers may pause for any time."""

PASSED_ON = ("Accept", "Accept-Encoding", "If-None-Match")
"""Headers of a request that are passed on. All others are about its connection, or about this member."""

HANDED_BACK = (
    "Allow",
    "Cache-Control",
    "Content-Encoding",
    "Content-Length",
    "Content-Type",
    "ETag",
    "Retry-After",
    "Vary",
    "X-Accel-Buffering",
)
"""Headers of an answer that are returned to the caller."""

FRESH_SECONDS = 2.0
"""Seconds for which the RM of a name is cached."""


class Place(NamedTuple):
    """The member that serves the RM of a request."""

    member: Member | None
    """None if the RM's owner has ended."""
    rm_id: str
    partition: str = ""
    """The full name of the partition, if the request has its bare name."""


class Places:
    """Finds the member that has to answer a request."""

    def __init__(self, sources: Sources) -> None:
        """Use the sources of a member."""
        self._sources = sources
        # The first RM with a partition of this bare name; empty if there is none.
        self._first: Together[str] = Together()

    async def of(self, request: web.Request) -> Place | None:
        """The member that has to answer a request; None for this one."""
        name, path = request.match_info.get("partition"), request.path
        if name is not None:
            if name.startswith("["):
                return self._owner(rm_of(PartitionName(name)))
            return await self._meant(request, name)
        rm_id = request.query.get("rm", "")
        if rm_id and path in BY_RM:
            return self._owner(RmId(rm_id))
        return await self._meant(request, "") if path in OF_THE_FIRST else None

    def _owner(self, rm_id: RmId) -> Place | None:
        """The other member that serves an RM; None if this one or no member does."""
        ownership = self._sources.ownership
        owner = ownership.owner_of(rm_id)
        if owner is not None:
            return Place(owner, rm_id)
        known = ownership.snapshot()
        record = known.rms.get(rm_id)
        if record is None or not record.owner or record.owner in known.members:
            return None
        return Place(None, rm_id)

    async def _meant(self, request: web.Request, name: str) -> Place | None:
        """The member for a bare partition name, or for the first RM if the name is empty.

        If it is this member, the request gets the full name.
        """
        rm_id = RmId(await self._first.get(name, partial(self._look_for, name)))
        full = f"[{rm_id}]{name}" if name else ""
        place = self._owner(rm_id) if rm_id else None
        if place is not None:
            return place._replace(partition=full)
        if name and rm_id:
            request.match_info["partition"] = full
        elif rm_id:
            request[RM_MEANT] = rm_id
        return None

    async def _look_for(self, name: str) -> tuple[str, float]:
        """The first RM of any member with a partition of this name, and the time until which this is cached.

        Raises:
            HTTPServiceUnavailable: a member that may have it does not answer.
        """
        try:
            return await self._sources.first_rm(name), monotonic() + FRESH_SECONDS
        except CallError as error:
            raise web.HTTPServiceUnavailable(text=error.message) from None


def members_of(request: web.Request) -> Members:
    """The other members; to be called only if members share the RMs."""
    members = request.app[SOURCES].members
    assert members is not None, "a server that is alone passes nothing on"
    return members


def right_of(request: web.Request) -> Caller:
    """The caller of a request as passed on to other members; if all may read, it is a viewer there."""
    return request[CALLER] if request[IDENTIFIED] else replace(request[CALLER], viewer=True)


def note_missing(request: web.Request, members: Iterable[Member]) -> None:
    """Record for the answer to a request that the parts of these members are missing."""
    request[MISSING_NAMES] = [*request.get(MISSING_NAMES, ()), *(member.name for member in members)]


async def passed_on(request: web.Request, place: Place) -> web.StreamResponse:
    """The unchanged answer of the member at a place.

    Raises:
        HTTPServiceUnavailable: the member does not answer.
    """
    members, member = members_of(request), place.member
    if member is None:
        raise web.HTTPServiceUnavailable(text=f"no member serves RM {shown(place.rm_id)} at the moment")
    given = {name: request.headers[name] for name in PASSED_ON if name in request.headers}
    headers = {name: value for name, value in given.items() if value.isascii() and value.isprintable()}
    right, path = right_of(request), _path_at(request, place)
    patience = DUMP_SECONDS if request.path == DUMP else None
    # A live read ends when this RM loses its owner.
    rm_id = place.rm_id if request.path in LIVE else ""
    try:
        with members.requests.place(reader_of(request)):
            async with members.answer(
                member, path, right, method=request.method, headers=headers, patience=patience, rm_id=rm_id
            ) as answer:
                return await _handed_back(request, answer)
    except Unreachable as error:
        note_missing(request, [error.member])
        text = f"{error}, and it serves RM {shown(place.rm_id)}"
        raise web.HTTPServiceUnavailable(text=text) from None


def _path_at(request: web.Request, place: Place) -> str:
    """Path and query of a request, with the full name of the partition in place of a bare one."""
    url = request.rel_url
    if "partition" in request.match_info:
        parts = url.raw_path.split("/")
        if place.partition:
            parts[4] = quote(place.partition, safe="[]")
        path, query = "/".join(parts), url.raw_query_string
    else:
        query = urlencode({**request.query, "rm": place.rm_id})
        path = url.raw_path
    return f"{path}?{query}" if query else path


async def _handed_back(request: web.Request, answer: Answer) -> web.StreamResponse:
    """Return an answer to the caller, piece by piece."""
    headers = {name: answer.headers[name] for name in HANDED_BACK if name in answer.headers}
    response = web.StreamResponse(status=answer.status, headers=headers)
    is_live = request.path in LIVE and answer.status == OK

    def goes_on() -> bool:
        return request.transport is not None and not request.transport.is_closing()

    chunks = answer.chunks(goes_on if is_live else None)
    async with aclosing(chunks):
        begin = b"" if request.method == "HEAD" else await anext(chunks, b"")
        await response.prepare(request)
        if request.method != "HEAD":
            lines = _to_the_end(chunks, begin) if is_live else chunks
            rest = while_allowed(request, lines, last_line) if is_live else lines
            async with aclosing(rest):
                await send_rest(request, response, begin, rest)
    return response


async def _to_the_end(chunks: AsyncGenerator[bytes, None], begin: bytes) -> AsyncGenerator[bytes, None]:
    """The remaining pieces of a live answer. If it breaks off, the last line gives the reason."""
    last = begin
    try:
        async for chunk in chunks:
            last = chunk
            yield chunk
    except Unreachable as error:
        # Never insert a message into an incomplete line.
        if last.endswith(b"\n"):
            yield last_line(503, str(error))


class Parts(NamedTuple):
    """The parts of an answer that other members have sent, in their order."""

    before: list[Any]
    """The parts of members whose names precede this member's."""
    after: list[Any]
    missing: list[Member]


async def parts_of(request: web.Request, read: Callable[[bytes], object]) -> Parts | None:
    """The other members' answers to a request, each converted by `read`; None without other members.

    Missing members are recorded for the header. `read` raises ValueError, KeyError or TypeError for an
    unusable answer.
    """
    if request.app[SOURCES].members is None or BY_MEMBER in request:
        return None
    members = members_of(request)
    with members.requests.place(reader_of(request)):
        found = await members.parts(request.rel_url.raw_path_qs, right_of(request), read)
    missing = [member for member, part in found if part is None]
    note_missing(request, missing)
    there = [(member.name < members.name, part) for member, part in found if part is not None]
    return Parts(
        [part for before, part in there if before], [part for before, part in there if not before], missing
    )


async def in_one_list(
    request: web.Request, own: JsonObject | Rows | Verbatim
) -> JsonObject | Rows | Verbatim:
    """The lists of all members as one, in order of the members."""
    parts = await parts_of(request, _read_list)
    if parts is None:
        return own
    lists = [*map(_pieces, parts.before), fragments(own), *map(_pieces, parts.after)]
    return Verbatim(_joined(lists))


def _read_list(body: bytes) -> bytes:
    """An answer that is a list; its rows are not parsed, as there may be megabytes."""
    if not (body.startswith(b"[") and body.endswith(b"]") and body.isascii()):
        raise ValueError("a list was expected")
    return body


def _pieces(body: bytes) -> Iterator[str]:
    for start in range(0, len(body), CHUNK):
        yield body[start : start + CHUNK].decode("ascii")


def _joined(lists: Iterable[Iterator[str]]) -> Iterator[str]:
    """The JSON of one list with the items of all lists."""
    yield "["
    is_empty = True
    for pieces in lists:
        has_begun = False
        for piece in _inside(pieces):
            if piece and not has_begun:
                has_begun = True
                if not is_empty:
                    yield ","
            yield piece
        is_empty = is_empty and not has_begun
    yield "]"


def _inside(pieces: Iterator[str]) -> Iterator[str]:
    """The JSON of a list without its brackets; empty pieces are passed through."""
    held, has_begun = "", False
    for piece in pieces:
        if not piece:
            yield ""
            continue
        yield held
        held = piece if has_begun else piece[1:]
        has_begun = True
    yield held[:-1]


GAP_NANOSECONDS = 90 * 10**9
"""Age in nanoseconds above which a sample does not count; samples are a minute apart."""

Series = list[tuple[int, int]]
"""Counts by their times, in nanoseconds."""


async def added_up(
    key: str, request: web.Request, own: JsonObject | Rows | Verbatim
) -> JsonObject | Rows | Verbatim:
    """The samples of all members added up, at the times of the member with the oldest sample."""
    assert isinstance(own, Rows), "a history is a list"

    def series(rows: Iterable[Any]) -> Series:
        return [(int(row["timestamp"]), int(row[key])) for row in rows]

    def read(body: bytes) -> Series:
        return series(json.loads(_read_list(body)))

    parts = await parts_of(request, read)
    if parts is None:
        return own
    here = series(map(own.to_json, own.items))
    every = [one for one in (here, *parts.before, *parts.after) if one]
    times: Series = min(every, key=lambda one: one[0], default=[])

    def row(time: int) -> JsonObject:
        return {"timestamp": time, key: str(sum(_at(time, one) for one in every))}

    return Rows([time for time, _ in times], row)


def _at(time: int, series: Series) -> int:
    """The latest count of a series at a time; 0 if there is none."""
    place = bisect_right(series, time, key=lambda sample: sample[0])
    if not place or series[place - 1][0] < time - GAP_NANOSECONDS:
        return 0
    return series[place - 1][1]
