"""What an application of the core wants and has, as tests ask for it."""

from typing import NamedTuple

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import TO_REPLACE, Place, Request, RequestState, is_ask, place_of
from licorne_core.values.asks import Allocation, Ask, Reservation
from licorne_core.values.ids import AllocationKey, NodeId


def pending(app: Application) -> dict[AllocationKey, Ask]:
    """The asks that wait for a node, assumed ones not among them."""
    return {request.key: request.ask for request in app.pending()}


def allocations(app: Application) -> dict[AllocationKey, Allocation]:
    """All that is booked, assumed allocations included, in the order of booking."""
    return {request.key: request.allocation for request in app.booked() if request.allocation is not None}


def assumed(app: Application) -> dict[AllocationKey, Allocation]:
    """What is booked while the RM is asked about the node."""
    return {
        key: allocation
        for key, allocation in allocations(app).items()
        if app.requests[key].state is RequestState.ASSUMED
    }


def replacing(app: Application) -> dict[AllocationKey, Request]:
    """What is to take a placeholder's place, and waits for an answer or for the placeholder."""
    return {key: request for key, request in app.requests.items() if request.state in TO_REPLACE}


def placed_elsewhere(app: Application) -> dict[AllocationKey, Allocation]:
    """What of that is booked on another node than its placeholder's, and nowhere else."""
    return {
        key: request.allocation for key, request in replacing(app).items() if request.allocation is not None
    }


class Kept(NamedTuple):
    """A node that is kept for an ask, and the reservation that keeps it."""

    node_id: NodeId
    reservation: Reservation


def reservations(app: Application) -> dict[AllocationKey, Kept]:
    """The nodes that are kept for its asks."""
    found = {key: request.reservation for key, request in app.reserved.items()}
    return {
        key: Kept(reservation.node_id, reservation)
        for key, reservation in found.items()
        if reservation is not None and reservation.node_id is not None
    }


def is_pending(app: Application, key: str) -> bool:
    """Whether the ask waits, and the RM is not asked about a place for it either."""
    request = app.requests.get(AllocationKey(key))
    return request is not None and request.is_pending


def waiting(app: Application) -> list[Place]:
    """What waits in the eyes of the RM, in order."""
    return sorted(map(place_of, filter(is_ask, app.requests.values())))
