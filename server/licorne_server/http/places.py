"""Finding the member that serves the RM of a request, and passing the request on to it.

A request that another member has passed on is answered here, whoever serves the RM by now: so no
request goes round.
"""

import json
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing, suppress
from functools import partial
from time import monotonic
from typing import NamedTuple
from urllib.parse import quote, urlencode

from aiohttp import ClientResponse, web

from licorne_core.values.errors import NotFound, shown
from licorne_core.values.ids import PartitionName, RmId, rm_of
from licorne_core.views import Views
from licorne_server.http import pages
from licorne_server.http.events import last_line
from licorne_server.http.stream import (
    BY_MEMBER,
    CALLER,
    IDENTIFIED,
    MISSING_NAMES,
    Together,
    reader_of,
    send_json,
    send_rest,
    slice_for,
    while_allowed,
)
from licorne_server.http.units import RM_MEANT
from licorne_server.reads.members import OK, Members, Passed, Unreachable
from licorne_server.reads.sources import SOURCES, Sources
from licorne_server.store.coordination.store import Member

OF_ONE_RM = frozenset(
    {
        "/ws/v1/config",
        "/ws/v1/events/batch",
        "/ws/v1/events/stream",
        "/ws/v1/scheduler/healthcheck",
        *pages.OF_ONE_RM,
    }
)
"""Paths that show only the RM that `rm` names. A state dump is not among them: it has the history of
all RMs."""

DUMP = "/debug/fullstatedump"
BY_RM = OF_ONE_RM | {DUMP}
"""Paths that `rm` leads to the member of that RM."""

DUMP_SECONDS = 30.0
"""Seconds until a member begins with a state dump: it asks its RMs first."""

OF_THE_FIRST = frozenset(
    {"/ws/v1/config", "/ws/v1/events/batch", "/ws/v1/events/stream", f"{pages.API}/events"}
)
"""Paths that show the RM that registered first, unless `rm` names one."""

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
"""Headers of an answer that are handed back."""

NAMED = "/members/named"
"""Path at which members ask each other for the meaning of a name."""

FRESH_SECONDS = 2.0
"""Seconds for which the meaning of a name is kept."""


class Place(NamedTuple):
    """The member that serves the RM of a request."""

    member: Member | None
    """None if the RM has an owner that is gone."""
    rm_id: str
    partition: str = ""
    """The full name, if the request has the bare one."""


class Meaning(NamedTuple):
    """The RM and the partition that a bare name means; ordered by the RM's id."""

    rm_id: str
    partition: str
    member: str = ""
    """Id of the member that serves it; empty for this one."""


class Places:
    """Finds the members of requests."""

    def __init__(self, sources: Sources) -> None:
        """Over the sources of a member."""
        self._sources = sources
        self._meanings: Together[list[Meaning]] = Together()

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
        """The other member that serves an RM; None if this one or nobody does."""
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
        """The member of a bare name, or of the first RM for the empty name.

        If that is this one, the request gets the full name.
        """
        members = members_of(request)
        for meaning in await self._meanings.get(name, partial(self._mean, members, name)):
            if meaning.member:
                living = {str(member.id): member for member in members.others()}
                return Place(living.get(meaning.member), meaning.rm_id, meaning.partition)
            if name:
                request.match_info["partition"] = meaning.partition
            else:
                request[RM_MEANT] = meaning.rm_id
        return None

    async def _mean(self, members: Members, name: str) -> tuple[list[Meaning], float]:
        """The meaning of a name, if it has one: it is that of the RM whose id comes first.

        Raises:
            HTTPServiceUnavailable: a member that might have it does not answer.
        """
        found = meanings(self._sources.views, name)
        path = f"{NAMED}?{urlencode({'name': name})}"
        parts = await members.parts(path, members.own_right, _read_meanings)
        if missing := [member.name for member, part in parts if part is None]:
            what = f"partition {shown(name)} is" if name else "the first RM is"
            text = f"{what} not known while members do not answer: {', '.join(missing)}; name an RM"
            raise web.HTTPServiceUnavailable(text=text)
        for member, part in parts:
            found += [one._replace(member=member.id) for one in part or ()]
        return sorted(found)[:1], monotonic() + FRESH_SECONDS


