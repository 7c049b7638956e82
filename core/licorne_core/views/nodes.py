"""Nodes with what is on them, and what they are reserved for."""

from collections.abc import Iterator

from licorne_core.apps.requests import RequestState
from licorne_core.asks import Allocation
from licorne_core.nodes.node import Node
from licorne_core.nodes.sorting import utilization
from licorne_core.partition import Partition
from licorne_core.reports import NodeReport, ReservationReport
from licorne_core.reservations import Reservation


def node_report(partition: Partition, node: Node, *, detail: bool) -> NodeReport:
    """One node; with `detail` its allocations and those of other schedulers too."""
    allocations = _allocations(partition, node)
    return NodeReport(
        node_id=node.node_id,
        partition=partition.name,
        attributes=dict(node.attributes),
        schedulable=node.schedulable,
        capacity=dict(node.capacity),
        allocated=dict(node.allocated),
        occupied=dict(node.occupied),
        available=dict(node.available),
        utilization=utilization(node, partition.nodes.order.policy),
        allocation_count=len(allocations),
        foreign_count=len(node.foreign),
        reservations=tuple(_in_order(node)),
        allocations=allocations if detail else (),
        foreign=list(node.foreign.values()) if detail else (),
    )


def _allocations(partition: Partition, node: Node) -> list[Allocation]:
    """Those that the RM knows: an assumed one is shown as an ask."""
    if not partition.predicates.waiting:
        return list(node.allocations)
    apps = partition.applications
    return [
        item
        for item in node.allocations
        if apps[item.ask.app_id].requests[item.key].state is not RequestState.ASSUMED
    ]


def reservations(partition: Partition, start: str = "") -> Iterator[ReservationReport]:
    """All that stand, by node id and then by time, from the node `start` on.

    A node's are looked at when its turn comes.
    """
    nodes = partition.nodes.by_id
    reserved = (name for name, node in nodes.items() if node.reservations and name >= start)
    for node_id in sorted(reserved):
        node = nodes.get(node_id)
        if node is not None:
            yield from _in_order(node)


def _in_order(node: Node) -> list[ReservationReport]:
    found = sorted(node.reservations.values(), key=lambda item: (item.time, item.app_id, item.key))
    return [reservation_report(reservation) for reservation in found]


def reservation_report(reservation: Reservation) -> ReservationReport:
    """Which ask a node is kept free for."""
    return ReservationReport(
        node_id=reservation.node_id,
        app_id=reservation.app_id,
        key=reservation.key,
        time=reservation.time,
        required=reservation.required,
    )
