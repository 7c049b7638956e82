"""Victims: their order, what-if books, and the allocations of leaves by age (spec §§ 9.3, 9.4).

*Allowances* bound the victims of a search: a queue's excess over its guarantee (law 2), and the loss
that a leaf may still have in this hour. An allowance is derived from the live books at its first use
in a search. A victim is charged to the allowances, never to the books. Victims are put back in any
order.
"""

from bisect import insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import isfinite
from typing import NamedTuple, TypeVar

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import BOOKED, MAY_GO, Request
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.queue import Queue
from licorne_core.values.asks import Allocation
from licorne_core.values.errors import InvariantBroken
from licorne_core.values.resources import Items, charge

OPTED_OUT = 2
ORIGINATOR = 1
GROWTH = -1
"""Kind of a gang step with only regular victims; it is stopped before all others."""

Age = tuple[int, float, str, str]
"""Kind, negated time of the ask, application, key; unique in a partition."""

Cost = tuple[int, int, int, bool, float, str, str]
"""Kind, priority, lost work, True if the checkpoint is assumed, then as in `Age`."""

Price = tuple[int, int]
"""Priority and lost work of victims, compared in this order; NO_PRICE if costs are not compared."""

NO_PRICE: Price = (-(2**31), 0)

PARTS = 10**9
"""Number of parts of the cluster in which lost work is counted."""

MOST_LOST = 1e30
"""Maximum lost work of one victim."""

COST_TAG = "licorne/preemption-cost"
"""Tag of an ask with the cost of one second of lost work: 0 or more; the default is 1."""


def kind_of(request: Request) -> int:
    """Sum of OPTED_OUT and ORIGINATOR; 0 for a regular victim. The smallest is stopped first."""
    ask = request.ask
    return (0 if ask.allow_preempt_self else OPTED_OUT) + (ORIGINATOR if ask.originator else 0)


def age_of(request: Request) -> Age:
    """Rank by age: the youngest first."""
    ask = request.ask
    return (kind_of(request), -request.create_time, ask.app_id, ask.key)


def costs_of(request: Request, lost: int) -> Cost:
    """Rank by cost: kind, priority, then the lost work (`loss_price`), smallest first."""
    kind, youth, app_id, key = age_of(request)
    silent = request.checkpoint is None
    return (kind, request.priority, lost, silent, youth, app_id, key)


def loss_price(request: Request, seconds: float, size: Mapping[str, int]) -> int:
    """Lost work of this many seconds: the request's share of the cluster `size`, times seconds and cost.

    The result is a whole number, so that totals do not depend on their order.
    """
    items = request.ask.ask_class.items
    part = sum([value / size[name] for name, value in items if size.get(name)])
    return round(min(cost_of(request.ask.tags) * (max(0.0, seconds) * part * PARTS), MOST_LOST))


def price_of(prices: Iterable[Price]) -> Price:
    """Price of victims together: the highest priority of any, and the total of their lost work."""
    highest, lost = NO_PRICE
    for priority, loss in prices:
        highest, lost = max(highest, priority), lost + loss
    return highest, lost


def cost_of(tags: Mapping[str, str]) -> float:
    """Cost of one second of lost work; 1 if the tag is missing or invalid."""
    try:
        cost = float(tags[COST_TAG])
    except (KeyError, ValueError):
        return 1.0
    return cost if isfinite(cost) and cost >= 0 else 1.0


Allowance = dict[str, int]
"""Amounts that victims may take, by resource name."""

Vector = tuple[int, ...]
"""Amounts in the order of the ask's types."""


Result = TypeVar("Result")


class Victim(NamedTuple):
    """An allocation to be stopped."""

    app: Application
    request: Request
    node: Node


