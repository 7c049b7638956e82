"""Rules G1, P2, P4, W1 to W5 and H1 of `invariants.py`.

Placeholders and their replacements; victims and their beneficiaries; the waiting relation; and the
holdings of an RM, which are the sum over its partitions.
"""

from collections.abc import Iterator
from typing import Any

from licorne_core.messages.commands import Hold
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.gang import PAIRS, TaskGroup
from licorne_core.model.apps.requests import BOOKED, TO_REPLACE, VICTIMS, Request, RequestState
from licorne_core.model.nodes.book import NODES
from licorne_core.model.queues.queue import stopped_above
from licorne_core.model.quotas import Quota
from licorne_core.partitions.partition import Partition
from licorne_core.partitions.registry import Rm
from licorne_core.scheduling.waiting.blockers import Blocker, OfThing
from licorne_core.scheduling.waiting.shortages import QuotaPool, QuotaShortage
from licorne_core.scheduling.waiting.waiting import Parked, way_up
from licorne_core.scheduling.waiting.wakeups import MOST_SHORT_GANGS
from licorne_core.values.errors import InvariantBroken
from licorne_core.values.resources import Resources, describe, equals, sum_of
from licorne_core.values.rm_caps import (
    APPLICATION_BYTES,
    ASK_BYTES,
    GROUP_BYTES,
    NODE_BYTES,
    QUEUE_BYTES,
    Holdings,
)
from licorne_core.values.timers import Due, Timer
from licorne_core.views.explain import first_failing, subject_of
from licorne_core.views.explain_checks import nodes_check


def require(rule: str, holds: bool, figures: str) -> None:
    """Raise InvariantBroken unless the rule holds."""
    if not holds:
        raise InvariantBroken(f"{rule}: {figures}")


_PAIRED = {(placeholder, real) for placeholder, real, _ in PAIRS}
_UNTOLD = frozenset({RequestState.PENDING, RequestState.ASSUMED, RequestState.PLACEHOLDER})


def check_gang(partition: Partition, app: Application) -> None:
    """Check a gang; raises InvariantBroken with the name and place of a broken rule."""
    placeholders = [request for request in app.requests.values() if request.ask.placeholder]
    free_count = sum(len(group.free) for group in app.gang.groups.values())
    require("G1", free_count == app.gang.free_count, f"{app!r} has {free_count} free placeholders")
    for name, group in app.gang.groups.items():
        _check_group(app, group, [r for r in placeholders if r.ask.task_group == name])
    for request in app.requests.values():
        _check_pair(partition, app, request)
    withheld = [r for r in placeholders if r.state in BOOKED and r.state is not RequestState.ASSUMED]
    has_time = Timer(Due.PLACEHOLDERS, app.app_id) in partition.timers
    if any(request.state is RequestState.PLACEHOLDER for request in withheld):
        is_stopping = Timer(Due.GO_ON, app.app_id) in partition.timers
        require("G1", has_time or is_stopping, f"{app!r} keeps room without an end")
    if any(group.cancelled for group in app.gang.groups.values()):
        require("G1", has_time, f"{app!r} waits for what was cancelled without an end")
    if has_time:
        require("G1", bool(withheld) or app.gang.is_open, f"{app!r} has a time for no placeholder")


def _check_group(app: Application, group: TaskGroup, placeholders: list[Request]) -> None:
    """Check that each placeholder is open, or counted once as replaced or timed out."""
    at = f"{app!r}: {group!r}"
    stopping = [r for r in placeholders if r.state is RequestState.RELEASING and r.partner is None]
    require("G1", group.cancelled.keys() <= set(stopping), f"{at} has cancelled {group.cancelled}")
    open_ones = [
        request
        for request in placeholders
        if request.state in _UNTOLD or request.partner is not None or request in group.cancelled
    ]
    require("G1", len(open_ones) == group.open, f"{at}, of which {open_ones} are open")
    free = [r for r in placeholders if r.state is RequestState.PLACEHOLDER and r.partner is None]
    free.sort(key=lambda request: request.arrival)
    require("G1", free == group.free, f"{at} has {group.free} free, not {free}")


def _check_pair(partition: Partition, app: Application, request: Request) -> None:
    partner = request.partner
    if (request.state in TO_REPLACE) != (partner is not None and not request.ask.placeholder):
        raise InvariantBroken(f"G1: {request!r} has the partner {partner!r}")
    if partner is None:
        return
    known = app.requests.get(partner.key) is partner and partner.partner is request
    require("G1", known, f"{request!r} has the partner {partner!r}, which has not")
    if request.ask.placeholder:
        states = (request.state, partner.state)
        require("G1", states in _PAIRED, f"{request!r} and {partner!r} are no pair")


