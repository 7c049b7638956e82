"""Updates after time has passed without a command."""

from licorne_core.partitions.partition import Partition
from licorne_core.points import MOST_SETTLED


def settle_order(partition: Partition, now: float) -> None:
    """Bring the order of all pending asks up to date, for a reader outside of a turn."""
    if partition.usage.tracking:
        follow_time(partition, now)
    for extension in partition.points.pass_time:
        extension.pass_time(now, MOST_SETTLED)
    partition.dirty.settle()


def follow_time(partition: Partition, now: float) -> bool:
    """Let the extensions that track usage advance to `now`.

    Returns False if one of them has too much work for one turn: then a later turn decides.
    """
    usage = partition.usage
    usage.time = max(now, usage.time)
    for extension in partition.points.begin:
        if not extension.begin(now):
            return False
    return True
