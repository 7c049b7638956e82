"""Checks that the totals of applications, queues, users and groups are the sums of their members.

A total of few members is added up in one step. More of them take several steps, and the core goes
on in between; then a difference is believed only when a second look finds the very same figures.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, NamedTuple, TypeVar, cast

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import BOOKED, TO_REPLACE, Request
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.queue import Queue
from licorne_core.model.trackers import Member, Tracker
from licorne_core.partitions.partition import Partition
from licorne_core.values.asks import Allocation
from licorne_core.values.resources import Resources, describe, equals, has_negative

STEP_MEMBERS = 256
"""Members that are added up in one step."""

M = TypeVar("M")


class Total(NamedTuple, Generic[M]):
    """A total, and the amounts of each member."""

    name: str
    booked: Resources
    parts: Callable[[M], Iterable[Resources]]


class Doubt(NamedTuple):
    """A total that is wrong."""

    negative: bool
    """True if it is below zero; if not it is not the sum of its members."""
    text: str


def sums_of_partition(partition: Partition) -> Iterator[Doubt | None]:
    """Yield wrong totals of a partition and of its nodes; a None after each step.

    Replacements of placeholders are on nodes, and count in no queue (spec § 6.5).
    """

    def members() -> list[Node | Application]:
        return [*partition.nodes.by_id.values(), *partition.applications.values()]

    def totals() -> list[Total[Node | Application]]:
        return [
            Total("capacity", partition.nodes.total, _capacity),
            Total("allocated", partition.tree.root.allocated, _on_nodes),
        ]

    yield from _doubts(f"partition {partition.name}", members, totals)


def _capacity(member: Node | Application) -> Iterable[Resources]:
    return (member.capacity,) if isinstance(member, Node) else ()


def _on_nodes(member: Node | Application) -> Iterator[Resources]:
    """Booked amounts on a node, less those of an application's unfinished replacements there."""
    if isinstance(member, Node):
        yield member.allocated
    elif member.replacing_count:
        for request in member.requests.values():
            if request.state in TO_REPLACE and request.allocation is not None:
                size = request.allocation.ask.ask_class.resources
                yield {name: -value for name, value in size.items()}


def sums_of_node(node: Node) -> Iterator[Doubt | None]:
    """The same for a node: the allocations on it."""

    def totals() -> list[Total[Allocation]]:
        return [Total("allocated", node.allocated, lambda held: (held.ask.ask_class.resources,))]

    yield from _doubts(f"node {node.node_id}", lambda: node.allocations, totals)


def sums_of_application(app: Application) -> Iterator[Doubt | None]:
    """The same for an application: its requests."""

    def totals() -> list[Total[Request]]:
        return [
            Total("allocated", app.allocated, lambda request: _booked(request, kept=False)),
            Total("placeholders", app.placeholder_allocated, lambda r: _booked(r, kept=True)),
            Total("pending", app.pending_total, _pending),
        ]

    yield from _doubts(f"application {app.app_id}", app.requests.values, totals)


def sums_of_queue(queue: Queue) -> Iterator[Doubt | None]:
    """The same for a queue: its applications, or the queues below it."""

    def of_applications() -> list[Total[Application]]:
        return [
            Total("allocated", queue.allocated, _usage),
            Total("pending", queue.pending, lambda app: (app.pending_total,)),
        ]

    def of_queues() -> list[Total[Queue]]:
        return [
            Total("allocated", queue.allocated, lambda child: (child.allocated,)),
            Total("pending", queue.pending, lambda child: (child.pending,)),
        ]

    at = f"queue {queue.path}"
    if queue.is_leaf:
        yield from _doubts(at, queue.applications.values, of_applications)
    else:
        yield from _doubts(at, queue.children.values, of_queues)


def sums_of_tracker(partition: Partition, tracker: Tracker) -> Iterator[Doubt | None]:
    """Yield wrong totals of a user or a group in a queue. Only limited types are booked there."""
    known = partition.applications

    def booked(member: Member) -> Iterable[Resources]:
        app = cast(Application, member)
        return _usage(app) if tracker in app.quotas else ()

    at = f"{tracker.kind} {tracker.name} in {tracker.path}"

    def totals() -> list[Total[Member]]:
        return [Total("allocated", tracker.allocated, booked)]

    yield from _doubts(at, tracker.members.values, totals)
    for number, app_id in enumerate(list(tracker.members), 1):
        if app_id not in known and app_id in tracker.members:
            yield Doubt(False, f"{at}: counts application {app_id}, which is gone")
            break
        if not number % STEP_MEMBERS:
            yield None


def _booked(request: Request, *, kept: bool) -> Iterable[Resources]:
    """Booked amounts of a request, among placeholders or among the others."""
    ask = request.ask
    is_meant = request.state in BOOKED and ask.placeholder is kept
    return (ask.ask_class.resources,) if is_meant else ()


def _pending(request: Request) -> Iterable[Resources]:
    return (request.ask.ask_class.resources,) if request.is_pending else ()


def _usage(app: Application) -> Iterable[Resources]:
    return (app.allocated, app.placeholder_allocated)


def _doubts(
    at: str, members: Callable[[], Iterable[M]], totals: Callable[[], list[Total[M]]]
) -> Iterator[Doubt | None]:
    """The doubts about some totals of the same members."""
    first: list[Doubt] | None = None
    while True:
        now, every = totals(), list(members())
        counted: list[dict[str, int]] = [{} for _ in now]
        for begin in range(0, len(every), STEP_MEMBERS):
            if begin:
                yield None
            _add(every[begin : begin + STEP_MEMBERS], now, counted)
        found = [
            doubt
            for total, sums in zip(now, counted, strict=True)
            for doubt in _compared(at, total, sums)
        ]
        if len(every) <= STEP_MEMBERS or not found:
            break
        if first is not None:
            found = [doubt for doubt in found if doubt in first]
            break
        first = found
        yield None
    yield from found
    yield None


def _add(members: list[M], totals: list[Total[M]], counted: list[dict[str, int]]) -> None:
    for total, sums in zip(totals, counted, strict=True):
        for member in members:
            for part in total.parts(member):
                for name, value in part.items():
                    sums[name] = sums.get(name, 0) + value


def _compared(at: str, total: Total[M], counted: Resources) -> Iterator[Doubt]:
    booked = describe(total.booked)
    if has_negative(total.booked):
        yield Doubt(True, f"{at}: {total.name} {booked}")
    if not equals(total.booked, counted):
        yield Doubt(False, f"{at}: {total.name} {booked}, in it {describe(counted)}")
