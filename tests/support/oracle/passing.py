"""Time and answers: changes of one partition without a decision (spec §§ 5.4, 8.3-8.6, 8.12).

An autoscaler is sent the asks within their quota that no node can host.
"""

from licorne_core.messages.commands import FailMode
from support.oracle.backfill import holders, runtime_for_order
from support.oracle.books import Amounts, AppRecord, AskRecord, Kind, NodeRecord
from support.oracle.cordons import drain
from support.oracle.doing import confirm, link, preempt
from support.oracle.gangs import to_be_tried
from support.oracle.lives import completing_is_over, placeholders_overdue
from support.oracle.notices import look_after, notice_over
from support.oracle.order import Look, apps_in_order
from support.oracle.partition import PartitionOracle
from support.oracle.predicates import (
    RETRY_SECONDS,
    PredicateCheck,
    VictimCheck,
    accepted,
    first_standing,
    forget_silence,
    is_current,
    others_were_faster,
    put_back,
    remember,
    starts,
    still_waits,
)
from support.oracle.profiles import GRACE
from support.oracle.queues import lineage
from support.oracle.reserving import victims_on
from support.oracle.terms import NO_ANSWER
from support.oracle.turns import SEARCH_INTERVAL, look_at
from support.oracle.usage import limit_for
from support.oracle.victims import Preemption

Quota = tuple[str, str, str]


def newly_waiting(look: Look) -> list[tuple[str, str]]:
    """Application and key of the asks to report to the RM, which are marked as reported.

    An ask counts if it fits in all maxima, except the size of the cluster, after the asks before it; for each
    kind of an application no more are reported than fit.
    """
    told: list[tuple[str, str]] = []
    left: dict[Quota, Amounts] = {}
    for app in apps_in_order(look, runtime=runtime_for_order(look)):
        for asks in _kinds(app):
            in_vain = asks[0].attempted and asks[0].kind in app.nowhere
            in_vain = in_vain and not look.is_silent_about(asks[0].ask_class)
            if in_vain and asks[0].required_node is None:
                rooms = [_room(look, left, quota, bound) for quota, bound in _bounds(look, app)]
                for name, most, claimed in look.budgets_of(app, None):
                    quota = ("budget", name, "")
                    rest = {what: value - claimed.get(what, 0) for what, value in most.items()}
                    rooms.append(left.setdefault(quota, rest))
                fitting = _take(rooms, asks)
                untold = [ask for ask in asks if not ask.told]
                for ask in untold[: max(0, fitting - (len(asks) - len(untold)))]:
                    ask.told = True
                    told.append((app.app_id, ask.key))
    return told


def _kinds(app: AppRecord) -> list[list[AskRecord]]:
    """The application's asks by kind, in order, without asks that wait for placeholders."""
    kinds: dict[Kind, list[AskRecord]] = {}
    for ask in to_be_tried(app):
        kinds.setdefault(ask.kind, []).append(ask)
    return list(kinds.values())


def _bounds(look: Look, app: AppRecord) -> list[tuple[Quota, Amounts]]:
    """The maxima of the application's queues below root, of its user and of its group."""
    found: list[tuple[Quota, Amounts]] = []
    for path in lineage(app.queue):
        if path != "root" and look.queues[path].max:
            found.append((("queue", "", path), look.queues[path].max))
        for kind, name in app.trackers():
            limit = limit_for(look.queues[path], kind, name)
            if limit is not None and limit.max is not None:
                found.append(((kind, name, path), limit.max))
    return found


def _room(look: Look, left: dict[Quota, Amounts], quota: Quota, bound: Amounts) -> Amounts:
    """The remainder of a maximum after allocated amounts and those of earlier asks."""
    kind, _, path = quota
    used = look.usage.claimed(path) if kind == "queue" else look.usage.claimed_of(quota)
    if quota not in left:
        left[quota] = {name: value - used.get(name, 0) for name, value in bound.items()}
    return left[quota]


