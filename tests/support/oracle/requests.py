"""Effects of nodes, asks, existing allocations and releases on a partition (spec §§ 1.6.11, 5.3, 7, 11.3)."""

from math import inf

from licorne_core.messages.commands import NodeAction, NodeUpdate, ReleaseRequest, TerminationType
from licorne_core.values.asks import Ask
from support.oracle.backfill import MOST, ShadowRecord, declared, holders, mode, note_end, runs_of_users
from support.oracle.books import (
    ALLOCATED,
    PLACEHOLDER,
    AllocationRecord,
    Amounts,
    AppRecord,
    AskRecord,
    NodeRecord,
    PairRecord,
    add_to,
)
from support.oracle.gangs import unlink
from support.oracle.lives import cut, drop_ask, end_allocation, note_placeholder, run, settle
from support.oracle.maxima import Key, is_budget
from support.oracle.notices import ask_again_for, count_on, note_checkpoint
from support.oracle.order import SCHEDULABLE
from support.oracle.partition import PartitionOracle, look_again
from support.oracle.reserving import new_reservation, review_later
from support.oracle.terms import PreemptionTerms
from support.oracle.usage import limit_for

TAKES_ASKS = ("New", "Accepted", "Running", "Completing", "Resuming")
UNACKNOWLEDGED = (TerminationType.TIMEOUT, TerminationType.PREEMPTED_BY_SCHEDULER)
FIRST_REST = 1.0
LONGEST_REST = 60.0
RELEASED_BY_RM = "allocation remove as per RM request"


def take_ask(partition: PartitionOracle, ask: Ask, now: float) -> None:
    """Add an ask, or an allocation that already exists."""
    size = {name: value for name, value in ask.ask_class.resources.items() if value}
    if not size or min(size.values()) < 0 or (ask.placeholder and not ask.task_group):
        return
    if "foreign" in ask.tags:
        _take_foreign(partition, ask, size)
        return
    app = partition.apps.get(ask.app_id)
    if app is not None and app.state in TAKES_ASKS and not _is_refused(app, ask):
        _take(partition, app, ask, size, now)


def _is_refused(app: AppRecord, ask: Ask) -> bool:
    """True for a new placeholder of an elastic gang, which can have no placeholders."""
    return ask.placeholder and app.elastic is not None and ask.key not in {**app.asks, **app.allocations}


def _take(partition: PartitionOracle, app: AppRecord, ask: Ask, size: Amounts, now: float) -> None:
    """Process an ask with a new or existing key. A change by the RM takes effect at once."""
    if ask.key in [*app.assumed_keys(), *app.matched_keys()]:
        changes = ask.node_id is not None or size != app.waiting_ask(ask.key).size
        if not changes:
            return
        partition.put_back(app, ask.key)
    if ask.key in app.allocations:
        if ask.node_id is not None and app.allocations[ask.key].state in (ALLOCATED, PLACEHOLDER):
            app.allocations[ask.key].ask.failures = 0
        note_checkpoint(app.allocations[ask.key], ask, now)
        _resize_allocation(partition, app, app.allocations[ask.key], size)
    elif ask.key in app.pairs:
        _resize_linked(partition, app.pairs[ask.key], size)
    elif ask.node_id is not None:
        if ask.node_id in partition.nodes:
            _recover(partition, app, ask, size, now)
    elif ask.key in app.asks:
        if app.asks[ask.key].size != size:
            replace_ask(partition, app, app.asks[ask.key], size, now)
    else:
        record = _new_ask(partition, app, ask, size, now)
        app.count_new(record)
        app.add(record)
        if app.state in ("New", "Accepted"):
            app.state = "Accepted"
        elif app.state != "Resuming":
            run(partition, app)


def _recover(partition: PartitionOracle, app: AppRecord, ask: Ask, size: Amounts, now: float) -> None:
    """Recover an ask that the RM has placed on a node itself."""
    assert ask.node_id is not None
    record = app.asks.pop(ask.key, None)
    if record is None:
        record = _new_ask(partition, app, ask, size, now)
    else:
        app.arrivals += 1
        record.arrival = app.arrivals
    record.size = size
    record.reservation = record.shadow = None
    state = PLACEHOLDER if record.placeholder else ALLOCATED
    record.brought = True
    record.failures, record.rests_until = 0, None
    record.forms += 1
    partition.book(app, record, ask.node_id, state, record.created, now)
    note_checkpoint(app.allocations[ask.key], ask, now)
    partition.tell_made(app, ask.key)
    partition.nodes[ask.node_id].changed()
    if app.state in ("New", "Resuming"):
        app.state = "Accepted"
    if record.placeholder:
        note_placeholder(partition, app, now)
    else:
        run(partition, app)
    look_again(partition, partition.nodes[ask.node_id], now)
    partition.put_back_unfitting(partition.nodes[ask.node_id])


