"""Decisions, carried out on the records of a partition."""

from support.oracle.backfill import Hold, Lapse, StartQuestion, give_way, holders, passed_by, started
from support.oracle.books import (
    ALLOCATED,
    ASSUMED,
    PLACEHOLDER,
    RELEASING,
    AppRecord,
    AskRecord,
    NodeRecord,
    PairRecord,
)
from support.oracle.checks import refuses_place
from support.oracle.deciding import Decision, Gathering
from support.oracle.lives import note_placeholder, note_start, run, stop
from support.oracle.maxima import share
from support.oracle.notices import look_after, noticed_units, stop_victim
from support.oracle.partition import PartitionOracle
from support.oracle.predicates import PredicateCheck, ask_who_goes, check_sense, question
from support.oracle.replacing import INCOMPATIBLE, Replacement
from support.oracle.reserving import GiveUp, new_reservation, review_later
from support.oracle.topology import GangQuestion, MemberDecision, Together
from support.oracle.turns import look_at
from support.oracle.victims import Preemption

FOR_ASK = "preempting allocations to free up resources to run ask: "
FOR_DAEMON = "preempting allocations to free up resources to run daemon set ask: "


def carry_out(
    partition: PartitionOracle,
    decision: Decision | Replacement | Preemption | GiveUp | Hold | Lapse | StartQuestion | Gathering,
    now: float,
) -> int:
    """Carry out a decision; return the number of allocations sent to the RM at once.

    Each placed allocation stores the planned start that it overtook.
    """
    keys: list[str] = []
    if isinstance(decision, Together):
        keys = [key for key, _ in decision.members]
    elif isinstance(decision, MemberDecision) or (isinstance(decision, Decision) and not decision.reserves):
        keys = [decision.key]
    if isinstance(decision, Together | MemberDecision | Decision) and keys:
        app = partition.apps[decision.app_id]
        passed = passed_by(look_at(partition, now), app, keys[0])
        told = _carry_out(partition, decision, now)
        for key in keys:
            app.allocations[key].passed = passed
    else:
        told = _carry_out(partition, decision, now)
    look_after(partition, now)
    return told


def _carry_out(
    partition: PartitionOracle,
    decision: Decision | Replacement | Preemption | GiveUp | Hold | Lapse | StartQuestion | Gathering,
    now: float,
) -> int:
    if isinstance(decision, StartQuestion):
        _ask_to_plan(partition, decision)
        return False
    if isinstance(decision, Together | GangQuestion | MemberDecision):
        return _carry_out_of_gang(partition, decision, now)
    if isinstance(decision, Preemption):
        if decision.nodes:
            check = partition.checks.next(
                decision.app_id,
                partition.apps[decision.app_id].asks[decision.key],
                partition.nodes,
                allocate=False,
            )
            asked = tuple(node.node_id for node in check.nodes)
            assert asked == decision.nodes, f"core asks about {asked}, oracle {decision.nodes}"
            check.victims = question(partition.apps, decision)
        elif decision.plans:
            ask_who_goes(partition.apps, partition.judging, decision)
        else:
            preempt(partition, decision, now)
        return False
    if isinstance(decision, Replacement):
        _replace(partition, decision, now)
        return False
    if isinstance(decision, GiveUp | Hold | Lapse):
        _keep_other_room(partition, decision, now)
        return False
    app, node = partition.apps[decision.app_id], partition.nodes[decision.node_id]
    ask = app.asks[decision.key]
    if ask.required_node is not None:
        _make_way(partition, ask.required_node)
    if decision.reserves:
        ask.shadow = None
        ask.reservation = ask.reservation or new_reservation(partition, app, now)
        ask.reservation.node_id, ask.reservation.provisional = node.node_id, decision.provisional
        review_later(partition, now)
        if ask.required_node is None and partition.must_ask(ask, node, allocate=False):
            check = _ask(partition, app, ask, node, now, allocate=False)
            check.reservations.append(ask.reservation)
        return False
    return _place(partition, decision, now)


def _place(partition: PartitionOracle, decision: Decision, now: float, *, asks: bool = True) -> bool:
    """Place an ask on a node; return whether it is sent to the RM at once, without a question."""
    app, node = partition.apps[decision.app_id], partition.nodes[decision.node_id]
    ask = app.asks[decision.key]
    if ask.required_node is not None:
        _make_way(partition, ask.required_node)
    assumed = asks and partition.must_ask(ask, node, allocate=True)
    if assumed:
        waits_for = _ask(partition, app, ask, node, now, allocate=True)
        waits_for.assumed.append((app.app_id, ask.key))
    if ask.shadow is not None:
        started(look_at(partition, now), app, ask, is_there=ask.shadow.node_id == node.node_id)
    del app.asks[ask.key]
    ask.shadow = None
    if not ask.is_promised:
        ask.reservation = None
    partition.book(app, ask, node.node_id, ASSUMED, ask.created, now)
    if not assumed:
        node.changed()
        confirm(partition, app, ask.key, now)
    return not assumed


