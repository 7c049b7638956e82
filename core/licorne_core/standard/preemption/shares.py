"""Fair shares of queues, up to which the asks of a queue may preempt (docs/reclaiming.md).

The amounts of a queue are divided among its children, level by level from root: of each resource, the
children with demand get their guarantees first, and then the remainder in proportion to these. No child gets
more than its demand, which is its usage without victims and its pending asks, or more than its maximum.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from licorne_core.model.nodes.book import NodeBook
from licorne_core.model.nodes.node import Recent
from licorne_core.model.queues.guarantees import guaranteed, settled
from licorne_core.model.queues.queue import Queue
from licorne_core.scheduling.waiting.dirty import Dirty
from licorne_core.values.errors import InvariantBroken
from licorne_core.values.resources import Items

MOST_KEPT: Final = 10_000
"""Maximum number of cached divisions; beyond it the cache is emptied, which also forgets removed queues."""


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

    Siblings without a guarantee get nothing before the demand of those with one is met. If the amount is less
    than the guarantees, it is divided in proportion to them.
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


class Divisions:
    """The resources of nodes, divided among queues; cached until a demand below the parent changes."""

    def __init__(self, nodes: NodeBook, dirty: Dirty | None) -> None:
        """Divide the resources of these nodes; if `dirty` is None, nothing is cached between searches."""
        self.work = 0
        """Number of parts that the current search has derived."""
        self._nodes = nodes
        self._dirty = dirty
        # By parent and type: the amount, and the parts of its children.
        self._kept: dict[Queue, dict[str, tuple[int, dict[Queue, int]]]] = {}

    def refresh(self) -> None:
        """Drop divisions among queues whose demand has changed."""
        if self._dirty is None or len(self._kept) > MOST_KEPT:
            self._kept.clear()
        for parent in self._changed():
            self._kept.pop(parent, None)
        if self._dirty is not None:
            self._dirty.demands = self._dirty.demands or Recent()
            self._dirty.demands_read = self._dirty.demands.count

    def _changed(self) -> set[Queue]:
        """Parents of queues whose demand has changed."""
        dirty = self._dirty
        changed = (
            [] if dirty is None or dirty.demands is None else list(dirty.demands.since(dirty.demands_read))
        )
        if any(queue.parent is None for queue in changed):
            return {*self._kept}
        return {parent for queue in changed for parent in queue.lineage[1:]}

    def share(self, queue: Queue, name: str) -> int:
        """Fair share of the queue of a type; for root, the usable amount of the nodes."""
        parent = queue.parent
        if parent is None:
            return self._nodes.usable.get(name, 0)
        amount = self.share(parent, name)
        parts = self._kept.setdefault(parent, {})
        known = parts.get(name)
        if known is None or known[0] != amount:
            found = parts_of(parent, name, amount)
            self.work += len(found)
            # A queue without demand may be removed without a change here.
            known = parts[name] = (amount, {child: part for child, part in found.items() if part})
        return known[1].get(queue, 0)

    def check(self) -> None:
        """Rule P5: cached divisions without later changes are right. Raises InvariantBroken."""
        for parent in self._kept.keys() - self._changed():
            for name, (amount, kept) in self._kept[parent].items():
                now = parts_of(parent, name, amount)
                if any(part != kept.get(child, 0) for child, part in now.items()):
                    raise InvariantBroken(f"P5: {parent!r}: {name} is divided into {now}, kept {kept}")


def parts_of(parent: Queue, name: str, amount: int) -> dict[Queue, int]:
    """The children's parts of an amount of a type."""
    children = list(parent.children.values())
    wanted = [_wanted(child, name) for child in children]
    due = [guaranteed(child, name) for child in children]
    return dict(zip(children, divided(amount, wanted, due), strict=True))


class DueShares:
    """Fair shares of the types of an ask in one search; derived from the live books as far as needed."""

    def __init__(self, names: Iterable[str], divisions: Divisions) -> None:
        """Start without shares; `names` are the types of the ask."""
        self._names = sorted(names)
        self._divisions = divisions
        divisions.refresh()
        self._known: dict[Queue, dict[str, int]] = {}

    def of(self, queue: Queue) -> dict[str, int]:
        """Fair share of the queue by type."""
        known = self._known.get(queue)
        if known is None:
            known = {name: self._divisions.share(queue, name) for name in self._names}
            self._known[queue] = known
        return known

    def cover(self, queue: Queue, wanted: Items) -> bool:
        """True if the queue and the amounts stay within its share."""
        share = self.of(queue)
        return all(settled(queue, name) + value <= share[name] for name, value in wanted)

    def excess(self, queue: Queue) -> dict[str, int] | None:
        """Amount above the share, of the type with most usage relative to it; None if no type exceeds it.

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


def _wanted(queue: Queue, name: str) -> int:
    """Demand of the queue: usage without victims and pending asks, up to its maximum."""
    demand = queue.allocated.get(name, 0) - queue.preempting.get(name, 0) + queue.pending.get(name, 0)
    limit = queue.max
    return demand if limit is None or name not in limit else min(demand, limit[name])
