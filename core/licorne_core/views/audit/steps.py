"""Audit of the books of a running core, in small steps (spec § 12.5).

These are the checks of `invariants` that can be made in small steps while the core goes on: every
step looks at the books as they are then, and at one node or a few requests of them.
Beside that it finds nodes with more on them than they have: the books are sound then.
"""

from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import Request
from licorne_core.model.nodes.node import Node
from licorne_core.partitions.partition import Partition
from licorne_core.values.resources import Resources, describe, has_negative
from licorne_core.views.audit.sums import (
    Doubt,
    sums_of_application,
    sums_of_node,
    sums_of_partition,
    sums_of_queue,
    sums_of_tracker,
)

STEP_REQUESTS = 256
"""Requests of an application that are looked at in one step."""


class Concern(Enum):
    """Subject of an audit rule."""

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
    """A difference in the books."""

    concern: Concern
    text: str


def audit(partition: Partition) -> Iterator[Finding | None]:
    """Yield the differences in a partition; a None after each step."""
    doubts = sums_of_partition(partition)
    yield from _findings(Concern.PARTITION_SUM, doubts, Concern.NEGATIVE_PARTITION)
    yield from _overfull(partition)
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
    for queue in list(partition.tree.all()):
        if partition.tree.get(queue.path) is queue:
            yield from _findings(Concern.QUEUE_SUM, sums_of_queue(queue))
    for kind in ("user", "group"):
        for name in list(partition.limits.of_kind(kind)):
            # It may have gone meanwhile.
            for tracker in list(partition.limits.of_kind(kind).get(name, {}).values()):
                yield from _findings(Concern.USER_SUM, sums_of_tracker(partition, tracker))


def _findings(
    concern: Concern,
    doubts: Iterator[Doubt | None],
    negative: Concern = Concern.NEGATIVE_SHARE,
) -> Iterator[Finding | None]:
    for doubt in doubts:
        if doubt is None:
            yield None
        else:
            yield Finding(negative if doubt.negative else concern, doubt.text)


def _overfull(partition: Partition) -> Iterator[Finding | None]:
    """Find nodes with more on them than they have, in sum.

    Over several steps nodes change: then it is believed when a second look finds the very same.
    """
    before: dict[str, int] | None = None
    while True:
        nodes = list(partition.nodes.by_id.values())
        available: dict[str, int] = {}
        for number, node in enumerate(nodes, 1):
            for name, value in node.available.items():
                available[name] = available.get(name, 0) + value
            if not number % STEP_REQUESTS:
                yield None
        if not has_negative(available):
            return
        if len(nodes) < STEP_REQUESTS or available == before:
            yield _overfilled(f"partition {partition.name}", available)
            return
        before = available


def _overfilled(at: str, available: Resources) -> Finding:
    return Finding(Concern.OVERFULL, f"{at}: available {describe(available)}")


def _node(partition: Partition, node: Node) -> Iterator[Finding | None]:
    at = f"node {node.node_id}"
    for total in (node.capacity, node.allocated, node.occupied):
        if has_negative(total):
            yield Finding(Concern.NEGATIVE_NODE, f"{at}: {describe(total)}")
    if has_negative(node.available):
        # It has shrunk, or took what existed already.
        yield _overfilled(at, node.available)
    for number, held in enumerate(list(node.allocations), 1):
        app = partition.applications.get(held.ask.app_id)
        request = None if app is None else app.requests.get(held.key)
        if held in node.allocations and (request is None or request.allocation is not held):
            text = f"{at} has {held.key} of application {held.ask.app_id}, which has it not"
            yield Finding(Concern.ORPHAN_ON_NODE, text)
        if not number % STEP_REQUESTS:
            yield None
    yield from _findings(Concern.NODE_SUM, sums_of_node(node), Concern.NEGATIVE_NODE)
    for number, ((app_id, key), reservation) in enumerate(list(node.reservations.items()), 1):
        app = partition.applications.get(app_id)
        request = None if app is None else app.requests.get(key)
        waits = request is not None and (request.is_pending or request.promise is not None)
        stands = node.reservations.get((app_id, key)) is reservation
        if stands and (request is None or not waits or request.reservation is not reservation):
            text = f"{at} is reserved for {key} of application {app_id}, which does not wait for it"
            yield Finding(Concern.RESERVATION, text)
        if not number % STEP_REQUESTS:
            yield None


def _requests(partition: Partition, app: Application, requests: list[Request]) -> Iterator[Finding]:
    for request in requests:
        if request.allocation is None:
            continue
        node = partition.nodes.by_id.get(request.allocation.node_id)
        if node is None or request.allocation not in node.allocations:
            key, node_id = request.ask.key, request.allocation.node_id
            text = f"application {app.app_id} has {key} on node {node_id}, which has it not"
            yield Finding(Concern.ORPHAN_IN_APPLICATION, text)
