"""Why an ask is where it is: every gate asked afresh, with its operands (DESIGN § 2).

The gates are those of the pass (spec § 8.3) in its order; here none is skipped because an
earlier one blocks, so that all that stands in the way can be seen at once.
"""

from collections import Counter

from licorne_core.apps.application import Application
from licorne_core.apps.runs import PendingAsk
from licorne_core.apps.states import SCHEDULABLE, AppState
from licorne_core.asks import Ask, AskClass
from licorne_core.errors import NotFound
from licorne_core.ids import AllocationKey, NodeId
from licorne_core.nodes.node import Node
from licorne_core.partition import Partition
from licorne_core.queues.queue import Queue
from licorne_core.quotas import Quota
from licorne_core.reasons import (
    ApplicationGate,
    BackoffGate,
    Gate,
    LimitGate,
    NodesGate,
    PartitionGate,
    PredicatesGate,
    QueueGate,
    RunningGate,
    StartingGate,
)
from licorne_core.reports import Explanation
from licorne_core.scheduling.order import app_key
from licorne_core.trackers import Tracker


def explain(partition: Partition, app: Application, key: str) -> Explanation:
    """The ask's, or for an empty key the first waiting ask's, situation; raises NotFound."""
    first = app.asks_in_order(1)
    if not key and not first:
        raise NotFound(f"application {app.app_id} has no pending ask")
    allocation_key = AllocationKey(key) if key else first[0][3].key
    allocation = app.allocations.get(allocation_key)
    if allocation is not None:
        held = allocation_key in app.held
        where = f"node {allocation.node_id}"
        return Explanation(
            app_id=app.app_id,
            key=allocation_key,
            queue=app.queue_path,
            verdict="held" if held else "allocated",
            summary=f"held on {where} until the RM agrees" if held else f"allocated on {where}",
            node_id=allocation.node_id,
        )
    entry = app.pending.get(allocation_key)
    if entry is None:
        raise NotFound(f"application {app.app_id} has no ask {key}")
    return _explain_pending(partition, app, entry)


def _explain_pending(partition: Partition, app: Application, entry: PendingAsk) -> Explanation:
    leaf = partition.leaf_of(app)
    ask = entry[3]
    gates = gates_of(partition, app, leaf, ask)
    blocking = next((gate for gate in gates if not gate.passed), None)
    asks_ahead = sum(1 for other in app.pending.values() if other < entry)
    return Explanation(
        app_id=app.app_id,
        key=ask.key,
        queue=app.queue_path,
        verdict="waiting" if blocking is None else "pending",
        summary="schedulable, waiting for its turn" if blocking is None else blocking.message(),
        gates=gates,
        asks_ahead=asks_ahead,
        applications_ahead=_applications_ahead(app, leaf),
    )


def _applications_ahead(app: Application, leaf: Queue) -> int:
    key = app_key(app, leaf)
    return sum(
        1
        for other in leaf.applications.values()
        if other is not app
        and other.pending
        and other.state in SCHEDULABLE
        and app_key(other, leaf) < key
    )


def gates_of(partition: Partition, app: Application, leaf: Queue, ask: Ask) -> tuple[Gate, ...]:
    """All gates of an ask, in the order of the pass."""
    ask_class = ask.ask_class
    gates: list[Gate] = [
        PartitionGate(
            partition=partition.name,
            holds=tuple(partition.holds),
            nodes=len(partition.nodes.by_id),
        ),
        ApplicationGate(app_id=app.app_id, state=app.state.value, passed=app.state in SCHEDULABLE),
    ]
    if ask.key not in app.reservations:
        gates += _turn_gates(partition, app, leaf)
    gates += _start_gates(app)
    gates += [
        LimitGate(
            kind=tracker.kind,
            name=tracker.name,
            queue=tracker.path,
            requested=ask_class.resources,
            allocated=dict(tracker.allocated),
            max=dict(tracker.max),
        )
        for tracker in app.trackers
        if tracker.max is not None
    ]
    gates += [
        QueueGate(
            queue=queue.path,
            requested=ask_class.resources,
            allocated=dict(queue.allocated),
            max=None if queue.max is None else dict(queue.max),
            is_root=queue.parent is None,
        )
        for queue in leaf.lineage
    ]
    if ask_class.predicate is not None:
        gates.append(
            PredicatesGate(waiting=partition.questions.waiting, most=partition.questions.most)
        )
    gates.append(_nodes_gate(partition, app, ask))
    return tuple(gates)


def _turn_gates(partition: Partition, app: Application, leaf: Queue) -> list[Gate]:
    """Why it may not be an application's turn; asks with a node pass this (spec § 8.6)."""
    gates: list[Gate] = []
    if app.state is AppState.ACCEPTED and partition.frontier.is_state_aware(leaf):
        first = leaf.admission.starting or leaf.admission.next_accepted()
        ahead = "" if first is None or first is app else first.app_id
        gates.append(StartingGate(queue=leaf.path, ahead=ahead))
    if app.backoff_until:
        threshold = leaf.settings.backoff_threshold
        gates.append(BackoffGate(app_id=app.app_id, until=app.backoff_until, threshold=threshold))
    return gates


def _start_gates(app: Application) -> list[Gate]:
    """What may keep it from starting; if it is counted already it passes (spec §§ 4.12, 10.5)."""
    if app.state is not AppState.ACCEPTED:
        return []
    bounds = [q for q in app.quotas if q.max_applications and not q.counts(app.app_id)]
    return [_running_gate(quota) for quota in bounds]


def _running_gate(quota: Quota) -> RunningGate:
    kind, subject = "queue", ""
    if isinstance(quota, Tracker):
        kind, subject = quota.kind, f"{quota.kind} {quota.name} in queue {quota.path}"
    elif isinstance(quota, Queue):
        subject = f"queue {quota.path}"
    return RunningGate(
        kind=kind,
        subject=subject,
        running=quota.started_applications,
        max_applications=quota.max_applications,
    )


def _nodes_gate(partition: Partition, app: Application, ask: Ask) -> NodesGate:
    """Every node asked; of those out, the first cause (spec § 7.4)."""
    required = ask.ask_class.required_node
    nodes = _asked_nodes(partition, required)
    reservation = app.reservations.get(ask.key)
    own = reservation.node_id if reservation is not None else required
    causes = Counter(
        cause for cause in (_cause(node, ask.ask_class, own) for node in nodes) if cause is not None
    )
    return NodesGate(
        total=len(nodes),
        fitting=len(nodes) - causes.total(),
        required_node=required,
        reserved_node=reservation.node_id if reservation is not None else None,
        causes=dict(sorted(causes.items())),
    )


def _asked_nodes(partition: Partition, required: NodeId | None) -> list[Node]:
    if required is None:
        return list(partition.nodes.by_id.values())
    node = partition.nodes.by_id.get(required)
    return [] if node is None else [node]


def _cause(node: Node, ask_class: AskClass, own: NodeId | None) -> str | None:
    """Why the node does not take the ask; None when it would. Its `own` node is kept for it."""
    if node.node_id != own:
        if not node.schedulable:
            return "unschedulable"
        if node.reservations:
            return "reserved"
    for name, value in ask_class.items:
        if node.capacity.get(name, 0) < value:
            return f"too small: {name}"
    for name, value in ask_class.items:
        if node.available.get(name, 0) < value:
            return f"full: {name}"
    refused = node.verdicts.get((ask_class, True))
    return f"refused: {refused}" if refused else None
