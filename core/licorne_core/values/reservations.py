"""Reservations as values: room on a node is kept for an ask (spec §§ 8.5-8.7, 9.4.8)."""

from dataclasses import dataclass
from typing import NamedTuple

from licorne_core.values.ids import AllocationKey, AppId, NodeId, QueuePath
from licorne_core.values.resources import Items, Resources


@dataclass(slots=True, eq=False)
class Reservation:
    """Room on a node is reserved for an ask, since `time` in unix seconds.

    An ask has at most one. A node has at most one too, but asks that `require` the node, those
    that may go nowhere else, may share it. One that goes with a promise may have lost its node:
    then `node_id` is None (`scheduling/reservations/promises.py`). Found by identity.
    """

    app_id: AppId
    key: AllocationKey
    node_id: NodeId | None
    time: float
    required: bool
    items: Items
    """Amounts that other asks have to leave free on the node."""
    exclusive: bool = False
    """True if other asks have to leave the whole node (property ``reservation.exclusive``)."""
    idle_since: float | None = None
    """Since when its ask could not have the node if it were empty, as reviews found; None if it
    could (`scheduling/reservations/review.py`)."""
    gives_way: bool = False
    """True if the last review found that it gives way to asks below their queue's guarantee."""


class HolderReason(NamedTuple):
    """Reason that the ask of a reservation does not run on its node.

    `code` is that of the check that stops it, or ``WAITS_FOR_ROOM`` with the amounts that the node
    `lacks`, ``NODE_REFUSED``, ``WAITS_FOR_TURN``, ``WAITS_FOR_ANSWER`` or ``RESERVATION_ENDED``.
    """

    code: str
    text: str
    lacks: Resources


NO_REASON = HolderReason("", "", {})
"""No reason, as none was looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueReservations:
    """The nodes, of those an ask was refused, that are reserved for the asks of one queue.

    `kept` is the sum of the reserved amounts; of a node that has very many the first count. The
    asks of `idle` nodes could not have them if they were empty, as the last review found. `reason`
    is that of one ask, an idle one if there is one.
    """

    queue: QueuePath
    nodes: int
    idle: int
    kept: Resources
    reason: HolderReason


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationBound:
    """The bound on reserved nodes is reached: `most` for `whom`, by the configured `key`."""

    whom: str
    reserved: int
    most: int
    key: str

    def message(self) -> str:
        """The reason in one sentence."""
        counts = f"{self.reserved} of {self.most}"
        return f"no further node may be reserved: {counts} {self.whom} ({self.key})"
