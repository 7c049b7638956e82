"""Invariants of the books after every command.

Every figure is added up anew from the records below it and compared with the running total. The
rules by their names:

A1  A node has capacity = allocated + occupied + available; allocated is the sum of its allocations.
A2  A partition's size is the sum of its nodes, and root's allocated amounts are theirs.
A3  A leaf is the sum of its applications, a parent that of its children: allocated, pending,
    running applications, and the priorities by which queues are ordered.
A4  An application's totals are the sums of its allocations and asks.
A5  Usage of a user or a group in a queue is the sum of its applications there. No tracker is kept
    for which no application counts.
A6  Applications and nodes agree on every allocation and reservation, queues and partition on every
    application; a reservation is for a pending ask, or for an assumed one with a promise, and the
    only one on its node but for those that can go nowhere else. Without a promise it has a node.
A7  No total is below zero or beyond int64; only available amounts may be below zero.
L1  Everything kept for an ask has a deadline: a reservation, a back-off, a wait for an answer.
L2  The subject of a deadline exists: applications, reservations, applications that are remembered.
Q1  A removed queue is unused: no user or group counts there, nothing is ranked for it.
L3  The agenda has each partition under its deadline, and those that are runnable wait for a turn.
G1  Each placeholder that came is open, or was replaced or timed out, once. Partners name each
    other, and their states are a row of `gang_rules.PAIRS`. A placeholder that keeps room has an end.
P2  Preempting amounts of a queue, a user and a group are the sum of the victims there.
    A beneficiary waits for victims that are being stopped.
P4  Promised amounts are the sum of the promises to pending asks with stopped victims.
    No ask wants less than its promise.
H1  Holdings of an RM are the sum of its partitions', in numbers and in reckoned bytes.
H2  A partition's tally is the sum over its applications.
R1  A partition is known by its own name, is its RM's, and shares nothing with another.
W1  When a partition is at rest, no pending ask passes all checks of `explain`.
W2  A parked item is in the waiting lines of its blocker, and so is all that leads to it; none is active.
W3  A blocker that is kept has blocked items.
W4  In a stopped queue nothing is reserved, assumed or parked.
D4  A node is schedulable if its RM says so and it is not drained. A drained one is reserved for
    those asks only that may go nowhere else.
"""

from collections.abc import Container, Iterable, Mapping
from typing import Protocol

from licorne_core.messages.commands import Hold
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import BOOKED, RequestState
from licorne_core.model.apps.states import SCHEDULABLE, AppState
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.queue import Queue
from licorne_core.model.trackers import Tracker
from licorne_core.partitions.partition import Partition
from licorne_core.values.errors import InvariantBroken
from licorne_core.values.ids import AppId, PartitionName
from licorne_core.values.priorities import NO_PRIORITY
from licorne_core.values.resources import (
    INT64_MAX,
    INT64_MIN,
    Resources,
    describe,
    equals,
    subtract,
    sum_of,
)
from licorne_core.values.timers import Due, Timer
from licorne_core.views.audit.gangs import check_gang
from licorne_core.views.audit.preemption import check_preemption
from licorne_core.views.audit.reservations import check_reservations
from licorne_core.views.audit.waiting import check_waiting

_LIVE = SCHEDULABLE | {AppState.NEW, AppState.COMPLETING, AppState.RESUMING, AppState.FAILING}


class HasPartitions(Protocol):
    """A scheduler, as far as its books go."""

    @property
    def partitions(self) -> Mapping[PartitionName, Partition]:
        """All partitions by normalized name."""

    def check_agenda(self) -> None:
        """Compare the agenda with all partitions; raises InvariantBroken."""

    def check_holdings(self) -> None:
        """Count the holdings of each RM anew; raises InvariantBroken."""


def check_invariants(scheduler: HasPartitions) -> None:
    """Add everything up anew; raises InvariantBroken, naming the rule and the figures."""
    owners: dict[object, PartitionName] = {}
    for name, partition in scheduler.partitions.items():
        _check_identity(name, partition, owners)
        check_partition(partition)
    scheduler.check_agenda()
    scheduler.check_holdings()


def check_partition(partition: Partition) -> None:
    """Check one partition, for callers that sample."""
    for node in partition.nodes.by_id.values():
        _check_node(partition, node)
    for app in partition.applications.values():
        _check_application(partition, app)
    for queue in partition.tree.walk():
        _check_queue(queue)
        _check_members(partition, queue)
    _check_trackers(partition)
    check_reservations(partition)
    for queue in partition.tree.walk():
        _same("A3", f"queue {queue.path}: allocating", _allocating(queue), set(queue.allocating))
    _check_deadlines(partition)
    _check_sums(partition)
    check_waiting(partition)
    check_preemption(partition)


