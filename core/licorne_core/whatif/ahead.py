"""Horizon of a plan: as long as delays of preemption make asks and queues wait."""

from collections.abc import Iterable

from licorne_core.partitions.partition import Partition

MARGIN = 5.0
"""Seconds behind the last delay: a node is reserved for an ask after two (spec § 8.5), and queues
above their maxima are looked at each second (§ 9.6)."""

MOST_AHEAD = 3600.0
"""Seconds that a plan looks ahead at most."""


def seconds_ahead(partitions: Iterable[Partition], now: float) -> float:
    """The seconds until the last delay has passed, and a margin; 0.0 where nothing waits.

    The waits are those of asks, for `preemption.delay`, and queues above a lowered maximum, for their
    `quota.preemption.delay`.
    """
    delays = [0.0]
    for partition in partitions:
        for queue in partition.tree.all():
            if queue.is_leaf and queue.pending:
                delays.append(queue.settings.preemption_delay + MARGIN)
            start = partition.quota_clock.start(queue)
            if start:
                delays.append(max(0.0, start - now) + MARGIN)
    return max(delays)


def has_nothing_to_wait_for(partitions: Iterable[Partition]) -> bool:
    """True if no ask is pending, and no queue above its maximum has its turn to come."""
    return not any(p.tree.root.pending or p.quota_clock.is_waiting for p in partitions)
