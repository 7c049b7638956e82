"""Facts about changes of queues between two moments, for subscribers (spec §§ 4.14, 10.9)."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from licorne_core.config.schema import LimitConfig
from licorne_core.messages.events.cluster import (
    limit_changed,
    queue_changed,
    queue_guaranteed_changed,
    queue_max_changed,
    queue_type_changed,
)
from licorne_core.messages.events.records import EventChange, EventRecord
from licorne_core.model.queues.queue import Queue
from licorne_core.values.resources import EMPTY, Resources

_LimitKey = tuple[str, str]


@dataclass(frozen=True, slots=True)
class QueueSnapshot:
    """Published properties of a queue at some time."""

    managed: bool
    is_leaf: bool
    max: Resources
    guaranteed: Resources
    limits: tuple[LimitConfig, ...]


Change = tuple[Queue, QueueSnapshot | None, QueueSnapshot | None]
"""A queue, and its snapshots before and after; a snapshot is None if the queue did not exist."""


def snapshot(queue: Queue) -> QueueSnapshot:
    """Copy the current settings of the queue."""
    return QueueSnapshot(
        queue.managed, queue.is_leaf, queue.max or EMPTY, queue.guaranteed or EMPTY, queue.limits.listed
    )


def facts(changes: Iterable[Change], now: float) -> Iterator[EventRecord]:
    """Facts of queue changes in this order, followed by all facts of limits.

    A new queue is published with its limits only, and without its sizes (spec § 12.1.4).
    """
    changes = list(changes)
    for change in changes:
        yield from queue_facts(change, now)
    for change in changes:
        yield from limit_facts(change, now)


def queue_facts(change: Change, now: float) -> Iterator[EventRecord]:
    """Facts of one queue, without its limits."""
    queue, known, found = change
    if known is None:
        if found is not None:
            yield queue_changed(now, queue.path, EventChange.ADD, managed=found.managed)
    elif found is None:
        yield queue_changed(now, queue.path, EventChange.REMOVE, managed=known.managed)
    elif known != found:
        yield from _changed(queue, known, found, now)


def limit_facts(change: Change, now: float) -> Iterator[EventRecord]:
    """Facts of the limits of one queue."""
    queue, known, found = change
    was, is_ = _limits(known), _limits(found)
    if was is not is_ and was != is_:
        yield from _limits_changed(queue, was, is_, now)


def _changed(queue: Queue, known: QueueSnapshot, found: QueueSnapshot, now: float) -> Iterator[EventRecord]:
    if known.is_leaf != found.is_leaf:
        yield queue_type_changed(now, queue.path, is_leaf=found.is_leaf)
    if known.max != found.max:
        yield queue_max_changed(now, queue.path, found.max)
    if known.guaranteed != found.guaranteed:
        yield queue_guaranteed_changed(now, queue.path, found.guaranteed)


def _limits(of: QueueSnapshot | None) -> tuple[LimitConfig, ...]:
    return () if of is None else of.limits


def _by_name(limits: tuple[LimitConfig, ...]) -> dict[_LimitKey, int]:
    """Positions of the limits of each user and each group, in their order."""
    names: dict[_LimitKey, int] = {}
    for number, limit in enumerate(limits):
        for user in limit.users:
            names["user", user] = number
        for group in limit.groups:
            names["group", group] = number
    return names


def _limits_changed(
    queue: Queue, was: tuple[LimitConfig, ...], is_: tuple[LimitConfig, ...], now: float
) -> Iterator[EventRecord]:
    """Facts of one queue's limits. Two limits are compared once, however many names they have."""
    before, after = _by_name(was), _by_name(is_)
    for kind, name in before:
        if (kind, name) not in after:
            yield limit_changed(now, kind, name, queue.path, None)
    same: dict[tuple[int, int], bool] = {}
    for (kind, name), number in after.items():
        limit, known = is_[number], before.get((kind, name))
        if known is not None:
            pair = (known, number)
            if pair not in same:
                same[pair] = _amounts(was[known]) == _amounts(limit)
            if same[pair]:
                continue
        yield limit_changed(now, kind, name, queue.path, limit.max_resources or EMPTY)


def _amounts(limit: LimitConfig) -> tuple[Resources, int]:
    return (limit.max_resources or EMPTY, limit.max_applications)