class Unit:
    """Members of one gang that are stopped together: a step, or the whole gang. Compared by identity."""

    __slots__ = ("_by_node", "first", "grows", "kind", "parts", "step", "victims", "whole")

    def __init__(
        self,
        victims: tuple[Victim, ...],
        parts: tuple[tuple[Allowance, str, int], ...],
        step: int = 0,
        whole: "Unit | None" = None,
    ) -> None:
        """Set the fields; a step gets the `whole` gang."""
        self.victims = victims
        self.whole = whole
        # The youngest member, by which the unit is ranked.
        self.first = min(victims, key=_youth)
        self._by_node: dict[Node, list[Victim]] = {}
        for victim in victims:
            self._by_node.setdefault(victim.node, []).append(victim)
        # The union of its members' kinds.
        self.kind = 0
        for victim in victims:
            self.kind |= kind_of(victim.request)
        # Number of the step; 0 for the whole gang.
        self.step = step
        # The step if all its members are regular, else 0. Such steps are stopped first, the highest first.
        self.grows = 0 if self.kind else step
        # Charges for the parts of the gang.
        self.parts = parts

    def on(self, node: Node) -> Sequence[Victim]:
        """The members on a node."""
        return self._by_node.get(node, ())

    def ranked_by(self, request: Request) -> tuple[Request, ...]:
        """All members if the unit has its rank from this request; else none."""
        return tuple([victim.request for victim in self.victims]) if self.first.request is request else ()


def _youth(victim: Victim) -> tuple[float, str]:
    return (-victim.request.create_time, victim.request.key)


class Candidate:
    """A possible victim of one search."""

    __slots__ = ("charges", "gives", "kind", "price", "rank", "step", "total", "unit", "victim", "victims")

    def __init__(
        self,
        victim: Victim,
        kind: int,
        rank: Age | Cost,
        gives: Vector,
        charges: tuple[tuple[Allowance, str, int], ...],
        unit: Unit | None = None,
        total: Vector | None = None,
        price: Price = NO_PRICE,
    ) -> None:
        """Set the fields; `total` is that of a unit of a gang."""
        self.price = price
        self.victim = victim
        self.unit = unit
        # The victim, with all members that are stopped together with it.
        self.victims = (victim,) if unit is None else unit.victims
        # See `Unit.grows`.
        self.step = 0 if unit is None else unit.grows
        # See `kind_of`, or GROWTH.
        self.kind = kind
        # Sort key: the smallest is stopped first; unique in a search.
        self.rank = rank
        # Freed amounts, by the ask's types: on the victim's node, then by all victims on all nodes.
        self.gives = gives
        self.total = gives if total is None else total
        # Allowance, resource name and amount of each charge.
        self.charges = charges

    def is_on(self, node: Node) -> bool:
        """True if the candidate, or a member of its unit, is on the node."""
        return self.victim.node is node if self.unit is None else bool(self.unit.on(node))


class WhatIf:
    """What-if books: victims are removed from allowances and restored, in a limited number of steps."""

    __slots__ = ("_most", "gave_up", "steps", "steps_left")

    steps_left: int
    """Steps left for the current attempt."""
    steps: int
    """Steps so far, of all attempts."""
    gave_up: bool
    """True if the last attempt used up its steps."""

    def __init__(self, most: int) -> None:
        """Allow `most` steps, in addition to those of greedy attempts."""
        self._most = most
        self.steps_left = most
        self.steps = 0
        self.gave_up = False

    @property
    def exhausted(self) -> bool:
        """True if all steps are used up."""
        return self.steps >= self._most

    def within(self, share: int, attempt: Callable[[], Result]) -> Result:
        """Return the result of an attempt with at most `share` steps."""
        self.steps_left = min(share, self._most - self.steps)
        result = attempt()
        self.gave_up = self.steps_left <= 0
        return result

    def take(self, candidate: Candidate) -> bool:
        """Remove a victim, if the laws allow it in addition to the victims already removed."""
        self.steps += 1
        self.steps_left -= 1
        charges = candidate.charges
        for allowance, name, amount in charges:
            if allowance[name] < amount:
                return False
        for allowance, name, amount in charges:
            allowance[name] -= amount
        return True

    @staticmethod
    def put_back(candidate: Candidate) -> None:
        """Undo `take`."""
        for allowance, name, amount in candidate.charges:
            allowance[name] += amount


def covers(vector: Vector, missing: Vector) -> bool:
    """True if `vector` has enough of every type."""
    return all(have >= need for have, need in zip(vector, missing, strict=True))


def less(missing: Vector, given: Vector) -> Vector:
    """Amounts still missing after `given`; never negative."""
    return tuple([need - have if need > have else 0 for need, have in zip(missing, given, strict=True)])


def amounts_of(victims: Sequence[Victim]) -> Items:
    """Total amounts of these victims."""
    if len(victims) == 1:
        return victims[0].request.ask.ask_class.items
    total: dict[str, int] = {}
    for victim in victims:
        charge(total, victim.request.ask.ask_class.items)
    return tuple(total.items())


