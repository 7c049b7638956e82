"""The victims for an ask (spec § 9): candidates are those of `support.preemption.brute_force`.

Sets of victims are tried in order, the best first, until one is enough.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from licorne_core.config.schema import PreemptionPolicy, QueueSettings, VictimOrder
from licorne_core.model.apps.requests import RequestState
from licorne_core.standard.preemption.keys import RECLAIM
from support.oracle.backfill import ShadowRecord, holders, is_closed, leaves_free
from support.oracle.books import ALLOCATED, PLACEHOLDER, AllocationRecord, Amounts, AppRecord, AskRecord
from support.oracle.elastic import is_member
from support.oracle.order import Look
from support.oracle.queues import seconds
from support.preemption.brute_force import BruteForce, Parties, Party, Rules, kind_of, members_of
from support.preemption.records import Cluster, Hold, LossRecord, NodeRecord, QueueRecord, RequestRecord

MAY_GO = (ALLOCATED, PLACEHOLDER)


SPARE = 32

Name = tuple[str, str]
"""Application and key."""


class Plan(NamedTuple):
    """A node for an ask, and its victims; `spare` are further ones on it that could be stopped.

    If `fair`, they are stopped for a fair share.
    """

    kind: int
    price: tuple[int, int]
    number: int
    node_id: str
    on_node: list[Name]
    elsewhere: list[Name]
    spare: list[Name]
    spare_prices: list[tuple[int, int]]
    fair: bool = False


class Preemption(NamedTuple):
    """Victims that are to stop so that the ask gets the node.

    With `plans`, the RM is asked first which victims to stop. With `nodes`, it is also asked which of these
    nodes would do for the ask.
    """

    app_id: str
    key: str
    node_id: str
    victims: list[Name]
    plans: tuple[Plan, ...] = ()
    nodes: tuple[str, ...] = ()


def seconds_run(allocation: AllocationRecord, now: float) -> float:
    """Seconds run; a replayed allocation counts from its ask, or from the start that the RM reports."""
    ask = allocation.ask
    if allocation.began is not None:
        return now - allocation.began
    return now - (ask.created if ask.brought else allocation.started)


def checkpoint_of(apps: dict[str, AppRecord], leaf: str) -> float | None:
    """The assumed checkpoint of allocations without one: the lower median of those reported in the leaf."""
    here = [one for app in apps.values() if app.queue == leaf for one in app.allocations.values()]
    known = sorted(one.checkpoint for one in here if one.checkpoint is not None)
    return known[(len(known) - 1) // 2] if known else None


def seconds_lost(allocation: AllocationRecord, assumed: float | None, now: float) -> float:
    """Seconds of its work that are lost if it is stopped now."""
    run = seconds_run(allocation, now)
    since = assumed if allocation.checkpoint is None else allocation.checkpoint
    return run if since is None else max(0.0, min(run, now - since))


def search_for(
    look: Look, app: AppRecord, ask: AskRecord, going: Collection[int] = (), *, fair: bool = False
) -> BruteForce:
    """The result of a search for victims of an ask; victims with an `id` in `going` count as running."""
    cluster = _snapshot(look, ask, going)
    (record,) = [one for one in cluster.requests if one.key == ask.key and one.app == app.app_id]
    return BruteForce(cluster, record, fair=fair)


def find_plans(look: Look, app: AppRecord, ask: AskRecord, refused: Sequence[str]) -> tuple[list[Plan], bool]:
    """The plans for an ask (spec § 9.4), each for another node, the best first.

    The flag is True without plans if nodes with victims are reserved for others. Refused nodes are left out.
    """
    for tried in search_for(look, app, ask).claims():
        plans, is_kept, is_over = _plans_by_claim(tried, app, ask, refused)
        if plans or is_over:
            return plans, is_kept
    return [], False


def _plans_by_claim(
    tried: BruteForce, app: AppRecord, ask: AskRecord, refused: Sequence[str]
) -> tuple[list[Plan], bool, bool]:
    """The plans by one claim; whether nodes are reserved for others; and whether no other claim is tried."""
    if ask.placeholder and not _may_be_complete(tried, app, ask):
        return [], False, False
    hosts = [node for node in tried.cluster.nodes if tried.may_host(node)]
    if any(tried.is_enough(node, ()) for node in hosts):
        left = [name for name in tried.left_beside(hosts) if name not in refused]
        return [Plan(0, tried.rules.price(()), 0, name, [], [], [], []) for name in left], False, True
    found = [node for node in hosts if node.name not in refused]
    plans = [plan for node in found if (plan := _best_on(tried, node)) is not None]
    kept = any(tried.is_kept(node) for node in tried.cluster.nodes if node.name not in refused)
    best = [plan._replace(fair=tried.rules.fair) for plan in sorted(plans, key=lambda plan: plan[:4])]
    return best, kept and not plans, kept


def _may_be_complete(tried: BruteForce, app: AppRecord, ask: AskRecord) -> bool:
    """True if all pending placeholders would fit as one ask, by guarantee and totals of victims."""
    waiting = [one for one in app.awake() if one.placeholder and (one is ask or not one.is_promised)]
    whole = replace(
        tried.ask, size={name: sum(one.size.get(name, 0) for one in waiting) for name in ask.size}
    )
    rules = Rules(tried.cluster, whole, fair=tried.rules.fair)
    if not rules.is_due():
        return False
    for name, wanted in whole.size.items():
        promised = sum(one.promised.get(name, 0) for one in tried.cluster.inside("root"))
        if wanted + promised > sum(node.capacity.get(name, 0) for node in tried.cluster.nodes):
            return False
        most = tried.rules.most_of("root", name)
        for path in rules.way:
            limit = tried.cluster.most(path, name)
            if limit is not None and tried.cluster.settled(path, name) + wanted - most > limit:
                return False
    return True


def stands(look: Look, app: AppRecord, ask: AskRecord, node_id: str, victims: list[Name]) -> bool:
    """True if these victims are still legal, enough and needed; or if no victims are given or needed."""
    return any(_stands_by(tried, node_id, victims) for tried in search_for(look, app, ask).claims())


def _stands_by(tried: BruteForce, node_id: str, victims: list[Name]) -> bool:
    nodes = [node for node in tried.cluster.nodes if node.name == node_id]
    gone = _parties_of(tried, victims)
    return (
        bool(nodes)
        and gone is not None
        and tried.may_host(nodes[0])
        and tried.is_legal(gone)
        and tried.is_enough(nodes[0], gone)
        and tried.is_enough(nodes[0], ()) is not bool(victims)
    )


def _parties_of(tried: BruteForce, victims: list[Name]) -> Parties | None:
    """The parties that consist of these victims, whole gangs before their steps, or None."""
    left = {*victims}
    found: Parties = ()
    for one in sorted(tried.rules.candidates, key=lambda one: -len(one.members)):
        names = {(member.app, member.key) for member in one.members}
        if names <= left:
            found, left = (*found, one), left - names
    return None if left else found


def _best_on(tried: BruteForce, node: NodeRecord) -> Plan | None:
    """The best victims for a node."""
    growth = [one for one in tried.rules.candidates if one.step]
    chosen = _first_enough(tried, node, growth) if growth else None
    if chosen is not None:
        return _plan(tried, node, chosen)
    for opted_out, originators in ((False, False), (False, True), (True, False), (True, True)):
        allowed = [
            one
            for one in tried.rules.candidates
            if (opted_out or one.opted_in) and (originators or not one.originator)
        ]
        chosen = _first_enough(tried, node, allowed)
        if chosen is not None:
            return _plan(tried, node, chosen)
    return None


def _plan(tried: BruteForce, node: NodeRecord, chosen: Parties) -> Plan:
    """The plan that stops the parties, first those on the node."""
    gone = members_of(sorted(chosen, key=lambda one: not one.is_on(node.name)))
    spare = _spare(tried, node, chosen)
    return Plan(
        kind_of(chosen),
        tried.rules.price(chosen),
        len(gone),
        node.name,
        [(one.app, one.key) for one in gone if one.node == node.name],
        [(one.app, one.key) for one in gone if one.node != node.name],
        [(one.app, one.key) for one in members_of(spare)],
        [tried.rules.price((one,)) for one in spare],
    )


def _spare(tried: BruteForce, node: NodeRecord, chosen: Parties) -> Parties:
    """Further victims on the node, none of a gang, each legal after those before it."""
    spare: Parties = ()
    for one in tried.rules.candidates:
        is_further = one.is_on(node.name) and len(one.members) == 1 and len(spare) < SPARE
        if is_further and tried.is_legal((*chosen, *spare, one)):
            spare = (*spare, one)
    return spare


def _first_enough(tried: BruteForce, node: NodeRecord, allowed: list[Party]) -> Parties | None:
    """The fewest on the node, the first of these in rank order; then the fewest on other nodes.

    None if all victims together are not enough.
    """
    here = [one for one in allowed if one.is_on(node.name)]
    there = [one for one in allowed if not one.is_on(node.name) and _helps_queue(tried, one)]
    if not tried.is_enough(node, (*here, *there)):
        return None
    if tried.rules.by_cost and not all(one.step for one in allowed):
        return _cheapest(tried, node, [*here, *there])
    for on_node in _legal(tried, (), here):
        if tried.has_room(node, on_node) and tried.is_enough(node, (*on_node, *there)):
            for both in _legal(tried, on_node, there):
                if tried.is_enough(node, both):
                    return both
    return None


def _cheapest(tried: BruteForce, node: NodeRecord, allowed: list[Party]) -> Parties | None:
    """The victims with the least total loss, then the fewest, then the first in this order."""
    best: tuple[tuple[int, int], int] | None = None
    found: Parties | None = None
    # Sets that may still grow, each with its next candidate; sets that cost too much are dropped.
    open_sets: list[tuple[Parties, int]] = [((), 0)]
    while open_sets:
        chosen, start = open_sets.pop()
        key = (tried.rules.price(chosen), len(members_of(chosen)))
        if best is not None and key >= best:
            continue
        if chosen and tried.is_enough(node, chosen):
            best, found = key, chosen
            continue
        for after in reversed(range(start, len(allowed))):
            if tried.is_legal(more := (*chosen, allowed[after])):
                open_sets.append((more, after + 1))
    return found


def _helps_queue(tried: BruteForce, one: Party) -> bool:
    """True if its end frees amounts in an exceeded queue of the ask."""
    short = [path for path in tried.rules.way if tried.rules.missing_quota(path)]
    leaf = one.first.leaf
    return any(leaf == path or leaf.startswith(f"{path}.") for path in short)


def _legal(tried: BruteForce, before: Parties, more: Sequence[Party]) -> Iterator[Parties]:
    """Legal sets that extend those before, smaller ones first.

    Every part of a legal set is legal, so illegal sets are not extended.
    """
    level: list[tuple[Parties, int]] = [(before, 0)]
    while level:
        yield from (chosen for chosen, _ in level)
        level = [
            (chosen, after + 1)
            for so_far, start in level
            for after in range(start, len(more))
            if tried.is_legal(chosen := (*so_far, more[after]))
        ]


# The oracle's records in the form of a cluster


@dataclass(frozen=True, kw_only=True)
class _Request(RequestRecord):
    """A request with its promise."""

    earmarked: Amounts = field(default_factory=dict)

    @property
    def promised(self) -> Amounts:
        return self.earmarked


@dataclass(frozen=True, kw_only=True)
class _Snapshot(Cluster):
    """A cluster that computes each sum once."""

    sums: dict[tuple[str, str], int] = field(default_factory=dict)

    def settled(self, path: str, name: str) -> int:
        if (path, name) not in self.sums:
            self.sums[path, name] = super().settled(path, name)
        return self.sums[path, name]


def _snapshot(look: Look, ask: AskRecord, going: Collection[int]) -> Cluster:
    """A copy without the promise to the ask, in which the victims with an `id` in `going` still run."""
    return _Snapshot(
        queues=tuple(
            QueueRecord(
                path=queue.path,
                guaranteed=queue.guaranteed,
                max=queue.max,
                settings=_settings(queue.properties),
                is_leaf=queue.is_leaf,
            )
            for queue in look.queues.values()
        ),
        nodes=tuple(
            NodeRecord(
                name=node.node_id,
                capacity=node.capacity,
                occupied={name: node.capacity.get(name, 0) - value for name, value in node.free().items()},
                schedulable=node.schedulable,
                refused=frozenset(
                    allocate for allocate in (True, False) if node.results.get((ask.ask_class, allocate))
                ),
                starts=tuple(
                    (app.app_id, holder.key)
                    for app, holder, shadow in holders(look.apps)
                    if shadow.node_id == node.node_id and holder is not ask
                ),
                in_the_way=tuple(
                    (app.app_id, holder.key)
                    for app, holder, shadow in holders(look.apps)
                    if shadow.node_id == node.node_id and holder is not ask
                    if not (_is_ahead(node.node_id, ask, shadow) or leaves_free(look, node, shadow, ask))
                ),
                closed=tuple(
                    (app.app_id, holder.key) for app, holder, _ in holders(look.apps) if is_closed(look, app)
                ),
            )
            for node in look.nodes.values()
        ),
        requests=tuple(one for app in look.apps.values() for one in _requests(app, ask, going)),
        losses=(
            *(
                LossRecord(leaf=loss.leaf, time=loss.time, size=loss.size, seconds=loss.seconds)
                for loss in look.preemption.losses
            ),
            *(
                LossRecord(leaf=app.queue, time=look.now, size=one.notice.size, seconds=one.notice.lost)
                for app in look.apps.values()
                for one in app.allocations.values()
                if one.notice is not None
            ),
        ),
        now=look.now,
        elastic={app.app_id: app.elastic.of_units for app in look.apps.values() if app.elastic is not None},
    )


def _is_ahead(node_id: str, ask: AskRecord, shadow: ShadowRecord) -> bool:
    """True if the ask has a start on the node as well, and ends before this one."""
    own: ShadowRecord | None = ask.shadow
    return own is not None and own.node_id == node_id and own.end <= shadow.start


def _settings(properties: dict[str, str]) -> QueueSettings:
    limit = properties.get("preemption.loss.limit")
    parts = [part.partition("=") for part in limit.split(",")] if limit else []
    return QueueSettings(
        priority_fence=properties.get("priority.policy") == "fence",
        priority_offset=int(properties.get("priority.offset", "0")),
        preemption=PreemptionPolicy(properties.get("preemption.policy", "default")),
        preemption_minimum_runtime=seconds(properties.get("preemption.minimum.runtime", "0s")),
        preemption_loss_limit=tuple((name, int(amount.removesuffix("m"))) for name, _, amount in parts),
        preemption_victim_order=VictimOrder(properties.get("preemption.victim.order", "age")),
        extended=((RECLAIM, True),) if properties.get("preemption.reclaim") == "fair-share" else (),
    )


def _requests(app: AppRecord, asking: AskRecord, going: Collection[int]) -> Iterator[RequestRecord]:
    for ask in app.asks.values():
        yield _request(app, ask, RequestState.PENDING, None, asking)
    for one in app.allocations.values():
        state = RequestState.ALLOCATED if id(one) in going else RequestState(one.state)
        record = _request(app, one.ask, state, one.node_id, asking)
        begun = one.started if one.began is None else one.began
        brought = record.brought and one.began is None
        yield replace(record, started=begun, brought=brought, checkpoint=one.checkpoint)
    for pair in app.pairs.values():
        yield _request(app, pair.ask, RequestState(pair.state), pair.node_id, asking)


def _request(
    app: AppRecord,
    ask: AskRecord,
    state: RequestState,
    node_id: str | None,
    asking: AskRecord,
) -> RequestRecord:
    kept, hold, earmarked = ask.reservation, None, {}
    if kept is not None and kept.node_id is not None:
        required = ask.required_node is not None
        hold = Hold(
            node=kept.node_id,
            time=kept.since,
            required=required,
            provisional=kept.provisional,
            exclusive=kept.exclusive,
        )
    if kept is not None and state is RequestState.PENDING and ask is not asking:
        earmarked = kept.promised
    return _Request(
        app=app.app_id,
        key=ask.key,
        leaf=app.queue,
        size=ask.size,
        state=state,
        node=node_id,
        priority=ask.priority,
        created=ask.created,
        brought=ask.brought,
        originator=ask.terms.originator,
        opted_in=ask.terms.itself,
        required_node=ask.required_node,
        predicate=ask.predicate,
        tags={"licorne/preemption-cost": str(ask.terms.cost)},
        triggered=ask.triggered,
        hold=hold,
        earmarked=earmarked,
        is_member=is_member(app, ask),
    )
