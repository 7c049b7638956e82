"""Reservations as values: a node is kept free for an ask (spec §§ 8.5-8.7, 9.4.8)."""

from dataclasses import dataclass

from licorne_core.ids import AllocationKey, AppId, NodeId


@dataclass(slots=True, eq=False)
class Reservation:
    """A node is reserved for an ask, since `time` in unix seconds.

    An ask has at most one. A node has at most one too, but asks that `require` the node, those
    that may go nowhere else, may share it. One that goes with a promise may have lost its node:
    then `node_id` is None (`scheduling/promises.py`). Found by identity.
    """

    app_id: AppId
    key: AllocationKey
    node_id: NodeId | None
    time: float
    required: bool
