"""Deadline of budgets: advances them in time.

This is not done in `pass_time`, which is for the order of applications: budgets do not affect it.
"""

from typing import Final

from licorne_core.extensions.hours import NAME
from licorne_core.extensions.hours.extension import Hours
from licorne_core.handlers.outcome import Deadline, Deadlines, Firing
from licorne_core.values.timers import Timer


def _follow(firing: Firing, _: Timer) -> None:
    own = firing.partition.points.named(NAME)
    assert isinstance(own, Hours)
    firing.slice.left -= own.follow_time(firing.now, firing.slice.left)


DEADLINES: Final[Deadlines] = {NAME: Deadline(_follow)}
