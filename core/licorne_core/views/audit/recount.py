"""Recount of the books in small steps (spec § 12.5).

The amounts of requests are summed by `ACCOUNTS`. Every step reads the current books, and the core continues
between steps. A total of few members is computed in one step. A longer total takes several steps, so its
difference is reported only if a second attempt finds the same figures. `invariants.py` takes all steps
together.

Nodes that are allocated beyond their capacity are reported too, although the books are correct.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from typing import NamedTuple, TypeVar, cast

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.groups import AskGroup
from licorne_core.model.apps.requests import ACCOUNTS, Account, Request
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.queue import Queue
from licorne_core.model.quotas import Member, SharedQuota, Tracker
from licorne_core.partitions.partition import Partition
from licorne_core.values.app_states import AppState
from licorne_core.values.asks import Allocation
from licorne_core.values.resources import INT64_MAX, Resources, describe, equals, has_negative

STEP = 128
"""Number of members of a sum, or of requests, that are read in one step."""

M = TypeVar("M")

Parts = Iterable[tuple[str, Resources]]
"""The amounts of a member, each with the name of the total in which they count."""


class Concern(Enum):
    """Subject of an audit rule."""

    NEGATIVE_PARTITION = "negative totals of a partition"
    NEGATIVE_NODE = "negative totals of a node"
    OVERFULL = "more on a node, or on all of a partition, than there is"
    PARTITION_SUM = "a partition is not the sum of its nodes"
    NODE_SUM = "a node is not the sum of its parts"
    NEGATIVE_SHARE = "negative totals of an application, a queue, a user or a group"
    APPLICATION_SUM = "an application is not the sum of its requests"
    QUEUE_SUM = "a queue is not the sum of what is in it"
    USER_SUM = "a user, a group or a shared quota is not the sum of its applications"
    RESERVATION = "a reservation that is nobody's"
    ORPHAN_ON_NODE = "an allocation on a node that its application has not"
    ORPHAN_IN_APPLICATION = "an allocation of an application that its node has not"


_NEGATIVE = {Concern.PARTITION_SUM: Concern.NEGATIVE_PARTITION, Concern.NODE_SUM: Concern.NEGATIVE_NODE}
"""The concern of a total that is out of range, by the concern of its sum; shared totals have no entry."""


class Finding(NamedTuple):
    """A difference in the books."""

    concern: Concern
    text: str


def audit(partition: Partition) -> Iterator[Finding | None]:
    """Yield the differences in a partition, and a None after each step."""
    yield from _partition(partition)
    yield from _overfull(partition)
    for node in list(partition.nodes.by_id.values()):
        if partition.nodes.by_id.get(node.node_id) is node:
            yield from _node(partition, node)
        yield None
    for app in list(partition.applications.values()):
        requests = list(app.requests.values())
        for begin in range(0, len(requests), STEP):
            if partition.applications.get(app.app_id) is app:
                yield from _requests(partition, app, requests[begin : begin + STEP])
            yield None
        yield from _application(app)
    for queue in list(partition.tree.all()):
        if partition.tree.get(queue.path) is queue:
            yield from recount_queue(queue)
    for kind in ("user", "group"):
        for name in list(partition.limits.of_kind(kind)):
            # The tracker may have been removed in the meantime.
            for tracker in list(partition.limits.of_kind(kind).get(name, {}).values()):
                yield from _tracker(partition, tracker)
    for quota in partition.points.own_quotas():
        yield from _further(partition, quota)


def _partition(partition: Partition) -> Iterator[Finding | None]:
    def parts(member: Node | Application | Request) -> Parts:
        if isinstance(member, Node):
            yield "capacity", member.capacity
            yield "allocated", member.allocated
        elif isinstance(member, Application):
            known = member.allocation_count - member.assumed_count
            yield "requests", {"all": len(member.requests), "known": known}
            yield "applications", {member.state.value: 1}
        elif member.allocation is not None and Account.ALLOCATED not in ACCOUNTS[member.state]:
            size = member.allocation.ask.ask_class.resources
            yield "allocated", {name: -value for name, value in size.items()}

    def members() -> Iterator[Node | Application | Request]:
        apps = list(partition.applications.values())
        ended = (*partition.completed.values(), *partition.rejected.values())
        yield from list(partition.nodes.by_id.values())
        yield from ended
        for app in apps:
            yield app
            if app.replacing_count:
                # Requests that replace placeholders are on nodes, but count in no queue (spec § 6.5).
                yield from list(app.requests.values())

    def booked() -> Mapping[str, Resources]:
        tally = partition.tally
        return {
            "capacity": partition.nodes.total,
            "allocated": partition.tree.root.allocated,
            "requests": {"all": tally.requests, "known": tally.allocations},
            "applications": tally.states,
        }

    at = f"partition {partition.name}"
    yield from _sums(Concern.PARTITION_SUM, at, members, booked, parts)


def _overfull(partition: Partition) -> Iterator[Finding | None]:
    """Find a partition whose nodes together have more allocated than their capacity."""
    before: dict[str, int] | None = None
    while True:
        nodes = list(partition.nodes.by_id.values())
        available: dict[str, int] = {}
        for number, node in enumerate(nodes, 1):
            for name, value in node.available.items():
                available[name] = available.get(name, 0) + value
            if not number % STEP:
                yield None
        if not has_negative(available):
            return
        if len(nodes) < STEP or available == before:
            yield _overfilled(f"partition {partition.name}", available)
            return
        before = available


def _overfilled(at: str, available: Resources) -> Finding:
    return Finding(Concern.OVERFULL, f"{at}: available {describe(available)}")


def _node(partition: Partition, node: Node) -> Iterator[Finding | None]:
    def parts(held: Allocation) -> Parts:
        size = held.ask.ask_class.resources
        if node.foreign.get(held.key) is held:
            yield "occupied", size
            return
        yield "allocated", size
        request = _request_of(partition, held)
        accounts = () if request is None else ACCOUNTS[request.state]
        if Account.PREEMPTING in accounts:
            yield "preempting", size
        yield "numbers", {"asked": Account.ASKED in accounts, "linked": Account.LINKED in accounts}

    at = f"node {node.node_id}"
    for total in (node.capacity, node.allocated, node.occupied):
        if _is_out_of_range(total):
            yield Finding(Concern.NEGATIVE_NODE, f"{at}: {describe(total)}")
    if has_negative(node.available):
        # The node has shrunk, or existing allocations were added.
        yield _overfilled(at, node.available)
    for number, held in enumerate(list(node.allocations), 1):
        if held in node.allocations and _request_of(partition, held) is None:
            text = f"{at} has {held.key} of application {held.ask.app_id}, which has it not"
            yield Finding(Concern.ORPHAN_ON_NODE, text)
        if not number % STEP:
            yield None
    yield from _sums(
        Concern.NODE_SUM,
        at,
        lambda: [*node.allocations, *node.foreign.values()],
        lambda: {
            "allocated": node.allocated,
            "occupied": node.occupied,
            "preempting": node.preempting,
            "numbers": {"asked": node.assumed, "linked": node.linked},
        },
        parts,
    )
    yield from _reservations(partition, node)


def _request_of(partition: Partition, held: Allocation) -> Request | None:
    """The request of an allocation on a node; None if its application does not have the request."""
    app = partition.applications.get(held.ask.app_id)
    request = None if app is None else app.requests.get(held.key)
    return request if request is not None and request.allocation is held else None


def _reservations(partition: Partition, node: Node) -> Iterator[Finding | None]:
    for number, ((app_id, key), reservation) in enumerate(list(node.reservations.items()), 1):
        app = partition.applications.get(app_id)
        request = None if app is None else app.requests.get(key)
        waits = request is not None and (request.is_pending or request.promise is not None)
        stands = node.reservations.get((app_id, key)) is reservation
        if stands and (request is None or not waits or request.reservation is not reservation):
            at = f"node {node.node_id}"
            text = f"{at} is reserved for {key} of application {app_id}, which does not wait for it"
            yield Finding(Concern.RESERVATION, text)
        if not number % STEP:
            yield None


def _requests(partition: Partition, app: Application, requests: list[Request]) -> Iterator[Finding]:
    for request in requests:
        if request.allocation is None:
            continue
        node = partition.nodes.by_id.get(request.allocation.node_id)
        if node is None or request.allocation not in node.allocations:
            key, node_id = request.ask.key, request.allocation.node_id
            text = f"application {app.app_id} has {key} on node {node_id}, which has it not"
            yield Finding(Concern.ORPHAN_IN_APPLICATION, text)


def _application(app: Application) -> Iterator[Finding | None]:
    def booked() -> Mapping[str, Resources]:
        numbers = {
            "pending": app.pending_count,
            "allocated": app.allocation_count,
            "assumed": app.assumed_count,
            "asked beside groups": 0,
            "waiting beside groups": 0,
            "known placeholders": app.placeholder_count,
        }
        return {
            "allocated": app.allocated,
            "placeholders": app.placeholder_allocated,
            "pending": app.pending_total,
            "numbers": numbers,
        }

    def parts(member: Request | AskGroup) -> Parts:
        if isinstance(member, AskGroup):
            # All asks of the group are among the requests.
            yield (
                "numbers",
                {"asked beside groups": -member.assumed, "waiting beside groups": -member.waiting},
            )
            return
        accounts, size = ACCOUNTS[member.state], member.ask.ask_class.resources
        for account in accounts:
            if account is Account.PENDING:
                yield "pending", size
                yield "numbers", {"pending": 1, "waiting beside groups": member.group is not None}
            elif account is Account.ALLOCATED:
                yield "placeholders" if member.ask.placeholder else "allocated", size
                yield "numbers", {account.value: 1}
            elif account is Account.KNOWN:
                yield "numbers", {"known placeholders": member.ask.placeholder}
            elif account is Account.ASSUMED:
                yield "numbers", {"assumed": 1}
            elif account is Account.ASKED:
                yield "numbers", {"asked beside groups": 1}

    at = f"application {app.app_id}"

    def members() -> list[Request | AskGroup]:
        return [*app.requests.values(), *app.groups.values()]

    yield from _sums(Concern.APPLICATION_SUM, at, members, booked, parts)


def recount_queue(queue: Queue) -> Iterator[Finding | None]:
    """Recount a queue: its applications, or the queues below it."""

    def parts(member: Application | Queue) -> Parts:
        yield "allocated", member.allocated
        if isinstance(member, Queue):
            yield "pending", member.pending
            yield "preempting", member.preempting
            yield "numbers", {"running": member.running_applications}
        else:
            yield "allocated", member.placeholder_allocated
            yield "pending", member.pending_total
            yield "numbers", {"running": member.state is AppState.RUNNING}

    def booked() -> Mapping[str, Resources]:
        totals = {
            "allocated": queue.allocated,
            "pending": queue.pending,
            "numbers": {"running": queue.running_applications},
        }
        return totals if queue.is_leaf else {**totals, "preempting": queue.preempting}

    def members() -> Iterable[Application | Queue]:
        return list(queue.applications.values() if queue.is_leaf else queue.children.values())

    yield from _sums(Concern.QUEUE_SUM, f"queue {queue.path}", members, booked, parts)


def _tracker(partition: Partition, tracker: Tracker) -> Iterator[Finding | None]:
    """Recount a user or a group in a queue, for which only limited types are booked."""

    def parts(member: Member) -> Parts:
        app = cast(Application, member)
        if tracker in app.quotas:
            yield "allocated", app.allocated
            yield "allocated", app.placeholder_allocated
        yield "numbers", {"running": app.allocation_count > 0}

    def booked() -> Mapping[str, Resources]:
        running = {"running": tracker.started_applications}
        return {"allocated": tracker.allocated, "numbers": running}

    at = f"{tracker.kind} {tracker.name} in {tracker.path}"
    yield from _sums(Concern.USER_SUM, at, lambda: list(tracker.members.values()), booked, parts)
    for number, app_id in enumerate(list(tracker.members), 1):
        if app_id not in partition.applications and app_id in tracker.members:
            yield Finding(Concern.USER_SUM, f"{at}: counts application {app_id}, which is gone")
            break
        if not number % STEP:
            yield None


def _further(partition: Partition, quota: SharedQuota) -> Iterator[Finding | None]:
    """Recount a further quota of the partition's applications, for which no other applications count."""

    def parts(app: Application) -> Parts:
        if quota in app.further:
            yield "allocated", app.allocated
            yield "allocated", app.placeholder_allocated

    def members() -> Iterable[Application]:
        return list(partition.applications.values())

    at = f"{quota.kind} {quota.name} in {partition.name}"
    yield from _sums(Concern.USER_SUM, at, members, lambda: {"allocated": quota.allocated}, parts)


