"""Sums of the reasons why asks wait, from rows of the core, or from members' `State.ListReasons`."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Any, NamedTuple

from licorne.v1 import state_pb2 as pb
from licorne_core.messages.reports import WaitingAsks
from licorne_core.values.errors import NotFound
from licorne_core.values.ids import AppId, PartitionName
from licorne_core.values.resources import charge
from licorne_core.views import Views
from licorne_core.views.applications import AppReport
from licorne_server.process.fair import Slices, walked
from licorne_server.reads.reports import amounts
from licorne_server.wire.responses import nanoseconds

MOST_QUEUES = 5
MOST_CAUSES = 10
PART = 250
"""Number of rows that are added without a pause."""


class ReasonRows(NamedTuple):
    """All waiting asks of a partition, and the time of the reading, in unix seconds."""

    time: float
    rows: tuple[WaitingAsks, ...]


ReasonsOf = Callable[[PartitionName], Awaitable[ReasonRows]]
"""Returns the waiting asks of a partition; raises NotFound if it is unknown."""


class _Where(NamedTuple):
    """Queue of asks, and the queue, user or group that blocks them."""

    partition: str
    queue: str
    subject: str


@dataclass(slots=True)
class _Sum:
    """The asks with one code; `most` is the number of asks in the group of the example."""

    asks: int = 0
    resources: dict[str, int] = field(default_factory=dict)
    queues: int = 0
    where: Counter[_Where] = field(default_factory=Counter)
    causes: Counter[str] = field(default_factory=Counter)
    example: tuple[str, str] = ("", "")
    most: int = 0

    def show(self, app_id: str, key: str, asks: int) -> None:
        """Offer an ask of a group of `asks` asks as the example; the ask of the largest group is used."""
        if asks > self.most:
            self.most, self.example = asks, (app_id, key)


class ReasonSum:
    """Totals of rows and answers, by code."""

    def __init__(self, queue: str = "") -> None:
        """Count the asks of a queue and its descendants, or all asks for an empty path."""
        self._queue = queue.lower()
        self._sums: dict[str, _Sum] = {}

    def add(self, partition: PartitionName, rows: Iterable[WaitingAsks]) -> Iterator[None]:
        """Add the rows of a partition; the caller may pause at every step."""
        seen: set[tuple[str, str]] = set()
        for number, row in enumerate(rows, 1):
            if not self._queue or row.queue == self._queue or row.queue.startswith(f"{self._queue}."):
                found = self._sums.setdefault(row.code, _Sum())
                found.asks += row.asks
                charge(found.resources, tuple(row.resources.items()))
                found.queues += (row.code, row.queue) not in seen
                seen.add((row.code, row.queue))
                found.where[_Where(partition, row.queue, row.subject)] += row.asks
                found.causes.update(row.causes)
                found.show(row.app_id, row.key, row.asks)
            if not number % PART:
                yield

    def add_answer(self, answer: pb.ListReasonsResponse) -> None:
        """Add the answer of another member, whose partitions are all different."""
        for reason in answer.reasons:
            found = self._sums.setdefault(reason.code, _Sum())
            found.asks += reason.asks
            charge(found.resources, tuple(reason.resources.items()))
            found.queues += reason.queues
            for one in reason.first_queues:
                found.where[_Where(one.partition, one.queue, one.subject)] += one.asks
            for cause in reason.causes:
                found.causes[cause.cause] += cause.asks
            found.show(reason.application_id, reason.allocation_key, reason.asks)

    def message(self, time: int) -> pb.ListReasonsResponse:
        """The totals, as of a time in nanoseconds; the most frequent reason first."""
        ranked = sorted(self._sums.items(), key=lambda item: (-item[1].asks, item[0]))
        reasons = [
            pb.WaitReason(
                code=code,
                asks=found.asks,
                resources=amounts(found.resources),
                queues=found.queues,
                first_queues=[
                    pb.ReasonQueue(partition=of.partition, queue=of.queue, subject=of.subject, asks=asks)
                    for of, asks in nsmallest(MOST_QUEUES, found.where.items(), key=_most_first)
                ],
                causes=[
                    pb.ReasonCause(cause=cause, asks=asks)
                    for cause, asks in nsmallest(MOST_CAUSES, found.causes.items(), key=_most_first)
                ],
                application_id=found.example[0],
                allocation_key=found.example[1],
            )
            for code, found in ranked
        ]
        return pb.ListReasonsResponse(reasons=reasons, asks=sum(one.asks for one in reasons), time=time)


def _most_first(item: tuple[Any, int]) -> tuple[int, Any]:
    return -item[1], item[0]


async def summed_reasons(
    of: ReasonsOf, names: Iterable[PartitionName], queue: str, now: float, slices: Slices
) -> pb.ListReasonsResponse:
    """The totals over the existing partitions, as of `now` or of the oldest rows; see `ReasonSum`."""
    total, time = ReasonSum(queue), now
    for name in names:
        with suppress(NotFound):
            found = await of(name)
            time = min(time, found.time)
            await walked(total.add(name, found.rows), slices)
    return total.message(nanoseconds(time))


def merged_reasons(_: Any, answers: Sequence[pb.ListReasonsResponse]) -> pb.ListReasonsResponse:
    """All members' answers merged, with the time of the oldest answer."""
    whole = ReasonSum()
    for answer in answers:
        whole.add_answer(answer)
    return whole.message(min(answer.time for answer in answers))


def reason_to_wait(views: Views, partition: PartitionName, name: AppId, app: AppReport) -> str:
    """The application's message, or else the code and text of the check that blocks its first ask."""
    if app.message or not app.pending_count:
        return app.message
    first = views.first_obstacle(partition, name)
    text = views.obstacle_text(partition, name, first.key, first.code)
    return f"{first.code}: {text}" if text else first.code
