"""Assuming what the RM has to agree to, and what its answers do (spec § 8.4)."""

from collections.abc import Mapping

from licorne_core.apps.application import Application
from licorne_core.apps.requests import Request, RequestState
from licorne_core.commands import AnswerPredicates, FailMode
from licorne_core.effects import Effect
from licorne_core.handlers.outcome import Outcome
from licorne_core.ids import NodeId
from licorne_core.lifecycle import allocation_made
from licorne_core.nodes.node import Node
from licorne_core.partition import Partition
from licorne_core.registry import Rm
from licorne_core.scheduling.cycle import Candidate, ToReserve
from licorne_core.scheduling.predicate_checks import Assumed, PredicateCheck
from licorne_core.scheduling.predicate_results import NO_ANSWER


def assume(partition: Partition, candidate: Candidate, now: float) -> None:
    """Book the allocation and ask the RM; it is told of it when it has agreed to the node."""
    _, app, request, node = candidate
    check = partition.predicates.ask(request.group, request.ask, node, now)
    partition.allocations.assume(candidate, now)
    partition.predicates.wait(check, Assumed(app, request, node))


def reserve(partition: Partition, decision: ToReserve, now: float) -> None:
    """Reserve the node. Where the RM has a say it is asked; a refusal ends the reservation."""
    _, app, request, node = decision
    reservation = partition.reservations.reserve(app, request, node, now, now)
    ask_class = request.ask.ask_class
    if not reservation.required and partition.predicates.is_needed(ask_class, node, allocate=False):
        check = partition.predicates.ask_to_reserve(request.ask, node, now)
        check.reservations.append(reservation)


def roll_back(partition: Partition, app: Application, request: Request, now: float) -> None:
    """An assumed ask is pending again, whatever the RM is going to say."""
    _leave(partition, request)
    partition.allocations.roll_back(app, request, now)


def roll_back_all(partition: Partition, app: Application, now: float) -> None:
    """All of the application's assumed asks are pending again."""
    if app.assumed_count:
        for request in list(app.booked()):
            if request.state is RequestState.ASSUMED:
                roll_back(partition, app, request, now)


def roll_back_on(partition: Partition, node: Node, now: float, *, gone: bool) -> None:
    """The node takes no asks any more: those that are assumed there are pending again (§ 7.4).

    As long as it is not `gone`, a drained node takes those that require it (§ 7.7).
    """
    for app, request in _assumed_on(partition, node):
        if gone or request.ask.ask_class.required_node is None:
            roll_back(partition, app, request, now)


def roll_back_unfitting(partition: Partition, node: Node, now: float) -> None:
    """The node has less room than before: what is assumed there must still fit (§§ 7.2-7.4).

    The latest gives way first, as long as there is less than nothing of a type that it wants.
    """
    for app, request in reversed(_assumed_on(partition, node)):
        if any(node.available.get(name, 0) < 0 for name, _ in request.ask.ask_class.items):
            roll_back(partition, app, request, now)


def _assumed_on(partition: Partition, node: Node) -> list[tuple[Application, Request]]:
    """The requests assumed on the node, in the order of their booking."""
    if not partition.predicates.waiting:
        return []
    found = []
    for allocation in node.allocations:
        app = partition.applications[allocation.ask.app_id]
        request = app.requests[allocation.key]
        if request.state is RequestState.ASSUMED:
            found.append((app, request))
    return found


def answer_predicates(rm: Rm, command: AnswerPredicates, now: float) -> list[Effect]:
    """An answer to a check that is not open any more is ignored."""
    for partition in rm.partitions.values():
        check = partition.predicates.close(command.check)
        if check is not None:
            was_full = partition.predicates.full
            partition.predicates.is_silent = False
            _note_room(partition, was_full=was_full)
            outcome = Outcome()
            reasons = {r.node_id: r.reason or "refused" for r in command.refused}
            for node in partition.results.keep(check, reasons):
                partition.cluster.changed(node)
            _settle(partition, check, reasons, now, outcome)
            return outcome.effects(rm.rm_id) + partition.predicates.take_unsent()
    return []


def answer_overdue(partition: Partition, number: int, now: float, outcome: Outcome) -> None:
    """The RM did not answer in time.

    Its fail mode says whether the nodes count as refused or as accepted (spec § 1.1).
    """
    check = partition.predicates.close(number)
    policy = partition.rm.predicates
    assert check is not None, f"predicate check {number} has a deadline"
    assert policy is not None, "an RM that has no predicates is not asked"
    if policy.fail_mode is FailMode.OPEN:
        _settle(partition, check, {}, now, outcome)
        return
    partition.results.keep_silence(check, now)
    reasons = {node.node_id: NO_ANSWER for node in check.nodes}
    _settle(partition, check, reasons, now, outcome)
    partition.predicates.is_silent = True


def ask_again(partition: Partition, number: int) -> None:
    """The refusals that stood for the RM's silence are forgotten; the nodes may be tried again."""
    for node in partition.results.forget_silence(number):
        partition.cluster.changed(node)


def _settle(
    partition: Partition,
    check: PredicateCheck,
    refused: Mapping[NodeId, str],
    now: float,
    outcome: Outcome,
) -> None:
    """Confirm or roll back the assumed asks, and end the reservations that were refused.

    The RM judged each node as it knew it. A confirmed ask is a change of its node, so the other
    asks assumed there wait for another answer.
    """
    again: list[Assumed] = []
    for assumed in list(check.assumed.values()):
        app, request, node = assumed
        if not check.is_about(node):
            again.append(assumed)
        elif node.node_id in refused:
            roll_back(partition, app, request, now)
            request.group.refusals += 1
        else:
            _confirm(partition, app, request, now, outcome)
    if again:
        partition.predicates.ask_again(again, now)
    for reservation in check.reservations:
        live = partition.nodes.by_id.get(reservation.node_id)
        stands = live is not None and reservation in live.reservations.values()
        if stands and reservation.node_id in refused:
            partition.reservations.end(reservation, now)


def _leave(partition: Partition, request: Request) -> None:
    """A request waits for no answer any more."""
    was_full = partition.predicates.full
    partition.predicates.leave(request)
    _note_room(partition, was_full=was_full)


def _note_room(partition: Partition, *, was_full: bool) -> None:
    """Where too many requests waited for answers, another one may now."""
    if was_full and not partition.predicates.full:
        partition.wakeups.waiting.changed(partition.predicates.owed)


def _confirm(
    partition: Partition, app: Application, request: Request, now: float, outcome: Outcome
) -> None:
    """The RM agrees: the allocation is made."""
    _leave(partition, request)
    allocation = partition.allocations.confirm(app, request)
    outcome.made.setdefault(partition, []).append(allocation)
    leaf = partition.leaf_of(app)
    outcome.updates += allocation_made(partition, leaf, app, allocation, now)
