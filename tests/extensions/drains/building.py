"""Builders of commands of operators: drains."""

from licorne_core.extensions.drains.messages import DrainNode, SetNodeSchedulable
from licorne_core.values.ids import NodeId, RmId
from support.core.builders import RM


def cordon(
    node_id: str, *, schedulable: bool = False, partition: str = "", rm: str = RM
) -> SetNodeSchedulable:
    """An operator cordons a node; with `schedulable` the operator ends the cordon."""
    return SetNodeSchedulable(
        rm_id=RmId(rm), partition=partition, node_id=NodeId(node_id), schedulable=schedulable
    )


def drain(node_id: str, seconds: float | None = 0.0, *, partition: str = "", rm: str = RM) -> DrainNode:
    """An operator drains a node by a deadline in seconds; 0 stops all at once, None sets no deadline."""
    return DrainNode(rm_id=RmId(rm), partition=partition, node_id=NodeId(node_id), seconds=seconds)