def check_preemption(partition: Partition) -> None:
    """Check preemption; raises InvariantBroken with the name and place of a broken rule."""
    stopping: dict[Quota, list[Resources]] = {}
    promised: dict[Quota, list[Resources]] = {}
    withheld: dict[Quota, list[Resources]] = {}
    for app in partition.applications.values():
        for request in app.requests.values():
            _check_promise(app, request)
            for quota in app.quotas:
                if request.state in VICTIMS:
                    stopping.setdefault(quota, []).append(request.ask.ask_class.resources)
                if request.promise is not None and request.is_pending:
                    promised.setdefault(quota, []).append(dict(request.promise.items))
                    withheld.setdefault(quota, []).append(_withheld(request, quota))
    quotas: set[Quota] = {*partition.tree.walk()}
    quotas.update(tracker for app in partition.applications.values() for tracker in app.trackers)
    quotas.update(partition.points.own_quotas())
    for quota in quotas:
        _equal(quota, "preempting", quota.preempting, sum_of(stopping.get(quota, ())))
        _equal(quota, "promised", quota.promised, sum_of(promised.get(quota, ())))
        _equal(quota, "withheld", quota.withheld, sum_of(withheld.get(quota, ())))


def _withheld(request: Request, quota: Quota) -> Resources:
    """The part of one promise that outstanding victims do not cover, computed again."""
    covered = sum_of(
        victim.ask.ask_class.resources
        for victim, app in request.promise.outstanding.items()
        if quota in app.quotas
    )
    items = request.promise.items
    return {name: max(0, value - covered.get(name, 0)) for name, value in items}


def _check_promise(app: Application, request: Request) -> None:
    """P4: a promise belongs to its ask, and to its reservation; it is paused while the ask is assumed."""
    at = f"{request!r} of {app.app_id}"
    promise = request.promise
    if promise is None:
        return
    if promise.reservation is not request.reservation:
        raise InvariantBroken(f"P4: {at} has a promise without its reservation")
    if promise.request is not request:
        raise InvariantBroken(f"P4: {at} has a promise, and does not wait for it")
    if promise.is_paused is request.is_pending:
        raise InvariantBroken(f"P4: {at} has a promise that rests, or should")
    wanted = request.ask.ask_class.resources
    if any(value > wanted.get(name, 0) for name, value in promise.items):
        raise InvariantBroken(f"P4: {at} was promised {promise.items}, which it does not want")
    for victim in promise.outstanding:
        if victim.state not in VICTIMS:
            raise InvariantBroken(f"P2: {at} waits for the end of {victim!r}")


def _equal(quota: Quota, what: str, booked: Resources, counted: Resources) -> None:
    if not equals(booked, counted):
        figures = f"booked {describe(booked)}, counted {describe(counted)}"
        raise InvariantBroken(f"P2: {quota!r}: {what}: {figures}")


def check_waiting(partition: Partition) -> None:
    """Check the waiting relation; raises InvariantBroken with the name and place of a broken rule."""
    for item in _parked(partition):
        _check_parked(item)
    _check_waiting_lines(partition)
    for blocker in _blockers(partition):
        if blocker.is_unused:
            raise InvariantBroken(f"W3: {blocker!r} is withheld and blocks nobody")
    _check_backlog(partition)
    if not partition.wakeups.waiting.runnable:
        _check_at_rest(partition)
    if Hold.UNFINISHED not in partition.holds:
        _check_stopped(partition)


def _parked(partition: Partition) -> Iterator[Parked]:
    for app in partition.applications.values():
        for item in (app, *app.ranking.ordered()):
            if item.blocker is not None:
                yield item


def _check_parked(item: Parked) -> None:
    """W2: the waiting lines contain the item and its ancestors, none of which is active."""
    blocker = item.blocker
    way = [(level, one, member) for level, (own, member) in enumerate(way_up(item)) for one in own.orders()]
    for level, ranking, member in way:
        waiting_line = blocker.owner.waiting_lines.get(ranking)
        if waiting_line is None or member not in waiting_line.members:
            raise InvariantBroken(f"W2: {item!r} waits for {blocker!r}, which has not {member!r}")
        if not waiting_line.knows(member, blocker.items):
            raise InvariantBroken(f"W2: {member!r} leads to {item!r}, who wants less than is known")
        if not level and ranking.is_active(member):
            raise InvariantBroken(f"W2: {item!r} waits for {blocker!r} and is active")


