"""Deadline of a scan, which is executed step by step."""

from typing import Final

from licorne_core.extensions.autoscaler import NAME
from licorne_core.extensions.autoscaler.extension import Autoscaler
from licorne_core.handlers.outcome import Deadline, Deadlines, Firing
from licorne_core.values.timers import Timer


def _inspect(firing: Firing, _: Timer) -> None:
    own = firing.partition.points.named(NAME)
    assert isinstance(own, Autoscaler)
    own.inspect(firing)


DEADLINES: Final[Deadlines] = {NAME: Deadline(_inspect)}
