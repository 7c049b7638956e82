"""Nodes that come, change and go (spec § 7)."""

from licorne_core.messages.commands import NodeAction, NodeUpdate
from support.oracle.books import NodeRecord
from support.oracle.gangs import unlink
from support.oracle.lives import end_allocation, settle
from support.oracle.partition import PartitionOracle


def update_node(partition: PartitionOracle, update: NodeUpdate, now: float) -> None:
    """Do what the action says; what makes no sense does nothing."""
    action, known = update.action, partition.nodes.get(update.node_id)
    if action in (NodeAction.CREATE, NodeAction.CREATE_DRAIN):
        if known is None:
            schedulable = action is NodeAction.CREATE
            capacity = dict(update.capacity or {})
            partition.nodes[update.node_id] = NodeRecord(
                update.node_id, capacity, schedulable, dict(update.attributes)
            )
    elif known is None:
        return
    elif action is NodeAction.UPDATE:
        if update.capacity is not None and dict(update.capacity) != known.capacity:
            known.capacity = dict(update.capacity)
            known.changed()
            _unreserve_too_large(partition, known)
            partition.put_back_unfitting(known)
    elif action is NodeAction.DECOMISSION:
        _lose(partition, known, now)
    elif known.schedulable is not (action is NodeAction.DRAIN_TO_SCHEDULABLE):
        known.schedulable = not known.schedulable
        known.changed()
    if action is NodeAction.DRAIN_NODE and known is not None:
        for app, key in partition.assumed_on(known):
            if app.waiting_ask(key).required_node is None:
                partition.put_back(app, key)


def _unreserve_too_large(partition: PartitionOracle, node: NodeRecord) -> None:
    """What the node can never hold it is not kept for; an ask that requires it still waits."""
    for _, ask in partition.reserved_asks():
        here = ask.reservation is not None and ask.reservation.node_id == node.node_id
        if here and ask.required_node is None and not node.holds(ask.size):
            ask.lose_node()


def _lose(partition: PartitionOracle, node: NodeRecord, now: float) -> None:
    """The node is gone, and so is what ran there (spec § 6.12 for placeholders)."""
    for app, key in partition.assumed_on(node):
        partition.put_back(app, key)
    del partition.nodes[node.node_id]
    for _, ask in partition.reserved_asks():
        if ask.reservation and ask.reservation.node_id == node.node_id:
            ask.lose_node()
    for app in partition.apps.values():
        for key in [key for key, pair in app.pairs.items() if pair.node_id == node.node_id]:
            app.add(unlink(app, key))
    gone = [
        (allocation.number, app, key)
        for app in partition.apps.values()
        for key, allocation in app.allocations.items()
        if allocation.node_id == node.node_id
    ]
    reals: dict[str, bool] = {}
    for _, app, key in sorted(gone, key=lambda one: one[0]):
        real = not app.allocations[key].ask.placeholder
        reals[app.app_id] = reals.get(app.app_id, False) or real
        partition.tell_released(app, key, "STOPPED_BY_RM", f"Node {node.node_id} Removed")
        end_allocation(partition, app, key, now)
    for app_id, real in reals.items():
        settle(partition, partition.apps[app_id], now, real=real)