def _allocating(queue: Queue) -> set[AppId]:
    if not queue.is_leaf:
        return {app_id for child in queue.children.values() for app_id in child.allocating}
    return {
        app.app_id
        for app in queue.applications.values()
        if app.state is AppState.ACCEPTED and app.is_allocating
    }


def _check_deadlines(partition: Partition) -> None:
    of_rm, here = partition.rm.checks_of(partition.name), partition.calls.numbers
    _same("L1", f"{partition.name}: open predicate checks", of_rm, here)
    of_app = (Due.COMPLETE, Due.PLACEHOLDERS, Due.STARTED, Due.ESCALATE, Due.UNRESERVE)
    known: dict[Due, Container[AppId]] = {
        **dict.fromkeys(of_app, partition.applications),
        Due.EXPIRE: partition.completed,
        Due.EXPIRE_REJECTED: partition.rejected,
    }
    for due, name, key, _ in partition.timers.names():
        at = f"{partition.name} has to {due.value} for {name} {key}"
        if due in known:
            _require("L2", name in known[due], f"{at}, which is gone")
        if due is Due.TRY_AGAIN:
            _require("L2", key in partition.applications[name].backing_off, f"{at}, which is gone")
        if due is Due.UNRESERVE:
            request = partition.applications[name].requests.get(key)
            stands = request is not None and request.reservation is not None
            _require("L2", stands, f"{at}, which has no reservation")
    goes_on = any(timer.due is Due.GO_ON for timer in partition.timers.names())
    _require("L1", goes_on == (partition.job is not None), f"{partition.name}: {goes_on}")
    for queue in partition.tree.walk():
        starting = queue.admission.starting
        if starting is not None and Timer(Due.STARTED, starting.app_id) not in partition.timers:
            raise InvariantBroken(f"L1: {queue.path}: {starting!r} starts for ever")
    for app in partition.applications.values():
        first = app.deadlines.next_deadline()
        timer = partition.timers.deadline(Timer(Due.ESCALATE, app.app_id))
        _same("L1", f"{app!r}: next deadline", first, timer)
        retries = [Timer(Due.TRY_AGAIN, app.app_id, key) for key in app.backing_off]
        _require("L1", all(r in partition.timers for r in retries), f"{app!r}: asks that back off")


def _check_identity(
    name: PartitionName, partition: Partition, owners: dict[object, PartitionName]
) -> None:
    _same("R1", "name of the partition", name, partition.name)
    _require("R1", name.startswith(f"[{partition.rm_id}]"), f"{name} is of RM {partition.rm_id}")
    for thing in (partition, partition.tree, partition.tree.root, partition.nodes):
        _same("R1", f"owner of {type(thing).__name__}", owners.setdefault(thing, name), name)


def _check_node(partition: Partition, node: Node) -> None:
    at = f"node {node.node_id}"
    on_it = sum_of(held.ask.ask_class.resources for held in node.allocations)
    left = subtract(subtract(node.capacity, on_it), node.occupied)
    _equal("A1", f"{at}: available", node.available, left)
    elsewhere = sum_of(held.ask.ask_class.resources for held in node.foreign.values())
    _equal("A1", f"{at}: occupied", node.occupied, elsewhere)
    for total in (node.capacity, on_it, node.occupied):
        _in_range(at, total)
    low = min(node.available.values(), default=0)
    _require("A7", low >= INT64_MIN, f"{at} has {low} available")
    assumed = linked = 0
    for held in node.allocations:
        app = partition.applications.get(held.ask.app_id)
        request = app.requests.get(held.key) if app is not None else None
        if request is None or request.allocation is not held:
            raise InvariantBroken(f"A6: {at} has {held.key}, its application has it not")
        assumed += request.state in (RequestState.ASSUMED, RequestState.MATCHED)
        linked += request.state is RequestState.LINKED
    _same("A4", f"{at}: assumed, linked", (assumed, linked), (node.assumed, node.linked))


