"""Victims for several equal asks that preempt in the same turn (spec § 9.4).

Each ask has a plan, victims and a promise of its own. But the best plan for one ask alone may increase the
cost for the next ones: one large victim makes room for all of them, where each ask would stop a small one. So
they are planned for as one ask of the total size, which may be distributed over nodes. The first ask gets its
part of that plan; the others have the first right to the remaining room, and are planned for in the same way.

The best plan for the first ask alone is used unless another set is better for all.
"""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final

from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.queue import Queue
from licorne_core.standard.preemption.candidates import Candidates
from licorne_core.standard.preemption.hosts import AskHosts
from licorne_core.standard.preemption.planning import NEVER, VictimPlan
from licorne_core.standard.preemption.units import Units
from licorne_core.standard.preemption.victim_counts import VictimCounts
from licorne_core.standard.preemption.victims import (
    NO_PRICE,
    Candidate,
    Price,
    Vector,
    Victim,
    WhatIf,
    kind_of,
    less,
    price_of,
)
from licorne_core.values.resources import Items

MOST_TOGETHER: Final = 4
"""Maximum number of asks that are planned for as one."""

FEW_NODES: Final = 16
"""Number of nodes up to which all nodes of a partition are compared."""

NODES_OF_A_SIZE: Final = 4
"""Nodes compared in a larger partition for each number of asks on a node: those with the fewest victims."""

MOST_LOOKED_AT: Final = 32
"""Maximum number of nodes examined to find these nodes, as many may be reserved and have no victims left."""

STEPS: Final = 2_000
"""Maximum number of what-if steps of a search for several asks."""

MOST_ELSEWHERE: Final = 64
"""Maximum number of candidates whose nodes are compared as well if a queue exceeds its maximum."""

Least = tuple[int, ...]
"""Lower bounds on victims by number of asks, from 0; NEVER if there is no room for that number."""


class Spot:
    """A node to compare."""

    __slots__ = ("free", "least", "most", "node")

    def __init__(self, node: Node, least: Least, free: Vector | None, most: int) -> None:
        """Set the fields."""
        self.node = node
        self.least = least
        # Room by the ask's types, once current victims have ended; None if the node can host no ask.
        self.free = free
        # Maximum number of asks that may share the node.
        self.most = most

    def slots(self, freed: Vector, size: Vector) -> int:
        """Number of asks that fit if these amounts are freed in addition."""
        if self.free is None:
            return 0
        rooms = [
            (free + more) // each for free, more, each in zip(self.free, freed, size, strict=True) if each
        ]
        return max(0, min([self.most, *rooms]))


