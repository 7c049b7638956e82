"""Why asks wait, in sum: rows of the core as the answer of `State.ListReasons`, and answers of members."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Any, NamedTuple

from licorne.v1 import state_pb2 as pb
from licorne_core.messages.reports import WaitingAsks
from licorne_core.values.ids import PartitionName
from licorne_core.values.resources import charge
from licorne_server.reads.reports import amounts

MOST_QUEUES = 5
MOST_CAUSES = 10
PART = 250
"""Rows that are added without a pause."""


class ReasonRows(NamedTuple):
    """All waiting asks of a partition, and the time of it, in unix seconds."""

    time: float
    rows: tuple[WaitingAsks, ...]


class _Where(NamedTuple):
    """Queue of asks, and the queue, user or group that stops them."""

    partition: str
    queue: str
    subject: str


@dataclass(slots=True)
class _Sum:
    """Asks with one code; `most` is the number of asks that the example is one of."""

    asks: int = 0
    resources: dict[str, int] = field(default_factory=dict)
    queues: int = 0
    where: Counter[_Where] = field(default_factory=Counter)
    causes: Counter[str] = field(default_factory=Counter)
    example: tuple[str, str] = ("", "")
    most: int = 0

    def show(self, app_id: str, key: str, asks: int) -> None:
        """One of so many asks; the largest number is shown."""
        if asks > self.most:
            self.most, self.example = asks, (app_id, key)


class ReasonSum:
    """Adds up rows and answers, by code."""

    def __init__(self, queue: str = "") -> None:
        """Count the asks of a queue and of those below it; of all for the empty path."""
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
        """Add the answer of another member: it has other partitions."""
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
        """The sum, as of a time in nanoseconds; the most frequent reason first."""
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


def merged_reasons(_: Any, answers: Sequence[pb.ListReasonsResponse]) -> pb.ListReasonsResponse:
    """The answers of all members as one, as of the time of the oldest."""
    whole = ReasonSum()
    for answer in answers:
        whole.add_answer(answer)
    return whole.message(min(answer.time for answer in answers))