def _check_application(partition: Partition, app: Application) -> None:
    at = f"application {app.app_id}"
    booked, pending = list(app.booked()), list(app.pending())
    assumed = [request for request in booked if request.state is RequestState.ASSUMED]
    groups = app.groups.values()
    matched = [r for r in app.replacing() if r.state is RequestState.MATCHED]
    real = [request.ask.ask_class.resources for request in booked if not request.ask.placeholder]
    kept = [request.ask.ask_class.resources for request in booked if request.ask.placeholder]
    wanted = sum_of(request.ask.ask_class.resources for request in pending)
    _equal("A4", f"{at}: allocated", app.allocated, sum_of(real))
    _equal("A4", f"{at}: placeholders allocated", app.placeholder_allocated, sum_of(kept))
    _equal("A4", f"{at}: pending", app.pending_total, wanted)
    _same("A4", f"{at}: pending asks", len(pending), app.pending_count)
    _same("A4", f"{at}: allocations", len(booked), app.allocation_count)
    _same("A4", f"{at}: assumed asks", len(assumed), app.assumed_count)
    others = len(app.requests) - len(pending) - len(booked)
    _same("A4", f"{at}: requests about to replace", len(app.replacing()), others)
    resting = {request.key: request for request in pending if request.group is None}
    _require("A4", resting == app.backing_off, f"{at}: asks without a group back off")
    grouped = len(pending) - len(resting)
    _same("A4", f"{at}: waiting in groups", grouped, sum(g.waiting for g in groups))
    _same("A4", f"{at}: assumed in groups", len(assumed + matched), sum(g.assumed for g in groups))
    _same("A4", f"{at}: top priority", _top(r.ask.priority for r in pending), app.priorities.top)
    _in_range(at, app.allocated)
    _in_range(at, app.pending_total)
    _require("A6", app.state in _LIVE, f"{at} is {app.state.value} and still there")
    # In the middle of a large command an application may be on its way out.
    if not (_fits_state(app) or Hold.UNFINISHED in partition.holds):
        raise InvariantBroken(f"A6: {app!r} is in a state that does not fit")
    check_gang(partition, app)
    for request in booked:
        allocation = request.allocation
        node = None if allocation is None else partition.nodes.by_id.get(allocation.node_id)
        if node is None or allocation not in node.allocations:
            raise InvariantBroken(f"A6: {at} has {request!r}, its node has it not")
    for request in assumed:
        waiting = partition.predicates.is_waiting(request)
        _require("L1", waiting, f"{at}: {request!r} waits for no answer that has a deadline")


def _fits_state(app: Application) -> bool:
    """True if its requests fit its state; remains of a gang may be still to go.

    A resumed gang waits for the RM's new messages. A stopped one waits for the RM's confirmation.
    """
    if app.state is AppState.FAILING and app.failure:
        return not app.is_idle()
    if app.state in SCHEDULABLE:
        return not app.is_idle() or (app.state is AppState.ACCEPTED and bool(app.gang.groups))
    ends = app.state in (AppState.COMPLETING, AppState.FAILING, AppState.RESUMING)
    return app.is_idle() or (ends and bool(app.gang.groups))


def _check_queue(queue: Queue) -> None:
    at = f"queue {queue.path}"
    if queue.is_leaf:
        apps = queue.applications.values()
        allocated = _usage_of(apps)
        pending = sum_of(app.pending_total for app in apps)
        running = sum(app.state is AppState.RUNNING for app in apps)
        top = _top(app.priorities.top for app in apps)
        _require("A3", not queue.children, f"{at} is a leaf and has children")
    else:
        children = queue.children.values()
        allocated = sum_of(child.allocated for child in children)
        pending = sum_of(child.pending for child in children)
        running = sum(child.running_applications for child in children)
        top = _top(child.counted_priority for child in children)
        _require("A3", not queue.applications, f"{at} is a parent and has applications")
    _equal("A3", f"{at}: allocated", queue.allocated, allocated)
    _equal("A3", f"{at}: pending", queue.pending, pending)
    _same("A3", f"{at}: running applications", running, queue.running_applications)
    _same("A3", f"{at}: top priority", top, queue.priorities.top)
    _in_range(at, queue.allocated)
    _in_range(at, queue.pending)


def _check_members(partition: Partition, queue: Queue) -> None:
    _require(
        "A3", partition.tree.get(queue.path) is queue, f"queue {queue.path} is not in the tree"
    )
    parent = queue.parent
    known = parent is None or parent.children.get(queue.name) is queue
    _require("A3", known, f"queue {queue.path} is not among its parent's children")
    members = len(queue.applications if queue.is_leaf else queue.children)
    ranked = len(queue.ranking)
    _require("Q1", ranked <= members, f"queue {queue.path} ranks {ranked} of {members} members")
    for app_id, app in queue.applications.items():
        listed = partition.applications.get(app_id) is app and app.leaf is queue
        _require("A6", listed, f"queue {queue.path} has {app!r}, the partition has not")


