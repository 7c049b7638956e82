"""Limits that users and groups exceed (spec § 10)."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from licorne_core.model.quotas import Quota
from licorne_core.model.trackers import Tracker
from licorne_core.partitions.partition import Partition
from licorne_core.values.ids import PartitionName
from licorne_core.values.resources import EMPTY
from licorne_core.whatif.plans import Capped, ExceededLimit

NEW = "new"
"""The kind of those that are exceeded by more than before."""

Place = tuple[PartitionName, str, str, str]
"""A partition, and in it the kind, the name and the queue of a tracker."""


class Excess(NamedTuple):
    """Excess over a limit: amounts by resource name, and applications."""

    amounts: Mapping[str, int]
    applications: int

    def is_within(self, other: "Excess") -> bool:
        """True if nothing of it is more than of the other."""
        return self.applications <= other.applications and not exceeds(self.amounts, other.amounts)


NO_EXCESS = Excess({}, 0)


def excesses(partitions: Iterable[Partition]) -> dict[Place, Excess]:
    """Excess of all users and groups over limits."""
    return {place: excess_of(tracker) for place, _, tracker in _exceeded(partitions)}


def exceeded_limits(
    partitions: Iterable[Partition], before: Mapping[Place, Excess]
) -> Capped[ExceededLimit]:
    """Exceeded limits, by partition, users first, by name and queue.

    `before` is the excess before the change.
    """
    found: Capped[ExceededLimit] = Capped()
    for place, partition, tracker in _exceeded(partitions):
        already = excess_of(tracker).is_within(before.get(place, NO_EXCESS))
        found.add(_reported(partition, tracker, already=already), *(() if already else (NEW,)))
    return found


def _exceeded(partitions: Iterable[Partition]) -> Iterator[tuple[Place, Partition, Tracker]]:
    for partition in partitions:
        for kind in ("user", "group"):
            book = partition.limits.of_kind(kind)
            for name in sorted(book):
                for path in sorted(book[name]):
                    tracker = book[name][path]
                    if is_exceeded(tracker):
                        yield (partition.name, kind, name, path), partition, tracker


def excess_of(tracker: Tracker) -> Excess:
    """Excess of a user or group over a limit."""
    most = tracker.max_applications
    beyond = max(0, tracker.started_applications - most) if most else 0
    return Excess(over_max(tracker), beyond)


def is_exceeded(tracker: Tracker) -> bool:
    """True if more is allocated than the limit says, or more applications run."""
    return excess_of(tracker) != NO_EXCESS


def over_max(quota: Quota) -> dict[str, int]:
    """Allocated amounts beyond the maximum, by resource name."""
    beyond = {
        name: quota.allocated.get(name, 0) - bound for name, bound in (quota.max or EMPTY).items()
    }
    return {name: value for name, value in beyond.items() if value > 0}


def exceeds(amounts: Mapping[str, int], others: Mapping[str, int]) -> bool:
    """True if there is more of anything than among the others."""
    return any(value > others.get(name, 0) for name, value in amounts.items())


def _reported(partition: Partition, tracker: Tracker, *, already: bool) -> ExceededLimit:
    limit = tracker.max or EMPTY
    return ExceededLimit(
        partition=partition.name,
        queue=tracker.path,
        kind=tracker.kind,
        name=tracker.name,
        used={name: tracker.allocated.get(name, 0) for name in limit},
        limit=dict(limit),
        applications=tracker.started_applications,
        max_applications=tracker.max_applications,
        already=already,
    )
