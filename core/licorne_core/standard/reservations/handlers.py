"""Decisions and deadlines of reservations."""

from typing import Final

from licorne_core.handlers.outcome import Deadline, Deadlines, Decisions, Firing, Outcome
from licorne_core.ledger.reserving import REVIEW_TIME
from licorne_core.partitions.partition import Partition
from licorne_core.standard.predicates.checks import checks_of
from licorne_core.standard.reservations.extension import review_of
from licorne_core.standard.reservations.remedy import ToReserve
from licorne_core.standard.reservations.review import ToGiveUp
from licorne_core.values.timers import Due, Timer

_REVIEW: Final = Timer(Due.REVIEW)


def _reserve(partition: Partition, decision: ToReserve, now: float, _: Outcome) -> None:
    """Reserve the node. If the RM has to be asked, a refusal ends the reservation."""
    app, request, node, provisional = decision
    reservation = partition.reservations.reserve(app, request, node, now, now, provisional=provisional)
    partition.counters.reservations_made += 1
    ask_class = request.ask.ask_class
    checks = checks_of(partition.check_context)
    if not reservation.required and checks.is_needed(ask_class, node, allocate=False):
        checks.ask_to_reserve(request, node).reservations.append(reservation)


def _give_up(partition: Partition, found: ToGiveUp, now: float, _: Outcome) -> None:
    """Apply the result of a review, and schedule another one if it may find more."""
    yielded, nodes = review_of(partition).yielded, partition.nodes.by_id
    if found.findings is not None:
        for node in yielded:
            node.yielded = False
            if nodes.get(node.node_id) is node:
                partition.dirty.mark_node(node)
        yielded.clear()
        for reservation, finding in found.findings.items():
            reservation.idle_since, reservation.gives_way = finding
    for reservation in found.yielded:
        assert reservation.node_id is not None, f"{reservation} has room for somebody"
        node = nodes[reservation.node_id]
        node.yielded = True
        yielded[node] = None
    partition.counters.reservations_idle += len(found.idle)
    partition.counters.reservations_yielded += len(found.yielded)
    for reservation in (*found.idle, *found.yielded):
        partition.reservations.take_back(reservation, now)
    if (len(partition.wakeups.reserved) or yielded) and _REVIEW not in partition.timers:
        partition.timers.set(_REVIEW, now + REVIEW_TIME)


def _review(firing: Firing, _: Timer) -> None:
    review_of(firing.partition).call(firing.now)


def _unreserve(firing: Firing, timer: Timer) -> None:
    """End a reservation that has lasted for `RESERVATION_TIME`."""
    partition = firing.partition
    reservation = partition.applications[timer.app_id].requests[timer.key].reservation
    assert reservation is not None, f"{timer.app_id} {timer.key} has a deadline for its reservation"
    partition.reservations.end(reservation, firing.now)


DECISIONS: Final[Decisions] = {ToReserve: _reserve, ToGiveUp: _give_up}
DEADLINES: Final[Deadlines] = {Due.REVIEW: Deadline(_review), Due.UNRESERVE: Deadline(_unreserve)}