MOST_ENDED = 64
"""Maximum number of ended allocations that stay in the order of a leaf."""


class Running(NamedTuple):
    """An allocation in the order of a leaf; stale if its request has another allocation now."""

    age: Age
    request: Request
    allocation: Allocation

    @property
    def may_go(self) -> bool:
        """True if the allocation is confirmed, and is not being stopped."""
        request = self.request
        return request.allocation is self.allocation and request.state in MAY_GO


class LeafAllocations:
    """Cached allocations of a leaf by age.

    Always true after `refresh`: `order` has all possible victims of the leaf, in order of rank. It may also
    have other booked allocations, and a few ended ones. `largest` is the largest amount of one allocation in
    `order`, by type.
    """

    __slots__ = ("_added", "_known", "_leaf", "_median", "_released", "_seen", "largest", "order")

    def __init__(self, leaf: Queue) -> None:
        """Start without allocations."""
        self._leaf = leaf
        self.order: list[Running] = []
        self.largest: dict[str, int] = {}
        # The allocations in `order`, and the counters and usage of the leaf at the last `refresh`.
        self._known: set[Allocation] = set()
        self._seen: tuple[int, int, int, dict[str, int]] | None = None
        # The counter of releases at the last removal of ended allocations; the additions since then.
        self._released = 0
        self._added = 0
        # The median of checkpoints, and the counters for which it is true.
        self._median: tuple[object, float | None] = (None, None)

    def median_checkpoint(self) -> float | None:
        """Median of the last checkpoints of its allocations, in unix seconds; None if no RM reported one."""
        self.refresh()
        at = (self._leaf.counters.checkpoints, self._seen)
        if self._median[0] != at:
            booked = (one.request for one in self.order if one.request.allocation is one.allocation)
            known = sorted(one.checkpoint for one in booked if one.checkpoint is not None)
            self._median = (at, known[(len(known) - 1) // 2] if known else None)
        return self._median[1]

    def refresh(self) -> None:
        """Add allocations booked since the last call."""
        leaf, counters = self._leaf, self._leaf.counters
        made, ended = counters.allocations_made, counters.allocations_released
        # A resized request has another allocation, even if it has its old size again.
        now = (made, ended, counters.allocations_resized, dict(leaf.allocated))
        if now == self._seen:
            return
        self._seen = now
        # No counter includes assumed allocations that were rolled back, so additions count too.
        ended = counters.allocations_released - self._released
        if max(ended, self._added - len(self.order) // 2) > MOST_ENDED:
            self._released = counters.allocations_released
            self._take_out_ended()
        added = [one for app in leaf.applications.values() for one in self._new_in(app)]
        if len(added) > MOST_ENDED:
            self.order += added
            self.order.sort(key=_age_of)
        else:
            for one in added:
                insort(self.order, one, key=_age_of)
        self._note(added)

    def check(self) -> None:
        """Rule P5: the order has all possible victims. Raises InvariantBroken."""
        self.refresh()
        kept = [one.request for one in self.order if one.may_go]
        apps = self._leaf.applications.values()
        here = [one for app in apps for one in app.booked() if one.state in MAY_GO]
        if len(kept) != len(here) or set(kept) != set(here):
            raise InvariantBroken(f"P5: {self._leaf!r}: {len(here)} may go, {len(kept)} are kept")

    def _new_in(self, app: Application) -> Iterator[Running]:
        """Yield booked allocations of the application that are not in `order`, the latest first."""
        for request in reversed(app.requests.values()):
            if request.state in BOOKED:
                allocation = request.allocation
                assert allocation is not None, f"{request!r} runs nowhere"
                if allocation in self._known:
                    return
                yield Running(age_of(request), request, allocation)

    def _take_out_ended(self) -> None:
        self.order = [one for one in self.order if one.request.allocation is one.allocation]
        self.largest = {}
        self._known = set()
        self._note(self.order)
        self._added = 0

    def _note(self, added: Sequence[Running]) -> None:
        largest = self.largest
        self._added += len(added)
        for one in added:
            self._known.add(one.allocation)
            for name, amount in one.allocation.ask.ask_class.items:
                if amount > largest.get(name, 0):
                    largest[name] = amount


def _age_of(running: Running) -> Age:
    return running.age
