"""Invariants of the books after every command.

Checks all steps of `recount.py` together, and the rules on relations between objects:

A1  A node has capacity = allocated + occupied + available; allocated is the sum of its allocations.
A2  A partition's size is the sum of its nodes, and root's allocated amounts are the sum of those
    of the nodes. Its tally is the sum over its applications.
A3  A leaf is the sum of its applications, a parent that of its children: allocated, pending,
    running applications, and the priorities by which queues are ordered.
A4  An application's totals are the sums of its allocations and asks.
A5  Usage of a user or a group in a queue is the sum of its applications there. No tracker exists
    for which no application counts.
A6  Applications and nodes agree on every allocation and reservation, queues and partition on every
    application; a reservation is for a pending ask, or for an assumed one with a promise, and the
    only one on its node except for asks that require the node. Without a promise it has a node.
A7  No total is below zero or beyond int64; only available amounts may be below zero.
L1  Everything that waits has a deadline: a reservation, a back-off, a wait for an answer.
L2  The subject of a deadline exists: applications, reservations, listed ended applications.
Q1  A removed queue is unused: no user or group counts there, nothing is ranked in it.
L3  The agenda has each partition under its deadline, and those that are runnable wait for a turn.
G1  Each placeholder that arrived is open, or was replaced or timed out, once. Partners refer to each
    other, and their states are a row of `gang.PAIRS`. A placeholder that keeps room has a timeout.
N1  Each node has the score that the node order gives it, as long as no other order is being put in force.
P2  Preempting amounts of a queue, a user and a group are the sum of the victims there.
    A beneficiary waits for victims that are being stopped.
P4  Promised amounts are the sum of the promises to pending asks with stopped victims.
    No ask wants less than its promise.
H1  Holdings of an RM are the sum of its partitions', in numbers and in estimated bytes.
R1  A partition has its own name, belongs to its RM, and shares nothing with another.
W1  After a pass without a decision, no pending ask passes all checks of `explain`.
W2  A parked item and its ancestors are in the waiting lines of its blocker; none of them is active.
W3  Each blocker in `Blockers` has blocked items.
W4  In a stopped queue nothing is reserved, assumed or parked.
W5  Each waiting group that found no node is in the backlog, as are all that lack one. Gangs recorded for
    the node order, as all nodes have too little left, are recorded with the packing that they lack.
S2  Room is held for later starts on schedulable nodes only, without reservations of asks that may go to
    other nodes.
D4  A node is schedulable if its RM says so and it is not closed. A closed node is reserved only for
    asks that require it.
"""

from collections.abc import Container, Iterable, Mapping
from typing import Protocol

from licorne_core.messages.commands import Hold
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import ACCOUNTS, TO_REPLACE, Account, RequestState
from licorne_core.model.apps.states import SCHEDULABLE
from licorne_core.model.nodes.book import node_order
from licorne_core.model.nodes.node import overhang_of, usable
from licorne_core.model.queues.queue import Queue
from licorne_core.model.quotas import Tracker
from licorne_core.partitions.partition import Partition
from licorne_core.scheduling.waiting.reserved_nodes import Reserver, reservers
from licorne_core.values.app_states import AppState
from licorne_core.values.errors import InvariantBroken
from licorne_core.values.ids import AppId, PartitionName
from licorne_core.values.ranking import NO_PRIORITY
from licorne_core.values.resources import INT64_MIN, charge, describe, equals, sum_of, without_zeros
from licorne_core.values.timers import Due, Timer
from licorne_core.views.audit.recount import Concern, audit
from licorne_core.views.audit.rules import check_gang, check_preemption, check_waiting, require


def check_reservations(partition: Partition) -> None:
    """Check that applications, nodes and limits agree on every reservation; raises InvariantBroken."""
    known = _check_holders(partition)
    for node in partition.nodes.by_id.values():
        there = list(node.reservations.values())
        at = f"node {node.node_id}"
        require("A6", known.issuperset(there), f"{at} is reserved for somebody unknown")
        asks = [partition.applications[app_id].requests[key] for app_id, key in node.reservations]
        alone = [one for one in asks if one.promise is None and one.ask.ask_class.required_node is None]
        require("A6", len(alone) < 2, f"{at} is reserved for {len(there)} asks")
        closed = any(reservation.exclusive for reservation in there)
        require("A6", node.open is (node.schedulable and not closed), f"{at} is open: {node.open}")
        kept: dict[str, int] = {}
        for reservation in there:
            charge(kept, reservation.items)
        for room in partition.claims.rooms:
            charge(kept, room.ask_class.items if room.node is node else ())
        require("A6", kept == node.kept, f"{at}: kept {node.kept}, counted {kept}")
        schedulable = node.wanted and node.closed is None
        require("D4", schedulable == node.schedulable, f"{at} is schedulable: {node.schedulable}")
        spared = node.closed is None or all(reservation.required for reservation in there)
        require("D4", spared, f"{at} is closed and reserved for {len(there)} asks")
        known.difference_update(there)
    require("A6", not known, f"{len(known)} reservations are on no node")
    _check_limits(partition)


