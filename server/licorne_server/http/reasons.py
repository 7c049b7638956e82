"""Sums of the reasons why asks wait: rows of each partition, shared by callers of gRPC, REST and the page."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from time import monotonic

from aiohttp import web

from licorne.v1 import state_pb2 as pb
from licorne_core.values.errors import NotFound
from licorne_core.values.ids import PartitionName, rm_of
from licorne_core.views import Views
from licorne_server.http.identity import visible_to
from licorne_server.http.pages import API, Maker
from licorne_server.http.places import parts_of, send_part
from licorne_server.http.stream import JsonObject, Together, send_json
from licorne_server.http.units import Asked
from licorne_server.process.fair import TimeSlices
from licorne_server.reads.reasons import ReasonRows, ReasonSum, merged_reasons
from licorne_server.wire.responses import nanoseconds

FRESH_BUDGET = 20.0
"""Minimum pause before rows are made again, in units of the CPU time that they took: all callers together
take a twentieth of a core."""

MAX_PARTITIONS = 1_024
"""Partitions whose rows are cached: one answer may need all of them, and with fewer none would be fresh."""

CHEAP_SECONDS = 0.005
"""CPU seconds below which rows are not cached, but made for every caller."""


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

        The time slices are charged to a separate peer, so that the first caller is not charged for others.
        """
        return await self._together.get(partition, partial(self._make, partition))

    async def _make(self, partition: PartitionName) -> tuple[ReasonRows, float]:
        maker, time = Maker(self._time_slices, f"reasons of {rm_of(partition)}"), self._now()
        rows = await maker.all(self._views.reasons(partition))
        fresh = maker.spent * FRESH_BUDGET if maker.spent > CHEAP_SECONDS else 0.0
        return ReasonRows(time, tuple(rows)), monotonic() + fresh


async def of_partition(request: web.Request) -> web.StreamResponse:
    """The reasons in one partition; `queue` limits them to a queue and those below it."""
    asked = Asked(request)
    answer = await _summed(asked, Maker.of(request), [asked.partition])
    return await send_json(request, reasons_json(answer))


async def of_all(request: web.Request) -> web.StreamResponse:
    """The reasons in all partitions that the caller may see."""
    answer = await _seen(Asked(request), Maker.of(request))
    return await send_part(request, answer, reasons_json(answer))


async def for_page(request: web.Request) -> web.StreamResponse:
    """The reasons in all partitions or in `partition`, for the page: the time is in milliseconds."""
    maker = Maker.of(request)
    answer = await _seen(Asked(request), maker)
    shown = {**reasons_json(answer), "time": answer.time // 10**6, "refresh": maker.refresh}
    return await send_part(request, answer, shown)


ROUTES = [
    web.get("/ws/v1/partition/{partition:[^/]+}/reasons", of_partition),
    web.get("/ws/v1/reasons", of_all),
    web.get(f"{API}/reasons", for_page),
]


async def _seen(asked: Asked, maker: Maker) -> pb.ListReasonsResponse:
    """The reasons in all partitions of all members that the caller may see."""
    request, views = asked.request, asked.views
    visible, names, wanted = visible_to(request), views.partition_names(), asked.query("partition")
    if wanted:
        with suppress(NotFound):
            wanted = views.resolve(wanted)
        names = [name for name in names if name == wanted]
    own = await _summed(asked, maker, [name for name in names if visible is None or visible(rm_of(name))])
    parts = await parts_of(request, pb.ListReasonsResponse.FromString)
    if parts is None:
        return own
    whole = merged_reasons(None, [own, *parts.before, *parts.after])
    whole.missing_members.extend(member.name for member in parts.missing)
    return whole


async def _summed(asked: Asked, maker: Maker, names: list[PartitionName]) -> pb.ListReasonsResponse:
    total, time = ReasonSum(asked.query("queue")), asked.sources.now()
    for name in names:
        with suppress(NotFound):
            found = await asked.sources.reasons(name)
            time = min(time, found.time)
            await maker.all(total.add(name, found.rows))
    return total.message(nanoseconds(time))


def reasons_json(answer: pb.ListReasonsResponse) -> JsonObject:
    """The answer under its JSON names; the time is in nanoseconds."""
    return {
        "reasons": [
            {
                "code": reason.code,
                "asks": reason.asks,
                "resources": dict(reason.resources),
                "queues": reason.queues,
                "firstQueues": [
                    {"partition": of.partition, "queue": of.queue, "subject": of.subject, "asks": of.asks}
                    for of in reason.first_queues
                ],
                "causes": [{"cause": cause.cause, "asks": cause.asks} for cause in reason.causes],
                "applicationId": reason.application_id,
                "allocationKey": reason.allocation_key,
            }
            for reason in answer.reasons
        ],
        "asks": answer.asks,
        "time": answer.time,
        "missingMembers": list(answer.missing_members),
    }
