"""A turn: due timers, then decisions for one partition (DESIGN § 2, fairness between RMs).

Two tables at the end have the handlers of each kind of decision and deadline; those of features are in their
`handlers.py`.
"""

import dataclasses
from collections.abc import Iterator
from itertools import islice
from typing import Final, cast

from licorne_core.config.schema import NodeSortType
from licorne_core.features import table
from licorne_core.handlers import gangs, lifecycle
from licorne_core.handlers.assumed import assume
from licorne_core.handlers.clock import follow_time
from licorne_core.handlers.lifecycle import allocation_made
from licorne_core.handlers.outcome import Deadline, Deadlines, Decisions, Firing, Outcome, TimerJob
from licorne_core.messages.effects import Effect
from licorne_core.model.apps.application import Asking
from licorne_core.model.nodes.book import NODES, all_of
from licorne_core.model.queues.changes import Change, facts, snapshot
from licorne_core.model.queues.queue import Queue
from licorne_core.model.quotas import Quota, left_of
from licorne_core.partitions.agenda import AT_ONCE
from licorne_core.partitions.jobs import Slice
from licorne_core.partitions.partition import Partition
from licorne_core.scheduling.checks import is_all_stopped
from licorne_core.scheduling.measures import Candidate, first_blocker
from licorne_core.values.asks import Allocation
from licorne_core.values.resources import charge
from licorne_core.values.slices import PART
from licorne_core.values.timers import Due, Timer

MOST_QUEUES = 500
"""Maximum number of queues that are examined, and removed, at a time."""


def clean_queues(job: TimerJob) -> Iterator[int]:
    """Remove empty queues (spec § 4.3)."""
    partition = job.partition
    # Children first: each parent was added before its children.
    rest = reversed(list(partition.tree.all()))
    while examined := list(islice(rest, MOST_QUEUES)):
        removed = partition.tree.clean(examined)
        for queue in removed:
            partition.dirty.forget_leaf(queue)
            for extension in partition.points.removed:
                extension.removed(queue)
        for queue in removed:
            above = queue.parent
            if above is not None and above.is_leaf and partition.tree.get(above.path) is above:
                # Its last child was removed, so it has become a leaf.
                partition.attach(above, None, job.now)
        if partition.journal.on:
            partition.journal.note_all(facts(_changes(removed), job.now))
        for queue in removed:
            queue.let_go()
        yield len(removed) + len(examined) // PART


def _changes(removed: list[Queue]) -> list[Change]:
    """Changes of the removed queues, and of parents that have become leaves."""
    found: list[Change] = [(queue, snapshot(queue), None) for queue in removed]
    for queue in dict.fromkeys(queue.parent for queue in removed):
        if queue is not None and queue.is_leaf:
            now = snapshot(queue)
            found.append((queue, dataclasses.replace(now, is_leaf=False), now))
    return found


def _note_lack(partition: Partition, now: float) -> None:
    """Record at the end of a turn if asks, or whole gangs, lack a node: `auto` then packs."""
    nodes = partition.nodes
    if partition.wakeups.backlog.lacking:
        nodes.lacked.add(NODES)
    if partition.wakeups.gangs or partition.wakeups.short_gangs:
        for packing in partition.cycle.gangs.sizes.packings(MOST_GANGS):
            if len(nodes.lacked) < MOST_GANGS:
                nodes.lacked.add(packing)
    is_spread = nodes.order.packs is None and nodes.order.policy.type is NodeSortType.AUTO
    if is_spread and nodes.lacked and _LOOK not in partition.timers:
        partition.timers.set(_LOOK, now)


def _look_ahead(partition: Partition, now: float) -> bool:
    """Let `auto` pack if new asks, of which some are untried, need more than is free together.

    False if nodes are still being ordered, so that no decision can be made in this turn.
    """
    nodes, backlog, root = partition.nodes, partition.wakeups.backlog, partition.tree.root
    backlog.has_new = False
    is_spread = nodes.order.packs is None and nodes.order.policy.type is NodeSortType.AUTO
    is_single = sum([group.waiting for group in backlog.untried]) < 2
    if is_single or not is_spread or _LOOK in partition.timers:
        return True
    free = {name: size - root.allocated.get(name, 0) for name, size in nodes.usable.items()}
    if all(value <= free.get(name, 0) for name, value in root.pending.items()):
        return True
    wanted = _startable(partition)
    if all(value <= free.get(name, 0) for name, value in wanted.items()):
        return True
    nodes.lacked.add(NODES)
    _work(Firing(partition, now, Slice(STOPS)), _LOOK)
    return partition.job is None


