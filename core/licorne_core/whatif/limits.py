"""Limits that users and groups exceed (spec § 10)."""

from collections.abc import Iterable

from licorne_core.partition import Partition
from licorne_core.quotas import Quota
from licorne_core.resources import EMPTY
from licorne_core.trackers import Tracker
from licorne_core.whatif.plans import Capped, ExceededLimit


def exceeded_limits(partitions: Iterable[Partition]) -> Capped[ExceededLimit]:
    """All limits of which somebody has more, by partition, users first, by name and queue."""
    found: Capped[ExceededLimit] = Capped()
    for partition in partitions:
        for kind in ("user", "group"):
            book = partition.limits.of_kind(kind)
            for name in sorted(book):
                for path in sorted(book[name]):
                    tracker = book[name][path]
                    if is_exceeded(tracker):
                        found.add(_reported(partition, tracker))
    return found


def is_exceeded(tracker: Tracker) -> bool:
    """Whether more is allocated than the limit says, or more applications run."""
    most = tracker.max_applications
    return bool(over_max(tracker)) or 0 < most < tracker.started_applications


def over_max(quota: Quota) -> dict[str, int]:
    """What is allocated beyond the maximum, by resource name."""
    beyond = {
        name: quota.allocated.get(name, 0) - bound for name, bound in (quota.max or EMPTY).items()
    }
    return {name: value for name, value in beyond.items() if value > 0}


def _reported(partition: Partition, tracker: Tracker) -> ExceededLimit:
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
    )
