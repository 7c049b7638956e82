"""The RM's answers, and the time for them: it begins when questions are written (§ 1.1)."""

from licorne_core.handlers.outcome import Outcome
from licorne_core.handlers.predicates import checks_overdue, take_answer
from licorne_core.handlers.preemption import nodes_judged, proposal_overdue, victims_judged
from licorne_core.messages.commands import AnswerPredicates, AnswerPreemptions, NotePredicatesSent
from licorne_core.messages.effects import Effect
from licorne_core.partitions.partition import Partition
from licorne_core.partitions.registry import Rm
from licorne_core.scheduling.predicates.checks import PredicateCheck
from licorne_core.scheduling.predicates.open_calls import Call
from licorne_core.scheduling.preempting import PreemptionCall


def note_sent(rm: Rm, command: NotePredicatesSent, now: float) -> list[Effect]:
    """The time for the answers begins."""
    for name, numbers in rm.context.take_unsent(command.check).items():
        partition = rm.find(name)
        if partition is not None:
            partition.calls.note_sent(numbers, now)
    return []


def answer_predicates(rm: Rm, command: AnswerPredicates, now: float) -> list[Effect]:
    """Answers count in their order. One to a check that is not open any more is ignored."""
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
        if check is not None and check.proposal is not None:
            refused = {refusal.node_id for refusal in answer.refused}
            nodes_judged(partition, check, refused, now, outcome)
    asked = [effect for each in concerned for effect in each.predicates.take_unsaid()]
    return outcome.effects(rm.rm_id) + asked


def answer_preemptions(rm: Rm, command: AnswerPreemptions, now: float) -> list[Effect]:
    """Take the RM's choice of victims. An answer to a check that is not open is ignored."""
    outcome = Outcome()
    for answer in command.answers:
        name = rm.context.partition_of(answer.check)
        partition = None if name is None else rm.find(name)
        call = None if partition is None else partition.calls.find(answer.check)
        if partition is not None and isinstance(call, PreemptionCall):
            partition.calls.close(answer.check)
            victims_judged(partition, call.proposal, answer.needed, now, outcome)
    return outcome.effects(rm.rm_id)


def answers_overdue(partition: Partition, last: int, now: float, outcome: Outcome) -> None:
    """The RM did not answer some of the questions that were written together, in time."""
    calls: list[Call] = []
    for number in partition.calls.overdue(last):
        call = partition.calls.close(number)
        assert call is not None, f"question {number} has a deadline"
        calls.append(call)
    checks = [call for call in calls if isinstance(call, PredicateCheck)]
    if checks:
        checks_overdue(partition, checks, now, outcome)
    for call in calls:
        if call.proposal is not None:
            proposal_overdue(partition, call.proposal, now, outcome)
