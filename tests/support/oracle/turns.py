"""Passes over one partition, and what their decisions do to its records."""

from support.oracle.books import (
    AllocationRecord,
    AppRecord,
    AskRecord,
    NodeRecord,
    ReservationRecord,
)
from support.oracle.deciding import Decision, Outcome, decide
from support.oracle.order import Look
from support.oracle.partition import PartitionOracle
from support.oracle.predicates import PredicateCheck, check_sense
from support.oracle.usage import Usage

STARTING_SECONDS = 300.0
INSPECTION_SECONDS = 1.0
INSPECT = ("inspect", "")
NO_STARTING_TAG = "application.stateaware.disable"


def look_at(partition: PartitionOracle, now: float) -> Look:
    """The partition as it is."""
    usage = Usage(partition.queues, partition.apps, partition.nodes)
    assumed = sum(len(app.assumed_keys()) for app in partition.apps.values())
    full = assumed >= partition.most_assumed[partition.unheard]
    partition.was_full = partition.was_full or full
    return Look(
        partition.queues,
        partition.apps,
        partition.nodes,
        partition.node_order,
        partition.as_fifo,
        usage,
        now,
        partition.reserving,
        full,
        partition.checks.is_silent_about,
    )


def peek(partition: PartitionOracle, now: float) -> Outcome:
    """What the next pass comes to, without anything of it being done."""
    return decide(look_at(partition, now))


def send_to_rest(partition: PartitionOracle, app_id: str, now: float) -> None:
    """Too many asks of the application have no node: it is not looked at for a while (§ 8.3a)."""
    app = partition.apps[app_id]
    app.backs_off_until = now + partition.queues[app.queue].backoff_delay


def mark_attempted(partition: PartitionOracle, outcome: Outcome) -> None:
    """The asks that a pass has looked at: an autoscaler may hear of those that found no node."""
    for app_id, looked_at in outcome.nowhere.items():
        nowhere = partition.apps[app_id].nowhere
        for ask_class, found_none in looked_at.items():
            (nowhere.add if found_none else nowhere.discard)(ask_class)
    for app_id, asks in outcome.attempted.items():
        classes = {ask.ask_class for ask in asks}
        for ask in partition.apps[app_id].asks.values():
            ask.attempted = ask.attempted or ask.ask_class in classes


def end_turn(partition: PartitionOracle, now: float) -> None:
    """Nothing can be decided any more; what still waits may be told a second later (§ 8.12)."""
    if INSPECT not in partition.timers and any(app.asks for app in partition.apps.values()):
        partition.timers.set(INSPECT, now + INSPECTION_SECONDS)


def carry_out(partition: PartitionOracle, decision: Decision, now: float) -> bool:
    """Turn the ask into an allocation, or reserve the node; whether the RM is told of it now."""
    app, node = partition.apps[decision.app_id], partition.nodes[decision.node_id]
    ask = app.asks[decision.key]
    if ask.required_node is not None:
        _make_way(partition, ask.required_node)
    if decision.reserves:
        ask.reservation = ReservationRecord(node.node_id, now)
        if ask.required_node is None and _must_ask(partition, ask, node, allocate=False):
            check = _ask(partition, app, ask, node, now, allocate=False)
            check.reservations.append(ask.reservation)
        return False
    assumed = _must_ask(partition, ask, node, allocate=True)
    if assumed:
        waits_for = _ask(partition, app, ask, node, now, allocate=True)
        waits_for.assumed.append((app.app_id, ask.key))
    del app.asks[ask.key]
    ask.reservation = None
    partition.decisions += 1
    app.allocations[ask.key] = AllocationRecord(ask, node.node_id, assumed, partition.decisions)
    if not assumed:
        node.changed()
        confirm(partition, app, node, now)
    return not assumed


def confirm(partition: PartitionOracle, app: AppRecord, node: NodeRecord, now: float) -> None:
    """The RM agrees to a node, so the application runs, or starts.

    What the RM said of the node before is void; what it is still to say it says knowing of this.
    """
    node.results.clear()
    _note_start(partition, app, now)
    app.state = "Running"


def _must_ask(
    partition: PartitionOracle, ask: AskRecord, node: NodeRecord, *, allocate: bool
) -> bool:
    """Where others are assumed, what the RM said of the node before does not count."""
    known = (ask.ask_class, allocate) in node.results
    known = known and not (allocate and partition.assumed_on(node))
    return partition.policy is not None and ask.predicate is not None and not known


def _ask(
    partition: PartitionOracle,
    app: AppRecord,
    ask: AskRecord,
    node: NodeRecord,
    now: float,
    *,
    allocate: bool,
) -> PredicateCheck:
    """The check about the ask and the node: an open one, or the next that the core asked for."""
    checks = partition.checks
    check = checks.about(ask, node, allocate=allocate)
    if check is None or (allocate and partition.assumed_on(node)):
        if checks.said and allocate:
            check_sense(look_at(partition, now), checks, ask, checks.said[0])
        check = checks.next(app.app_id, ask, partition.nodes, allocate=allocate)
        asked = list(check.nodes)
        assert asked[0] is node, f"core asks about {asked} first, not {node}"
        assert allocate or len(asked) == 1, f"core asks to reserve one of {asked}"
    return check


def _make_way(partition: PartitionOracle, node_id: str) -> None:
    """An ask that requires the node takes it from those that do not (spec § 8.7)."""
    for _, ask in partition.reserved_asks():
        if ask.required_node is None and ask.reservation and ask.reservation.node_id == node_id:
            ask.reservation = None


def _note_start(partition: PartitionOracle, app: AppRecord, now: float) -> None:
    """The application starts in a state-aware leaf, or has started (spec § 5.2)."""
    leaf = partition.queues[app.queue]
    if app.starts_until is not None:
        app.starts_until = None
    elif (
        app.state == "Accepted"
        and leaf.app_order == "stateaware"
        and not partition.as_fifo
        and app.tags.get(NO_STARTING_TAG) != "true"
    ):
        for other in partition.apps.values():
            if other.queue == app.queue:
                other.starts_until = None
        app.starts_until = now + STARTING_SECONDS
