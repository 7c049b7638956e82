"""Totals over all partitions, for REST and the page: reasons why asks wait, and resource-hours.

They are messages of `State`, which the members of a deployment merge.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from time import monotonic

from aiohttp import web
from google.protobuf.message import Message

from licorne.v1 import state_pb2 as pb
from licorne_core.values.errors import NotFound
from licorne_core.values.ids import PartitionName, rm_of
from licorne_core.views import Views
from licorne_server.http.identity import visible_to
from licorne_server.http.pages import API, Maker, number, one_of
from licorne_server.http.places import parts_of
from licorne_server.http.stream import BY_MEMBER, JsonObject, Rows, Together, send_bytes, send_json
from licorne_server.http.units import Asked, message_json
from licorne_server.process.fair import TimeSlices
from licorne_server.reads.paging import MAX_PAGE_SIZE
from licorne_server.reads.reasons import ReasonRows, merged_reasons, summed_reasons
from licorne_server.reads.resource_hours import KINDS, Wanted, merged_hours

FRESH_BUDGET = 20.0
"""Minimum pause before rows are made again, in units of the CPU time that they took: all callers together
take a twentieth of a core."""

MAX_PARTITIONS = 1_024
"""Maximum number of partitions whose rows are cached: enough for one answer about all partitions."""

CHEAP_SECONDS = 0.005
"""CPU seconds below which rows are not cached, but made for every caller."""

MOST_BYTES = 8 * 1024 * 1024
"""Maximum number of bytes of the sums in one answer, as messages."""

MILLION = 10**6


class Reasons:
    """The waiting asks of partitions, read in time slices and shared while they are fresh."""

    def __init__(self, views: Views, time_slices: TimeSlices, now: Callable[[], float]) -> None:
        """Read the partitions of `views`; `now` gives the time in unix seconds."""
        self._views = views
        self._time_slices = time_slices
        self._now = now
        self._together = Together[ReasonRows](MAX_PARTITIONS)

    async def of(self, partition: PartitionName) -> ReasonRows:
        """The waiting asks of a partition; raises NotFound for an unknown one.

        The time slices are charged to a peer of their own, so that the first caller does not pay for others.
        """
        return await self._together.get(partition, partial(self._make, partition))

    async def _make(self, partition: PartitionName) -> tuple[ReasonRows, float]:
        maker, time = Maker(self._time_slices, f"reasons of {rm_of(partition)}"), self._now()
        rows = await maker.all(self._views.reasons(partition))
        fresh = maker.spent * FRESH_BUDGET if maker.spent > CHEAP_SECONDS else 0.0
        return ReasonRows(time, tuple(rows)), monotonic() + fresh


async def reasons_of_partition(request: web.Request) -> web.StreamResponse:
    """The reasons in one partition; `queue` limits them to a queue and its descendants."""
    asked = Asked(request)
    return await send_json(request, message_json(await _reasons(asked, Maker.of(request), [asked.partition])))


async def reasons(request: web.Request) -> web.StreamResponse:
    """The reasons in all partitions that the caller may see."""
    answer = await _reasons_seen(Asked(request), Maker.of(request))
    return await _send(request, answer, message_json(answer))


async def reasons_for_page(request: web.Request) -> web.StreamResponse:
    """The reasons in all partitions or in `partition`, for the page: the time is in milliseconds."""
    maker = Maker.of(request)
    answer = await _reasons_seen(Asked(request), maker)
    shown = {**message_json(answer), "time": answer.time // MILLION, "refresh": maker.refresh}
    return await _send(request, answer, shown)


async def _reasons_seen(asked: Asked, maker: Maker) -> pb.ListReasonsResponse:
    """The reasons in all partitions of all members, as far as the caller may see them."""
    request, views = asked.request, asked.views
    visible, names, wanted = visible_to(request), views.partition_names(), asked.query("partition")
    if wanted:
        with suppress(NotFound):
            wanted = views.resolve(wanted)
        names = [name for name in names if name == wanted]
    own = await _reasons(asked, maker, [name for name in names if visible is None or visible(rm_of(name))])
    parts = await parts_of(request, pb.ListReasonsResponse.FromString)
    if parts is None:
        return own
    whole = merged_reasons(None, [own, *parts.before, *parts.after])
    whole.missing_members.extend(member.name for member in parts.missing)
    return whole


async def _reasons(asked: Asked, maker: Maker, names: list[PartitionName]) -> pb.ListReasonsResponse:
    sources = asked.sources
    return await summed_reasons(sources.reasons, names, asked.query("queue"), sources.now(), maker.slices)


async def hours(request: web.Request) -> web.StreamResponse:
    """Sums `by` queue, user or group, of `partition` or all, from `since` to `until` in nanoseconds."""
    answer = await _hours(request, Maker.of(request))
    shown = {"keptSince": answer.kept_since, "rows": Rows(answer.rows, message_json)}
    return await _send(request, answer, shown)


async def _hours(request: web.Request, maker: Maker) -> pb.ListResourceHoursResponse:
    """The first 10,000 sums of all members."""
    asked, visible = Asked(request), visible_to(request)
    since, until = number(request, "since", 0) / 10**9, number(request, "until", 0) / 10**9
    partition = asked.query("partition")
    with suppress(NotFound):
        partition = asked.views.resolve(partition) if partition else ""
    wanted = Wanted.of(one_of(request, "by", KINDS), since, until, partition, asked.sources.now())
    own = await wanted.page(
        await asked.sources.hours(),
        lambda rm: visible is None or visible(rm),
        maker.slices,
        size=MAX_PAGE_SIZE,
        budget=MOST_BYTES,
    )
    parts = await parts_of(request, pb.ListResourceHoursResponse.FromString)
    if parts is None:
        return own
    most = pb.ListResourceHoursRequest(page_size=MAX_PAGE_SIZE)
    return await maker.once(lambda: merged_hours(most, [own, *parts.before, *parts.after]))


async def _send(request: web.Request, message: Message, shown: JsonObject) -> web.StreamResponse:
    """Answer with JSON; another member gets the message itself, which it merges."""
    if BY_MEMBER in request:
        return await send_bytes(request, "application/x-protobuf", message.SerializeToString())
    return await send_json(request, shown)


ROUTES = [
    web.get("/ws/v1/partition/{partition:[^/]+}/reasons", reasons_of_partition),
    web.get("/ws/v1/reasons", reasons),
    web.get(f"{API}/reasons", reasons_for_page),
    web.get("/ws/v1/resource-hours", hours),
]
