"""Candidates: possible victims of one ask (spec § 9.3, laws 3 and 5 to 7)."""

from collections.abc import Iterator, Sequence
from heapq import merge
from typing import Any

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import MAY_GO, Request
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.queue import Queue
from licorne_core.scheduling.preemption.laws import Fence, Out
from licorne_core.scheduling.preemption.leaves import VictimLeaf, VictimLeaves
from licorne_core.scheduling.preemption.ledger import loss_of
from licorne_core.scheduling.preemption.units import Units
from licorne_core.scheduling.preemption.victim_index import VictimIndex
from licorne_core.scheduling.preemption.victims import (
    GROWTH,
    Age,
    Allowance,
    Candidate,
    Cost,
    Unit,
    Victim,
    age_of,
    costs_of,
    kind_of,
    seconds_lost,
    seconds_run,
)
from licorne_core.values.ids import AppId
from licorne_core.values.resources import Items, charge


class Candidates:
    """The candidates of one search, found lazily. Time is in unix seconds."""

    __slots__ = (
        "_by_cost",
        "_index",
        "_some",
        "found",
        "judged",
        "leaves",
        "names",
        "now",
        "units",
    )

    found: bool
    """True if a candidate was found so far."""
    judged: int
    """Number of allocations looked at."""
    now: float
    """The time of the search."""
    names: tuple[str, ...]
    """The ask's types, in order."""

    def __init__(
        self, index: VictimIndex, leaf: Queue, protected: Queue, fence: Fence, wanted: Items, now: float
    ) -> None:
        """Search for an ask of the leaf; `protected` is the queue whose guarantee the ask claims."""
        self._index = index
        self.leaves = VictimLeaves(index, leaf, protected, fence, wanted, now)
        self.names = tuple([name for name, _ in wanted])
        self.now = now
        self._by_cost = self.leaves.by_cost
        self._some: dict[tuple[tuple[AppId, int], ...], bool] = {}
        self.found = False
        self.judged = 0
        self.units = Units(index.nodes, index.applications, index.elastic)

    @property
    def looked_at(self) -> int:
        """Number of allocations, leaves and members of elastic gangs looked at."""
        return self.judged + self.leaves.judged + self.units.looked_at

    def on_node(self, node: Node) -> list[Candidate]:
        """Candidates on a node, in rank order."""
        found = list(self.on_node_by_age(node))
        if self._by_cost:
            found.sort(key=_rank)
        return found

    def regular_on(self, node: Node) -> Iterator[Candidate]:
        """Regular candidates on a node, in rank order."""
        if self._by_cost:
            return (one for one in self.on_node(node) if not one.kind)
        return self.on_node_by_age(node, only_regular=True)

    def on_node_by_age(self, node: Node, *, only_regular: bool = False) -> Iterator[Candidate]:
        """Candidates on a node, in the order of age."""
        if not self.any_on(node):
            return
        applications = self._index.applications
        tenants = []
        for allocation in node.allocations:
            app = applications[allocation.ask.app_id]
            request = app.requests[allocation.ask.key]
            tenants.append((self._age_of(app, request), app, request))
        tenants.sort(key=_age)
        seen: set[Request] = set()
        for age, app, request in tenants:
            if only_regular and age[0] > 0:
                return
            victim_leaf = self.leaves.of(app.leaf)
            if request not in seen and isinstance(victim_leaf, VictimLeaf):
                candidate = self.judge(app, request, node, victim_leaf)
                if isinstance(candidate, Candidate):
                    if app.gang.elastic is not None:
                        seen.update([victim.request for victim in candidate.victims])
                    yield candidate

    def _age_of(self, app: Application, request: Request) -> Age:
        """Rank by age, in which growth comes first."""
        kind, _, app_id, key = age = age_of(request)
        step = self.units.step(app, request)
        return (GROWTH, -float(step), app_id, key) if step and not kind else age

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
        """All candidates, in rank order."""
        if self._by_cost:
            candidates = [one for victim_leaf in self.leaves for one in self.of(victim_leaf)]
            return iter(sorted(candidates, key=_rank))
        return merge(*[self.of(victim_leaf) for victim_leaf in self.leaves], key=_rank)

    def of(self, victim_leaf: VictimLeaf) -> Iterator[Candidate]:
        """Candidates of a leaf on other nodes, in the order of age."""
        index = self._index
        seen: set[Request] = set()
        growing = [app for app in self.units.growing() if app.leaf is victim_leaf.leaf]
        for app in growing:
            seen.update([request for request, unit in self.units.of(app).items() if unit.step])
        yield from sorted(self._growth(growing, victim_leaf), key=_rank)
        for running in index.leaf(victim_leaf.leaf).order:
            if running.may_go and running.request not in seen:
                request, node = running.request, index.nodes[running.allocation.node_id]
                app = index.applications[request.ask.app_id]
                judged = self.judge(app, request, node, victim_leaf, everywhere=True)
                if app.gang.elastic is not None and request in self.units.of(app):
                    seen.update([victim.request for victim in self.units.of(app)[request].victims])
                if isinstance(judged, Candidate):
                    yield judged

    def _growth(self, growing: Sequence[Application], victim_leaf: VictimLeaf) -> Iterator[Candidate]:
        """Steps of elastic gangs of a leaf."""
        for app in growing:
            for unit in dict.fromkeys(self.units.of(app).values()):
                youngest = min(unit.victims, key=lambda victim: age_of(victim.request))
                if unit.step:
                    judged = self.judge(app, youngest.request, youngest.node, victim_leaf, everywhere=True)
                    if isinstance(judged, Candidate):
                        yield judged

    def largest(self, victim_leaf: VictimLeaf, name: str) -> int:
        """Largest amount of a type in one allocation of the leaf, or in one of its elastic gangs."""
        largest = self._index.leaf(victim_leaf.leaf).largest.get(name, 0)
        for app_id in self._index.elastic:
            app = self._index.applications[app_id]
            if app.leaf is victim_leaf.leaf:
                largest = max(largest, app.allocated.get(name, 0))
        return largest

    def judge(
        self,
        app: Application,
        request: Request,
        node: Node,
        victim_leaf: VictimLeaf,
        *,
        everywhere: bool = False,
    ) -> Candidate | Out:
        """Return an allocation of the leaf as a candidate, or the reason that it is none.

        A member of an elastic gang stands for its unit: for its part on the node, or `everywhere`.
        """
        if app.gang.elastic is not None:
            unit = self.units.of(app).get(request)
            if unit is not None:
                return self._judge_unit(Victim(app, request, node), unit, victim_leaf, everywhere=everywhere)
        out = self.refusal(request, victim_leaf)
        if out is not None:
            return out
        ask_class = request.ask.ask_class
        sizes = ask_class.resources
        gives = tuple([sizes.get(name, 0) for name in self.names])
        lost: Items = ()
        rank: Age | Cost = age_of(request)
        if victim_leaf.may_lose or self._by_cost:
            seconds = self.seconds_lost(request, victim_leaf)
            lost = _loss(ask_class.items, seconds, victim_leaf)
            if self._by_cost:
                rank = costs_of(request, seconds)
        charges = _charges(ask_class.items, lost, victim_leaf)
        return Candidate(Victim(app, request, node), kind_of(request), rank, gives, charges)

    def _judge_unit(
        self, first: Victim, unit: Unit, victim_leaf: VictimLeaf, *, everywhere: bool
    ) -> Candidate | Out:
        """Return a unit as a candidate; `first` is the member that it is ranked by."""
        kind, costs, silent = 0, 0.0, False
        given: dict[str, int] = {}
        there: dict[str, int] = {}
        losses: dict[str, int] = {}
        for victim in unit.victims:
            out = self.refusal(victim.request, victim_leaf)
            if out is not None and out is not Out.OTHER_TYPES:
                return out
            items = victim.request.ask.ask_class.items
            kind |= kind_of(victim.request)
            charge(given, items)
            if everywhere or victim.node is first.node:
                charge(there, items)
            if victim_leaf.may_lose or self._by_cost:
                seconds = self.seconds_lost(victim.request, victim_leaf)
                charge(losses, _loss(items, seconds, victim_leaf))
                costs += costs_of(victim.request, seconds)[2]
                silent |= victim.request.checkpoint is None
        total = tuple([given.get(name, 0) for name in self.names])
        if max(total) <= 0:
            return Out.OTHER_TYPES
        kind = GROWTH if unit.step and not kind else kind
        _, youth, app_id, key = age_of(first.request)
        youth = -float(unit.step) if kind == GROWTH else youth
        rank: Age | Cost = (kind, youth, app_id, key)
        if self._by_cost:
            priority = max([victim.request.priority for victim in unit.victims])
            rank = (kind, priority, costs, silent, youth, app_id, key)
        charges = _charges(tuple(given.items()), tuple(losses.items()), victim_leaf) + unit.parts
        gives = tuple([there.get(name, 0) for name in self.names])
        return Candidate(first, kind, rank, gives, charges, unit, total)

    def refusal(self, request: Request, victim_leaf: VictimLeaf) -> Out | None:
        """Reason that an allocation of the leaf may not be a victim; None if it may."""
        self.judged += 1
        if request.state not in MAY_GO:
            return Out.NOT_RUNNING
        ask = request.ask
        ask_class = ask.ask_class
        if ask_class.required_node is not None:
            return Out.REQUIRED_NODE
        sizes = ask_class.resources
        if max([sizes.get(name, 0) for name in self.names]) <= 0:
            return Out.OTHER_TYPES
        if victim_leaf.priority is not None and request.priority > victim_leaf.priority:
            return Out.HIGHER_PRIORITY
        minimum = victim_leaf.leaf.settings.preemption_minimum_runtime
        if minimum or victim_leaf.may_lose:
            if seconds_run(request, self.now) < minimum:
                return Out.TOO_YOUNG
            lost = _loss(ask_class.items, self.seconds_lost(request, victim_leaf), victim_leaf)
            if any(amount > victim_leaf.may_lose[name] for name, amount in lost):
                return Out.LOSS_LIMIT
        self.found = True
        return None

    def seconds_lost(self, request: Request, victim_leaf: VictimLeaf) -> float:
        """Seconds of work that are lost if the allocation of the leaf is stopped now."""
        return seconds_lost(request, victim_leaf.checkpoint, self.now)


def _age(tenant: tuple[Age, Application, Request]) -> Age:
    return tenant[0]


def _rank(candidate: Candidate) -> Any:
    return candidate.rank


def _loss(items: Items, seconds: float, victim_leaf: VictimLeaf) -> Items:
    """Loss of the leaf by one victim, in the types of its loss limit, zeros included."""
    if not victim_leaf.may_lose:
        return ()
    lost = dict(loss_of(items, seconds))
    return tuple([(name, lost.get(name, 0)) for name in victim_leaf.may_lose])


def _charges(items: Items, lost: Items, victim_leaf: VictimLeaf) -> tuple[tuple[Allowance, str, int], ...]:
    """Charges of a victim to the allowances of its leaf, without allowances that it does not use."""
    charges = [
        (allowance, name, amount)
        for allowance in victim_leaf.guarantees
        for name, amount in items
        if name in allowance
    ]
    if lost:
        charges += [(victim_leaf.losses, name, amount) for name, amount in lost]
    return tuple(charges)
