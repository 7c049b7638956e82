"""Whether the books agree, for those who watch over a running core (spec § 12.5).

These are the checks of `invariants` that can be made in small steps while the core goes on: every
step looks at the books as they are then, and at one node or a few requests of them.
Beside that it finds nodes with more on them than they have: the books are sound then.
"""

from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from licorne_core.apps.application import Application
from licorne_core.apps.requests import TO_REPLACE, Request
from licorne_core.nodes.node import Node
from licorne_core.partition import Partition
from licorne_core.resources import Resources, describe, equals, has_negative, subtract, sum_of
from licorne_core.views.audit_sums import (
    Doubt,
    sums_of_application,
    sums_of_queue,
    sums_of_tracker,
)

STEP_REQUESTS = 256
"""Requests of an application that are looked at in one step."""


class Concern(Enum):
    """What is looked after."""

    NEGATIVE_PARTITION = "negative totals of a partition"
    NEGATIVE_NODE = "negative totals of a node"
    OVERFULL = "more on a node, or on all of a partition, than there is"
    PARTITION_SUM = "a partition is not the sum of its nodes"
    NODE_SUM = "a node is not the sum of its parts"
    NEGATIVE_SHARE = "negative totals of an application, a queue, a user or a group"
    APPLICATION_SUM = "an application is not the sum of its requests"
    QUEUE_SUM = "a queue is not the sum of what is in it"
    USER_SUM = "a user or a group is not the sum of its applications"
    RESERVATION = "a reservation that is nobody's"
    ORPHAN_ON_NODE = "an allocation on a node that its application has not"
    ORPHAN_IN_APPLICATION = "an allocation of an application that its node has not"


class Finding(NamedTuple):
    """Something that does not agree."""

    concern: Concern
    text: str


def audit(partition: Partition) -> Iterator[Finding | None]:
    """What does not agree in a partition; a None after each step."""
    yield from _sums(partition)
    yield None
    for node in list(partition.nodes.by_id.values()):
        if partition.nodes.by_id.get(node.node_id) is node:
            yield from _node(partition, node)
        yield None
    for app in list(partition.applications.values()):
        requests = list(app.requests.values())
        for begin in range(0, len(requests), STEP_REQUESTS):
            if partition.applications.get(app.app_id) is app:
                yield from _requests(partition, app, requests[begin : begin + STEP_REQUESTS])
            yield None
        yield from _findings(Concern.APPLICATION_SUM, sums_of_application(app))
    for queue in list(partition.tree.walk()):
        if partition.tree.get(queue.path) is queue:
            yield from _findings(Concern.QUEUE_SUM, sums_of_queue(queue))
    for kind in ("user", "group"):
        for name in list(partition.limits.of_kind(kind)):
            # It may have gone meanwhile.
            for tracker in list(partition.limits.of_kind(kind).get(name, {}).values()):
                yield from _findings(Concern.USER_SUM, sums_of_tracker(partition, tracker))


def _findings(concern: Concern, doubts: Iterator[Doubt | None]) -> Iterator[Finding | None]:
    for doubt in doubts:
        if doubt is None:
            yield None
        else:
            yield Finding(Concern.NEGATIVE_SHARE if doubt.negative else concern, doubt.text)


def _sums(partition: Partition) -> Iterator[Finding]:
    capacity: dict[str, int] = {}
    available: dict[str, int] = {}
    allocated: dict[str, int] = {}
    for node in partition.nodes.by_id.values():
        _count(capacity, node.capacity)
        _count(available, node.available)
        _count(allocated, node.allocated)
    allocated = subtract(allocated, sum_of(_only_on_nodes(partition)))
    root = partition.tree.root
    at = f"partition {partition.name}"
    yield from _overfull(at, available)
    for what, booked, counted in (
        ("capacity", partition.nodes.total, capacity),
        ("allocated", root.allocated, allocated),
    ):
        if has_negative(booked):
            yield Finding(Concern.NEGATIVE_PARTITION, f"{at}: {what} {describe(booked)}")
        if not equals(booked, counted):
            figures = f"{what} {describe(booked)}, on its nodes {describe(counted)}"
            yield Finding(Concern.PARTITION_SUM, f"{at}: {figures}")


def _overfull(at: str, available: Resources) -> Iterator[Finding]:
    """A node that has shrunk, or took what existed already, may have more on it than it has."""
    if has_negative(available):
        yield Finding(Concern.OVERFULL, f"{at}: available {describe(available)}")


def _only_on_nodes(partition: Partition) -> Iterator[Resources]:
    """What those take on nodes that count in no queue before they have their place (spec § 6.5)."""
    for app in partition.applications.values():
        if app.replacing_count:
            for request in app.requests.values():
                if request.state in TO_REPLACE and request.allocation is not None:
                    yield request.allocation.ask.ask_class.resources


def _count(total: dict[str, int], size: Resources) -> None:
    for name, value in size.items():
        total[name] = total.get(name, 0) + value


def _node(partition: Partition, node: Node) -> Iterator[Finding]:
    at = f"node {node.node_id}"
    for total in (node.capacity, node.allocated, node.occupied):
        if has_negative(total):
            yield Finding(Concern.NEGATIVE_NODE, f"{at}: {describe(total)}")
    yield from _overfull(at, node.available)
    on_it: dict[str, int] = {}
    for held in node.allocations:
        _count(on_it, held.ask.ask_class.resources)
        app = partition.applications.get(held.ask.app_id)
        request = None if app is None else app.requests.get(held.key)
        if request is None or request.allocation is not held:
            text = f"{at} has {held.key} of application {held.ask.app_id}, which has it not"
            yield Finding(Concern.ORPHAN_ON_NODE, text)
    left = subtract(subtract(node.capacity, on_it), node.occupied)
    if not equals(node.available, left):
        figures = f"available {describe(node.available)}, by what is on it {describe(left)}"
        yield Finding(Concern.NODE_SUM, f"{at}: {figures}")
    for (app_id, key), reservation in node.reservations.items():
        app = partition.applications.get(app_id)
        request = None if app is None else app.requests.get(key)
        waits = request is not None and (request.is_pending or request.promise is not None)
        if request is None or not waits or request.reservation is not reservation:
            text = f"{at} is reserved for {key} of application {app_id}, which does not wait for it"
            yield Finding(Concern.RESERVATION, text)


def _requests(partition: Partition, app: Application, requests: list[Request]) -> Iterator[Finding]:
    for request in requests:
        if request.allocation is None:
            continue
        node = partition.nodes.by_id.get(request.allocation.node_id)
        if node is None or request.allocation not in node.allocations:
            key, node_id = request.ask.key, request.allocation.node_id
            text = f"application {app.app_id} has {key} on node {node_id}, which has it not"
            yield Finding(Concern.ORPHAN_IN_APPLICATION, text)