def _startable(partition: Partition) -> dict[str, int]:
    """Total amounts of untried asks, as far as all rules but the nodes let them start."""
    context, root, taken = partition.check_context, partition.tree.root, dict[Quota, dict[str, int]]()
    for group in partition.wakeups.backlog.untried:
        items, app = group.ask_class.items, group.app
        if group.ask_class.required_node is not None or partition.nodes.never_held(items):
            continue
        blocker = first_blocker(context, Asking(app, group))
        if blocker is not None:
            blocker.retire_if_unused()
            continue
        count = group.waiting
        for quota in app.quotas:
            own = taken.setdefault(quota, {})
            for name, value in items:
                left = None if quota is root else left_of(quota, name)
                if left is not None and value > 0:
                    count = max(0, min(count, (left - own.get(name, 0)) // value))
        amounts = tuple([(name, count * value) for name, value in items])
        for quota in app.quotas:
            charge(taken[quota], amounts)
    return taken.get(root, {})


def _order_nodes(job: TimerJob) -> Iterator[int]:
    """Let `auto` pack if asks lacked a node since the last check, else spread; check again while it packs."""
    nodes, lacking = job.partition.nodes, job.partition.wakeups.backlog.lacking
    for number, group in enumerate(list(lacking), 1):
        if is_all_stopped(job.partition.check_context, group.app):
            lacking.pop(group, None)
        if not number % PART:
            yield 1
    _note_lack(job.partition, job.now)
    packs = all_of(nodes.lacked)
    nodes.lacked.clear()
    if nodes.order.policy.type is NodeSortType.AUTO:
        if packs is not None:
            job.partition.timers.set(_LOOK, job.now + LOOK_TIME)
        if packs != nodes.order.packs:
            yield from job.partition.index.reorder(nodes.order.policy, packs)


LOOK_TIME: Final = 10.0
"""Seconds without an ask that lacks a node after which `auto` stops packing; also the time between checks."""

MOST_GANGS: Final = 64
"""Maximum number of waiting gangs that are examined after each turn."""

_LOOK: Final = Timer(Due.NODE_ORDER)

HOLD_TIME = 1.0
"""Seconds by which a timer that must not fire during a hold is delayed, repeatedly until the hold ends."""

TRIES = 16
"""Maximum number of tries per allowed decision of a turn: asks that fit nowhere must not prolong it."""

STOPS = 8
"""Number of stopped requests that cost as much as another deadline."""

MOST_TRIES = 512
"""Maximum number of tries of a turn: together they take 10 to 20 ms if no node is found."""


def fire_timers(partition: Partition, now: float, slice_: Slice) -> list[Effect]:
    """Fire the partition's due timers that fit into the slice."""
    firing = Firing(partition, now, slice_)
    while not slice_.is_spent and (due := partition.timers.take_due(now)) is not None:
        slice_.left -= 1
        deadline = _deadline_of(due)
        if partition.holds and not deadline.on_hold:
            partition.timers.set(due, now + HOLD_TIME)
        elif deadline.fire is not None:
            deadline.fire(firing, due)
        else:
            _work(firing, due)
    said = firing.said + partition.calls.take_unsaid()
    for timer in firing.again:
        partition.timers.set(timer, now)
    if partition.usage.touched:
        partition.settle(now)
    partition.dirty.open_blockers()
    return firing.outcome.effects(partition.rm_id) + said


def _deadline_of(timer: Timer) -> Deadline:
    """The entry in the table of the timer's extension, or else that of its kind."""
    return _DEADLINES.get(timer.name) or _DEADLINES[timer.due]


def _extension(firing: Firing, timer: Timer) -> None:
    extension = firing.partition.points.named(timer.name)
    firing.slice.left -= extension.pass_time(firing.now, max(1, firing.slice.left))


def _extension_work(job: TimerJob) -> Iterator[int]:
    return job.partition.points.named(job.timer.name).work(job)


def _try_again(firing: Firing, timer: Timer) -> None:
    """End the back-off of an ask."""
    app = firing.partition.applications[timer.app_id]
    firing.partition.asks.try_again(app, app.backing_off[timer.key], firing.now)


def _escalate(firing: Firing, timer: Timer) -> None:
    """Give asks that have waited long enough the next remedy."""
    partition = firing.partition
    partition.escalation.on_time(partition.applications[timer.app_id], firing.now)


def _work(firing: Firing, timer: Timer) -> None:
    """Do the work of a deadline, or continue it, as far as the slice allows.

    Unfinished work gets a deadline before all others, and the partition makes no decisions before its end.
    """
    partition, slice_ = firing.partition, firing.slice
    job = partition.job
    if not isinstance(job, TimerJob):
        work = _deadline_of(timer).work
        assert work is not None, f"{timer} has no work"
        job = TimerJob(partition, timer, work, firing.now)
    job.outcome = firing.outcome
    most = min(partition.timeout_size, STOPS * (slice_.left + 1))
    stops = Slice(most)
    if job.go_on(firing.now, stops):
        partition.job = None
        slice_.left -= (most - stops.left) // STOPS
    else:
        partition.job = job
        partition.timers.set(Timer(Due.GO_ON, timer.app_id), AT_ONCE)
        slice_.end()


def _begin(partition: Partition, now: float) -> bool:
    """Begin a turn; False if the order of nodes or the usage over time is not ready for decisions."""
    if partition.wakeups.backlog.has_new and not _look_ahead(partition, now):
        return False
    partition.counters.turns += 1
    return not partition.usage.tracking or follow_time(partition, now)


def decide(partition: Partition, decisions: int, now: float) -> list[Effect]:
    """Make up to `decisions` decisions, each after the previous one is booked (spec § 8.1)."""
    made: list[Allocation] = []
    outcome = Outcome()
    cycle, effort = partition.cycle, partition.effort
    allocate = partition.allocations.allocate
    predicates = partition.predicates
    if not _begin(partition, now):
        return []
    cycle.begin_turn(now, min(MOST_TRIES, TRIES * (decisions + 1)))
    for _ in range(decisions):
        decision = cycle.next()
        if decision is None:
            partition.wakeups.waiting.runnable = effort.tired or cycle.postponed
            break
        if type(decision) is not tuple:
            made += _DECISIONS[type(decision)](partition, decision, now, outcome) or ()
            continue
        candidate = cast("Candidate", decision)
        leaf, app, request, node = candidate
        ask_class = request.ask.ask_class
        if ask_class.predicate is not None:
            if predicates.is_needed(ask_class, node):
                assume(partition, candidate, now)
                continue
            predicates.spared(ask_class)
        allocation = allocate(candidate, now)
        made.append(allocation)
        outcome.updates += allocation_made(partition, leaf, app, allocation, now)
    else:
        partition.dirty.open_blockers()
    if partition.usage.touched:
        partition.settle(now)
    partition.counters.asks_tried = effort.tried
    partition.counters.work = effort.cost
    partition.counters.search_work = sum([one.work // one.of_a_try for one in cycle.searches])
    if made:
        outcome.made[partition] = made
    effects = outcome.effects(partition.rm_id, made_first=True)
    if partition.rm.predicates is not None:
        effects += partition.calls.take_unsaid()
    partition.dirty.open_blockers()
    _note_lack(partition, now)
    if partition.tree.root.pending and not partition.wakeups.waiting.runnable:
        for extension in partition.points.idle:
            extension.idle(now)
    return effects


_DECISIONS: Final[Decisions] = {
    **gangs.DECISIONS,
    **table("handlers", "DECISIONS"),
}
_DEADLINES: Final[Deadlines] = {
    Due.GO_ON: Deadline(),
    Due.CLEAN_QUEUES: Deadline(work=clean_queues),
    Due.NODE_ORDER: Deadline(work=_order_nodes, on_hold=False),
    Due.EXTENSION: Deadline(_extension),
    Due.EXTENSION_WORK: Deadline(work=_extension_work, on_hold=False),
    Due.TRY_AGAIN: Deadline(_try_again),
    Due.ESCALATE: Deadline(_escalate),
    **gangs.DEADLINES,
    **lifecycle.DEADLINES,
    **table("handlers", "DEADLINES"),
}
