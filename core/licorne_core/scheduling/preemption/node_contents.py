"""Node contents kept from search to search: nodes by id, and applications on each.

Everything here is derived from nodes and applications, and derived again after they change. No
caller has to report a change.
"""

from bisect import insort
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import BOOKED, MAY_GO, Request
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.queue import Queue
from licorne_core.scheduling.preemption.ranks import Age, age_of
from licorne_core.scheduling.preemption.whatif import Vector
from licorne_core.values.asks import Allocation
from licorne_core.values.errors import InvariantBroken
from licorne_core.values.ids import AppId, NodeId
from licorne_core.values.recent import Recent
from licorne_core.values.resources import Items

Tenant = tuple[Age, Application, Request]
"""An allocation on a node, with its place in the order of age."""


class OnNode(NamedTuple):
    """Contents of a node."""

    change: int
    """Number of the node's last change when its contents were read."""
    apps: tuple[tuple[AppId, int], ...]
    """Applications on the node, each with the lowest priority of its possible victims."""
    largest: tuple[tuple[AppId, dict[str, int]], ...]
    """By application and type, the largest amount of one allocation."""


class NodeContents:
    """The nodes of a partition in the order of their ids, with their contents."""

    __slots__ = ("_by_age", "_changed", "_in_order", "_newest", "_nodes", "_on", "applications")

    def __init__(
        self,
        nodes: dict[NodeId, Node],
        applications: Mapping[AppId, Application],
        changed: Recent[Node],
    ) -> None:
        """Read the partition's own nodes, in the order of their births.

        `changed` has them by their last changes.
        """
        self._nodes = nodes
        self._changed = changed
        self.applications = applications
        self._by_age: dict[Node, tuple[int, list[Tenant]]] = {}
        self._in_order: list[Node] = []
        self._newest = 0
        self._on: dict[Node, OnNode] = {}

    def nodes(self) -> list[Node]:
        """All nodes by id; another list when a node came or went, and not to be changed.

        A node that came has been born after all others, and without one that came fewer are left
        when one went.
        """
        newest = next(reversed(self._nodes.values())).birth if self._nodes else 0
        if newest != self._newest or len(self._in_order) != len(self._nodes):
            self._newest = newest
            self._in_order = [self._nodes[node_id] for node_id in sorted(self._nodes)]
            gone = [node for node in self._on if self._nodes.get(node.node_id) is not node]
            for node in gone:
                del self._on[node]
                self._by_age.pop(node, None)
        return self._in_order

    def on(self, node: Node) -> OnNode:
        """Return the contents of the node."""
        known = self._on.get(node)
        number = self._changed.number(node)
        if known is None or known.change != number:
            known = self._on[node] = _on(node, number)
        return known

    def by_age(self, node: Node) -> list[Tenant]:
        """All that is on the node, the first to go by age first."""
        known = self._by_age.get(node)
        number = self._changed.number(node)
        if known is None or known[0] != number:
            tenants = []
            for allocation in node.allocations:
                app = self.applications[allocation.ask.app_id]
                request = app.requests[allocation.ask.key]
                tenants.append((age_of(request), app, request))
            tenants.sort(key=_age)
            known = self._by_age[node] = (number, tenants)
        return known[1]

    def check(self) -> None:
        """Check rule P5: kept contents are those of the node. Raises InvariantBroken."""
        for node, known in self._on.items():
            number = self._changed.number(node)
            if known.change == number and known != _on(node, number):
                raise InvariantBroken(f"P5: {node!r}: other applications are there than are kept")
        for node, (change, tenants) in self._by_age.items():
            kept = {request.allocation for _, _, request in tenants}
            if change == self._changed.number(node) and kept != node.allocations.keys():
                raise InvariantBroken(f"P5: {node!r}: other allocations are there than are kept")

    def fewest(
        self, node: Node, wanted: Items, short: Vector, spared: Callable[[Queue], bool]
    ) -> int | None:
        """Least number of victims that free the ask's shortage there; None if all are too few.

        It is the shortage, divided by the largest allocation on the node in leaves that are not
        spared.
        """
        if not any(short):
            return 0
        applications = self.applications
        there = [
            sizes
            for app_id, sizes in self.on(node).largest
            if not spared(applications[app_id].leaf)
        ]
        fewest = 0
        for (name, _), lacking in zip(wanted, short, strict=True):
            if lacking:
                most = max([sizes.get(name, 0) for sizes in there], default=0)
                if not most:
                    return None
                fewest = max(fewest, -(-lacking // most))
        return fewest


def _on(node: Node, change: int) -> OnNode:
    apps: dict[AppId, int] = {}
    largest: dict[AppId, dict[str, int]] = {}
    asks = [allocation.ask for allocation in node.allocations]
    # Most are alike: each kind is looked at once.
    kinds = dict.fromkeys([(ask.app_id, ask.ask_class, ask.priority) for ask in asks])
    for app_id, ask_class, priority in kinds:
        sizes = largest.setdefault(app_id, {})
        if ask_class.required_node is None:
            lowest = apps.get(app_id)
            if lowest is None or priority < lowest:
                apps[app_id] = priority
        for name, amount in ask_class.items:
            if amount > sizes.get(name, 0):
                sizes[name] = amount
    return OnNode(change, tuple(apps.items()), tuple(largest.items()))


def _age(tenant: Tenant) -> Age:
    return tenant[0]


MOST_LEAVES = 10_000
"""Leaves to keep an order for; beyond that, everything is forgotten, as leaves come and go."""


MOST_ENDED = 64
"""Allocations of a leaf that may have ended before they are taken out of its order."""


class Running(NamedTuple):
    """An allocation noted in a leaf; stale if its request has another allocation now."""

    age: Age
    request: Request
    allocation: Allocation

    @property
    def may_go(self) -> bool:
        """True if it has its place for good, and is not being stopped."""
        request = self.request
        return request.allocation is self.allocation and request.state in MAY_GO


class InLeaf:
    """Allocations of a leaf by age, kept from search to search.

    Always true after `catch_up`: all possible victims of the leaf are in `order`, the first by age
    first. Other booked allocations may be there, and a few that have ended. `largest` is by type
    the largest amount of one allocation in `order`.
    """

    __slots__ = ("_came", "_known", "_leaf", "_released", "_seen", "largest", "order")

    def __init__(self, leaf: Queue) -> None:
        """Start empty."""
        self._leaf = leaf
        self.order: list[Running] = []
        self.largest: dict[str, int] = {}
        # The allocations in the order, and what the leaf was like when they were all.
        self._known: set[Allocation] = set()
        self._seen: tuple[int, int, dict[str, int]] | None = None
        # Since those that have ended were taken out: how many had ended by then, and what came.
        self._released = 0
        self._came = 0

    def catch_up(self) -> None:
        """Take in allocations booked since the last call."""
        leaf, counters = self._leaf, self._leaf.counters
        now = (counters.allocations_made, counters.allocations_released, dict(leaf.allocated))
        if now == self._seen:
            return
        self._seen = now
        # What was assumed and taken back is in no counter of those that have ended.
        ended = counters.allocations_released - self._released
        if max(ended, self._came - len(self.order) // 2) > MOST_ENDED:
            self._released = counters.allocations_released
            self._take_out_ended()
        came = [one for app in leaf.applications.values() for one in self._new_in(app)]
        if len(came) > MOST_ENDED:
            self.order += came
            self.order.sort(key=_age_of)
        else:
            for one in came:
                insort(self.order, one, key=_age_of)
        self._note(came)

    def check(self) -> None:
        """Rule P5: all that may go is in the order. Raises InvariantBroken."""
        self.catch_up()
        kept = [one.request for one in self.order if one.may_go]
        apps = self._leaf.applications.values()
        here = [one for app in apps for one in app.booked() if one.state in MAY_GO]
        if len(kept) != len(here) or set(kept) != set(here):
            raise InvariantBroken(f"P5: {self._leaf!r}: {len(here)} may go, {len(kept)} are kept")

    def _new_in(self, app: Application) -> Iterator[Running]:
        """Yield allocations of the application booked since then; the latest come first."""
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
        self._came = 0

    def _note(self, came: Sequence[Running]) -> None:
        largest = self.largest
        self._came += len(came)
        for one in came:
            self._known.add(one.allocation)
            for name, amount in one.allocation.ask.ask_class.items:
                if amount > largest.get(name, 0):
                    largest[name] = amount


class Leaves:
    """Allocations of each leaf by age, kept from search to search."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        """Start without leaves."""
        self._known: dict[Queue, InLeaf] = {}

    def of(self, leaf: Queue) -> InLeaf:
        """Return the allocations of the leaf; they must not be changed."""
        known = self._known.get(leaf)
        if known is None:
            if len(self._known) > MOST_LEAVES:
                self._known.clear()
            known = self._known[leaf] = InLeaf(leaf)
        known.catch_up()
        return known

    def check(self) -> None:
        """Compare kept allocations with the leaves; raises InvariantBroken on a difference."""
        for known in self._known.values():
            known.check()


def _age_of(running: Running) -> Age:
    return running.age
