"""Tags of running allocations: their start times, and the time up to which work is saved (spec § 9)."""

from typing import Final

from licorne_core.messages.events.allocations import checkpoint_in_future
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import Request
from licorne_core.partitions.partition import Partition
from licorne_core.values.asks import Ask
from licorne_core.values.errors import Refusal, Rejected
from licorne_core.values.tags import CHECKPOINT, LOST_WORK, STARTED, read_seconds

MOST_AHEAD: Final = 60.0
"""Seconds by which the clock of an RM may be ahead: a start up to this much later counts as now."""


def note_checkpoint(partition: Partition, app: Application, request: Request, ask: Ask, now: float) -> None:
    """Record the checkpoint of a running allocation, if its RM reports one in a tag.

    A checkpoint in the future counts as now.
    """
    checkpoint = _checkpoint(ask, now)
    if checkpoint is None:
        return
    if checkpoint > now:
        partition.journal.note(checkpoint_in_future(now, request.ask, checkpoint))
        checkpoint = now
    if checkpoint != request.checkpoint:
        request.checkpoint = checkpoint
        partition.leaf_of(app).counters.checkpoints += 1


def note_start(request: Request, ask: Ask, now: float) -> None:
    """Record when a running allocation started, if its RM reports the time in a tag."""
    started = read_seconds(ask.tags, STARTED)
    if started is not None:
        request.started = min(float(started), now)


def check_reported(ask: Ask, now: float) -> None:
    """Refuse an allocation whose tags have an invalid checkpoint or start time."""
    _checkpoint(ask, 0.0)
    started = read_seconds(ask.tags, STARTED)
    if started is not None and started > now + MOST_AHEAD:
        ahead = started - int(now)
        raise Rejected(
            f"tag {STARTED}: '{started}' is {ahead} s in the future, and no allocation can have begun",
            Refusal.INVALID,
        )


def _checkpoint(ask: Ask, now: float) -> float | None:
    """Checkpoint in the tags, in unix seconds; None if there is none."""
    checkpoint = read_seconds(ask.tags, CHECKPOINT)
    if checkpoint is not None:
        return float(checkpoint)
    lost = read_seconds(ask.tags, LOST_WORK, zero=True)
    return None if lost is None else now - lost
