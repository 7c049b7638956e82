"""Nodes that could be reserved for an ask, and the room that they lack (spec § 9.4.2)."""

from collections.abc import Iterable, Mapping
from math import inf

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import Request
from licorne_core.model.nodes.node import Node
from licorne_core.scheduling.preemption.whatif import Vector
from licorne_core.values.ids import AppId
from licorne_core.values.reservations import Reservation
from licorne_core.values.resources import Items

RESPECTED = 4.0
"""Seconds for which a reservation holds against asks of higher priority; twice the wait for one."""


def room_lacking(
    node: Node, request: Request, applications: Mapping[AppId, Application], now: float
) -> Vector | None:
    """Amounts to free on the node, by type of the ask; None if it cannot host the ask.

    Resources of present victims count as freed. If the RM refuses a node that has room, victims do
    not help there.
    """
    if not may_host(node, request, applications, now):
        return None
    short = room_shortage(node, request.ask.ask_class.items)
    if node.results and not any(short) and node.results.get((request.ask.ask_class, True)):
        return None
    return short


def may_host(
    node: Node, request: Request, applications: Mapping[AppId, Application], now: float
) -> bool:
    """True if the node could be kept for the ask, however full it is."""
    if not is_free_for(node, request, applications, now):
        return False
    # What the RM refuses as a place to wait for, it refuses whatever goes.
    return not (node.results and node.results.get((request.ask.ask_class, False)))


def is_free_for(
    node: Node, request: Request, applications: Mapping[AppId, Application], now: float
) -> bool:
    """The same, whatever the RM has said of the node."""
    if not node.schedulable:
        return False
    for reservation in node.reservations.values():
        if not yields(reservation, request, applications, now):
            return False
    return node.holds(request.ask.ask_class.items)


def yields(
    reservation: Reservation,
    request: Request,
    applications: Mapping[AppId, Application],
    now: float,
) -> bool:
    """True if the reservation does not count against the ask: its own, or a lesser one's.

    A lesser ask is one of strictly lower priority that had its chance. It may go to other nodes,
    and no victims were stopped for it.
    """
    if reservation is request.reservation:
        return True
    if reservation.required or now - reservation.time <= RESPECTED:
        return False
    other = applications[reservation.app_id].requests[reservation.key]
    return other.ask.priority < request.ask.priority and not other.triggered


def is_taken(node: Node, applications: Mapping[AppId, Application]) -> bool:
    """True if the node is reserved for an ask that yields to no other ask.

    For that ask, no victims are searched for any more.
    """
    return any(
        reservation.required or applications[reservation.app_id].requests[reservation.key].triggered
        for reservation in node.reservations.values()
    )


def next_to_yield(
    reserved: Iterable[Reservation],
    request: Request,
    applications: Mapping[AppId, Application],
    now: float,
) -> float | None:
    """Time at which a lesser reservation is old enough to yield; None if none is too young."""
    times = [
        reservation.time + RESPECTED
        for reservation in reserved
        if reservation is not request.reservation
        and not yields(reservation, request, applications, now)
        and yields(reservation, request, applications, inf)
    ]
    return min(times, default=None)


def room_shortage(node: Node, wanted: Items) -> Vector:
    """Amounts to free on the node, by type of the ask, in addition to present victims."""
    available, going = node.available, node.preempting
    short = []
    for name, value in wanted:
        lacking = value - available.get(name, 0)
        if lacking > 0 and going:
            lacking -= going.get(name, 0)
        short.append(lacking if lacking > 0 else 0)
    return tuple(short)
