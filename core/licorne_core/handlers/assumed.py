"""Assumed allocations: booked before the RM accepts their nodes, then confirmed or undone (spec § 8.4)."""

from collections.abc import Callable, Iterator

from licorne_core.handlers.lifecycle import allocation_made
from licorne_core.handlers.outcome import Outcome, make_way
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.gang import PairEvent
from licorne_core.model.apps.requests import Request, RequestState
from licorne_core.model.claims import rooms_of
from licorne_core.model.nodes.node import Node
from licorne_core.partitions.jobs import Job
from licorne_core.partitions.partition import Partition
from licorne_core.scheduling.measures import Candidate
from licorne_core.scheduling.predicates import Assumed
from licorne_core.values.slices import PART

WAITS_FOR_ANSWER = frozenset({RequestState.ASSUMED, RequestState.MATCHED})
"""States of a request with an open question about its node."""


def assume(partition: Partition, candidate: Candidate, now: float) -> None:
    """Book the allocation and ask the RM, which gets the allocation after it has accepted the node."""
    _, app, request, node = candidate
    check = partition.predicates.ask(request, node)
    partition.allocations.assume(candidate, now)
    partition.predicates.wait(check, Assumed(app, request, node))


def confirm(partition: Partition, app: Application, request: Request, now: float, outcome: Outcome) -> None:
    """Confirm an assumed ask: allocate it, or stop its placeholder."""
    _end_wait(partition, request)
    if request.state is RequestState.MATCHED:
        placeholder = partition.pairs.agree(app, request)
        outcome.release(partition, make_way(app, placeholder, request))
        return
    allocation = partition.allocations.confirm(app, request, now)
    for room in rooms_of(app, request) if app.gang.rooms else ():
        room.end()
    outcome.made.setdefault(partition, []).append(allocation)
    leaf = partition.leaf_of(app)
    outcome.updates += allocation_made(partition, leaf, app, allocation, now)


def roll_back(partition: Partition, app: Application, request: Request, event: PairEvent, now: float) -> None:
    """Let an ask that waits for an answer become pending again; the answer will be ignored.

    `event` is the reason, used if the ask was to replace a placeholder.
    """
    _end_wait(partition, request)
    if request.state is RequestState.MATCHED:
        partition.pairs.part(app, request, event, now)
    else:
        partition.allocations.roll_back(app, request, now)
        for room in rooms_of(app, request) if app.gang.rooms else ():
            room.put_back()


def roll_back_all(
    job: Job,
    partition: Partition,
    app: Application,
    event: PairEvent,
    fits: Callable[[Request], bool] | None = None,
) -> Iterator[int]:
    """Return asks that wait for answers to pending: all, or those that `fits` selects; yield step costs."""
    if not (app.assumed_count or app.replacing_count):
        return
    for number, request in enumerate(list(app.requests.values()), 1):
        if request.state in WAITS_FOR_ANSWER and (fits is None or fits(request)):
            roll_back(partition, app, request, event, job.now)
            yield 1
        elif not number % PART:
            yield 1


def roll_back_on(partition: Partition, node: Node, now: float, *, gone: bool) -> None:
    """Return asks assumed on a closed node to pending (§ 7.4).

    A drained node that still exists (not `gone`) keeps asks that require it (§ 7.7).
    """
    for app, request in _assumed_on(partition, node):
        if gone or request.ask.ask_class.required_node is None:
            roll_back(partition, app, request, PairEvent.NODE_LOST, now)


def roll_back_unfitting(partition: Partition, node: Node, now: float) -> None:
    """Roll back assumed asks that no longer fit on a node, as its available amounts shrank (§§ 7.2-7.4).

    The latest ask is rolled back first, as long as the free amount of a type that it requests is negative.
    """
    for app, request in reversed(_assumed_on(partition, node)):
        if any(node.available.get(name, 0) < 0 for name, _ in request.ask.ask_class.items):
            roll_back(partition, app, request, PairEvent.NODE_LOST, now)


def _assumed_on(partition: Partition, node: Node) -> list[tuple[Application, Request]]:
    """The requests assumed on the node, in the order of their booking."""
    if not partition.predicates.waiting:
        return []
    found = []
    for allocation in node.allocations:
        app = partition.applications[allocation.ask.app_id]
        request = app.requests[allocation.key]
        if request.state in WAITS_FOR_ANSWER:
            found.append((app, request))
    return found


def _end_wait(partition: Partition, request: Request) -> None:
    """End the wait of a request for an answer."""
    partition.predicates.leave(request)
    partition.dirty.mark((partition.predicates,))