def _is_used(partition: PartitionOracle, ask: AskRecord) -> bool:
    """True if the node of a reservation is planned, or reserved for another ask without a promise."""
    node_id = None if ask.reservation is None else ask.reservation.node_id
    plain = [one for _, one in partition.reserved_asks() if not (one.is_promised or one.required_node)]
    others = [one.reservation.node_id for one in plain if one is not ask and one.reservation]
    planned = [shadow.node_id for _, _, shadow in holders(partition.apps)]
    return node_id is not None and node_id in (*others, *planned)


def replace_ask(
    partition: PartitionOracle, app: AppRecord, ask: AskRecord, size: Amounts, now: float
) -> None:
    """Change size or priority of a pending ask; a node reserved for it must be able to hold the new size."""
    del app.asks[ask.key]
    ask.shadow = None
    was_promised = ask.is_promised
    if ask.placeholder:
        add_to(app.withdrawn, ask.size)
        app.make_up(size)
    ask.resize(size)
    if ask.reservation is not None:
        fresh = new_reservation(partition, app, ask.reservation.since)
        ask.reservation.serial, ask.reservation.exclusive = fresh.serial, fresh.exclusive
    ask_again_for(partition, ask, now)
    ask.attempted = False
    ask.forms += 1
    if ask.rests_until is None:
        app.add(ask)
    else:
        _rest(partition, app, ask, ask.rests_until)
    node_id = None if ask.reservation is None else ask.reservation.node_id
    if ask.required_node is None and node_id and not partition.nodes[node_id].holds(size):
        ask.lose_node()
    if was_promised and not ask.is_promised and ask.required_node is None and _is_used(partition, ask):
        ask.lose_node()
    if ask.reservation is not None and ask.reservation.node_id is not None:
        review_later(partition, now)


def _resize_allocation(
    partition: PartitionOracle, app: AppRecord, allocation: AllocationRecord, size: Amounts
) -> None:
    ask, node_id = allocation.ask, allocation.node_id
    if ask.size != size:
        ask.size = size
        partition.book(
            app, ask, node_id, allocation.state, allocation.requested, allocation.started, allocation.end
        )
        resized = app.allocations[ask.key]
        resized.took, resized.passed = allocation.took, allocation.passed
        count_on(partition, allocation, resized)
        partition.nodes[node_id].changed()
        partition.put_back_unfitting(partition.nodes[node_id])


def _resize_linked(partition: PartitionOracle, pair: PairRecord, size: Amounts) -> None:
    """Change the size of a real ask that is replacing a placeholder."""
    if pair.ask.size != size:
        pair.ask.size = size
        if pair.node_id is not None:
            partition.nodes[pair.node_id].changed()
            partition.put_back_unfitting(partition.nodes[pair.node_id])


def _terms(ask: Ask) -> PreemptionTerms:
    """The ask's terms of preemption; a cost that is not a number of at least 0 counts as 1."""
    written = ask.tags.get("licorne/preemption-cost", "")
    cost = float(written) if written.replace(".", "", 1).isdecimal() else 1.0
    return PreemptionTerms(ask.allow_preempt_other, ask.allow_preempt_self, ask.originator, cost)


def _new_ask(partition: PartitionOracle, app: AppRecord, ask: Ask, size: Amounts, now: float) -> AskRecord:
    created = now if ask.create_time is None else ask.create_time
    app.submitted = min(app.submitted, created)
    app.arrivals += 1
    record = AskRecord(
        ask.key,
        size,
        ask.priority,
        created,
        app.arrivals,
        ask.ask_class.required_node,
        ask.ask_class.predicate,
        _terms(ask),
        ask.placeholder,
        ask.task_group,
        own_priority=ask.priority,
        declared=declared(app, ask),
    )
    if mode(partition.queues) != "off":
        record.runs = record.declared
    if app.given_priority is not None:
        record.priority = app.given_priority
    if ask.placeholder:
        app.placeholders.append(record)
    return record


def _take_foreign(partition: PartitionOracle, ask: Ask, size: Amounts) -> None:
    if ask.node_id in partition.nodes:
        _drop_foreign(partition, ask.key)
        partition.nodes[ask.node_id].foreign[ask.key] = size
        partition.nodes[ask.node_id].changed()
        lose_starts(partition, partition.nodes[ask.node_id])
        partition.put_back_unfitting(partition.nodes[ask.node_id])


