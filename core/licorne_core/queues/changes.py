"""The facts about queues between two moments, for those who watch (spec §§ 4.14, 10.9)."""

from collections.abc import Iterator
from dataclasses import dataclass

from licorne_core.config.schema import LimitConfig
from licorne_core.events import Fact
from licorne_core.facts.queues import (
    LimitRemoved,
    LimitSet,
    QueueAdded,
    QueueGuaranteedChanged,
    QueueMaxChanged,
    QueueRemoved,
    QueueTypeChanged,
)
from licorne_core.queues.queue import Queue
from licorne_core.queues.tree import QueueTree
from licorne_core.resources import EMPTY, Resources

_LimitKey = tuple[str, str]


@dataclass(frozen=True, slots=True)
class QueueSnapshot:
    """What those who watch are told of a queue, as it was at some moment."""

    managed: bool
    is_leaf: bool
    max: Resources
    guaranteed: Resources
    limits: tuple[LimitConfig, ...]


Snapshot = dict[Queue, QueueSnapshot]


def snapshot(tree: QueueTree) -> Snapshot:
    """All queues as they are now, parents before their children."""
    return {
        queue: QueueSnapshot(
            queue.managed,
            queue.is_leaf,
            queue.max or EMPTY,
            queue.guaranteed or EMPTY,
            tuple(queue.limits),
        )
        for queue in tree.walk()
    }


def changes(before: Snapshot, after: Snapshot, now: float) -> Iterator[Fact]:
    """The facts that lead from one snapshot to the other: those of queues, then those of limits.

    Removed queues come first, children before parents. New queues follow, parents before children.
    A new queue is told with its limits only, and without its sizes (spec § 12.1.4).
    """
    for queue in reversed(before):
        if queue not in after:
            yield QueueRemoved(now, queue.path, before[queue].managed)
    for queue, found in after.items():
        known = before.get(queue)
        if known is None:
            yield QueueAdded(now, queue.path, found.managed)
        elif known != found:
            yield from _changed(queue, known, found, now)
    for queue in before | after:
        was, is_ = _limits(before.get(queue)), _limits(after.get(queue))
        if was != is_:
            yield from _limits_changed(queue, was, is_, now)


def _changed(
    queue: Queue, known: QueueSnapshot, found: QueueSnapshot, now: float
) -> Iterator[Fact]:
    if known.is_leaf != found.is_leaf:
        yield QueueTypeChanged(now, queue.path, found.is_leaf)
    if known.max != found.max:
        yield QueueMaxChanged(now, queue.path, found.max)
    if known.guaranteed != found.guaranteed:
        yield QueueGuaranteedChanged(now, queue.path, found.guaranteed)


def _limits(of: QueueSnapshot | None) -> tuple[LimitConfig, ...]:
    return () if of is None else of.limits


def _by_name(limits: tuple[LimitConfig, ...]) -> dict[_LimitKey, int]:
    """For each user and each group with a limit, which of these it is, in their order."""
    names: dict[_LimitKey, int] = {}
    for number, limit in enumerate(limits):
        for user in limit.users:
            names["user", user] = number
        for group in limit.groups:
            names["group", group] = number
    return names


def _limits_changed(
    queue: Queue, was: tuple[LimitConfig, ...], is_: tuple[LimitConfig, ...], now: float
) -> Iterator[Fact]:
    """The facts about one queue's limits. Two limits are compared once, however many they name."""
    before, after = _by_name(was), _by_name(is_)
    for kind, name in before:
        if (kind, name) not in after:
            yield LimitRemoved(now, kind, name, queue.path)
    same: dict[tuple[int, int], bool] = {}
    for (kind, name), number in after.items():
        limit, known = is_[number], before.get((kind, name))
        if known is not None:
            pair = (known, number)
            if pair not in same:
                same[pair] = _amounts(was[known]) == _amounts(limit)
            if same[pair]:
                continue
        yield LimitSet(now, kind, name, queue.path, limit.max_resources or EMPTY)


def _amounts(limit: LimitConfig) -> tuple[Resources, int]:
    return (limit.max_resources or EMPTY, limit.max_applications)