def _check_holders(partition: Partition) -> set[object]:
    """The reservations with a node, as the applications have them."""
    known: set[object] = set()
    for app in partition.applications.values():
        asks = {request.key for request in app.requests.values() if request.reservation}
        require("A6", asks == {*app.reserved}, f"{app!r}: reserved {[*app.reserved]}, not {asks}")
        for key, request in app.reserved.items():
            reservation = request.reservation
            assert reservation is not None, f"{request!r} is listed as reserved"
            at = f"reservation of {reservation.node_id} for {app.app_id}/{key}"
            promised = request.promise is not None
            waits = request.is_pending or (promised and request.state is RequestState.ASSUMED)
            require("A6", waits, f"{at}, which does not wait")
            timer = Timer(Due.UNRESERVE, app.app_id, key)
            require("L1", timer in partition.timers, f"{at} has no end")
            if reservation.node_id is None:
                require("A6", promised, f"{at} is of no node, and nothing is promised")
                continue
            node = partition.nodes.by_id.get(reservation.node_id)
            listed = node and node.reservations.get((app.app_id, key))
            require("A6", listed is reservation, f"{at} is not the node's")
            known.add(reservation)
    return known


def _check_limits(partition: Partition) -> None:
    counted: dict[Reserver, int] = {}
    for app in partition.applications.values():
        for request in app.reserved.values():
            reservation = request.reservation
            if reservation is not None and reservation.node_id and not reservation.required:
                for reserver in reservers(app):
                    counted[reserver] = counted.get(reserver, 0) + 1
    limits = partition.wakeups.reservation_limits
    known: list[Reserver] = [*partition.applications.values(), *partition.tree.all()]
    for reserver in known:
        there, noted = counted.get(reserver, 0), limits.reserved(reserver)
        require("A6", there == noted, f"{reserver!r}: {noted} nodes reserved, counted {there}")


_RULES = {
    Concern.NODE_SUM: "A1",
    Concern.PARTITION_SUM: "A2",
    Concern.QUEUE_SUM: "A3",
    Concern.APPLICATION_SUM: "A4",
    Concern.USER_SUM: "A5",
    Concern.RESERVATION: "A6",
    Concern.ORPHAN_ON_NODE: "A6",
    Concern.ORPHAN_IN_APPLICATION: "A6",
    Concern.NEGATIVE_PARTITION: "A7",
    Concern.NEGATIVE_NODE: "A7",
    Concern.NEGATIVE_SHARE: "A7",
}
"""The rule that a finding of the recount breaks. An overfull node breaks no rule."""

_LIVE = SCHEDULABLE | {AppState.NEW, AppState.COMPLETING, AppState.RESUMING, AppState.FAILING}


class HasPartitions(Protocol):
    """The part of a scheduler that checks read."""

    @property
    def partitions(self) -> Mapping[PartitionName, Partition]:
        """All partitions by normalized name."""

    def check(self) -> None:
        """Recompute the state above partitions; raises InvariantBroken."""


def check_invariants(scheduler: HasPartitions) -> None:
    """Recompute everything; raises InvariantBroken with the rule and the figures."""
    owners: dict[object, PartitionName] = {}
    for name, partition in scheduler.partitions.items():
        _check_identity(name, partition, owners)
        check_partition(partition)
    scheduler.check()