def lose_starts(partition: PartitionOracle, node: NodeRecord) -> None:
    """Release the room reserved for planned starts on the node; they are planned again."""
    for _, _, shadow in holders(partition.apps):
        if shadow.node_id == node.node_id:
            shadow.node_id, shadow.stale = "", True


def follow_quotas(partition: PartitionOracle) -> None:
    """Let starts be behind none but the present quotas of their applications; the latest surplus ones end."""
    kept: list[ShadowRecord] = []
    for app, ask, shadow in holders(partition.apps):
        shadow.behind = {key for key in shadow.behind if _counts_in(partition, app, key)}
        counts = [sum(key in one.behind for one in kept) for key in shadow.behind]
        alike = sum(not one.behind and one.waits == shadow.waits for one in kept)
        if max(counts or [alike]) < MOST[mode(partition.queues)]:
            kept.append(shadow)
        else:
            ask.shadow = None


def _counts_in(partition: PartitionOracle, app: AppRecord, key: Key) -> bool:
    if isinstance(key, str):
        return True
    kind, name, path = key
    if is_budget(key):
        return name in partition.budgets.names(partition.name, app.queue)
    return key[:2] in app.trackers() and limit_for(partition.queues[path], kind, name) is not None


def follow_backfill(partition: PartitionOracle, before: str, now: float) -> None:
    """Follow a change of backfill from `before`: asks gain or lose runtimes, and starts may be earlier."""
    follow_quotas(partition)
    for _, _, shadow in holders(partition.apps):
        shadow.looked = -inf
    after = mode(partition.queues)
    if (before == "off") == (after == "off"):
        return
    partition.last_runs.clear()
    for app in partition.apps.values():
        for ask in sorted(app.asks.values(), key=lambda ask: ask.place):
            ask.runs = ask.declared if after != "off" else inf
            replace_ask(partition, app, ask, ask.size, now)


def _drop_foreign(partition: PartitionOracle, key: str) -> None:
    for node in partition.nodes.values():
        if node.foreign.pop(key, None) is not None:
            node.changed(narrowed=False)
            lose_starts(partition, node)


def release(partition: PartitionOracle, request: ReleaseRequest, now: float) -> None:
    """Free the requests that a release names; TIMEOUT leaves asks unchanged (spec § 1.6.11)."""
    app = partition.apps.get(request.app_id)
    if not request.app_id:
        _drop_foreign(partition, request.key)
    elif app is not None:
        _release_of(partition, app, request, now)


def _release_of(partition: PartitionOracle, app: AppRecord, request: ReleaseRequest, now: float) -> None:
    """Release a request; one that waits for an answer is released like an ask."""
    for key in [*app.assumed_keys(), *app.matched_keys()]:
        if request.key in ("", key):
            partition.put_back(app, key)
    if request.termination is TerminationType.SCHEDULING_FAILED_ON_RM:
        _ask_back(partition, app, request.key, now)
    else:
        _free(partition, app, request, now)


def _ask_back(partition: PartitionOracle, app: AppRecord, key: str, now: float) -> None:
    """Return an allocation that the RM could not run to the asks, after its equals, with a back-off.

    An allocation that ran for longer than the longest back-off does not count as a repeated failure.
    """
    allocation = app.allocations.get(key)
    if allocation is None or app.state not in SCHEDULABLE:
        return
    if allocation.state not in (ALLOCATED, PLACEHOLDER):
        return
    pair = app.pair_of(key)
    if pair is not None:
        partition.put_back(app, pair.ask.key)
    app.arrivals += 1
    del app.allocations[key]
    partition.nodes[allocation.node_id].changed(narrowed=False)
    allocation.ask.arrival = app.arrivals
    allocation.ask.told = allocation.ask.attempted = False
    allocation.ask.brought, allocation.ask.triggered, allocation.ask.refused_stops = False, False, 0
    failures = 0 if now - allocation.started > LONGEST_REST else allocation.ask.failures
    allocation.ask.failures = failures + 1
    _rest(partition, app, allocation.ask, now + min(FIRST_REST * 2**failures, LONGEST_REST))


def _rest(partition: PartitionOracle, app: AppRecord, ask: AskRecord, until: float) -> None:
    """Make an ask pending, and skip it before that time."""
    ask.rests_until = until
    app.asks[ask.key] = ask
    partition.timers.set(("again", f"{app.app_id} {ask.key}"), until)


