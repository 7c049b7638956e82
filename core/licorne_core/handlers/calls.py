"""The time for the RM's answers: it begins when questions are written, and may pass (§ 1.1)."""

from licorne_core.commands import NotePredicatesSent
from licorne_core.effects import Effect
from licorne_core.handlers.outcome import Outcome
from licorne_core.handlers.predicates import checks_overdue
from licorne_core.handlers.preemption import call_overdue
from licorne_core.partition import Partition
from licorne_core.registry import Rm
from licorne_core.scheduling.open_calls import Call
from licorne_core.scheduling.predicate_checks import PredicateCheck
from licorne_core.scheduling.preempting import PreemptionCall


def note_sent(rm: Rm, command: NotePredicatesSent, now: float) -> list[Effect]:
    """The time for the answers begins."""
    for name, numbers in rm.context.take_unsent(command.check).items():
        partition = rm.find(name)
        if partition is not None:
            partition.calls.note_sent(numbers, now)
    return []


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
        if isinstance(call, PreemptionCall):
            call_overdue(partition, call, now, outcome)
