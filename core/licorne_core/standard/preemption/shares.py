"""Fair shares of queues, up to which the asks of a queue may preempt (docs/reclaiming.md).

The amounts of a queue are divided among its children, level by level from root: of each resource, the
children with demand get their guarantees first, and then the remainder in proportion to these. No child gets
more than its demand, which is its usage without victims and its pending asks, or more than its maximum.
"""

from collections.abc import Iterable, Sequence

from licorne_core.model.queues.guarantees import guaranteed, settled
from licorne_core.model.queues.queue import Queue
from licorne_core.values.resources import EMPTY, Items


def filled(amount: int, bounds: Sequence[int], weights: Sequence[int]) -> list[int]:
    """Max-min fair parts of the amount in proportion to the weights, none above its bound; rounded down.

    A bound that is not reached affects no part. So victims change no share if their queue keeps its share.
    """
    parts = [0] * len(bounds)
    order = [place for place, bound in enumerate(bounds) if bound > 0 and weights[place] > 0]
    order.sort(key=lambda place: bounds[place] / weights[place])
    weight = sum([weights[place] for place in order])
    for number, place in enumerate(order):
        if bounds[place] * weight > amount * weights[place]:
            for left in order[number:]:
                parts[left] = min(bounds[left], amount * weights[left] // weight)
            break
        parts[place] = bounds[place]
        amount -= bounds[place]
        weight -= weights[place]
    return parts


def divided(amount: int, wanted: Sequence[int], due: Sequence[int]) -> list[int]:
    """Parts of an amount for siblings with these wanted and guaranteed amounts.

    Siblings without a guarantee get nothing before those with one have all that they want. If the amount is
    less than the guarantees, it is divided in proportion to them.
    """
    first = [min(pair) for pair in zip(wanted, due, strict=True)]
    rest = amount - sum(first)
    if rest <= 0:
        return filled(amount, first, due)
    more = [want - part if own else 0 for want, part, own in zip(wanted, first, due, strict=True)]
    given = filled(rest, more, due)
    if given == more:
        others = [0 if own else want for want, own in zip(wanted, due, strict=True)]
        alike = filled(rest - sum(given), others, [1] * len(others))
        given = [part + other for part, other in zip(given, alike, strict=True)]
    return [part + extra for part, extra in zip(first, given, strict=True)]


class DueShares:
    """Fair shares of a few resources in one search; derived from the live books as far as needed."""

    def __init__(self, names: Iterable[str]) -> None:
        """Start without any; `names` are the types of the ask."""
        self._names = sorted(names)
        self._known: dict[Queue, dict[str, int]] = {}
        self.derived = 0
        """Number of queues with a derived share."""

    def of(self, queue: Queue) -> dict[str, int]:
        """Fair share of the queue by type; root has the whole cluster."""
        known = self._known.get(queue)
        if known is None:
            parent = queue.parent
            if parent is None:
                size = queue.max or EMPTY
                self._known[queue] = {name: size.get(name, 0) for name in self._names}
            else:
                self._divide(parent)
            known = self._known[queue]
        return known

    def cover(self, queue: Queue, wanted: Items) -> bool:
        """True if the queue and the amounts stay within its share."""
        share = self.of(queue)
        return all(settled(queue, name) + value <= share[name] for name, value in wanted)

    def excess(self, queue: Queue) -> dict[str, int] | None:
        """Amount above the share, in the type with most usage relative to it; None if in no type.

        Only this type counts. A queue that holds all cores may have little memory, and many asks for more.
        """
        share = self.of(queue)
        found: tuple[float, str, int] | None = None
        for name in self._names:
            used, due = settled(queue, name), share[name]
            if used > due:
                part = used / due if due else float("inf")
                if found is None or part > found[0]:
                    found = part, name, used - due
        return None if found is None else {found[1]: found[2]}

    def _divide(self, parent: Queue) -> None:
        amounts = self.of(parent)
        children = list(parent.children.values())
        self.derived += len(children)
        shares: list[dict[str, int]] = [{} for _ in children]
        for name in self._names:
            wanted = [_wanted(child, name) for child in children]
            due = [guaranteed(child, name) for child in children]
            for share, part in zip(shares, divided(amounts[name], wanted, due), strict=True):
                share[name] = part
        self._known.update(zip(children, shares, strict=True))


def _wanted(queue: Queue, name: str) -> int:
    """Demand of the queue: usage without victims and pending asks, up to its maximum."""
    demand = queue.allocated.get(name, 0) - queue.preempting.get(name, 0) + queue.pending.get(name, 0)
    limit = queue.max
    return demand if limit is None or name not in limit else min(demand, limit[name])