def _sums(
    concern: Concern,
    at: str,
    members: Callable[[], Iterable[M]],
    booked: Callable[[], Mapping[str, Resources]],
    parts: Callable[[M], Parts],
) -> Iterator[Finding | None]:
    """Compare totals with the sums over their members; yield None after each step.

    Members may be added and removed between two steps: `members` iterates over copies.
    """
    first: list[Finding] | None = None
    while True:
        totals, number = booked(), 0
        counted: dict[str, dict[str, int]] = {name: {} for name in totals}
        for number, member in enumerate(members(), 1):
            for name, amounts in parts(member):
                sums = counted[name]
                for kind, value in amounts.items():
                    sums[kind] = sums.get(kind, 0) + value
            if not number % STEP:
                yield None
        found = list(_compared(concern, at, totals, counted))
        if number < STEP or not found:
            break
        if first is not None:
            found = [finding for finding in found if finding in first]
            break
        first = found
        yield None
    yield from found
    yield None


def _compared(
    concern: Concern, at: str, totals: Mapping[str, Resources], counted: Mapping[str, Resources]
) -> Iterator[Finding]:
    for name, total in totals.items():
        if _is_out_of_range(total):
            yield Finding(_NEGATIVE.get(concern, Concern.NEGATIVE_SHARE), f"{at}: {name} {describe(total)}")
        if not equals(total, counted[name]):
            yield Finding(concern, f"{at}: {name} {describe(total)}, in it {describe(counted[name])}")


def _is_out_of_range(total: Resources) -> bool:
    """True if an amount is below zero or beyond int64."""
    return bool(total) and not 0 <= min(total.values()) <= max(total.values()) <= INT64_MAX
