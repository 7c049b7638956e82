"""Checks that each time of enforcement is due to a setting, and that there is a timer for the times."""

from licorne_core.extensions.quota_change.clock import QuotaClock
from licorne_core.values.errors import InvariantBroken


def check_starts(clock: QuotaClock, *, is_watched: bool) -> None:
    """Compare the times with the settings of their queues, and with the timer.

    Raises:
        InvariantBroken: a time has no setting, or no timer.
    """
    for queue, start in clock.starts.items():
        if queue.lineage and not clock.enforces(queue):
            raise InvariantBroken(f"A3: {queue.path} is enforced at {start}, which its settings do not say")
    if clock.starts and not is_watched:
        raise InvariantBroken(f"L1: {len(clock.starts)} queues are enforced at no time")
