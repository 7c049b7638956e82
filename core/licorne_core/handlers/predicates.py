"""The RM's answers about nodes for its asks, and the time for them (spec § 8.4)."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from licorne_core.handlers.assumed import confirm, roll_back
from licorne_core.handlers.outcome import Deadline, Deadlines, Decisions, Firing, Outcome
from licorne_core.messages.commands import FailMode, PredicateAnswer
from licorne_core.model.apps.gang import PairEvent
from licorne_core.model.nodes.node import NO_ANSWER, Node
from licorne_core.partitions.partition import Partition
from licorne_core.scheduling.measures import ToReserve
from licorne_core.scheduling.predicates import Assumed, NodeQuestion, PredicateCheck
from licorne_core.scheduling.reservations.review import ToGiveUp
from licorne_core.values.ids import NodeId
from licorne_core.values.timers import Due, Timer


class Settled(NamedTuple):
    """Outcome of the assumed asks of answered checks, without those rolled back."""

    confirmed: list[Node]
    """The nodes of those that were confirmed."""
    again: list[Assumed]
    """Assumed asks with a further question to the RM."""


def _reserve(partition: Partition, decision: ToReserve, now: float, _: Outcome) -> None:
    """Reserve the node. Where the RM has a say it is asked; a refusal ends the reservation."""
    app, request, node = decision
    reservation = partition.reservations.reserve(app, request, node, now, now)
    partition.counters.reservations_made += 1
    ask_class = request.ask.ask_class
    if not reservation.required and partition.predicates.is_needed(ask_class, node, allocate=False):
        check = partition.predicates.ask_to_reserve(request, node)
        check.reservations.append(reservation)


def _give_up(partition: Partition, decision: ToGiveUp, now: float, _: Outcome) -> None:
    partition.reservations.give_up(decision, now)


def _ask_before(partition: Partition, question: NodeQuestion, _: float, __: Outcome) -> None:
    """Ask about nodes before anything is placed on them."""
    partition.predicates.ask_before(question)


def take_answer(
    partition: Partition, answer: PredicateAnswer, now: float, outcome: Outcome
) -> PredicateCheck | None:
    """The RM has judged nodes; the check that it answers, None if that is not open any more."""
    check = partition.calls.find(answer.check)
    if not isinstance(check, PredicateCheck):
        return None
    policy = partition.rm.predicates
    assert policy is not None, "an RM that has no predicates is not asked"
    partition.predicates.owed.answered(check, now, policy.deadline)
    partition.calls.close(answer.check)
    partition.predicates.closed(check)
    partition.dirty.mark((partition.predicates,))
    _hear_of(partition, check)
    reasons = {r.node_id: r.reason or "refused" for r in answer.refused}
    if not check.is_orphaned:
        for node in partition.results.keep(check, reasons):
            partition.dirty.mark_node(node)
    settled = Settled([], [])
    _settle(partition, check, reasons, now, outcome, settled)
    for node in settled.confirmed:
        if node is not check.first:
            partition.allocations.note_unknown(node)
    for assumed in settled.again:
        partition.predicates.ask_again(assumed)
    return check


def checks_overdue(
    partition: Partition, checks: Iterable[PredicateCheck], now: float, outcome: Outcome
) -> None:
    """End checks that the RM did not answer in time.

    Its fail mode decides if the nodes count as refused or as accepted (spec § 1.1).
    """
    policy = partition.rm.predicates
    assert policy is not None, "an RM that has no predicates is not asked"
    settled = Settled([], [])
    owed = partition.predicates.owed
    owed.is_quick = False
    for check in checks:
        partition.predicates.closed(check)
        partition.counters.checks_overdue += 1
        _hear_of(partition, check)
        if policy.fail_mode is FailMode.OPEN:
            if check.gang is not None:
                # Its members are booked after the answer, so that one has to stand.
                for node in partition.results.keep(check, {}):
                    partition.dirty.mark_node(node)
            _settle(partition, check, {}, now, outcome, settled)
            continue
        reasons = {node.node_id: NO_ANSWER for node in check.nodes}
        if not check.is_orphaned:
            partition.results.keep_silence(check, now)
        _settle(partition, check, reasons, now, outcome, settled)
        owed.is_silent = True
    for node in settled.confirmed:
        # The RM has not judged what was confirmed there, so what it still answers is void.
        partition.allocations.note_unknown(node)
    for assumed in settled.again:
        partition.predicates.ask_again(assumed)


def _hear_of(partition: Partition, check: PredicateCheck) -> None:
    """Let those go on that wait for the end of a check before they do anything."""
    if check.gang is not None:
        partition.dirty.mark((check.gang,))
        for extension in partition.points.answered:
            extension.answered(check.gang)
        partition.wakeups.waiting.runnable = True


def _ask_again(firing: Firing, timer: Timer) -> None:
    """The refusals that stood for the RM's silence are forgotten; the nodes may be tried again."""
    partition = firing.partition
    for node in partition.results.forget_silence(timer.check):
        partition.dirty.mark_node(node)


def _settle(
    partition: Partition,
    check: PredicateCheck,
    refused: Mapping[NodeId, str],
    now: float,
    outcome: Outcome,
    settled: Settled,
) -> None:
    """Confirm or roll back the assumed asks, and end the reservations that were refused.

    Later changes of the RM on a node may void its answer: then it is asked again. If
    the ask that the check names is gone the RM may have refused that, whatever the node is like.
    """
    orphaned = check.is_orphaned
    for assumed in list(check.assumed.values()):
        app, request, node = assumed
        reason = refused.get(node.node_id)
        if orphaned or not _counts(check, node, accepted=reason is None):
            settled.again.append(assumed)
        elif reason is not None:
            roll_back(partition, app, request, PairEvent.REFUSED, now)
            request.group.refusals += reason is not NO_ANSWER
            if reason is not NO_ANSWER:
                partition.reservations.refused(request, node, now)
        else:
            request.group.refusals = 0
            confirm(partition, app, request, now, outcome)
            if check.allocate:
                settled.confirmed.append(node)
    for reservation in check.reservations:
        own = reservation.node_id
        live = None if own is None else partition.nodes.by_id.get(own)
        stands = live is not None and reservation in live.reservations.values()
        if stands and own in refused:
            partition.reservations.lose_node(reservation, now)


def _counts(check: PredicateCheck, node: Node, *, accepted: bool) -> bool:
    """True if the answer is about the present state of a node with assumed asks.

    The RM takes an ask for placed where it accepts the first node of its check. On later nodes it
    does not, so there no other ask may be assumed.
    """
    if not accepted:
        return check.is_about(node)
    return check.stands(node) and (node is check.first or node.assumed == 1)


DECISIONS: Final[Decisions] = {ToReserve: _reserve, ToGiveUp: _give_up, NodeQuestion: _ask_before}
DEADLINES: Final[Deadlines] = {Due.RETRY: Deadline(_ask_again)}
