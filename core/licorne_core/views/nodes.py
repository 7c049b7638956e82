"""Nodes with what is on them, and what they are reserved for."""

from collections.abc import Iterator

from licorne_core.apps.requests import SHOWN_AS_ASKS, Request
from licorne_core.asks import Allocation
from licorne_core.errors import NotFound, shown
from licorne_core.explain import why_stopped
from licorne_core.ids import AllocationKey, AppId, NodeId
from licorne_core.nodes.node import Node
from licorne_core.nodes.sorting import utilization
from licorne_core.partition import Partition
from licorne_core.reports import NodeReport, ReservationReport
from licorne_core.reservations import Reservation
from licorne_core.runs import RUN, in_runs


def find_node(partition: Partition, node_id: str) -> Node:
    """A node of the partition; raises NotFound."""
    node = partition.nodes.by_id.get(NodeId(node_id))
    if node is None:
        raise NotFound(f"node {shown(node_id)} not found")
    return node


def node_report(partition: Partition, node: Node, *, detail: bool) -> NodeReport:
    """One node; with `detail` its allocations and those of other schedulers too."""
    known = list(_known(partition, node)) if detail else []
    return NodeReport(
        node_id=node.node_id,
        partition=partition.name,
        attributes=dict(node.attributes),
        schedulable=node.schedulable,
        drained=node.drained,
        capacity=dict(node.capacity),
        allocated=dict(node.allocated),
        occupied=dict(node.occupied),
        available=dict(node.available),
        utilization=utilization(node, partition.nodes.order.policy),
        allocation_count=len(node.allocations) - node.assumed - node.linked,
        foreign_count=len(node.foreign),
        reservations=tuple(_in_order(node)),
        allocations=[allocation for _, allocation in known] if detail else (),
        foreign=list(node.foreign.values()) if detail else (),
        stopping=dict(_stopping(known)) if detail else {},
    )


def allocations_on(partition: Partition, node: Node) -> Iterator[tuple[Allocation, str] | None]:
    """All allocations on a node that the RM knows, and why it was told to stop each, if it was.

    There is a None wherever the reader may pause.
    """
    for number, allocation in enumerate(list(node.allocations), 1):
        app = partition.applications.get(allocation.ask.app_id)
        request = None if app is None else app.requests.get(allocation.key)
        here = request is not None and request.allocation is allocation
        if request is not None and here and request.state not in SHOWN_AS_ASKS:
            yield allocation, why_stopped(request)
        elif not number % RUN:
            yield None


def _known(partition: Partition, node: Node) -> Iterator[tuple[Request, Allocation]]:
    """The allocations that the RM knows; the others are shown as asks."""
    for allocation in node.allocations:
        request = _request(partition, allocation)
        if request.state not in SHOWN_AS_ASKS:
            yield request, allocation


def _request(partition: Partition, allocation: Allocation) -> Request:
    return partition.applications[allocation.ask.app_id].requests[allocation.key]


def _stopping(
    known: list[tuple[Request, Allocation]],
) -> Iterator[tuple[tuple[AppId, AllocationKey], str]]:
    for request, allocation in known:
        why = why_stopped(request)
        if why:
            yield (allocation.ask.app_id, allocation.key), why


def reservations(partition: Partition, start: str = "") -> Iterator[ReservationReport | None]:
    """All that stand, by node id and then by time, from the node `start` on.

    A node's are looked at when its turn comes. There is a None wherever the reader may pause.
    """
    nodes = partition.nodes.by_id

    def fits(node_id: NodeId) -> bool:
        node = nodes.get(node_id)
        return node is not None and bool(node.reservations) and node_id >= start

    for node_id in in_runs(list(nodes), fits=fits):
        node = None if node_id is None else nodes.get(node_id)
        if node is None:
            yield None
        else:
            yield from _in_order(node)


def _in_order(node: Node) -> list[ReservationReport]:
    found = sorted(node.reservations.values(), key=lambda item: (item.time, item.app_id, item.key))
    return [reservation_report(reservation, node.node_id) for reservation in found]


def reservation_report(reservation: Reservation, node_id: NodeId) -> ReservationReport:
    """Which ask a node is kept free for."""
    return ReservationReport(
        node_id=node_id,
        app_id=reservation.app_id,
        key=reservation.key,
        time=reservation.time,
        required=reservation.required,
    )
