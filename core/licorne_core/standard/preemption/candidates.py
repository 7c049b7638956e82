"""Candidates: possible victims of one ask (spec § 9.3, laws 3 and 5 to 7)."""

from collections.abc import Iterator, Sequence
from heapq import merge
from typing import Any

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import MAY_GO, Request, seconds_lost, seconds_run
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.queue import Queue
from licorne_core.standard.preemption.laws import Claim, Fence, Out
from licorne_core.standard.preemption.leaves import VictimLeaf, VictimLeaves
from licorne_core.standard.preemption.losses import loss_of
from licorne_core.standard.preemption.units import Units
from licorne_core.standard.preemption.victim_index import VictimIndex
from licorne_core.standard.preemption.victims import (
    GROWTH,
    NO_PRICE,
    Age,
    Allowance,
    Candidate,
    Cost,
    Unit,
    Victim,
    age_of,
    costs_of,
    kind_of,
    loss_price,
)
from licorne_core.values.ids import AppId
from licorne_core.values.resources import EMPTY, Items, charge


class Candidates:
    """The candidates of one search, found lazily. Times are in unix seconds."""

    found: bool
    """True if a candidate was found so far."""
    judged: int
    """Number of allocations examined."""
    now: float
    """The time of the search."""
    names: tuple[str, ...]
    """The ask's types, in order."""
    by_cost: bool
    """True if the ask's queue compares costs of victims."""

    __slots__ = (
        "_index",
        "_is_sorted",
        "_judged_units",
        "_size",
        "_some",
        "by_cost",
        "found",
        "judged",
        "leaves",
        "names",
        "now",
        "units",
    )

    def __init__(
        self, index: VictimIndex, leaf: Queue, claim: Claim, fence: Fence, wanted: Items, now: float
    ) -> None:
        """Prepare a search for an ask of the leaf with this claim."""
        self._index = index
        self.leaves = VictimLeaves(index, leaf, claim, fence, wanted, now)
        self.names = tuple([name for name, _ in wanted])
        self.now = now
        self.by_cost = self.leaves.by_cost
        self._size = leaf.lineage[-1].max or EMPTY
        # True if the order of ranks differs from that by age.
        self._is_sorted = self.by_cost or bool(index.in_units)
        self._judged_units: dict[Unit, Candidate | Out] = {}
        self._some: dict[tuple[tuple[AppId, int], ...], bool] = {}
        self.found = False
        self.judged = 0
        self.units = Units(index.nodes, index.applications, index.in_units)

    @property
    def looked_at(self) -> int:
        """Number of examined allocations, leaves and gang members."""
        return self.judged + self.leaves.judged + self.units.looked_at

    def on_node(self, node: Node) -> list[Candidate]:
        """Candidates on a node, in order of rank."""
        found = list(self.on_node_by_age(node))
        if self._is_sorted:
            found.sort(key=_rank)
        return found

    def regular_on(self, node: Node) -> Iterator[Candidate]:
        """Regular candidates on a node, in rank order."""
        if self._is_sorted:
            return (one for one in self.on_node(node) if one.kind <= 0)
        return self.on_node_by_age(node, only_regular=True)

    def on_node_by_age(self, node: Node, *, only_regular: bool = False) -> Iterator[Candidate]:
        """Candidates on a node, in the order of age; units of gangs in any order."""
        if not self.any_on(node):
            return
        applications = self._index.applications
        tenants = []
        for allocation in node.allocations:
            app = applications[allocation.ask.app_id]
            request = app.requests[allocation.ask.key]
            tenants.append((age_of(request), app, request))
        tenants.sort(key=_age)
        seen: set[Unit] = set()
        for age, app, request in tenants:
            if only_regular and age[0] > 0:
                return
            victim_leaf = self.leaves.of(app.leaf)
            if not isinstance(victim_leaf, VictimLeaf):
                continue
            unit = self.units.unit(app, request)
            if unit is None:
                candidate = self.judge(app, request, node, victim_leaf)
                if isinstance(candidate, Candidate):
                    yield candidate
            while unit is not None and unit not in seen:
                seen.add(unit)
                candidate = self.unit_on(node, unit, victim_leaf)
                if isinstance(candidate, Candidate):
                    yield candidate
                unit = unit.whole

    def any_on(self, node: Node) -> bool:
        """True if leaf and priority allow a victim on the node."""
        apps = self._index.contents(node).apps
        known = self._some.get(apps)
        if known is None:
            known = self._some[apps] = any(self._may_have_victim(*lowest) for lowest in apps)
        return known

    def _may_have_victim(self, app_id: AppId, priority: int) -> bool:
        victim_leaf = self.leaves.of(self._index.applications[app_id].leaf)
        if not isinstance(victim_leaf, VictimLeaf):
            return False
        return victim_leaf.priority is None or priority <= victim_leaf.priority

    def in_order(self) -> Iterator[Candidate]:
        """All candidates, in order of rank."""
        if self.by_cost:
            candidates = [one for victim_leaf in self.leaves for one in self.of(victim_leaf)]
            return iter(sorted(candidates, key=_rank))
        return merge(*[self.of(victim_leaf) for victim_leaf in self.leaves], key=_rank)

    def of(self, victim_leaf: VictimLeaf) -> Iterator[Candidate]:
        """Candidates of a leaf, in order of age."""
        units = sorted(self._units_of(victim_leaf), key=_rank)
        alone = self._alone_in(victim_leaf)
        return merge(units, alone, key=_rank) if units else alone

    def _alone_in(self, victim_leaf: VictimLeaf) -> Iterator[Candidate]:
        """Candidates of a leaf that are in no unit, in order of age."""
        index = self._index
        for running in index.leaf(victim_leaf.leaf).order:
            if running.may_go:
                request, node = running.request, index.nodes[running.allocation.node_id]
                app = index.applications[request.ask.app_id]
                if self.units.unit(app, request) is None:
                    judged = self.judge(app, request, node, victim_leaf)
                    if isinstance(judged, Candidate):
                        yield judged

    def _units_of(self, victim_leaf: VictimLeaf) -> Iterator[Candidate]:
        """Units of the gangs of a leaf."""
        for app in self.units.in_leaf(victim_leaf.leaf):
            for unit in dict.fromkeys(self.units.of(app).values()):
                judged = self.judge_unit(unit, victim_leaf)
                if isinstance(judged, Candidate):
                    yield judged

    def judged_in(self, victim_leaf: VictimLeaf) -> Iterator[tuple[Sequence[Request], Out | None]]:
        """Groups of the leaf's allocations that stop together, and the reason to spare each, or None."""
        seen: set[Unit] = set()
        for app in victim_leaf.leaf.applications.values():
            for request in app.booked():
                unit = self.units.unit(app, request)
                if unit is None:
                    if request.state in MAY_GO:
                        yield (request,), self.refusal(request, victim_leaf)
                elif unit not in seen:
                    seen.add(unit)
                    judged = self.judge_unit(unit, victim_leaf)
                    together = [victim.request for victim in unit.victims]
                    yield together, judged if isinstance(judged, Out) else None

    def largest(self, victim_leaf: VictimLeaf, name: str) -> int:
        """Largest amount of a type in one allocation of the leaf, or in one of its gangs in units."""
        largest = self._index.leaf(victim_leaf.leaf).largest.get(name, 0)
        gangs = self.units.in_leaf(victim_leaf.leaf)
        return max([largest, *(app.allocated.get(name, 0) for app in gangs)])

    def judge(
        self, app: Application, request: Request, node: Node, victim_leaf: VictimLeaf
    ) -> Candidate | Out:
        """Return an allocation of the leaf as a candidate, or the reason why it is not one."""
        out = self.refusal(request, victim_leaf)
        if out is not None:
            return out
        ask_class = request.ask.ask_class
        sizes = ask_class.resources
        gives = tuple([sizes.get(name, 0) for name in self.names])
        lost: Items = ()
        rank: Age | Cost = age_of(request)
        price = NO_PRICE
        if victim_leaf.may_lose or self.by_cost:
            seconds = self.seconds_lost(request, victim_leaf)
            lost = _loss(ask_class.items, seconds, victim_leaf)
            if self.by_cost:
                price = (request.priority, loss_price(request, seconds, self._size))
                rank = costs_of(request, price[1])
        charges = charges_of(ask_class.items, lost, victim_leaf)
        victim = Victim(app, request, node)
        return Candidate(victim, kind_of(request), rank, gives, charges, price=price)

    def judge_unit(self, unit: Unit, victim_leaf: VictimLeaf) -> Candidate | Out:
        """Return a unit as a candidate on all its nodes together; it is examined once in a search."""
        known = self._judged_units.get(unit)
        if known is None:
            known = self._judged_units[unit] = self._judge_members(unit, victim_leaf)
        return known

    def _judge_members(self, unit: Unit, victim_leaf: VictimLeaf) -> Candidate | Out:
        kind, priority, costs, silent = unit.kind, unit.first.request.priority, 0, False
        given: dict[str, int] = {}
        losses: dict[str, int] = {}
        for victim in unit.victims:
            request = victim.request
            self.judged += 1
            out = Out.NOT_RUNNING if request.state not in MAY_GO else self._restraint(request, victim_leaf)
            if out is not None:
                return out
            items = request.ask.ask_class.items
            priority = max(priority, request.priority)
            charge(given, items)
            if victim_leaf.may_lose or self.by_cost:
                seconds = self.seconds_lost(request, victim_leaf)
                charge(losses, _loss(items, seconds, victim_leaf))
                costs += loss_price(request, seconds, self._size)
                silent |= request.checkpoint is None
        total = tuple([given.get(name, 0) for name in self.names])
        if max(total) <= 0:
            return Out.OTHER_TYPES
        self.found = True
        _, youth, app_id, key = age_of(unit.first.request)
        if unit.grows:
            kind, priority = GROWTH, -unit.grows
        rank: Age | Cost = (kind, float(priority) if unit.grows else youth, app_id, key)
        if self.by_cost:
            rank = (kind, priority, costs, silent, youth, app_id, key)
        charges = charges_of(tuple(given.items()), tuple(losses.items()), victim_leaf) + unit.parts
        price = (0 if unit.grows else priority, costs) if self.by_cost else NO_PRICE
        return Candidate(unit.first, kind, rank, total, charges, unit, price=price)

    def unit_on(self, node: Node, unit: Unit, victim_leaf: VictimLeaf) -> Candidate | Out:
        """Return a unit as a candidate on one of its nodes."""
        whole = self.judge_unit(unit, victim_leaf)
        if isinstance(whole, Out):
            return whole
        given: dict[str, int] = {}
        for victim in unit.on(node):
            charge(given, victim.request.ask.ask_class.items)
        gives = tuple([given.get(name, 0) for name in self.names])
        return Candidate(
            whole.victim, whole.kind, whole.rank, gives, whole.charges, unit, whole.total, whole.price
        )

    def refusal(self, request: Request, victim_leaf: VictimLeaf) -> Out | None:
        """Reason why an allocation of the leaf may not be a victim; None if it may."""
        self.judged += 1
        if request.state not in MAY_GO:
            return Out.NOT_RUNNING
        ask_class = request.ask.ask_class
        if ask_class.required_node is not None:
            return Out.REQUIRED_NODE
        sizes = ask_class.resources
        if max([sizes.get(name, 0) for name in self.names]) <= 0:
            return Out.OTHER_TYPES
        out = self._restraint(request, victim_leaf)
        if out is None:
            self.found = True
        return out

    def _restraint(self, request: Request, victim_leaf: VictimLeaf) -> Out | None:
        """Reason to spare an allocation: fair shares, the ask's priority or settings of the leaf; or None."""
        if not victim_leaf.is_counted(request.ask.ask_class.resources):
            return Out.OTHER_TYPES
        if victim_leaf.priority is not None and request.priority > victim_leaf.priority:
            return Out.HIGHER_PRIORITY
        minimum = victim_leaf.leaf.settings.preemption_minimum_runtime
        if minimum or victim_leaf.may_lose:
            if seconds_run(request, self.now) < minimum:
                return Out.TOO_YOUNG
            items = request.ask.ask_class.items
            lost = _loss(items, self.seconds_lost(request, victim_leaf), victim_leaf)
            if any(amount > victim_leaf.may_lose[name] for name, amount in lost):
                return Out.LOSS_LIMIT
        return None

    def seconds_lost(self, request: Request, victim_leaf: VictimLeaf) -> float:
        """Seconds of work that are lost if the leaf's allocation is stopped now."""
        return seconds_lost(request, victim_leaf.checkpoint, self.now)


def _age(tenant: tuple[Age, Application, Request]) -> Age:
    return tenant[0]


def _rank(candidate: Candidate) -> Any:
    # A step may have the same youngest member as its whole gang; then the step has the lower rank.
    return candidate.rank, len(candidate.victims)


def _loss(items: Items, seconds: float, victim_leaf: VictimLeaf) -> Items:
    """Loss of the leaf by one victim, in the types of its loss limit, including zeros."""
    if not victim_leaf.may_lose:
        return ()
    lost = dict(loss_of(items, seconds))
    return tuple([(name, lost.get(name, 0)) for name in victim_leaf.may_lose])


def charges_of(items: Items, lost: Items, victim_leaf: VictimLeaf) -> tuple[tuple[Allowance, str, int], ...]:
    """Charges of a victim to those allowances of its leaf from which it takes something."""
    charges = [
        (allowance, name, amount)
        for allowance in victim_leaf.allowances
        for name, amount in items
        if name in allowance
    ]
    if lost:
        charges += [(victim_leaf.losses, name, amount) for name, amount in lost]
    return tuple(charges)
