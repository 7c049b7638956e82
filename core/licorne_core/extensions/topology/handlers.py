"""The deadline of places that are reserved for lost members."""

from typing import Final

from licorne_core.extensions.topology import NAME
from licorne_core.extensions.topology.extension import topology_of
from licorne_core.handlers.outcome import Deadline, Deadlines, Firing
from licorne_core.values.timers import Timer


def _overdue(firing: Firing, timer: Timer) -> None:
    """End the time during which the place of a lost member is reserved."""
    topology_of(firing.partition).places.overdue(firing.partition.applications[timer.app_id], timer.key)


DEADLINES: Final[Deadlines] = {NAME: Deadline(_overdue)}
