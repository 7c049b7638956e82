"""Acts of operators on nodes: cordons, and stops of their allocations."""

from licorne_core.extensions.drains.messages import DrainNode, SetNodeSchedulable
from support.oracle.books import ALLOCATED, PLACEHOLDER, AllocationRecord, AppRecord, NodeRecord
from support.oracle.lives import stop
from support.oracle.partition import PartitionOracle, look_again
from support.oracle.requests import lose_starts
from support.oracle.terms import CordonRecord, LossRecord
from support.oracle.victims import checkpoint_of, seconds_lost

FOR_DRAIN = "preempting allocations to drain node: "


def act(partition: PartitionOracle, command: SetNodeSchedulable | DrainNode, now: float) -> None:
    """Carry out the act; on a removed node only the end of a cordon has an effect."""
    node = partition.nodes.get(command.node_id)
    if isinstance(command, DrainNode):
        if node is not None:
            count = sum(not one.assumed and one.ask.required_node is None for _, one in _on(partition, node))
            deadline = None if command.seconds is None else now + command.seconds
            _cordon(partition, node, CordonRecord(True, now, deadline, count))
            look_again(partition, node, now)
    elif command.schedulable:
        partition.cordons.pop(command.node_id, None)
        partition.timers.cancel(("drain", command.node_id))
        if node is not None:
            _set(partition, node, None)
    elif node is not None and node.cordon is None:
        _cordon(partition, node, CordonRecord())


def _cordon(partition: PartitionOracle, node: NodeRecord, cordon: CordonRecord) -> None:
    """Cordon a node: only asks that require it are placed there, and other reservations of it end."""
    if node.cordon is None:
        for app, key in partition.assumed_on(node):
            if app.waiting_ask(key).required_node is None:
                partition.put_back(app, key)
    partition.cordons[node.node_id] = cordon
    _set(partition, node, cordon)
    for _, ask in partition.reserved_asks():
        here = ask.reservation is not None and ask.reservation.node_id == node.node_id
        if here and ask.required_node is None:
            ask.lose_node()


def _set(partition: PartitionOracle, node: NodeRecord, cordon: CordonRecord | None) -> None:
    before = node.schedulable
    node.cordon = cordon
    if node.schedulable is not before:
        node.changed()
        lose_starts(partition, node)


def drain(partition: PartitionOracle, node_id: str, now: float) -> None:
    """Stop the allocations that are due: the times of the initial ones are spread up to the deadline.

    An allocation that ends by itself lowers the number of stops by one.
    """
    node = partition.nodes[node_id]
    cordon = node.cordon
    assert cordon is not None, f"{node_id} is drained"
    if cordon.deadline is None:
        return
    while running := [(app, one) for app, one in _on(partition, node) if _may_go(one)]:
        due = cordon.start
        if cordon.count:
            due += (cordon.deadline - cordon.start) * (cordon.count - len(running)) / cordon.count
        if due > now:
            partition.timers.set(("drain", node_id), due)
            return
        app, victim = min(running, key=lambda found: _place(*found))
        if partition.queues[app.queue].properties.get("preemption.loss.limit"):
            lasted = seconds_lost(victim, checkpoint_of(partition.apps, app.queue), now)
            lost = LossRecord(app.queue, now, victim.ask.size, lasted)
            partition.preemption.losses.append(lost)
        stop(partition, app, victim.ask.key, FOR_DRAIN + node_id, preempted=True)


def _on(partition: PartitionOracle, node: NodeRecord) -> list[tuple[AppRecord, AllocationRecord]]:
    return [
        (app, one)
        for app in partition.apps.values()
        for one in app.allocations.values()
        if one.node_id == node.node_id
    ]


def _may_go(one: AllocationRecord) -> bool:
    return one.state in (ALLOCATED, PLACEHOLDER) and one.ask.required_node is None


def _place(app: AppRecord, one: AllocationRecord) -> tuple[object, ...]:
    """The order of stops: placeholders, then preemptable allocations, low priority, the youngest."""
    ask = one.ask
    spared = 2 * (not ask.terms.itself) + ask.terms.originator
    return (not ask.placeholder, spared, ask.priority, -ask.created, app.app_id, ask.key)
