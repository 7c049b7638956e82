"""Checkpoints: up to when the work of a running allocation is kept, as its RM says in tags (spec § 9)."""

from licorne_core.messages.events.allocations import checkpoint_in_future
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import Request
from licorne_core.partitions.partition import Partition
from licorne_core.values.asks import Ask
from licorne_core.values.tags import CHECKPOINT, LOST_WORK, read_seconds


def note_checkpoint(partition: Partition, app: Application, request: Request, ask: Ask, now: float) -> None:
    """Note up to when the work of a running allocation is kept, if its RM says so in a tag.

    One that lies in the future counts as now.
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


def check_checkpoint(ask: Ask) -> None:
    """Refuse an allocation whose tags say no checkpoint that can be read."""
    _checkpoint(ask, 0.0)


def _checkpoint(ask: Ask, now: float) -> float | None:
    """Checkpoint that the tags say, in unix seconds; None for none."""
    checkpoint = read_seconds(ask.tags, CHECKPOINT)
    if checkpoint is not None:
        return float(checkpoint)
    lost = read_seconds(ask.tags, LOST_WORK, zero=True)
    return None if lost is None else now - lost