def _take(rooms: list[Amounts], asks: list[AskRecord]) -> int:
    """The number of asks of one size that fit in all rooms, from which their amounts are taken."""
    size = asks[0].size
    fitting = len(asks)
    for room in rooms:
        for name in room.keys() & size.keys():
            fitting = min(fitting, max(room[name], 0) // size[name])
    for room in rooms:
        for name in room.keys() & size.keys():
            room[name] -= fitting * size[name]
    return fitting


RESERVATION_SECONDS = 3600.0
HOLD_SECONDS = 1.0
PUT_OFF = ("inspect", "complete", "placeholders", "drain", "notice")
"""Deadlines that are postponed while the partition is on hold."""


def pass_time(partition: PartitionOracle, now: float, *, on_hold: bool) -> list[tuple[str, str]]:
    """Handle deadlines that are due, in order; return asks that wait for more nodes."""
    waiting: list[tuple[str, str]] = []
    while (due := partition.timers.take(now)) is not None:
        what, name = due
        if on_hold and what in PUT_OFF:
            partition.timers.set(due, now + HOLD_SECONDS)
        elif what != "inspect":
            _on_time(partition, what, name, now, on_hold=on_hold)
        else:
            waiting += newly_waiting(look_at(partition, now))
        look_after(partition, now)
    for _, ask in partition.reserved_asks():
        if ask.reservation and ask.reservation.since + RESERVATION_SECONDS <= now:
            ask.end_reservation()
    for _, _, shadow in holders(partition.apps):
        if shadow.start + GRACE <= now and shadow.timed != shadow.start:
            shadow.timed, shadow.stale, shadow.overdue = shadow.start, True, True
    for app in partition.apps.values():
        if app.backs_off_until <= now:
            app.backs_off_until = 0.0
        if app.starts_until is not None and app.starts_until <= now:
            app.starts_until = None
    return waiting


def _on_time(partition: PartitionOracle, what: str, name: str, now: float, *, on_hold: bool) -> None:
    """Handle one deadline."""
    if what == "complete":
        completing_is_over(partition, partition.apps[name], now)
    elif what == "placeholders":
        placeholders_overdue(partition, partition.apps[name], now)
    elif what == "review":
        partition.review_due = now
    elif what == "again":
        app_id, _, key = name.partition(" ")
        app = partition.apps.get(app_id)
        ask = None if app is None else app.asks.get(key)
        # The ask may have been removed, and another ask may have its key.
        if app and ask and ask.rests_until is not None and ask.rests_until <= now:
            app.wake(ask)
    elif what == "notice":
        notice_over(partition, name, now)
    elif what == "place":
        _forget_place(partition, name)
    elif what == "drain":
        drain(partition, name, now)
    elif what == "clean":
        partition.clean()
    elif what == "answer":
        _give_up(partition, int(name), now, on_hold=on_hold)
    else:
        forget_silence(partition.checks.silent.pop(int(name)))


def _forget_place(partition: PartitionOracle, name: str) -> None:
    """Release the room of a lost gang member; the member may still be bound to the domain."""
    app_id, _, key = name.partition(" ")
    for place in [p for p in partition.places if (p.app.app_id, p.ask.key) == (app_id, key)]:
        place.node_id, place.kept = None, False
        if not (place.app.terms.required or place.app.terms.size):
            partition.places.remove(place)


def take_answer(
    partition: PartitionOracle,
    number: int,
    refused: dict[str, str],
    now: float,
    *,
    on_hold: bool,
) -> None:
    """Process an answer of the RM. An answer to a closed check is ignored."""
    check = partition.checks.close(number)
    if check is None:
        return
    partition.unheard = False
    if not check.is_orphaned:
        remember(check, refused)
    again: list[tuple[str, str]] = []
    first = next(iter(check.nodes)).node_id
    for node_id in _settle(partition, check, refused, now, again):
        if node_id != first:
            partition.nodes[node_id].changed()
    _ask_again(partition, again)
    if check.victims is not None and is_current(look_at(partition, now), check.victims):
        agreed = _agreed(partition, check, refused)
        names = [node.node_id for node in check.nodes if node.node_id in refused]
        found = accepted(check.victims, agreed)
        _go_by(partition, check.victims, found, names, now, on_hold=on_hold)


def _agreed(partition: PartitionOracle, check: PredicateCheck, refused: dict[str, str]) -> dict[str, int]:
    """The plans accepted by the RM: the node has not changed since, or was accepted before."""
    assert check.victims is not None
    name = (check.ask_class, False)
    asked = {node.node_id: node for node in check.nodes}
    agreed = {}
    for node_id, start in starts(check.victims).items():
        node = asked.get(node_id)
        if node is None:
            known = partition.nodes.get(node_id)
            agrees = known is not None and known.results.get(name) == ""
        else:
            agrees = node_id not in refused and check.nodes[node][1] == node.narrowed
        if agrees:
            agreed[node_id] = start
    return agreed


def _give_up(partition: PartitionOracle, last: int, now: float, *, on_hold: bool) -> None:
    """Handle the missed deadline of checks written together, by the fail mode.

    The RM has not judged such acceptances, so its later answers about those nodes are void.
    """
    assert partition.policy is not None, "a check has a deadline by a policy"
    confirmed: list[str] = []
    again: list[tuple[str, str]] = []
    together = partition.checks.sent.pop(last)
    unsaid: dict[int, VictimCheck] = {
        number: check
        for number in together
        for one in [partition.checks.open.get(number)]
        for check in [one.victims if one else partition.judging.open.pop(number, None)]
        if check is not None
    }
    for number in together:
        check = partition.checks.close(number)
        if check is None:
            continue
        if partition.policy.fail_mode is FailMode.OPEN:
            if check.of_gang:
                remember(check, {})
            confirmed += _settle(partition, check, {}, now, again)
            continue
        refused = {node.node_id: NO_ANSWER for node in check.nodes}
        if not check.is_orphaned:
            remember(check, refused)
            partition.checks.silent[number] = check
            partition.timers.set(("retry", str(number)), now + RETRY_SECONDS)
        confirmed += _settle(partition, check, refused, now, again)
        partition.unheard = True
    for node_id in {*confirmed}:
        partition.nodes[node_id].changed()
    _ask_again(partition, again)
    for asked in unsaid.values():
        _no_word_of_victims(partition, asked, now, on_hold=on_hold)


def take_word_of_victims(
    partition: PartitionOracle,
    number: int,
    needed: dict[str, int],
    now: float,
    *,
    on_hold: bool,
) -> None:
    """Process the RM's choice of victims. An answer to a closed check is ignored."""
    check = partition.judging.open.pop(number, None)
    if check is None or not is_current(look_at(partition, now), check):
        return
    found = accepted(check, needed)
    refused = [] if found else [plan.node_id for plan in check.plans]
    _go_by(partition, check, found, refused, now, on_hold=on_hold)


def _go_by(
    partition: PartitionOracle,
    check: VictimCheck,
    found: list[Preemption],
    refused: list[str],
    now: float,
    *,
    on_hold: bool,
) -> None:
    """Carry out the first accepted plan that is still valid; none for a held application."""
    on_hold = on_hold or check.app.held
    check.wish.refused.update(dict.fromkeys(refused, check.ask.priority))
    if not found or not still_waits(check):
        # The next nodes are tried, or the next ask follows at once.
        return
    look = look_at(partition, now)
    standing = None if on_hold else first_standing(look, check, found)
    if standing is None and not on_hold and others_were_faster(look, check, found):
        # The next nodes are tried.
        return
    check.wish.refused.clear()
    if standing is None:
        check.wish.fails(check.ask.priority, now + SEARCH_INTERVAL)
    else:
        preempt(partition, standing, now)


def _no_word_of_victims(partition: PartitionOracle, check: VictimCheck, now: float, *, on_hold: bool) -> None:
    """Handle a missed deadline: the proposal counts as accepted, or as refused for a while."""
    assert partition.policy is not None, "a check has a deadline by a policy"
    if not is_current(look_at(partition, now), check):
        return
    if partition.policy.fail_mode is FailMode.OPEN:
        found = accepted(check, starts(check))
        _go_by(partition, check, found, [], now, on_hold=on_hold)
    else:
        check.wish.fails(check.ask.priority, now + SEARCH_INTERVAL)


def _settle(
    partition: PartitionOracle,
    check: PredicateCheck,
    refused: dict[str, str],
    now: float,
    again: list[tuple[str, str]],
) -> list[str]:
    """Confirm or roll back the waiting asks; if the node has changed, the RM must be asked again.

    Return the accepted node for each ask that is booked on one.
    """
    confirmed: list[str] = []
    orphaned = check.is_orphaned
    for app_id, key in list(check.assumed):
        app = partition.apps[app_id]
        node = partition.nodes[_node_of(app, key)]
        accepted = node.node_id not in refused
        counts = check.counts(node, len(partition.assumed_on(node)), accepted=accepted)
        if orphaned or not counts:
            again.append((app_id, key))
        elif not accepted:
            put_back(app, key)
            if refused[node.node_id] != NO_ANSWER:
                _note_refused(partition, app, app.asks[key], node, now)
        elif key in app.allocations:
            confirm(partition, app, key, now)
            confirmed.append(node.node_id)
        else:
            link(partition, app, key)
            if app.pairs[key].node_id is not None:
                node.results.clear()
                confirmed.append(node.node_id)
    for _, ask in partition.reserved_asks():
        if ask.reservation in check.reservations and ask.reservation.node_id in refused:
            ask.lose_node()
    return confirmed


def _note_refused(
    partition: PartitionOracle, app: AppRecord, ask: AskRecord, node: NodeRecord, now: float
) -> None:
    """Record a refusal of the node; a reservation remains only while a victim on it is to be stopped."""
    if not ask.is_promised or ask.reservation is None or ask.reservation.node_id != node.node_id:
        return
    if ask.required_node is None and not victims_on(partition.apps, ask.reservation):
        app.refused_in_vain(ask, node, now)
        ask.lose_node()


def _node_of(app: AppRecord, key: str) -> str:
    """The node for which an ask waits: the one of its booking, or its placeholder's."""
    if key in app.allocations:
        return app.allocations[key].node_id
    pair = app.pairs[key]
    return pair.node_id or app.allocations[pair.placeholder].node_id


def _ask_again(partition: PartitionOracle, again: list[tuple[str, str]]) -> None:
    for app_id, key in again:
        app = partition.apps[app_id]
        pair = app.pairs.get(key)
        ask = app.waiting_ask(key)
        node = partition.nodes[_node_of(app, key)]
        allocate = pair is None or pair.node_id is not None
        check = partition.checks.next(app_id, ask, partition.nodes, allocate=allocate)
        assert list(check.nodes) == [node], f"core asks again about {check.nodes}, not {node}"
        check.assumed.append((app_id, key))
