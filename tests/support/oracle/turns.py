"""Passes over one partition, and their effects on its records whatever they decide."""

from support.oracle.backfill import holders
from support.oracle.books import add_to
from support.oracle.deciding import Outcome, Search, Waits, decide
from support.oracle.order import Look
from support.oracle.partition import PartitionOracle
from support.oracle.terms import KeptRecord, NodeOrder
from support.oracle.topology import keep_places, runs_like, whole_for
from support.oracle.usage import Usage

INSPECTION_SECONDS = 1.0
INSPECT = ("inspect", "")
SEARCH_INTERVAL = 15.0


def look_at(partition: PartitionOracle, now: float) -> Look:
    """The present state of the partition."""
    usage = Usage(partition.queues, partition.apps, partition.nodes, now)
    for node in partition.nodes.values():
        if node.reserved and node.node_id not in usage.reserved:
            partition.preemption.given_up += 1
            node.given_up = partition.preemption.given_up
        node.reserved = node.node_id in usage.reserved
    for place in partition.places:
        if place.node_id in partition.nodes:
            add_to(usage.kept_on.setdefault(place.node_id, {}), place.ask.size)
    full = partition.waiting >= partition.most_assumed[partition.unheard]
    partition.was_full = partition.was_full or full
    return Look(
        partition.queues,
        partition.apps,
        partition.nodes,
        _order_in_force(partition),
        partition.as_fifo,
        usage,
        now,
        partition.reserving,
        full,
        partition.checks.is_silent_about,
        partition.must_ask,
        partition.preemption,
        partition.review_due,
        partition.claims,
        partition.memory,
        lambda app, own: partition.budgets.bounds(partition, app, own),
        lambda app: partition.budgets.left_to(partition, app),
        partition.runs,
        partition.last_runs,
        partition.pauses,
        partition.places,
        lambda app: any(check.of_gang is app for check in partition.checks.open.values()),
        [*{id(one.of_gang): one.waits for one in partition.checks.open.values() if one.plans}.values()],
    )


def _order_in_force(partition: PartitionOracle) -> NodeOrder:
    """The node order; `auto` packs if the core reports that it packs in this turn."""
    order = partition.node_order
    if order.kind != "auto":
        return order
    if partition.packs is None:
        return order._replace(kind="fair")
    groupings, types = partition.packs
    return order._replace(kind="binpacking", groupings=groupings, types=types)


def note_gangs(partition: PartitionOracle, *, is_first: bool) -> None:
    """Note the domains to empty for gangs that wait; the first call of a turn forgets earlier ones."""
    if is_first:
        partition.may_be_whole.clear()
    for app in partition.apps.values():
        if app.terms is not None and app.asks:
            whole = whole_for(app, partition.nodes, partition.queues["root"].properties)
            partition.may_be_whole.update(whole or ())


def peek(partition: PartitionOracle, now: float) -> Outcome:
    """The result of the next pass, without carrying it out."""
    return decide(look_at(partition, now))


def send_to_rest(partition: PartitionOracle, app_id: str, now: float) -> None:
    """Let an application with too many asks without a node back off (§ 8.3a)."""
    app = partition.apps[app_id]
    app.backs_off_until = now + partition.queues[app.queue].backoff_delay


def mark_attempted(partition: PartitionOracle, outcome: Outcome) -> None:
    """Mark the asks tried by a pass: asks without a node may be reported to an autoscaler."""
    for app_id, looked_at in outcome.nowhere.items():
        nowhere = partition.apps[app_id].nowhere
        for kind, found_none in looked_at.items():
            (nowhere.add if found_none else nowhere.discard)(kind)
    for app_id, asks in outcome.attempted.items():
        kinds = {ask.kind for ask in asks}
        for ask in partition.apps[app_id].awake():
            ask.attempted = ask.attempted or ask.kind in kinds


def mark_unplanned(partition: PartitionOracle, outcome: Outcome) -> None:
    """Mark an ask for which no start was found: for a while its class has none, and nodes are reserved."""
    for app_id, kind, until in outcome.unplanned:
        partition.apps[app_id].wish(kind).plans_from = until
    partition.pauses = outcome.pauses[len(outcome.unplanned)].copy()


def mark_looked(partition: PartitionOracle, looked: list[tuple[str, str]], now: float) -> None:
    """Mark starts for which an earlier time was searched."""
    known = {shadow.name for _, _, shadow in holders(partition.apps)}
    for app_id, key in looked:
        shadow = partition.apps[app_id].asks[key].shadow
        shadow.looked, shadow.beside = now, known - {shadow.name}


def mark_waits(partition: PartitionOracle, waits: list[Waits]) -> None:
    """Let equal asks wait for reserved nodes for the same time."""
    for app_id, kind, likeness, until in waits:
        wish = partition.apps[app_id].wish(kind)
        wish.fails(likeness[2])
        wish.waits_for, wish.waits_until = likeness, until


def mark_searches(partition: PartitionOracle, searches: list[Search], now: float) -> None:
    """Record searches for victims: after one in vain the ask's kind pauses (spec § 9.2).

    If nodes are reserved for others, the ask and its likeness wait for these nodes.
    """
    counts = partition.preemption.searches
    for search in searches:
        app = partition.apps[search.app_id]
        counts[app.queue] = counts.get(app.queue, 0) + 1
        wish = app.wish(search.kind)
        wish.waits_for = None
        if search.kept is not None:
            until = now + SEARCH_INTERVAL
            preemption = partition.preemption
            preemption.kept[search.kept] = KeptRecord(preemption.given_up, until)
            mark_waits(partition, [Waits(search.app_id, search.kind, search.kept, until)])
        elif search.in_vain:
            wish.fails(search.priority, now + SEARCH_INTERVAL)


def begin_turn(partition: PartitionOracle) -> None:
    """Reset the searches for victims of all leaves."""
    partition.preemption.searches.clear()


def keep_room(partition: PartitionOracle, now: float) -> None:
    """Reserve room for lost gang members before the decisions of a turn."""
    for place in keep_places(look_at(partition, now)) if partition.places else ():
        node = partition.nodes[place.node_id or ""]
        asks = partition.must_ask(place.ask, node, allocate=False) and not look_at(partition, now).full
        is_open = partition.checks.about(place.ask, node, allocate=False) is not None
        if asks and not is_open and runs_like(place):
            said = partition.checks.said[0].key if partition.checks.said else ""
            assert said in place.app.allocations, f"the core should have asked about {place}"
            named = place.app.allocations[said].ask
            check = partition.checks.next(place.app.app_id, named, partition.nodes, allocate=False)
            assert list(check.nodes) == [node], f"core asks about {check.nodes}, oracle about {node}"
            check.of_gang = place.app


def end_turn(partition: PartitionOracle, now: float) -> None:
    """End the turn; waiting asks may be reported a second later (§ 8.12)."""
    if INSPECT not in partition.timers and any(app.asks for app in partition.apps.values()):
        partition.timers.set(INSPECT, now + INSPECTION_SECONDS)
