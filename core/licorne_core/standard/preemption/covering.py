"""Smallest sets of victims that cover a shortage, first in rank order (spec § 9.4).

The victims are on the node of a plan, on other nodes so that the ask's queues stay below their maxima (§
9.4.6), or on the node that the ask requires. In the last case no guarantee, fence or restraint counts (§
9.5).

The pending placeholders of a gang count as one ask, with the resource types of the preempting placeholder.
Together they have to stay within the guarantee, and all victims together have to make room for them. Only
sums are compared, not nodes. So preemption is denied only if the gang would wait in vain.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import MAY_GO, Request
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.queue import Queue
from licorne_core.standard.preemption.candidates import Candidates
from licorne_core.standard.preemption.laws import Claim, quota_shortage
from licorne_core.standard.preemption.leaves import VictimLeaf, VictimLeaves
from licorne_core.standard.preemption.units import Units
from licorne_core.standard.preemption.victim_index import room_shortage
from licorne_core.standard.preemption.victims import (
    GROWTH,
    Candidate,
    Unit,
    Vector,
    Victim,
    WhatIf,
    covers,
    less,
)
from licorne_core.values.ids import AppId
from licorne_core.values.resources import EMPTY, Items


class CoveringSets:
    """Sets of candidates by size, then by rank, tried on the what-if books.

    The answer is the first legal set that covers the shortage and for which `accept` is true. During
    `accept` the victims of the set are removed from the books; afterwards they are restored.
    """

    __slots__ = ("_accept", "_allows", "_at", "_chosen", "_largest", "_what_if")

    def __init__(
        self,
        what_if: WhatIf,
        at: Callable[[int], Candidate | None],
        largest: Callable[[int], Vector],
        allows: Callable[[Candidate], bool],
        accept: Callable[[Sequence[Candidate]], bool],
    ) -> None:
        """Search among the candidates for which `allows` is true.

        `at` returns the candidate at an index in order of rank, or None after the last one. `largest`
        returns, by type, the largest amount of one candidate from an index on.
        """
        self._what_if = what_if
        self._at = at
        self._largest = largest
        self._allows = allows
        self._accept = accept
        self._chosen: list[Candidate] = []

    def first(self, missing: Vector) -> tuple[Candidate, ...] | None:
        """Return the first set; None if there is none, or if the steps are used up."""
        needs = [pair for pair in zip(missing, self._largest(0), strict=True) if pair[0]]
        if not all(largest for _, largest in needs):
            return None
        size = max([-(-need // largest) for need, largest in needs], default=0)
        while self._what_if.steps_left > 0:
            reached = self._search(0, size, missing)
            if reached is None:
                return tuple(self._chosen)
            if reached < size:
                return None
            size += 1
        return None

    def _search(self, start: int, size: int, missing: Vector) -> int | None:
        """Add `size` victims from the index `start` on. Return None on success: `_chosen` is the set.

        Otherwise return an upper bound on the size of a set that starts with the chosen victims and could
        suffice; larger sets need not be tried.
        """
        if size == 0:
            return None if not any(missing) and self._accept(self._chosen) else 0
        what_if = self._what_if
        most = 0
        index = start
        while what_if.steps_left > 0 and (one := self._at(index)) is not None:
            for largest, need in zip(self._largest(index), missing, strict=True):
                if largest * size < need:
                    return size if largest else most
            index += 1
            if not self._allows(one) or not what_if.take(one):
                continue
            self._chosen.append(one)
            reached = self._search(index, size - 1, less(missing, one.gives))
            what_if.put_back(one)
            if reached is None:
                return None
            self._chosen.pop()
            most = max(most, reached + 1)
        return most


def sets_of(
    candidates: Sequence[Candidate],
    types: int,
    what_if: WhatIf,
    accept: Callable[[Sequence[Candidate]], bool],
) -> CoveringSets:
    """Return the sets of these candidates, given in rank order, with amounts of `types` types."""
    largest: list[Vector] = [(0,) * types]
    for one in reversed(candidates):
        largest.append(tuple(map(max, largest[-1], one.gives)))
    largest.reverse()
    return CoveringSets(
        what_if,
        lambda index: candidates[index] if index < len(candidates) else None,
        largest.__getitem__,
        lambda _: True,
        accept,
    )


Kinds = frozenset[int]
"""Allowed kinds of victims."""

REGULAR: Kinds = frozenset({GROWTH, 0})


class OtherNodes:
    """All candidates of a search in order of rank, found lazily."""

    __slots__ = (
        "_cached_first",
        "_candidates",
        "_known",
        "_largest",
        "_most",
        "_source",
        "_what_if",
        "asked",
    )

    asked: bool
    """True if victims on other nodes were searched for."""

    def __init__(self, candidates: Candidates, what_if: WhatIf) -> None:
        """Start without a search."""
        self._candidates = candidates
        self._what_if = what_if
        self._known: list[Candidate] = []
        self._source: Iterator[Candidate] | None = None
        self._most: Vector | None = None
        self._largest: Vector | None = None
        self._cached_first: dict[Kinds, tuple[Candidate, ...] | None] = {}
        self.asked = False

    @property
    def most(self) -> Vector:
        """Upper bound on the amounts of all candidates within the laws, by the ask's types."""
        if self._most is None:
            victim_leaves = list(self._candidates.leaves)
            self._most = tuple([_most_of(victim_leaves, name) for name in self._candidates.names])
        return self._most

    @property
    def largest(self) -> Vector:
        """Largest amount of one candidate, by the ask's types."""
        if self._largest is None:
            candidates = self._candidates
            victim_leaves = list(candidates.leaves)
            self._largest = tuple(
                [
                    max((candidates.largest(victim_leaf, name) for victim_leaf in victim_leaves), default=0)
                    for name in candidates.names
                ]
            )
        return self._largest

    def fewest(self, missing: Vector) -> int:
        """Lower bound on the number of candidates that cover the shortage."""
        pairs = zip(missing, self.largest, strict=True)
        return max([-(-need // most) for need, most in pairs if need and most], default=0)

    def all_but(self, node: Node) -> Iterator[Candidate]:
        """Candidates on other nodes, in order of rank."""
        index = 0
        while (one := self._at(index)) is not None:
            index += 1
            if not one.is_on(node):
                yield one

    def cached_first(self, node: Node, kinds: Kinds, missing: Vector) -> tuple[Candidate, ...] | None:
        """The result of `first` while no victim is removed; cached, as it is the same for most nodes."""
        if kinds not in self._cached_first:
            found = self.first(missing, None, kinds)
            if self._what_if.steps_left <= 0:
                return None
            self._cached_first[kinds] = found
        known = self._cached_first[kinds]
        if known is None or not any(one.is_on(node) for one in known):
            return known
        return self.first(missing, node, kinds)

    def least(self) -> int | None:
        """Lower bound on the number of regular victims of any plan; None if unknown."""
        found = self._cached_first.get(REGULAR)
        return None if found is None else len(found)

    def first(self, missing: Vector, node: Node | None, kinds: Kinds) -> tuple[Candidate, ...] | None:
        """Return the first set without victims on `node` that covers the shortage; None if there is none."""
        self.asked = True
        if not covers(self.most, missing):
            return None
        sets = CoveringSets(
            self._what_if,
            self._at,
            lambda _: self.largest,
            lambda one: one.kind in kinds and (node is None or not one.is_on(node)),
            lambda _: True,
        )
        return sets.first(missing)

    def _at(self, index: int) -> Candidate | None:
        """The candidate at an index in order of rank; None after the last one."""
        known = self._known
        if index >= len(known):
            if self._source is None:
                self._source = self._candidates.in_order()
            one = next(self._source, None)
            if one is None:
                return None
            known.append(one)
        return known[index]


def _most_of(victim_leaves: Iterable[VictimLeaf], name: str) -> int:
    """Upper bound on the amount of a type that victims in the leaves free: usage, limited by allowances.

    The surplus of a queue that one leaf uses is not available to the next one. The queues are a tree, so the
    total does not depend on the order.
    """
    taken: dict[Queue, int] = {}
    total = 0
    for victim_leaf in victim_leaves:
        leaf = victim_leaf.leaf
        most = leaf.allocated.get(name, 0) - leaf.preempting.get(name, 0)
        for queue, above in victim_leaf.above:
            if name in above:
                most = min(most, above[name] - taken.get(queue, 0))
        most = max(0, most)
        for queue in leaf.lineage:
            taken[queue] = taken.get(queue, 0) + most
        total += most
    return total


def gang_amounts(app: Application, request: Request) -> Items:
    """Amounts of all pending placeholders, in the types of the request; empty if it is no placeholder.

    Asks with a promise count in their queues already. The request is counted without its own promise.
    """
    if not request.ask.placeholder:
        return ()
    total = dict.fromkeys([name for name, _ in request.ask.ask_class.items], 0)
    waiting = {group: group.waiting for group in app.groups.values() if group.waiting and group.key[2]}
    for other in app.reserved.values():
        if other is not request and other.promise is not None and other.group in waiting:
            waiting[other.group] -= other.is_pending
    for group, count in waiting.items():
        for name, value in group.ask_class.items:
            if name in total:
                total[name] += value * count
    return tuple(total.items())


def may_be_complete(leaves: VictimLeaves, claim: Claim, leaf: Queue, together: Items) -> bool:
    """True if the claim covers these amounts, and victims can free room for all of them.

    The leaves are those inside the fence of all asks together, which may be lower than the first ask's fence.
    Victims on a node beyond its capacity free room on that node first. So the room that becomes free is at
    most root's maximum.
    """
    root = leaf.lineage[-1]
    size = root.max or EMPTY
    fit = all(value + root.promised.get(name, 0) <= size.get(name, 0) for name, value in together)
    if not (fit and claim.covers(together)):
        return False
    victim_leaves = list(leaves)
    short = zip(together, quota_shortage(leaf.lineage, together), strict=True)
    return all(lacking <= _most_of(victim_leaves, name) for (name, _), lacking in short)


def required_node_victims(
    app: Application, request: Request, node: Node, applications: Mapping[AppId, Application], units: Units
) -> tuple[Victim, ...]:
    """Return the victims for a pending ask that requires the node, with all of their units.

    Victims are collected until they free what the ask lacks, on the node and in the cluster, or all that it
    requests. The result is empty if they free too little on the node, or if current victims free enough.
    """
    wanted = request.ask.ask_class.items
    short = room_shortage(node, wanted)
    if not any(short):
        return ()
    beyond = quota_shortage((app.leaf.lineage[-1],), wanted)
    lacking = zip(short, beyond, wanted, strict=True)
    missing = needed = tuple([max(here, min(above, value)) for here, above, (_, value) in lacking])
    names = [name for name, _ in wanted]
    victims: dict[Request, Victim] = {}
    for together in sorted(_on_required(request, node, applications, units), key=lambda one: one.rank(names)):
        further = [victim for victim in together.victims if victim.request not in victims]
        left = less(missing, _freed_on(node, further, wanted))
        if left != missing:
            victims |= {victim.request: victim for victim in further}
            missing = left
    return tuple(victims.values()) if covers(less(needed, missing), short) else ()


def stays_too_full(root: Queue, request: Request, node: Node, victims: Iterable[Victim]) -> bool:
    """True if the ask exceeds the maximum of root even without its victims on the required node.

    In that case other nodes have more allocated than their capacity.
    """
    wanted = request.ask.ask_class.items
    return not covers(_freed_on(node, victims, wanted), quota_shortage((root,), wanted))


def _freed_on(node: Node, victims: Iterable[Victim], wanted: Items) -> Vector:
    """Amounts that the victims free on the node, by the ask's types."""
    sizes = [victim.request.ask.ask_class.resources for victim in victims if victim.node is node]
    return tuple([sum([size.get(name, 0) for size in sizes]) for name, _ in wanted])


def _on_required(
    request: Request, node: Node, applications: Mapping[AppId, Application], units: Units
) -> Iterator["_OnRequired"]:
    wanted = [name for name, _ in request.ask.ask_class.items]
    seen: set[Unit] = set()
    for allocation in node.allocations:
        app = applications[allocation.ask.app_id]
        first = Victim(app, app.requests[allocation.key], node)
        unit = units.unit(app, first.request)
        if unit is not None:
            if unit in seen:
                continue
            seen.add(unit)
        found = _OnRequired(first, unit)
        there = found.victims if unit is None else unit.on(node)
        if any(
            victim.request.ask.ask_class.resources.get(name, 0) > 0 for victim in there for name in wanted
        ) and all(_gives_way(victim.request, request) for victim in found.victims):
            yield found


def _gives_way(other: Request, request: Request) -> bool:
    return (
        other.state in MAY_GO
        and other.priority <= request.priority
        and other.ask.ask_class.required_node is None
    )


class _OnRequired:
    """Victims on a node that an ask requires: an allocation, or a unit of a gang."""

    __slots__ = ("_first", "_step", "victims")

    def __init__(self, first: Victim, unit: Unit | None) -> None:
        """Create the victims from an allocation, or from its unit."""
        self.victims = (first,) if unit is None else unit.victims
        self._first = first.request if unit is None else unit.first.request
        self._step = 0 if unit is None else unit.grows

    def rank(self, names: list[str]) -> tuple[int, int, float, int, str, str]:
        """Sort key: growth, then regular victims, then opted-out ones, then originators (spec § 9.5).

        Size is the total of the ask's types, `names`.
        """
        asks = [victim.request.ask for victim in self.victims]
        kind = max([2 if ask.originator else 0 if ask.allow_preempt_self else 1 for ask in asks])
        size = sum([ask.ask_class.resources.get(name, 0) for ask in asks for name in names])
        before = max([victim.request.priority for victim in self.victims])
        if self._step:
            kind, before = GROWTH, -self._step
        first = self._first
        return (kind, before, -first.create_time, size, first.key, first.ask.app_id)
