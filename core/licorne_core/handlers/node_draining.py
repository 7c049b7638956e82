"""An operator drains a node, or takes that back.

It is a flag beside what the RM says of the node: new allocations go there if both allow it. The
flag ends with the node.
"""

from licorne_core.commands import SetNodeSchedulable
from licorne_core.effects import Effect, NodeSchedulableSet, OperatorRefusal
from licorne_core.errors import shown
from licorne_core.facts.nodes import SchedulableChanged
from licorne_core.handlers.predicates import roll_back_on
from licorne_core.handlers.refusals import Refused, partition_meant
from licorne_core.ids import NodeId
from licorne_core.registry import Rm


def set_node_schedulable(rm: Rm, command: SetNodeSchedulable, now: float) -> list[Effect]:
    """Set the flag; what is being asked about the node is asked no more (spec § 7.4)."""
    partition = partition_meant(rm, command.partition)
    node = partition.nodes.by_id.get(NodeId(command.node_id))
    if node is None:
        what = f"node {shown(command.node_id)} not found in partition {partition.name}"
        raise Refused(OperatorRefusal.NOT_FOUND, what)
    drained = not command.schedulable
    changed = node.drained != drained
    if changed and drained:
        roll_back_on(partition, node, now, gone=False)
    if changed and partition.cluster.set_drained(node, drained=drained, now=now):
        partition.journal.note(SchedulableChanged(now, node.node_id, node.schedulable))
    allocations = len(node.allocations)
    return [NodeSchedulableSet(rm_id=rm.rm_id, changed=changed, allocations=allocations)]