def meanings(views: Views, name: str) -> list[Meaning]:
    """The meaning of a bare name on this member alone, if it has one."""
    found = []
    for rm in views.rms():
        full = PartitionName(f"[{rm.rm_id}]{name}")
        with suppress(NotFound):
            found.append(Meaning(rm.rm_id, views.resolve(full) if name else ""))
    return sorted(found)[:1]


async def named(request: web.Request) -> web.StreamResponse:
    """The meaning of a `name` on this member, for another member."""
    if BY_MEMBER not in request:
        raise web.HTTPNotFound
    async with slice_for(request):
        found = meanings(request.app[SOURCES].views, request.query.get("name", ""))
    return await send_json(request, {"meanings": [list(one[:2]) for one in found]})


def _read_meanings(body: bytes) -> list[Meaning]:
    """The meanings in an answer of `named`; raises ValueError, KeyError or TypeError for others."""
    return [Meaning(str(rm_id), str(partition)) for rm_id, partition in json.loads(body)["meanings"]]


def members_of(request: web.Request) -> Members:
    """The other members; there are some only where members share the RMs."""
    members = request.app[SOURCES].members
    assert members is not None, "a server that is alone passes nothing on"
    return members


def right_of(request: web.Request) -> Passed:
    """The caller of a request, to be passed on."""
    return Passed(request[CALLER], request[IDENTIFIED])


def note_missing(request: web.Request, members: Iterable[Member]) -> None:
    """Mark the answer to a request: it lacks the parts of these members."""
    request[MISSING_NAMES] = [*request.get(MISSING_NAMES, ()), *(member.name for member in members)]


async def passed_on(request: web.Request, place: Place) -> web.StreamResponse:
    """The answer of the member at a place, as it is.

    Raises:
        HTTPServiceUnavailable: the member does not answer.
    """
    members, member = members_of(request), place.member
    if member is None:
        raise web.HTTPServiceUnavailable(text=f"no member serves RM {shown(place.rm_id)} at the moment")
    headers = {name: request.headers[name] for name in PASSED_ON if name in request.headers}
    right, path = right_of(request), _path_at(request, place)
    patience = DUMP_SECONDS if request.path == DUMP else None
    try:
        with members.requests.place(reader_of(request)):
            async with members.answer(
                member, path, right, method=request.method, headers=headers, patience=patience
            ) as answer:
                return await _handed_back(request, place, answer)
    except Unreachable as error:
        note_missing(request, [error.member])
        text = f"{error}, and it serves RM {shown(place.rm_id)}"
        raise web.HTTPServiceUnavailable(text=text) from None


def _path_at(request: web.Request, place: Place) -> str:
    """Path and query of a request, with the full name in place of a bare one."""
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


async def _handed_back(request: web.Request, place: Place, answer: ClientResponse) -> web.StreamResponse:
    """Hand an answer back, piece by piece."""
    members, member = members_of(request), place.member
    assert member is not None, "somebody has answered"
    headers = {name: answer.headers[name] for name in HANDED_BACK if name in answer.headers}
    response = web.StreamResponse(status=answer.status, headers=headers)
    is_live = request.path in LIVE and answer.status == OK

    def goes_on() -> bool:
        owner = members.ownership.owner_of(RmId(place.rm_id))
        there = request.transport is not None and not request.transport.is_closing()
        return there and owner is not None and owner.id == member.id

    chunks = members.chunks(member, answer, goes_on if is_live else None)
    async with aclosing(chunks):
        begin = b"" if request.method == "HEAD" else await anext(chunks, b"")
        await response.prepare(request)
        if request.method != "HEAD":
            lines = _to_the_end(chunks, member, begin, goes_on) if is_live else chunks
            rest = while_allowed(request, lines, last_line) if is_live else lines
            async with aclosing(rest):
                await send_rest(request, response, begin, rest)
    return response


async def _to_the_end(
    chunks: AsyncGenerator[bytes, None], member: Member, begin: bytes, goes_on: Callable[[], bool]
) -> AsyncGenerator[bytes, None]:
    """The rest of a live answer. If the member is gone, the last line gives the reason."""
    last, reason = begin, ""
    try:
        async for chunk in chunks:
            last = chunk
            yield chunk
    except Unreachable as error:
        reason = str(error)
    if not (reason or goes_on()):
        reason = f"member {member.name} does not serve this RM any more"
    # Not in the middle of a line.
    if reason and last.endswith(b"\n"):
        yield last_line(503, reason)