def _carry_out_of_gang(
    partition: PartitionOracle, decision: Together | GangQuestion | MemberDecision, now: float
) -> int:
    """Carry out a decision about a whole gang or one member; return the number of allocations sent."""
    if isinstance(decision, Together):
        for key, node_id in decision.members:
            _place(partition, Decision(decision.app_id, key, node_id), now, asks=False)
        return len(decision.members)
    if isinstance(decision, GangQuestion):
        _ask_for_gang(partition, decision)
        return False
    told = _place(partition, Decision(decision.app_id, decision.key, decision.node_id), now)
    if decision.place is not None and told:
        partition.places.remove(decision.place)
    elif decision.place is not None:
        decision.place.taken_by = decision.key
    return told


def _ask_for_gang(partition: PartitionOracle, decision: GangQuestion) -> None:
    """Ask the RM about nodes; nothing is booked before the answer."""
    app = partition.apps[decision.app_id]
    for key, nodes in decision.nodes:
        check = partition.checks.next(app.app_id, app.asks[key], partition.nodes, allocate=False)
        asked = tuple(node.node_id for node in check.nodes)
        assert asked == nodes, f"core asks about {asked}, oracle {nodes}"
        check.of_gang = app


def confirm(partition: PartitionOracle, app: AppRecord, key: str, now: float) -> None:
    """Make an allocation, because the RM accepts its node.

    Earlier answers of the RM about the node are void; later ones take the allocation into account.
    """
    allocation = app.allocations[key]
    kept = allocation.ask.reservation
    is_cleared = kept is not None and bool(kept.promised) and kept.node_id == allocation.node_id
    taken = [one for one in partition.places if one.app is app and one.taken_by == key]
    for place in taken if allocation.assumed else ():
        partition.places.remove(place)
    allocation.ask.reservation = None
    partition.nodes[allocation.node_id].results.clear()
    partition.tell_made(app, key)
    if allocation.ask.placeholder:
        allocation.state = PLACEHOLDER
        note_placeholder(partition, app, now, decided=True)
    else:
        allocation.state = ALLOCATED
        note_start(partition, app, now)
        run(partition, app)
    if is_cleared:
        give_way(look_at(partition, now), partition.nodes[allocation.node_id])


def preempt(partition: PartitionOracle, decision: Preemption, now: float) -> None:
    """Stop the victims, and reserve the node for the ask (spec §§ 9.4.8, 9.5)."""
    app = partition.apps[decision.app_id]
    ask = app.asks[decision.key]
    text = FOR_ASK if ask.required_node is None else FOR_DAEMON
    stopped = []
    units = noticed_units(partition, decision.victims)
    for (app_id, key), unit in zip(decision.victims, units, strict=True):
        victim = partition.apps[app_id]
        gone = victim.allocations[key]
        stopped.append(gone)
        stop_victim(partition, victim, key, text + ask.key, now, unit)
    for _, other in partition.reserved_asks():
        here = other.reservation is not None and other.reservation.node_id == decision.node_id
        stays = other.required_node is not None or (other.triggered and ask.required_node is None)
        if here and other is not ask and not stays:
            other.lose_node()
    ask.shadow = None
    if ask.reservation is None or ask.reservation.node_id != decision.node_id:
        ask.reservation = new_reservation(partition, app, now)
        ask.reservation.node_id = decision.node_id
        review_later(partition, now)
    ask.reservation.since, ask.reservation.provisional = now, False
    ask.reservation.victims = stopped
    ask.reservation.promised = dict(ask.size)
    ask.reservation.cleared = decision.node_id
    ask.triggered = True


def _replace(partition: PartitionOracle, decision: Replacement, now: float) -> None:
    """Let a real ask replace a placeholder once the RM has agreed, or stop the placeholder."""
    app = partition.apps[decision.app_id]
    if decision.cancels:
        stop(partition, app, decision.placeholder, INCOMPATIBLE, counts=False)
        return
    ask, elsewhere = app.asks[decision.key], decision.node_id is not None
    if decision.asks:
        node_id = decision.node_id or app.allocations[decision.placeholder].node_id
        node = partition.nodes[node_id]
        check = _ask(partition, app, ask, node, now, allocate=elsewhere)
        check.assumed.append((app.app_id, ask.key))
    del app.asks[ask.key]
    ask.reservation = None
    partition.bookings += 1
    number = partition.bookings
    ask.shadow = None
    app.pairs[ask.key] = PairRecord(ask, decision.placeholder, decision.node_id, number, started=now)
    if not decision.asks:
        link(partition, app, ask.key)