def check_partition(partition: Partition) -> None:
    """Check one partition, for callers that check only a sample; raises InvariantBroken."""
    found = (finding for finding in audit(partition) if finding is not None)
    broken = [f"{_RULES[each.concern]}: {each.text}" for each in found if each.concern in _RULES]
    if broken:
        raise InvariantBroken("; ".join(broken))
    for app in partition.applications.values():
        _check_application(partition, app)
    for extension in partition.points.recount:
        extension.recount(partition.applications, settled=Hold.UNFINISHED not in partition.holds)
    for queue in partition.tree.walk():
        _check_queue(queue)
        _check_members(partition, queue)
    _check_trackers(partition)
    check_reservations(partition)
    for queue in partition.tree.walk():
        _same("A3", f"queue {queue.path}: allocating", _allocating(queue), set(queue.allocating))
    _check_deadlines(partition)
    _check_cluster(partition)
    _check_scores(partition)
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
    of_app = (Due.COMPLETE, Due.PLACEHOLDERS, Due.ESCALATE, Due.UNRESERVE)
    known: dict[Due, Container[AppId]] = {
        **dict.fromkeys(of_app, partition.applications),
        Due.EXPIRE: partition.completed,
        Due.EXPIRE_REJECTED: partition.rejected,
    }
    for due, name, key, *_ in partition.timers.names():
        at = f"{partition.name} has to {due.value} for {name} {key}"
        if due in known:
            require("L2", name in known[due], f"{at}, which is gone")
        if due is Due.TRY_AGAIN:
            require("L2", key in partition.applications[name].backing_off, f"{at}, which is gone")
        if due is Due.UNRESERVE:
            request = partition.applications[name].requests.get(key)
            stands = request is not None and request.reservation is not None
            require("L2", stands, f"{at}, which has no reservation")
    goes_on = any(timer.due is Due.GO_ON for timer in partition.timers.names())
    require("L1", goes_on == (partition.job is not None), f"{partition.name}: {goes_on}")
    for app in partition.applications.values():
        first = app.deadlines.next_deadline()
        timer = partition.timers.deadline(Timer(Due.ESCALATE, app.app_id))
        _same("L1", f"{app!r}: next deadline", first, timer)
        retries = [Timer(Due.TRY_AGAIN, app.app_id, key) for key in app.backing_off]
        require("L1", all(r in partition.timers for r in retries), f"{app!r}: asks that back off")


def _check_identity(name: PartitionName, partition: Partition, owners: dict[object, PartitionName]) -> None:
    _same("R1", "name of the partition", name, partition.name)
    require("R1", name.startswith(f"[{partition.rm_id}]"), f"{name} is of RM {partition.rm_id}")
    for thing in (partition, partition.tree, partition.tree.root, partition.nodes):
        _same("R1", f"owner of {type(thing).__name__}", owners.setdefault(thing, name), name)


def _check_application(partition: Partition, app: Application) -> None:
    at = f"application {app.app_id}"
    pending = list(app.pending())
    resting = {request.key: request for request in pending if request.group is None}
    require("A4", resting == app.backing_off, f"{at}: asks without a group back off")
    _same("A4", f"{at}: top priority", _top(r.priority for r in pending), app.priorities.top)
    require("A6", app.state in _LIVE, f"{at} is {app.state.value} and still there")
    # In the middle of a large command an application may be about to be removed.
    if not (_fits_state(app) or Hold.UNFINISHED in partition.holds):
        raise InvariantBroken(f"A6: {app!r} is in a state that does not fit")
    check_gang(partition, app)
    for request in app.requests.values():
        accounts, placed = ACCOUNTS[request.state], request.allocation is not None
        # A real request that replaces its placeholder takes no room in addition to the placeholder.
        fits = placed is (Account.ON_NODE in accounts) or request.state in TO_REPLACE
        if not fits:
            raise InvariantBroken(f"A6: {at}: {request!r} has the allocation {request.allocation}")


