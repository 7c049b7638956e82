"""How much a queue may have, and how much of its due it has: pure functions (spec §§ 4.5-4.9)."""

from collections.abc import Iterable

from licorne_core.queues.queue import Queue
from licorne_core.resources import Resources, is_zero, min_undefined, without_zeros


def max_in_force(size: Resources | None) -> Resources | None:
    """The maximum that a configured `max` sets; None for no maximum at all.

    Unset and empty are no maximum. A zero forbids its type, also where there is nothing but
    zeros: a type at zero is not available to the queue (the page on queue configuration, which
    spec § 4.6 puts above the older core).
    """
    return size or None


def guaranteed_in_force(size: Resources | None) -> Resources | None:
    """What a configured `guaranteed` promises; None for unset, empty and nothing but zeros."""
    return None if size is None or is_zero(size) else size


def headroom(queue: Queue) -> Resources:
    """What can still be allocated in the queue before a maximum is reached (spec § 4.7).

    A type that is not in it is unlimited for every queue of the lineage; below zero means
    that the queue, or one above it, has more than its maximum. Root's maximum, the size
    of the cluster, counts by the types that it has.
    """
    return _tightest(queue.lineage)


def max_headroom(queue: Queue) -> Resources:
    """The headroom that the queue would have in a cluster of any size."""
    return _tightest(queue.lineage[:-1])


def _tightest(queues: Iterable[Queue]) -> Resources:
    room: Resources = {}
    for queue in queues:
        if queue.max is not None:
            allocated = queue.allocated
            left = {name: limit - allocated.get(name, 0) for name, limit in queue.max.items()}
            room = min_undefined(room, left)
    return room


def fair_max(queue: Queue) -> Resources:
    """What the queue's share is measured by where nothing is guaranteed (spec § 4.8).

    Root's maximum without the types that the cluster has none of; below it, a queue's own
    maximum of a type takes the place of what is above it, be it larger or smaller.
    """
    root = queue.lineage[-1]
    size = without_zeros(root.max or {})
    for below in reversed(queue.lineage[:-1]):
        size.update(below.max or {})
    return size


def denominators(queue: Queue) -> dict[str, int]:
    """By type, what usage is divided by for the share: guaranteed, or else the fair maximum."""
    return {**fair_max(queue), **(queue.guaranteed or {})}


def share(queue: Queue) -> float:
    """The queue's share, by which siblings are ordered (spec § 4.9): 0.0 for nothing allocated.

    The largest quotient of allocated and the queue's denominator, over the types that have
    one. What should have nothing, and has something, counts as 1.0. Reads the denominators
    that the queue carries, so these have to be up to date.
    """
    return _largest_quotient(queue.allocated, queue.denominators)


def current_share(queue: Queue) -> float:
    """The same for reports, whatever the queue carries."""
    return _largest_quotient(queue.allocated, denominators(queue))


def _largest_quotient(allocated: Resources, divisors: Resources) -> float:
    highest = 0.0
    for name, amount in allocated.items():
        divisor = divisors.get(name)
        if divisor is None or amount <= 0:
            continue
        quotient = amount / divisor if divisor > 0 else 1.0
        if quotient > highest:
            highest = quotient
    return highest
