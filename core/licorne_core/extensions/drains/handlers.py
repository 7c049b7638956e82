"""Commands of operators about nodes."""

from typing import Final

from licorne_core.extensions.drains import NAME
from licorne_core.extensions.drains.contents import contents_of
from licorne_core.extensions.drains.extension import Drains
from licorne_core.extensions.drains.messages import (
    Cordon,
    DrainNode,
    DrainTerms,
    NodeDrainBegun,
    NodeSchedulableSet,
    SetNodeSchedulable,
)
from licorne_core.handlers.assumed import roll_back_on
from licorne_core.handlers.lifecycle import look_again
from licorne_core.handlers.operators import CommandRefused, partition_meant
from licorne_core.handlers.outcome import Commands
from licorne_core.messages.effects import Effect, OperatorRefusal
from licorne_core.messages.events.cluster import operator_acted, schedulable_changed
from licorne_core.messages.events.records import EventType
from licorne_core.messages.operators import mark_text
from licorne_core.model.nodes.node import CLOSED, Node
from licorne_core.partitions.partition import Partition
from licorne_core.partitions.registry import Registry, Rm
from licorne_core.values.errors import shown
from licorne_core.values.ids import NodeId


def _set_node_schedulable(_: Registry, rm: Rm, command: SetNodeSchedulable, now: float) -> list[Effect]:
    """Cordon the node, or end its cordon, even if the node was removed."""
    partition = partition_meant(rm, command.partition)
    closed, node_id = partition.nodes.closed, command.node_id
    if command.schedulable and node_id in closed and node_id not in partition.nodes.by_id:
        _own(partition).set(node_id, None)
        return [NodeSchedulableSet(rm_id=rm.rm_id, changed=True, allocations=0)]
    node = _node_meant(partition, node_id)
    changed = (node.closed is None) != command.schedulable
    if changed:
        cordon = None if command.schedulable else Cordon(mark=command.mark)
        _set_cordon(partition, node, cordon, now)
        text = f"{'uncordoned' if command.schedulable else CLOSED}{mark_text(command.mark)}"
        partition.journal.note(operator_acted(now, EventType.NODE, node_id, text))
    allocations = len(node.allocations)
    return [NodeSchedulableSet(rm_id=rm.rm_id, changed=changed, allocations=allocations)]


def _drain_node(_: Registry, rm: Rm, command: DrainNode, now: float) -> list[Effect]:
    """Cordon the node, and either stop its allocations gradually or wait for their end."""
    partition = partition_meant(rm, command.partition)
    node = _node_meant(partition, command.node_id)
    there = contents_of(partition.applications, node)
    deadline = None if command.seconds is None else now + command.seconds
    terms = DrainTerms(start=now, deadline=deadline, allocations=there.remaining)
    _set_cordon(partition, node, Cordon(mark=command.mark, drain=terms), now)
    look_again(partition, node, now)
    text = f"drained{mark_text(command.mark)}"
    partition.journal.note(operator_acted(now, EventType.NODE, node.node_id, text))
    return [NodeDrainBegun(rm_id=rm.rm_id, terms=terms, exempt=there.exempt)]


def _node_meant(partition: Partition, node_id: NodeId) -> Node:
    """The node with the name.

    Raises:
        CommandRefused: there is no such node.
    """
    node = partition.nodes.by_id.get(node_id)
    if node is None:
        what = f"node {shown(node_id)} not found in partition {partition.name}"
        raise CommandRefused(OperatorRefusal.NOT_FOUND, what)
    return node


def _set_cordon(partition: Partition, node: Node, cordon: Cordon | None, now: float) -> None:
    """Set or end a cordon; open checks about a newly cordoned node are dropped (spec § 7.4)."""
    mark, node_id = None if cordon is None else cordon.mark, node.node_id
    _own(partition).set(node_id, cordon)
    if mark is not None and node.closed is None:
        roll_back_on(partition, node, now, gone=False)
    if partition.cluster.close(node, mark, now):
        partition.journal.note(schedulable_changed(now, node_id, schedulable=node.schedulable))


def _own(partition: Partition) -> Drains:
    own = partition.points.named(NAME)
    assert isinstance(own, Drains)
    return own


COMMANDS: Final[Commands] = {SetNodeSchedulable: _set_node_schedulable, DrainNode: _drain_node}
