"""Puts into the books what asks can be waiting for, to see how it is shown."""

from licorne_core.ids import AllocationKey, AppId, NodeId
from licorne_core.partition import Partition
from licorne_core.reservations import Reservation


def reserve(
    partition: Partition,
    app_id: str,
    key: str,
    node_id: str,
    time: float,
    *,
    required: bool = False,
) -> None:
    """Keep a node free for a pending ask since a time in unix seconds."""
    owner, name = AppId(app_id), AllocationKey(key)
    reservation = Reservation(owner, name, NodeId(node_id), time, required)
    partition.applications[owner].reservations[name] = reservation
    partition.nodes.by_id[NodeId(node_id)].reservations[owner, name] = reservation


def hold(partition: Partition, app_id: str, key: str) -> None:
    """Have an allocation wait for the RM's word."""
    owner = partition.applications[AppId(app_id)]
    allocation = owner.allocations[AllocationKey(key)]
    ask = allocation.ask
    owner.held[ask.key] = (-ask.priority, allocation.request_time, 1, ask)
