"""Empty queues that are draining or dynamic are removed (spec § 4.3)."""

from dataclasses import replace

from licorne_core.handlers.slices import Slice
from licorne_core.partition import Partition
from licorne_core.queues.changes import Change, facts, snapshot
from licorne_core.queues.queue import Queue
from licorne_core.timers import Due, Timer

MOST = 1_000
"""Queues that are removed at a time."""


def clean_queues(partition: Partition, now: float, part: Slice) -> None:
    """Remove empty queues. Of very many some are removed, and the others in the next turn."""
    removed = partition.tree.clean(MOST)
    for queue in removed:
        partition.changes.leave(queue)
    if partition.journal.on:
        for fact in facts(_changes(removed), now):
            partition.journal.note(fact)
    for queue in removed:
        queue.let_go()
    if len(removed) == MOST:
        partition.timers.set(Timer(Due.CLEAN_QUEUES), now)
        part.end()


def _changes(removed: list[Queue]) -> list[Change]:
    """The queues that were removed, and the parents that are leaves without them."""
    changes: list[Change] = [(queue, snapshot(queue), None) for queue in removed]
    for queue in dict.fromkeys(queue.parent for queue in removed):
        if queue is not None and queue.is_leaf:
            found = snapshot(queue)
            changes.append((queue, replace(found, is_leaf=False), found))
    return changes