class Together:
    """The best set of victims for this number of equal asks, and the first ask's part of it.

    Sets are compared by price, then by number of victims, then by node and rank of each victim.
    """

    def __init__(
        self,
        candidates: Candidates,
        spots: Sequence[Spot],
        wanted: Items,
        number: int,
        beyond: Vector,
        delaying: int,
        *,
        is_small: bool,
    ) -> None:
        """Plan for `number` asks of this size; `beyond` is their excess over the maxima of their queues.

        The spots are in the order of node ids. In a partition that `is_small` any candidate may bring the
        queues below their maxima; in others only those that make room for an ask, as in a full cluster.
        """
        self._candidates = candidates
        self._spots = spots
        self._delaying = delaying
        self._is_small = is_small
        self._size = tuple([value for _, value in wanted])
        self._number = number
        self._beyond = beyond
        self.what_if = WhatIf(STEPS)
        self._here: dict[Node, list[Candidate]] = {}
        self._bounds: list[Least] = []
        self._fixed: Mapping[Node, Sequence[Candidate]] = {}
        self._chosen: list[Candidate] = []
        self._first_free = 0
        self._best: list[Candidate] | None = None
        self._key: tuple[Price, int] | None = None

    def improve(self, plan: VictimPlan, beyond: Vector) -> VictimPlan | None:
        """The plan, or a better one for all asks; None if there are too few victims for all.

        `beyond` is the excess of the first ask alone.
        """
        fixed = self._same(plan)
        stands = fixed is not None and self._better_with(fixed) is not None
        better = self._better_with(())
        if better is None:
            return plan if stands else None
        return self._part_of_first(better, beyond)

    def _regular(self, node: Node) -> list[Candidate]:
        """Candidates on the node that may share a plan, in order of rank."""
        known = self._here.get(node)
        if known is None:
            candidates = self._candidates
            found = candidates.on_node(node)
            known = [one for one in found if is_plain(one.victim, candidates.units, self._delaying)]
            self._here[node] = known
        return known

    def _same(self, plan: VictimPlan) -> list[Candidate] | None:
        """The victims of the plan as candidates of these asks; None if one is not a candidate."""
        fixed = []
        for victim in plan.victims:
            found = [one for one in self._regular(victim.node) if one.victim.request is victim.request]
            if not found:
                return None
            fixed += found
        return fixed

    def _better_with(self, fixed: Sequence[Candidate]) -> list[Candidate] | None:
        """A set with these candidates that is better than the best so far; None if there is none."""
        self._begin()
        taken = [one for one in fixed if self.what_if.take(one)]
        beyond, price = self._beyond, NO_PRICE
        by_node: dict[Node, list[Candidate]] = {}
        for one in taken:
            by_node.setdefault(one.victim.node, []).append(one)
            beyond, price = less(beyond, one.total), price_of((price, one.price))
        self._fixed, self._chosen, self._first_free = by_node, [*taken], len(taken)
        self._bounds = self._least_from()
        if len(taken) == len(fixed):
            self._visit(0, self._number, beyond, price)
        for one in taken:
            self.what_if.put_back(one)
        return self._best

    def _begin(self) -> None:
        # Its own method: where an attribute is both set and read, mypyc narrows its type to None.
        self._best = None

    def _least_from(self) -> list[Least]:
        """By spot: lower bounds on victims at it and at later spots, by the number of asks without room."""
        after: Least = (0, *[NEVER] * self._number)
        bounds = [after]
        for spot in reversed(self._spots):
            fixed = len(self._fixed.get(spot.node, ()))
            after = tuple([_rest(spot.least, after, asks, fixed) for asks in range(self._number + 1)])
            bounds.append(after)
        return bounds[::-1]

    def _may_improve(self, victims: int, price: Price) -> bool:
        """True if a set of this price, with so many victims beyond the chosen ones, would be the best."""
        number = len(self._chosen) + victims
        return number < NEVER and (self._key is None or (price, number) < self._key)

    def _visit(self, at: int, asks: int, beyond: Vector, price: Price) -> None:
        """Choose victims at the spots from an index on, for this number of asks without room."""
        for index in range(at, len(self._spots)):
            spot = self._spots[index]
            if not self._may_improve(self._bounds[index][asks], price):
                return
            free = self._freed_by_fixed(spot)
            if (self._is_small and any(beyond)) or self._is_of_use(index, asks, price):
                self._at_spot(index, 0, asks, beyond, free, price)
                return
            asks -= min(asks, spot.slots(free, self._size))
        self._note_if_done(asks, beyond, price)

    def _is_of_use(self, index: int, asks: int, price: Price) -> bool:
        """True if victims at the spot may be part of a better set."""
        spot, after = self._spots[index], self._bounds[index + 1]
        fixed = len(self._fixed.get(spot.node, ()))
        present = min(asks, spot.slots(self._freed_by_fixed(spot), self._size))
        return any(
            self._may_improve(max(1, spot.least[here] - fixed) + after[asks - here], price)
            for here in range(present + 1, asks + 1)
        )

    def _at_spot(
        self, index: int, start: int, asks: int, beyond: Vector, freed: Vector, price: Price
    ) -> None:
        """Choose further victims at a spot from a candidate on, and then at the spots that follow."""
        spot = self._spots[index]
        here, fixed = self._regular(spot.node), self._fixed.get(spot.node, ())
        left = asks - min(asks, spot.slots(freed, self._size))
        if self._note_if_done(left, beyond, price):
            return
        taken = len(fixed) + sum([one.victim.node is spot.node for one in self._chosen[self._first_free :]])
        if not self._may_improve(_rest(spot.least, self._bounds[index + 1], asks, taken), price):
            return
        for number in range(start, len(here)):
            one = here[number]
            raised = price_of((price, one.price))
            if self.what_if.steps_left <= 0:
                return
            if one in fixed or not self._may_improve(1, raised) or not self.what_if.take(one):
                continue
            self._chosen.append(one)
            more = tuple([have + gain for have, gain in zip(freed, one.gives, strict=True)])
            self._at_spot(index, number + 1, asks, less(beyond, one.total), more, raised)
            self.what_if.put_back(self._chosen.pop())
        self._visit(index + 1, left, beyond, price)

    def _note_if_done(self, asks: int, beyond: Vector, price: Price) -> bool:
        """Record the chosen victims, if they free room for all asks and are the best so far."""
        if asks or any(beyond):
            return False
        if self._may_improve(0, price):
            self._best, self._key = [*self._chosen], (price, len(self._chosen))
        return True

    def _freed_by_fixed(self, spot: Spot) -> Vector:
        freed = (0,) * len(self._size)
        for one in self._fixed.get(spot.node, ()):
            freed = tuple([have + gain for have, gain in zip(freed, one.gives, strict=True)])
        return freed

    def _part_of_first(self, chosen: Sequence[Candidate], beyond: Vector) -> VictimPlan | None:
        """The plan for the first ask, with victims of the set: on the first node by id on which it fits."""
        for spot in self._spots:
            here = [one for one in chosen if one.victim.node is spot.node]
            freed = (0,) * len(self._size)
            on_node: list[Candidate] = []
            for one in here:
                if spot.slots(freed, self._size):
                    break
                on_node.append(one)
                freed = tuple([have + gain for have, gain in zip(freed, one.gives, strict=True)])
            if spot.slots(freed, self._size):
                return _plan(spot.node, on_node, chosen, beyond)
        return None