def _fits_state(app: Application) -> bool:
    """True if its requests fit its state; placeholders of a gang may not have ended yet.

    A resumed gang waits for new messages of the RM, and a stopped gang for the RM's confirmation.
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
        top = _top(max(app.priorities.top, app.raised) for app in queue.applications.values())
        require("A3", not queue.children, f"{at} is a leaf and has children")
    else:
        top = _top(child.counted_priority for child in queue.children.values())
        require("A3", not queue.applications, f"{at} is a parent and has applications")
    _same("A3", f"{at}: top priority", top, queue.priorities.top)


def _check_members(partition: Partition, queue: Queue) -> None:
    require("A3", partition.tree.get(queue.path) is queue, f"queue {queue.path} is not in the tree")
    parent = queue.parent
    known = parent is None or parent.children.get(queue.name) is queue
    require("A3", known, f"queue {queue.path} is not among its parent's children")
    members = len(queue.applications if queue.is_leaf else queue.children)
    ranked = len(queue.ranking)
    for user in queue.users.values():
        own = [app for app in queue.applications.values() if app.user.user == user.name]
        used = sum_of(size for app in own for size in (app.allocated, app.placeholder_allocated))
        if partition.dirty.apps.keys().isdisjoint(own):
            _same(
                "A3", f"user {user.name} in {queue.path}", without_zeros(used), without_zeros(user.allocated)
            )
    require("Q1", ranked <= members, f"queue {queue.path} ranks {ranked} of {members} members")
    for app_id, app in queue.applications.items():
        listed = partition.applications.get(app_id) is app and app.leaf is queue
        require("A6", listed, f"queue {queue.path} has {app!r}, the partition has not")


def _check_trackers(partition: Partition) -> None:
    """Check A5 for all users and groups."""
    members: dict[Tracker, list[Application]] = {}
    for app in partition.applications.values():
        for tracker in app.trackers:
            members.setdefault(tracker, []).append(app)
        bound = [tracker for tracker in app.trackers if tracker.bounds]
        booked = [quota for quota in app.quotas if isinstance(quota, Tracker)]
        # During a reload the application may not be booked in its new quotas yet.
        if bound != booked and Hold.UNFINISHED not in partition.holds:
            raise InvariantBroken(f"A5: {app!r} is bound by {bound}, and booked in {booked}")
    known = 0
    for book in (partition.limits.users, partition.limits.groups):
        for trackers in book.values():
            known += len(trackers)
            require("A5", bool(trackers), f"partition {partition.name} keeps a name for nothing")
            for tracker in trackers.values():
                _check_tracker(tracker, members.get(tracker, []))
                known_queue = partition.tree.get(tracker.path) is not None
                require("Q1", known_queue, f"{tracker!r} is for a queue that is not there")
    _same("A5", f"partition {partition.name}: trackers", len(members), known)


def _check_tracker(tracker: Tracker, apps: list[Application]) -> None:
    at = f"{tracker.kind} {tracker.name} in {tracker.path}"
    require("A5", bool(apps), f"{at} is kept for nothing")
    _same("A5", f"{at}: members", {app.app_id for app in apps}, set(tracker.members))
    holders = {app.app_id for app in apps if app.allocation_count}
    _same("A5", f"{at}: running applications", holders, set(tracker.applications))


def _check_cluster(partition: Partition) -> None:
    nodes = partition.nodes
    at = f"partition {partition.name}"
    largest = partition.tree.root.max or {}
    require("A2", equals(nodes.total, largest), f"{at}: root's maximum {describe(largest)}")
    beyond = sum_of(dict(overhang_of(node)) for node in nodes.by_id.values())
    booked = partition.tree.root.overhang
    require("A2", beyond == booked, f"{at}: {booked} beyond capacities, counted {beyond}")
    for_queues = sum_of(dict(usable(node)) for node in nodes.by_id.values())
    require("A2", equals(for_queues, nodes.usable), f"{at}: {nodes.usable} for queues, counted {for_queues}")
    lowest = min((min(n.available.values(), default=0) for n in nodes.by_id.values()), default=0)
    require("A7", lowest >= INT64_MIN, f"{at}: a node has {lowest} available")
    in_queues = sum(len(leaf.applications) for leaf in partition.tree.leaves())
    _same("A6", f"{at}: applications in queues", len(partition.applications), in_queues)
    foreign = {key: holder for holder in nodes.by_id.values() for key in holder.foreign}
    require("A6", partition.foreign == foreign, f"{at} and its nodes differ on foreign allocations")


def _check_scores(partition: Partition) -> None:
    nodes = partition.nodes
    fresh = node_order(nodes.order.policy, nodes.order.packs)
    for node in nodes.by_id.values():
        fresh.add(node)
    for node in () if partition.index.heaps.closed else nodes.by_id.values():
        _same("N1", f"score of {node!r}", fresh.score(node), node.score)


def _top(priorities: Iterable[int]) -> int:
    return max(priorities, default=NO_PRIORITY)


def _same(rule: str, what: str, counted: object, booked: object) -> None:
    if booked != counted:
        raise InvariantBroken(f"{rule}: {what}: booked {booked}, counted {counted}")
