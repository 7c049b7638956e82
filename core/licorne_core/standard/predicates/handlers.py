"""The RM's answers to predicate checks, and their deadlines (spec § 8.4)."""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final, NamedTuple

from licorne_core.features import table
from licorne_core.handlers.assumed import confirm, roll_back
from licorne_core.handlers.outcome import Answers, Commands, Deadline, Deadlines, Decisions, Firing, Outcome
from licorne_core.messages.commands import AnswerPredicates, FailMode, NotePredicatesSent, PredicateAnswer
from licorne_core.messages.effects import Effect
from licorne_core.model.apps.gang import PairEvent
from licorne_core.model.nodes.node import NO_ANSWER, Node
from licorne_core.partitions.partition import Partition
from licorne_core.partitions.registry import Registry, Rm
from licorne_core.scheduling.calls import Call
from licorne_core.scheduling.predicates import Assumed, NodeQuestion
from licorne_core.standard.predicates.checks import PredicateCheck, checks_of
from licorne_core.standard.predicates.extension import judged_of
from licorne_core.values.ids import NodeId
from licorne_core.values.timers import Due, Timer


class Settled(NamedTuple):
    """Outcome of the assumed asks of answered checks, without those that were rolled back."""

    confirmed: list[Node]
    """The nodes of the confirmed asks."""
    again: list[Assumed]
    """Assumed asks that need another check."""


def _ask_before(partition: Partition, question: NodeQuestion, _: float, __: Outcome) -> None:
    """Ask about nodes before any ask is placed on them."""
    checks_of(partition.check_context).ask_before(question)


def take_answer(
    partition: Partition, answer: PredicateAnswer, now: float, outcome: Outcome
) -> PredicateCheck | None:
    """Process an answer; return the check that it answers, or None if the check is not open any more."""
    check = partition.calls.find(answer.check)
    if not isinstance(check, PredicateCheck):
        return None
    policy = partition.rm.predicates
    assert policy is not None, "an RM that has no predicates is not asked"
    judged = judged_of(partition)
    judged.checks.owed.answered(check, now, policy.deadline)
    partition.calls.close(answer.check)
    judged.checks.closed(check)
    partition.dirty.mark((judged.checks,))
    _hear_of(partition, check)
    reasons = {r.node_id: r.reason or "refused" for r in answer.refused}
    if not check.is_orphaned:
        for node in judged.results.keep(check, reasons):
            partition.dirty.mark_node(node)
    settled = Settled([], [])
    _settle(partition, check, reasons, now, outcome, settled)
    for node in settled.confirmed:
        if node is not check.first:
            partition.allocations.note_unknown(node)
    for assumed in settled.again:
        judged.checks.ask_again(assumed)
    return check


def checks_overdue(
    partition: Partition, checks: Iterable[PredicateCheck], now: float, outcome: Outcome
) -> None:
    """End checks that the RM did not answer in time.

    The RM's fail mode decides whether the nodes count as refused or as accepted (spec § 1.1).
    """
    policy = partition.rm.predicates
    assert policy is not None, "an RM that has no predicates is not asked"
    settled = Settled([], [])
    judged = judged_of(partition)
    owed = judged.checks.owed
    owed.is_quick = False
    for check in checks:
        judged.checks.closed(check)
        partition.counters.checks_overdue += 1
        _hear_of(partition, check)
        if policy.fail_mode is FailMode.OPEN:
            if check.gang is not None:
                # Silence counts as acceptance. The gang is booked later, so the results must still be valid.
                for node in judged.results.keep(check, {}):
                    partition.dirty.mark_node(node)
            _settle(partition, check, {}, now, outcome, settled)
            continue
        reasons = {node.node_id: NO_ANSWER for node in check.nodes}
        if not check.is_orphaned:
            judged.results.keep_silence(check, now)
        _settle(partition, check, reasons, now, outcome, settled)
        owed.is_silent = True
    for node in settled.confirmed:
        # The RM has not checked the confirmed allocations there, so its further answers on the node are void.
        partition.allocations.note_unknown(node)
    for assumed in settled.again:
        judged.checks.ask_again(assumed)