def link(partition: PartitionOracle, app: AppRecord, key: str) -> None:
    """Link the real ask: the RM is requested to stop the placeholder."""
    pair = app.pairs[key]
    pair.linked = True
    app.allocations[pair.placeholder].state = RELEASING
    message = f"replacing allocationKey: {key}"
    partition.tell_released(app, pair.placeholder, "PLACEHOLDER_REPLACED", message)


def _ask(
    partition: PartitionOracle,
    app: AppRecord,
    ask: AskRecord,
    node: NodeRecord,
    now: float,
    *,
    allocate: bool,
) -> PredicateCheck:
    """The check about the ask and the node: an open one, or the next that the core sent."""
    checks = partition.checks
    check = checks.about(ask, node, allocate=allocate)
    alone = not allocate or not partition.assumed_on(node)
    if check is None or not alone or check.is_orphaned:
        if checks.said and allocate:
            check_sense(look_at(partition, now), checks, ask, checks.said[0])
        check = checks.next(app.app_id, ask, partition.nodes, allocate=allocate)
        asked = list(check.nodes)
        assert asked[0] is node, f"core asks about {asked} first, not {node}"
        assert allocate or len(asked) == 1, f"core asks to reserve one of {asked}"
    return check


def _ask_to_plan(partition: PartitionOracle, decision: StartQuestion) -> None:
    """Ask the RM about the node of a start, and about possible next nodes."""
    app = partition.apps[decision.app_id]
    ask = app.asks[decision.key]
    check = partition.checks.next(app.app_id, ask, partition.nodes, allocate=False)
    asked = list(check.nodes)
    assert asked[0].node_id == decision.node_id, f"core asks about {asked}, not {decision.node_id} first"
    known = [node for node in asked if (ask.ask_class, False) in node.results or not node.holds(ask.size)]
    assert not known, f"core asks about {known} in vain"
    check.of_gang, check.plans, check.waits = app, ask.shadow is None, decision.waits


def _keep_other_room(partition: PartitionOracle, decision: GiveUp | Hold | Lapse, now: float) -> None:
    """Reserve room on other nodes."""
    if isinstance(decision, GiveUp):
        _give_up(partition, decision, now)
    else:
        _follow_start(partition, decision, now)


def _follow_start(partition: PartitionOracle, decision: Hold | Lapse, now: float) -> None:
    """Replace or end the planned start of an ask."""
    ask = partition.apps[decision.app_id].asks[decision.key]
    if isinstance(decision, Lapse):
        ask.shadow = None
        return
    if ask.shadow is None:
        if decision.like is not None:
            partition.pauses.end(decision.like)
        partition.told_starts += 1
        decision.shadow.serial = partition.told_starts
    else:
        decision.shadow.waits |= ask.shadow.waits
        decision.shadow.behind = set() if decision.shadow.waits else ask.shadow.behind
        decision.shadow.serial = ask.shadow.serial
    was_overdue = ask.shadow is not None and ask.shadow.overdue
    ask.shadow = decision.shadow
    look, held = look_at(partition, now), holders(partition.apps)
    for app, one, shadow in held:
        if one is not ask:
            shadow.beside.add(decision.shadow.name)
            if was_overdue and shadow.serial > ask.shadow.serial:
                own = partition.apps[decision.app_id]
                if shadow.node_id == ask.shadow.node_id or share(look, own, app, held):
                    shadow.stale = shadow.overdue = True


def _give_up(partition: PartitionOracle, decision: GiveUp, now: float) -> None:
    """Release reservations that are useless."""
    for kept, since, gives_way in decision.found:
        kept.idle_since, kept.gives_way = since, gives_way
    partition.claims = decision.claims
    if decision.is_review:
        partition.review_due = None
        for node in partition.nodes.values():
            node.yielded = False
    for ask in decision.giving_way:
        if ask.reservation is not None and ask.reservation.node_id is not None:
            partition.nodes[ask.reservation.node_id].yielded = True
    for ask in (*decision.idle, *decision.giving_way):
        for app in [app for app in partition.apps.values() if app.asks.get(ask.key) is ask]:
            own = None if ask.reservation is None else ask.reservation.node_id
            if own is not None and refuses_place(partition.nodes[own], ask):
                app.refused_in_vain(ask, partition.nodes[own], now)
        ask.lose_node()
    review_later(partition, now)


def _make_way(partition: PartitionOracle, node_id: str) -> None:
    """End reservations of the node by other asks, for an ask that requires it (spec § 8.7)."""
    for _, ask in partition.reserved_asks():
        if ask.required_node is None and ask.reservation and ask.reservation.node_id == node_id:
            ask.lose_node()