def _check_trackers(partition: Partition) -> None:
    """A5, over all users and groups at once."""
    members: dict[Tracker, list[Application]] = {}
    for app in partition.applications.values():
        for tracker in app.trackers:
            members.setdefault(tracker, []).append(app)
        bound = [tracker for tracker in app.trackers if tracker.bounds]
        booked = [quota for quota in app.quotas if isinstance(quota, Tracker)]
        # In the middle of a reload it may not be booked yet where it is bound by now.
        if bound != booked and Hold.UNFINISHED not in partition.holds:
            raise InvariantBroken(f"A5: {app!r} is bound by {bound}, and booked in {booked}")
    known = 0
    for book in (partition.limits.users, partition.limits.groups):
        for trackers in book.values():
            known += len(trackers)
            _require("A5", bool(trackers), f"partition {partition.name} keeps a name for nothing")
            for tracker in trackers.values():
                _check_tracker(tracker, members.get(tracker, []))
                known_queue = partition.tree.get(tracker.path) is not None
                _require("Q1", known_queue, f"{tracker!r} is for a queue that is not there")
    _same("A5", f"partition {partition.name}: trackers", len(members), known)


def _check_tracker(tracker: Tracker, apps: list[Application]) -> None:
    at = f"{tracker.kind} {tracker.name} in {tracker.path}"
    _require("A5", bool(apps), f"{at} is kept for nothing")
    _same("A5", f"{at}: members", {app.app_id for app in apps}, set(tracker.members))
    holders = {app.app_id for app in apps if app.allocation_count}
    _same("A5", f"{at}: running applications", holders, set(tracker.applications))
    booked = [app for app in apps if tracker in app.quotas]
    _equal("A5", f"{at}: allocated", tracker.allocated, _usage_of(booked))
    _equal("A5", f"{at}: usage", tracker.usage, _usage_of(apps))
    _in_range(at, tracker.usage)


def _usage(app: Application) -> tuple[Resources, Resources]:
    """Usage in queues and for users: its real allocations, and its placeholders."""
    return (app.allocated, app.placeholder_allocated)


def _usage_of(apps: Iterable[Application]) -> Resources:
    return sum_of(total for app in apps for total in _usage(app))


def _check_sums(partition: Partition) -> None:
    nodes = partition.nodes
    root = partition.tree.root
    at = f"partition {partition.name}"
    total = sum_of(node.capacity for node in nodes.by_id.values())
    _equal("A2", f"{at}: total", nodes.total, total)
    _equal("A2", f"{at}: root's maximum", root.max or {}, total)
    booked = sum_of(
        held.ask.ask_class.resources
        for node in nodes.by_id.values()
        for held in node.allocations
        if partition.applications[held.ask.app_id].requests[held.key].state in BOOKED
    )
    _equal("A2", f"{at}: allocated", root.allocated, booked)
    in_queues = sum(len(leaf.applications) for leaf in partition.tree.leaves())
    _same("A6", f"{at}: applications in queues", len(partition.applications), in_queues)
    foreign = {key: holder for holder in nodes.by_id.values() for key in holder.foreign}
    _require(
        "A6", partition.foreign == foreign, f"{at} and its nodes differ on foreign allocations"
    )


def _top(priorities: Iterable[int]) -> int:
    return max(priorities, default=NO_PRIORITY)


def _in_range(at: str, total: Resources) -> None:
    for name, value in total.items():
        if not 0 <= value <= INT64_MAX:
            raise InvariantBroken(f"A7: {at} has a total of {value} {name}")


def _equal(rule: str, what: str, booked: Resources, counted: Resources) -> None:
    if booked != counted and not equals(booked, counted):
        figures = f"booked {describe(booked)}, counted {describe(counted)}"
        raise InvariantBroken(f"{rule}: {what}: {figures}")


def _same(rule: str, what: str, counted: object, booked: object) -> None:
    if booked != counted:
        raise InvariantBroken(f"{rule}: {what}: booked {booked}, counted {counted}")


def _require(rule: str, holds: bool, figures: str) -> None:
    if not holds:
        raise InvariantBroken(f"{rule}: {figures}")