def _hear_of(partition: Partition, check: PredicateCheck) -> None:
    """Retry requests that wait for the end of a check, before any decision about them."""
    if check.gang is not None:
        partition.dirty.mark((check.gang,))
        for extension in partition.points.answered:
            extension.answered(check.gang)
        partition.wakeups.waiting.runnable = True


def _ask_again(firing: Firing, timer: Timer) -> None:
    """Drop the results that stand for missing answers; the nodes may be tried again."""
    partition = firing.partition
    for node in judged_of(partition).results.forget_silence(timer.check):
        partition.dirty.mark_node(node)


def _settle(
    partition: Partition,
    check: PredicateCheck,
    refused: Mapping[NodeId, str],
    now: float,
    outcome: Outcome,
    settled: Settled,
) -> None:
    """Confirm or roll back the assumed asks, and end the refused reservations.

    If the RM has changed a node since it was asked, its answer may be void: then it is asked again. If
    the ask that the check names has ended, the RM may have refused because of that, whatever the node.
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
    """True if the answer applies to the current state of a node with assumed asks.

    If the RM accepts the first node of a check, it counts the ask as placed on that node only. So its
    acceptance of the other nodes holds only if no ask is assumed on them.
    """
    if not accepted:
        return check.is_about(node)
    return check.stands(node) and (node is check.first or node.assumed == 1)


def _note_sent(_: Registry, rm: Rm, command: NotePredicatesSent, now: float) -> list[Effect]:
    """Start the deadlines of the answers."""
    for name, numbers in rm.context.take_unsent(command.check).items():
        partition = rm.find(name)
        if partition is not None:
            partition.calls.note_sent(numbers, now)
    return []


def _answer_predicates(_: Registry, rm: Rm, command: AnswerPredicates, now: float) -> list[Effect]:
    """Process answers in their order. An answer to a closed check is ignored."""
    outcome = Outcome()
    concerned: dict[Partition, None] = {}
    for answer in command.answers:
        name = rm.context.partition_of(answer.check)
        partition = None if name is None else rm.find(name)
        if partition is None:
            rm.context.answers_late += 1
            continue
        concerned[partition] = None
        check = take_answer(partition, answer, now, outcome)
        if check is not None and check.asker is not None:
            refused = {refusal.node_id for refusal in answer.refused}
            _answers()[type(check.asker)].judged(partition, check, refused, now, outcome)
    asked = [effect for each in concerned for effect in each.calls.take_unsaid()]
    return outcome.effects(rm.rm_id) + asked


def _answers_overdue(firing: Firing, timer: Timer) -> None:
    """End questions that were sent together and not answered in time."""
    partition, now, outcome = firing.partition, firing.now, firing.outcome
    calls: list[Call] = []
    for number in partition.calls.overdue(timer.check):
        call = partition.calls.close(number)
        assert call is not None, f"question {number} has a deadline"
        calls.append(call)
    checks = [call for call in calls if isinstance(call, PredicateCheck)]
    if checks:
        checks_overdue(partition, checks, now, outcome)
    for call in calls:
        if call.asker is not None:
            _answers()[type(call.asker)].overdue(partition, call, now, outcome)


@cache
def _answers() -> Answers:
    """Functions that process answers for which something other than an ask waits."""
    return table("handlers", "ANSWERS")


DECISIONS: Final[Decisions] = {NodeQuestion: _ask_before}
DEADLINES: Final[Deadlines] = {Due.ANSWER: Deadline(_answers_overdue), Due.RETRY: Deadline(_ask_again)}
COMMANDS: Final[Commands] = {AnswerPredicates: _answer_predicates, NotePredicatesSent: _note_sent}
