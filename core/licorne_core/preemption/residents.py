"""What a search would otherwise find out anew each time: nodes by id, and who lives where.

Everything here is derived from the nodes and applications themselves, and derived again when they
have changed. Nobody has to say so.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from licorne_core.apps.application import Application
from licorne_core.apps.requests import Request
from licorne_core.ids import AppId, NodeId
from licorne_core.nodes.node import Node
from licorne_core.preemption.ranks import Age, age_of
from licorne_core.preemption.whatif import Vector
from licorne_core.queues.queue import Queue
from licorne_core.resources import Items

Tenant = tuple[Age, Application, Request]
"""Something on a node, with its place in the order of age."""


class OnNode(NamedTuple):
    """What is on a node."""

    version: int
    apps: tuple[tuple[AppId, int], ...]
    """The applications that are there, each with the lowest priority of what may go."""
    largest: tuple[tuple[AppId, dict[str, int]], ...]
    """By application and type, the largest amount of one allocation."""


class Residents:
    """The nodes of a partition in the order of their ids, and what is on each."""

    __slots__ = ("_by_age", "_in_order", "_newest", "_nodes", "_on", "applications")

    def __init__(
        self, nodes: dict[NodeId, Node], applications: Mapping[AppId, Application]
    ) -> None:
        """The nodes are the partition's own, in the order of their births."""
        self._nodes = nodes
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
        """What is on the node."""
        known = self._on.get(node)
        if known is None or known.version != node.version:
            known = self._on[node] = _on(node)
        return known

    def by_age(self, node: Node) -> list[Tenant]:
        """All that is on the node, the first to go by age first."""
        known = self._by_age.get(node)
        if known is None or known[0] != node.version:
            tenants = []
            for allocation in node.allocations:
                app = self.applications[allocation.ask.app_id]
                request = app.requests[allocation.ask.key]
                tenants.append((age_of(request), app, request))
            tenants.sort(key=_age)
            known = self._by_age[node] = (node.version, tenants)
        return known[1]

    def fewest(
        self, node: Node, wanted: Items, short: Vector, spared: Callable[[Queue], bool]
    ) -> int | None:
        """How many victims it takes at least to have what the ask lacks there; None: all too few.

        It is what is lacking, divided by the largest that there is on the node in leaves that are
        not spared.
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


def _on(node: Node) -> OnNode:
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
    return OnNode(node.version, tuple(apps.items()), tuple(largest.items()))


def _age(tenant: Tenant) -> Age:
    return tenant[0]


MOST_LEAVES = 10_000
"""Leaves to keep an order for; beyond that, everything is forgotten, as leaves come and go."""


MOST_ENDED = 64
"""Allocations of a leaf that may have ended before its order is made anew."""


class Running(NamedTuple):
    """What runs in a leaf, as it was at some time."""

    made: int
    released: int
    allocated: dict[str, int]
    requests: list[tuple[Age, Request]]
    """The first to go by age first; a few may have ended since."""
    largest: dict[str, int]
    """By type, the largest amount of one allocation."""

    def holds(self, leaf: Queue) -> bool:
        """Whether nothing came or grew since, and not much has ended."""
        counters, allocated = leaf.counters, self.allocated
        return (
            counters.allocations_made == self.made
            and counters.allocations_released - self.released <= MOST_ENDED
            and all(amount <= allocated.get(name, 0) for name, amount in leaf.allocated.items())
        )


class Leaves:
    """What runs in each leaf in the order of age, kept from search to search."""

    __slots__ = ("_running",)

    def __init__(self) -> None:
        """No leaf was looked at yet."""
        self._running: dict[Queue, Running] = {}

    def running(self, leaf: Queue) -> Running:
        """What runs in the leaf; not to be changed."""
        known = self._running.get(leaf)
        if known is None or not known.holds(leaf):
            if len(self._running) > MOST_LEAVES:
                self._running.clear()
            known = self._running[leaf] = _running(leaf)
        return known


def _running(leaf: Queue) -> Running:
    requests = []
    largest: dict[str, int] = {}
    for app in leaf.applications.values():
        for request in app.booked():
            requests.append((age_of(request), request))
            for name, amount in request.ask.ask_class.items:
                if amount > largest.get(name, 0):
                    largest[name] = amount
    requests.sort()
    counters = leaf.counters
    return Running(
        counters.allocations_made,
        counters.allocations_released,
        dict(leaf.allocated),
        requests,
        largest,
    )