def _free(partition: PartitionOracle, app: AppRecord, request: ReleaseRequest, now: float) -> None:
    """Free pending asks first, then asks that are replacing a placeholder, then allocations.

    The confirmation of a timeout frees no ask.
    """
    meant = [request.key] if request.key else [*app.asks, *app.pairs, *app.allocations]
    asks = [key for key in meant if key in app.asks]
    linked = [key for key in meant if key in app.pairs]
    booked = [key for key in meant if key in app.allocations]
    if request.termination is not TerminationType.TIMEOUT:
        for key in asks:
            drop_ask(app, key)
        for key in linked:
            cut(partition, app, key)
        if asks or linked:
            settle(partition, app, now, real=False)
    for key in booked:
        _free_booked(partition, app, key, request.termination, now)


def _free_booked(
    partition: PartitionOracle, app: AppRecord, key: str, why: TerminationType, now: float
) -> None:
    """Free an allocation, and acknowledge that unless the core has requested its release."""
    real = not app.allocations[key].ask.placeholder
    if why not in (*UNACKNOWLEDGED, TerminationType.PLACEHOLDER_REPLACED):
        note_end(
            partition.runs,
            runs_of_users(partition.queues, partition.last_runs),
            partition.apps,
            app,
            app.allocations[key],
            now,
        )
    silent = why in UNACKNOWLEDGED or (not real and why is TerminationType.PLACEHOLDER_REPLACED)
    if not silent:
        partition.tell_released(app, key, "STOPPED_BY_RM", RELEASED_BY_RM)
    end_allocation(partition, app, key, now)
    settle(partition, app, now, real=real)


def update_node(partition: PartitionOracle, update: NodeUpdate, now: float) -> None:
    """Carry out the action; an invalid action has no effect."""
    action, known = update.action, partition.nodes.get(update.node_id)
    if action in (NodeAction.CREATE, NodeAction.CREATE_DRAIN):
        if known is None:
            schedulable = action is NodeAction.CREATE
            capacity = partition.budgets.with_floating(dict(update.capacity or {}))
            node = partition.nodes[update.node_id] = NodeRecord(
                update.node_id,
                capacity,
                schedulable,
                dict(update.attributes),
                partition.cordons.get(update.node_id),
            )
            look_again(partition, node, now)
    elif known is None:
        return
    elif action is NodeAction.UPDATE:
        capacity = partition.budgets.with_floating(dict(update.capacity or {}))
        if update.capacity is not None and capacity != known.capacity:
            known.capacity = capacity
            known.changed()
            lose_starts(partition, known)
            _unreserve_too_large(partition, known)
            partition.put_back_unfitting(known)
    elif action is NodeAction.DECOMISSION:
        _lose(partition, known, now)
    elif known.wanted is not (action is NodeAction.DRAIN_TO_SCHEDULABLE):
        before = known.schedulable
        known.wanted = not known.wanted
        if known.schedulable is not before:
            known.changed()
            lose_starts(partition, known)
    if action is NodeAction.DRAIN_NODE and known is not None:
        for app, key in partition.assumed_on(known):
            if app.waiting_ask(key).required_node is None:
                partition.put_back(app, key)


def follow_floating(partition: PartitionOracle, before: frozenset[str]) -> None:
    """Follow a change of the types that no node has: each node has unlimited amounts of them."""
    for node in partition.nodes.values():
        own = {name: value for name, value in node.capacity.items() if name not in before}
        capacity = partition.budgets.with_floating(own)
        if capacity != node.capacity:
            node.capacity = capacity
            node.changed()
            lose_starts(partition, node)
            _unreserve_too_large(partition, node)
            partition.put_back_unfitting(node)


def _unreserve_too_large(partition: PartitionOracle, node: NodeRecord) -> None:
    """Drop reservations of the node by asks that it can never hold; an ask that requires it still waits."""
    for _, ask in partition.reserved_asks():
        here = ask.reservation is not None and ask.reservation.node_id == node.node_id
        if here and ask.required_node is None and not node.holds(ask.size):
            ask.lose_node()


def _lose(partition: PartitionOracle, node: NodeRecord, now: float) -> None:
    """Remove the node with its allocations (spec § 6.12 for placeholders)."""
    for app, key in partition.assumed_on(node):
        partition.put_back(app, key)
    lose_starts(partition, node)
    del partition.nodes[node.node_id]
    node.wanted = False
    partition.timers.cancel(("drain", node.node_id))
    for _, ask in partition.reserved_asks():
        if ask.reservation and ask.reservation.node_id == node.node_id:
            ask.lose_node()
            ask.triggered = ask.triggered and ask.required_node is None
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
        end_allocation(partition, app, key, now, node)
    for app_id, real in reals.items():
        settle(partition, partition.apps[app_id], now, real=real)
