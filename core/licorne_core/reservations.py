"""Reservations as values: room on a node is kept for an ask (spec §§ 8.5-8.7, 9.4.8)."""

from dataclasses import dataclass

from licorne_core.ids import AllocationKey, AppId, NodeId
from licorne_core.resources import Items


@dataclass(slots=True, eq=False)
class Reservation:
    """Room on a node is reserved for an ask, since `time` in unix seconds.

    An ask has at most one. A node has at most one too, but asks that `require` the node, those
    that may go nowhere else, may share it. One that goes with a promise may have lost its node:
    then `node_id` is None (`scheduling/promises.py`). Found by identity.
    """

    app_id: AppId
    key: AllocationKey
    node_id: NodeId | None
    time: float
    required: bool
    items: Items
    """Amounts that other asks have to leave free on the node."""
    exclusive: bool = False
    """Whether other asks have to leave the whole node (property ``reservation.exclusive``)."""
    idle_since: float | None = None
    """Since when its ask could not have the node if it were empty, as reviews found; None if it
    could (`scheduling/review.py`)."""
    gives_way: bool = False
    """Whether the last review found that it gives way to asks below their queue's guarantee."""