def _check_waiting_lines(partition: Partition) -> None:
    """W2, reversed: each member of a waiting line leads to an item that is parked with its blocker."""
    leading: dict[Blocker, set[tuple[Any, object]]] = {}
    for item in _parked(partition):
        known = leading.setdefault(item.blocker.owner, set())
        known.update((one, member) for ranking, member in way_up(item) for one in ranking.orders())
    for blocker, known in leading.items():
        for ranking, waiting_line in blocker.waiting_lines.items():
            for member in waiting_line.members:
                if (ranking, member) not in known:
                    raise InvariantBroken(f"W2: {member!r} leads to nobody behind {blocker!r}")


def _blockers(partition: Partition) -> Iterator[Blocker]:
    blockers = partition.wakeups.blockers
    for pool in blockers.like(QuotaPool):
        yield from pool.known.values()
    yield from blockers.like(OfThing)


def _check_at_rest(partition: Partition) -> None:
    """W1: no pending ask could be served, except one that a shared quota has not woken yet."""
    if any(shared.owes(partition.name) for shared in partition.rm.core.shared.values()):
        return
    for app in partition.applications.values():
        for request in _first_of_each_group(app):
            stopped = first_failing(partition.check_context, subject_of(app, request))
            if stopped is None and nodes_check(partition, request).passed:
                raise InvariantBroken(f"W1: {request!r} waits for nothing")


def _first_of_each_group(app: Application) -> Iterator[Request]:
    """The first ask of each group, whose asks fit the same nodes; and all asks with a reservation."""
    for group in app.groups.values():
        if group.waiting:
            yield group.first().request
    yield from (request for request in app.reserved.values() if request.is_pending)


def _check_backlog(partition: Partition) -> None:
    """W5: groups without a node are in the backlog, which counts no other group as lacking a node."""
    backlog = partition.wakeups.backlog
    for group in backlog.lacking:
        if group not in backlog or not group.waiting + group.assumed:
            raise InvariantBroken(f"W5: {group!r} lacks no node")
    for app in partition.applications.values():
        for group in app.groups.values():
            waits = group.waiting and group.nowhere and group.ask_class.required_node is None
            if waits and group not in backlog:
                raise InvariantBroken(f"W5: {group!r} has no node, and is not in the backlog")
    _check_short(partition)


def _check_short(partition: Partition) -> None:
    """W5: a bounded number of gangs is recorded as short of headroom, each with its current packing."""
    short = partition.wakeups.short_gangs
    require("W5", len(short) <= MOST_SHORT_GANGS, f"{len(short)} gangs are noted")
    for group, noted in short.items():
        blocker = group.blocker
        if isinstance(blocker, QuotaShortage) and blocker.quota is partition.tree.root:
            held = group.app.gang.if_empty
            wanted = (NODES,) if held is None else (NODES, held.packing)
            require("W5", noted in wanted, f"{group!r} is noted for {noted}, and waits for {wanted}")


def _check_stopped(partition: Partition) -> None:
    """W4: nothing is reserved, assumed or parked in a stopped queue, or reserved or parked if on hold."""
    for app in partition.applications.values():
        queue = stopped_above(app.leaf)
        if queue is None and not app.held:
            continue
        parked = [item for item in (app, *app.ranking.ordered()) if item.blocker is not None]
        if app.reserved or parked or (app.assumed_count and queue is not None):
            why = "held" if queue is None else f"in {queue!r}"
            raise InvariantBroken(f"W4: {app!r} is {why}, and something waits for {parked}")


def check_holdings(rm: Rm) -> None:
    """Recount the holdings of the RM and its applications; raises InvariantBroken.

    Between two slices of a command, an unlisted partition that is being built is included.
    """
    summed = Holdings()
    for partition in rm.partitions.values():
        _add(summed, partition)
    if Hold.UNFINISHED in rm.holds and rm.holdings.queues > summed.queues:
        summed.queues_changed(rm.holdings.queues - summed.queues)
    known, fresh = rm.holdings.counts(0), summed.counts(0)
    if known != fresh:
        raise InvariantBroken(f"H1: RM {rm.rm_id} has {fresh}, and is known to have {known}")


def _add(summed: Holdings, partition: Partition) -> None:
    summed.queues += len(partition.tree)
    summed.memory += QUEUE_BYTES * len(partition.tree)
    for node in partition.nodes.by_id.values():
        summed.nodes += 1
        summed.memory += NODE_BYTES + node.footprint
        for foreign in node.foreign.values():
            summed.asks += 1
            summed.memory += ASK_BYTES + foreign.ask.footprint
    for app in partition.applications.values():
        summed.applications += 1
        summed.asks += len(app.requests)
        summed.memory += APPLICATION_BYTES + app.footprint + GROUP_BYTES * len(app.groups)
        for request in app.requests.values():
            summed.memory += ASK_BYTES + request.ask.footprint
    for over in (*partition.completed.values(), *partition.rejected.values()):
        summed.ended += 1
        summed.ended_memory += APPLICATION_BYTES + over.footprint
