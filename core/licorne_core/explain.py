"""Why an ask is where it is: every check made afresh, with its operands (DESIGN § 2).

The checks are those of the pass in its order (`scheduling/checks.py`); here none is skipped because
an earlier one stops the ask, so that all that stands in the way can be seen at once.
"""

from collections import Counter
from collections.abc import Iterator

from licorne_core.apps.application import Application
from licorne_core.apps.requests import Request, RequestState
from licorne_core.apps.states import SCHEDULABLE, AppState
from licorne_core.errors import NotFound
from licorne_core.ids import AllocationKey, NodeId
from licorne_core.nodes.node import Node
from licorne_core.partition import Partition
from licorne_core.queues.queue import Queue
from licorne_core.reasons import Check, NodesCheck, PartitionCheck, StartingCheck, StateCheck
from licorne_core.reports import Explanation
from licorne_core.scheduling.checks import APPLICATION_CHECKS, ASK_CHECKS
from licorne_core.scheduling.order import app_key


def explain(partition: Partition, app: Application, key: str) -> Explanation:
    """The ask's, or for an empty key the first waiting ask's, situation; raises NotFound."""
    first = app.asks_in_order(1)
    if not key and not first:
        raise NotFound(f"application {app.app_id} has no pending ask")
    request = app.requests.get(AllocationKey(key)) if key else first[0].request
    if request is None:
        raise NotFound(f"application {app.app_id} has no ask {key}")
    if request.allocation is None:
        return _explain_pending(partition, app, request)
    node_id = request.allocation.node_id
    assumed = request.state is RequestState.ASSUMED
    return Explanation(
        app_id=app.app_id,
        key=request.key,
        queue=app.queue_path,
        verdict="assumed" if assumed else "allocated",
        summary=(
            f"assumed on node {node_id} until the RM agrees"
            if assumed
            else f"allocated on node {node_id}"
        ),
        node_id=node_id,
    )


def _explain_pending(partition: Partition, app: Application, request: Request) -> Explanation:
    leaf = partition.leaf_of(app)
    checks = checks_of(partition, app, request)
    blocking = next((check for check in checks if not check.passed), None)
    place = request.place
    return Explanation(
        app_id=app.app_id,
        key=request.key,
        queue=app.queue_path,
        verdict="waiting" if blocking is None else "pending",
        summary="schedulable, waiting for its turn" if blocking is None else blocking.message(),
        checks=checks,
        asks_ahead=sum(1 for other in app.pending() if other.place < place),
        applications_ahead=_applications_ahead(app, leaf),
    )


def _applications_ahead(app: Application, leaf: Queue) -> int:
    key = app_key(app, leaf)
    return sum(
        1
        for other in leaf.applications.values()
        if other is not app
        and other.pending_count
        and other.state in SCHEDULABLE
        and app_key(other, leaf) < key
    )


def checks_of(partition: Partition, app: Application, request: Request) -> tuple[Check, ...]:
    """All checks of a pending ask, in the order of the pass."""
    return tuple(_checks(partition, app, request))


def _checks(partition: Partition, app: Application, request: Request) -> Iterator[Check]:
    yield PartitionCheck(
        partition=partition.name, holds=tuple(partition.holds), nodes=len(partition.nodes.by_id)
    )
    yield StateCheck(app_id=app.app_id, state=app.state.value, passed=app.state in SCHEDULABLE)
    reserved = request.reservation is not None
    if not reserved:
        yield from _starting(partition, app)
    scene, ask_class = partition.scene, request.ask.ask_class
    for check in APPLICATION_CHECKS:
        if not (reserved and check.spares_reserved):
            yield from check.report(scene, app)
    for ask_check in ASK_CHECKS:
        if ask_class.predicate is not None or not ask_check.only_with_predicate:
            yield from ask_check.report(scene, app, ask_class)
    yield _nodes(partition, request)


def _starting(partition: Partition, app: Application) -> Iterator[Check]:
    """Whether it is the application's turn to start in a state-aware leaf (spec § 5.2)."""
    leaf = partition.leaf_of(app)
    if app.state is AppState.ACCEPTED and partition.changes.is_state_aware(leaf):
        first = leaf.admission.starting or leaf.admission.next_accepted()
        ahead = "" if first is None or first is app else first.app_id
        yield StartingCheck(queue=leaf.path, ahead=ahead)


def _nodes(partition: Partition, request: Request) -> Check:
    """Every node asked; of those out, the first cause (spec § 7.4)."""
    ask_class, reservation = request.ask.ask_class, request.reservation
    required = ask_class.required_node
    own = None if reservation is None else reservation.node_id
    nodes = _asked_nodes(partition, required)
    refusals = (node.refusal(ask_class, reserved=node.node_id == own) for node in nodes)
    causes = Counter(refusal for refusal in refusals if refusal is not None)
    return NodesCheck(
        total=len(nodes),
        fitting=len(nodes) - causes.total(),
        required_node=required,
        reserved_node=own,
        causes=dict(sorted(causes.items())),
    )


def _asked_nodes(partition: Partition, required: NodeId | None) -> list[Node]:
    if required is None:
        return list(partition.nodes.by_id.values())
    node = partition.nodes.by_id.get(required)
    return [] if node is None else [node]
