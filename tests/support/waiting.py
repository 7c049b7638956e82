"""Puts into the books what an RM is being asked about, to see how it is shown."""

from licorne_core.ids import AllocationKey, AppId
from licorne_core.partition import Partition


def hold(partition: Partition, app_id: str, key: str) -> None:
    """Have an allocation wait for the RM's word."""
    owner = partition.applications[AppId(app_id)]
    allocation = owner.allocations[AllocationKey(key)]
    ask = allocation.ask
    owner.held[ask.key] = (-ask.priority, allocation.request_time, 1, ask)
