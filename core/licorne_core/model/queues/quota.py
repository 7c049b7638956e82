"""Maximum, guarantee and share of a queue, as pure functions (spec §§ 4.5-4.9)."""

from licorne_core.model import quotas
from licorne_core.model.queues.queue import Queue
from licorne_core.values.resources import Resources, is_zero, min_undefined, without_zeros


def max_in_force(size: Resources | None) -> Resources | None:
    """The maximum that a configured `max` sets; None for no maximum at all (spec § 4.6).

    Unset and empty are no maximum. A zero forbids its type, beside other amounts and alone.
    """
    return size or None


def guaranteed_in_force(size: Resources | None) -> Resources | None:
    """Guarantee from a configured `guaranteed`; None for unset, empty and nothing but zeros."""
    return None if size is None or is_zero(size) else size


def headroom(queue: Queue) -> Resources:
    """Headroom of the queue: amounts that still fit below every maximum (spec § 4.7).

    A type that no queue of the lineage limits is left out. An amount below zero means that a queue
    of the lineage has more than its maximum. Root's maximum is the size of the cluster, and only
    the types that the cluster has count there.
    """
    room: Resources = {}
    for above in queue.lineage:
        room = min_undefined(room, quotas.headroom(above))
    return room


def fair_max(queue: Queue) -> Resources:
    """Measure of the queue's share where nothing is guaranteed (spec § 4.8).

    It begins with root's maximum, without zeros. On the way down, each queue's own maximum of a
    type replaces the one from above, be it larger or smaller.
    """
    root = queue.lineage[-1]
    size = without_zeros(root.max or {})
    for below in reversed(queue.lineage[:-1]):
        size.update(below.max or {})
    return size


def denominators(queue: Queue) -> dict[str, int]:
    """Divisors of usage for the share, by type: guaranteed, or else the fair maximum."""
    return {**fair_max(queue), **(queue.guaranteed or {})}


def derive_denominators(queue: Queue) -> None:
    """Derive the denominators of the queue, which depend on the queues above it only.

    Most queues have those of their parent: one mapping for all takes less memory.
    """
    found, parent = denominators(queue), queue.parent
    same = parent is not None and parent.denominators == found
    queue.denominators = parent.denominators if parent is not None and same else found


def share(queue: Queue) -> float:
    """Share of the queue, the sort key of siblings (spec § 4.9): 0.0 for nothing allocated.

    It is the largest quotient of allocated and the queue's denominator, over the types that have a
    denominator. Usage of a type whose denominator is zero counts as 1.0. The function reads the
    denominators that the queue carries, so they have to be up to date.
    """
    return largest_quotient(queue.allocated, queue.denominators)


def current_share(queue: Queue) -> float:
    """The share by denominators that are derived on the spot, for reports."""
    return largest_quotient(queue.allocated, denominators(queue))


def largest_quotient(allocated: dict[str, int], divisors: dict[str, int]) -> float:
    """Largest quotient of allocated amounts and divisors: see `share`."""
    highest = 0.0
    for name, amount in allocated.items():
        divisor = divisors.get(name)
        if divisor is None or amount <= 0:
            continue
        quotient = amount / divisor if divisor > 0 else 1.0
        if quotient > highest:
            highest = quotient
    return highest
