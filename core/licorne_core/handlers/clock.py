"""What follows the time that has passed without a command: usage by the second, windows, and extensions."""

from math import floor

from licorne_core.partitions.partition import Partition

MOST_BUDGETS = 500
"""Budgets of hours that follow the time in one turn."""

MOST_SETTLED = 500
"""Applications that an extension lets follow the time for a reader."""


def settle_order(partition: Partition, now: float) -> None:
    """Bring the order of all that waits up to date, for a reader of it outside of a turn."""
    if partition.shares.is_on:
        follow_time(partition, now)
    for extension in partition.points.pass_time:
        extension.pass_time(now, MOST_SETTLED)
    partition.dirty.settle()


def follow_time(partition: Partition, now: float) -> bool:
    """Decide by what was used up to the present second, and by the present windows.

    Returns False while there are too many new windows for one turn: another turn decides.
    """
    shares = partition.shares
    shares.now = max(now, shares.now)
    if shares.hours.is_due(now):
        pass_time(partition, now, MOST_BUDGETS)
        if shares.hours.is_due(now):
            return False
    step = floor(now)
    if step != shares.step:
        partition.dirty.ranks.pass_time(step)
    return True


def pass_time(partition: Partition, now: float, most: int) -> int:
    """Let so many budgets of hours follow the time, as a new window may have begun; return how many have."""
    followed, opened = partition.shares.hours.pass_time(now, max(1, most))
    if opened:
        partition.dirty.mark(opened)
    return followed
