"""Why asks wait, in sum: one answer of each partition for all callers, over gRPC, REST and for the page."""

import json
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
from licorne_server.http.merging import parts_of
from licorne_server.http.pages import API, Maker
from licorne_server.http.stream import JsonObject, Together, send_json
from licorne_server.http.units import Asked
from licorne_server.process.fair import TimeSlices
from licorne_server.reads.reasons import ReasonRows, ReasonSum, merged_reasons
from licorne_server.wire.responses import nanoseconds

FRESH_BUDGET = 20.0
"""Least pause before rows are made again, in units of the CPU time that they took: all callers together
take a twentieth of a core."""

MAX_PARTITIONS = 1_024
"""Partitions whose rows are kept: as one answer may be of all of them, with fewer none would be fresh."""

CHEAP_SECONDS = 0.005
"""CPU seconds of rows that are made for every caller."""


class Reasons:
    """The waiting asks of partitions, read in slices and shared while they are fresh."""

    def __init__(self, views: Views, time_slices: TimeSlices, now: Callable[[], float]) -> None:
        """Read these partitions; `now` gives the time in unix seconds."""
        self._views = views
        self._time_slices = time_slices
        self._now = now
        self._together = Together[ReasonRows](MAX_PARTITIONS)

    async def of(self, partition: PartitionName) -> ReasonRows:
        """The waiting asks of a partition; raises NotFound.

        The slices are of a peer of its own, so that the first caller delays no other.
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
    answer = await _seen(Asked(request), Maker.of(request), 1)
    return await send_json(request, reasons_json(answer))


async def for_page(request: web.Request) -> web.StreamResponse:
    """The same, or of `partition`, for the page: the time is in milliseconds."""
    maker = Maker.of(request)
    answer = await _seen(Asked(request), maker, 10**6)
    return await maker.send(request, {**reasons_json(answer), "time": answer.time // 10**6})


ROUTES = [
    web.get("/ws/v1/partition/{partition:[^/]+}/reasons", of_partition),
    web.get("/ws/v1/reasons", of_all),
    web.get(f"{API}/reasons", for_page),
]


async def _seen(asked: Asked, maker: Maker, unit: int) -> pb.ListReasonsResponse:
    """The reasons in all partitions that the caller may see, those of all members.

    `unit` is that of times in the answers of members, in nanoseconds.
    """
    request, views = asked.request, asked.views
    visible, names, wanted = visible_to(request), views.partition_names(), asked.query("partition")
    if wanted:
        with suppress(NotFound):
            wanted = views.resolve(wanted)
        names = [name for name in names if name == wanted]
    own = await _summed(asked, maker, [name for name in names if visible is None or visible(rm_of(name))])
    parts = await parts_of(request, partial(_read, unit))
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


def _read(unit: int, body: bytes) -> pb.ListReasonsResponse:
    """The answer of another member; raises ValueError, KeyError or TypeError for others."""
    given = json.loads(body)
    reasons = [
        pb.WaitReason(
            code=one["code"],
            asks=one["asks"],
            resources=one["resources"],
            queues=one["queues"],
            first_queues=[pb.ReasonQueue(**of) for of in one["firstQueues"]],
            causes=[pb.ReasonCause(**cause) for cause in one["causes"]],
            application_id=one["applicationId"],
            allocation_key=one["allocationKey"],
        )
        for one in given["reasons"]
    ]
    return pb.ListReasonsResponse(reasons=reasons, asks=given["asks"], time=given["time"] * unit)