def _rest(least: Least, after: Least, asks: int, taken: int) -> int:
    """Lower bound on further victims for `asks` asks, at a spot with some chosen and at later spots."""
    return min([max(0, least[here] - taken) + after[asks - here] for here in range(asks + 1)])


def is_plain(victim: Victim, units: Units, delaying: int) -> bool:
    """True for a victim that is stopped alone and immediately, is no originator and has not opted out.

    `delaying` are the bits of extensions that may delay its stop.
    """
    app, request, _ = victim
    leaf: Queue = app.leaf
    return not (kind_of(request) or leaf.interests & delaying or units.unit(app, request) is not None)


def times(items: Items, number: int) -> Items:
    """The amounts of this number of equal asks."""
    return tuple([(name, value * number) for name, value in items])


def spots_for(
    hosts: AskHosts,
    tables: Sequence[VictimCounts],
    plan: VictimPlan,
    elsewhere: Candidates | None,
    *,
    is_small: bool,
) -> list[Spot]:
    """The nodes to compare, by id; `tables` have the victim counts for each number of asks from 1.

    With `elsewhere` they include nodes whose candidates may bring queues below their maxima.
    """
    nodes = {node.node_id: node for node in (plan.node, *[victim.node for victim in plan.other_nodes])}
    for table in tables:
        first = [node for _, node in islice(table.in_order(), FEW_NODES if is_small else MOST_LOOKED_AT)]
        if not is_small:
            first = [node for node in first if not node.reservations][:NODES_OF_A_SIZE]
        nodes.update({node.node_id: node for node in first})
    for one in islice(elsewhere.in_order(), MOST_ELSEWHERE) if elsewhere is not None else ():
        nodes[one.victim.node.node_id] = one.victim.node
    spots = []
    for node_id in sorted(nodes):
        least = [table.least(node_id) for table in tables]
        room = hosts.room(nodes[node_id], len(tables))
        if room is None:
            spots.append(Spot(nodes[node_id], (0, *[NEVER] * len(tables)), None, 0))
        else:
            bounds = (0, *[NEVER if few is None else few for few in least])
            spots.append(Spot(nodes[node_id], bounds, *room))
    return spots


def is_least(plan: VictimPlan, tables: Sequence[VictimCounts]) -> bool:
    """True if no nodes need fewer victims for all asks than the plan's number times the asks.

    Even then the plan may use victims that the other asks need. Among few nodes this is searched for.
    """
    firsts = [next(table.in_order(), None) for table in tables]
    each = (0, *[NEVER if first is None else first[0] for first in firsts])
    bounds = [0]
    for asks in range(1, len(each)):
        bounds.append(min([each[here] + bounds[asks - here] for here in range(1, asks + 1)]))
    return bounds[-1] >= len(tables) * len(plan.victims)


def _plan(node: Node, on_node: list[Candidate], chosen: Sequence[Candidate], beyond: Vector) -> VictimPlan:
    """The plan with these victims on the node, and others of the set while queues exceed their maxima."""
    for one in on_node:
        beyond = less(beyond, one.total)
    part = [*on_node]
    for one in chosen:
        if not any(beyond):
            break
        rest = less(beyond, one.total)
        if one not in part and rest != beyond:
            part.append(one)
            beyond = rest
    victims = [one.victim for one in part]
    return VictimPlan(
        node,
        tuple([victim for victim in victims if victim.node is node]),
        tuple([victim for victim in victims if victim.node is not node]),
        price=price_of([one.price for one in part]),
    )
