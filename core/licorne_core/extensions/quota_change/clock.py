"""Times at which changed maxima are enforced (spec § 9.6).

An excess that remains after the enforcement is tolerated until the configuration changes again, or further
allocations are recovered or resized.
"""

from collections.abc import Generator, Iterable
from math import inf
from typing import NamedTuple

from licorne_core.extensions.quota_change import NAME
from licorne_core.model.queues.queue import Queue
from licorne_core.points import Former
from licorne_core.values.resources import EMPTY, Resources
from licorne_core.values.slices import PART, put_in_order

CHECK_INTERVAL = 1.0
"""Seconds between two checks of the queues with a start time."""


class QuotaTerms(NamedTuple):
    """Settings of a queue for the enforcement of its maximum.

    `delay` is in seconds; 0.0 means that the maximum is never enforced.
    """

    max: Resources | None
    delay: float


def terms_of(queue: Queue, *, enabled: bool, before: Former | None = None) -> QuotaTerms:
    """Current terms of the queue or, with `before`, its former terms; `enabled` is the partition's switch."""
    bound, settings, managed = before or (queue.max, queue.settings, queue.managed)
    enforced = enabled and managed and queue.parent is not None
    return QuotaTerms(bound, (settings.of(NAME) or 0.0) if enforced else 0.0)


def start_time(
    before: QuotaTerms, after: QuotaTerms, *, above_max: bool, start: float | None, now: float
) -> float | None:
    """Time of enforcement after a configuration update; None if there is none (table of § 9.6).

    `start` is the previous time. `above_max` is True if the queue exceeds its new maximum. A first maximum
    counts as lowered, as the queue was unlimited. Times are in unix seconds.
    """
    if not (after.delay and after.max and above_max):
        return None
    if start is not None:
        return start + (after.delay - before.delay)
    switched_on = not before.delay and after.max == before.max
    if switched_on or _is_lower(after.max, before.max):
        return now + after.delay
    return None


def _is_lower(after: Resources, before: Resources | None) -> bool:
    """True if the new maximum is lower for any type. A missing type is unlimited."""
    bounds = before or EMPTY
    return any(name not in bounds or value < bounds[name] for name, value in after.items())


def is_above_max(queue: Queue) -> bool:
    """True if the queue's allocations exceed its maximum in any type."""
    allocated = queue.allocated
    return any(allocated.get(name, 0) > bound for name, bound in (queue.max or EMPTY).items())


class QuotaClock:
    """Times of enforcement of the maxima in a partition.

    Only managed queues below root are enforced: root's maximum is the size of the cluster.
    """

    def __init__(self, *, enabled: bool) -> None:
        """Start without times; `enabled` is the switch of the partition."""
        self.enabled = enabled
        self.starts: dict[Queue, float] = {}
        """Start times by queue, in unix seconds. Removed queues, which have no lineage, may be included."""

    def start(self, queue: Queue) -> float:
        """Time of enforcement of the queue, in unix seconds; 0.0 if there is none."""
        return self.starts.get(queue, 0.0)

    def on_reload(self, queue: Queue, before: QuotaTerms, now: float) -> None:
        """Set the start time after a new configuration of the queue; `before` has its old terms."""
        start = start_time(
            before,
            terms_of(queue, enabled=self.enabled),
            above_max=is_above_max(queue),
            start=self.starts.pop(queue, None),
            now=now,
        )
        if start is not None:
            self.starts[queue] = start

    def on_growth(self, lineage: Iterable[Queue], now: float) -> None:
        """Set start times after allocations in these queues regardless of maxima (recovery, resize)."""
        for queue in lineage:
            delay = terms_of(queue, enabled=self.enabled).delay
            if delay and queue not in self.starts and is_above_max(queue):
                self.starts[queue] = now + delay

    def next_deadline(self, now: float) -> float | None:
        """Time of the next call of `due`; None while no queue has a start time."""
        return now + CHECK_INTERVAL if self.starts else None

    def due(self, now: float) -> Generator[int, None, list[Queue]]:
        """Find the queues to enforce now, parents before children; yield the costs of the steps.

        A queue that is within its maximum again loses its start time. Descendants of a due queue wait for
        the next check, because its victims reduce their usage too.
        """
        found = []
        for number, queue in enumerate(list(self.starts), 1):
            if not is_above_max(queue):
                self.starts.pop(queue, None)
            elif self.starts.get(queue, inf) <= now:
                found.append(queue)
            if not number % PART:
                yield 1
        due: dict[Queue, None] = {}
        for number, queue in enumerate((yield from put_in_order(found, key=_names)), 1):
            if not any(above in due for above in queue.lineage):
                due[queue] = None
            if not number % PART:
                yield 1
        return list(due)

    def take(self, queue: Queue, now: float) -> bool:
        """Delete the start time of a queue that was due; True if it is still due and above its maximum."""
        if self.starts.get(queue, inf) > now:
            return False
        del self.starts[queue]
        return is_above_max(queue)

    def enforces(self, queue: Queue) -> bool:
        """True if the settings require that the queue's maximum is enforced after a delay."""
        return bool(terms_of(queue, enabled=self.enabled).delay)


def _names(queue: Queue) -> list[str]:
    return queue.path.split(".")
