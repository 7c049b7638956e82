"""Resource-hours over REST and for the page: the sums of `State.ListResourceHours` as one list."""

from contextlib import suppress

from aiohttp import web

from licorne.v1 import state_pb2 as pb
from licorne_core.values.errors import NotFound
from licorne_server.http.identity import visible_to
from licorne_server.http.pages import API, Maker, number, one_of
from licorne_server.http.places import parts_of, send_part
from licorne_server.http.stream import JsonObject, Rows
from licorne_server.http.units import Asked
from licorne_server.reads.paging import MAX_PAGE_SIZE
from licorne_server.reads.resource_hours import KINDS, Wanted, merged_hours

MILLISECONDS, NANOSECONDS = 10**3, 10**9

MOST_BYTES = 8 * 1024 * 1024
"""Bytes of the sums in one answer, as messages, at most."""


async def for_rest(request: web.Request) -> web.StreamResponse:
    """Sums `by` queue, user or group, of `partition` or all, from `since` to `until` in nanoseconds."""
    answer = await _summed(request, Maker.of(request), NANOSECONDS)
    return await send_part(request, answer, {"keptSince": answer.kept_since, "rows": _rows(answer)})


async def for_page(request: web.Request) -> web.StreamResponse:
    """The same sums for the page, with times in milliseconds."""
    maker = Maker.of(request)
    answer = await _summed(request, maker, MILLISECONDS)
    shown = {"keptSince": answer.kept_since, "rows": _rows(answer), "refresh": maker.refresh}
    return await send_part(request, answer, shown)


ROUTES = [
    web.get("/ws/v1/resource-hours", for_rest),
    web.get(f"{API}/resource-hours", for_page),
]


async def _summed(request: web.Request, maker: Maker, unit: int) -> pb.ListResourceHoursResponse:
    """The first 10,000 sums of all members; `unit` is the number of time units in a second."""
    asked, visible = Asked(request), visible_to(request)
    since, until = number(request, "since", 0) / unit, number(request, "until", 0) / unit
    partition = asked.query("partition")
    with suppress(NotFound):
        partition = asked.views.resolve(partition) if partition else ""
    wanted = Wanted.of(one_of(request, "by", KINDS), since, until, partition, asked.sources.now())
    hours = await asked.sources.hours()
    total = await wanted.summed(hours, lambda rm: visible is None or visible(rm), maker.slices)
    own = await total.page("", MAX_PAGE_SIZE, maker.slices, MOST_BYTES)
    own.kept_since = hours.kept_since * unit
    parts = await parts_of(request, pb.ListResourceHoursResponse.FromString)
    if parts is None:
        return own
    most = pb.ListResourceHoursRequest(page_size=MAX_PAGE_SIZE)
    return await maker.once(lambda: merged_hours(most, [own, *parts.before, *parts.after]))


def _rows(answer: pb.ListResourceHoursResponse) -> Rows:
    return Rows(answer.rows, _row)


def _row(row: pb.ResourceHours) -> JsonObject:
    return {
        "partition": row.partition,
        "name": row.name,
        "hours": dict(row.hours),
        "allocations": row.allocations,
        "preempted": row.preempted,
        "preemptedHours": dict(row.preempted_hours),
    }
