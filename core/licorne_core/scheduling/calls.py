"""Open questions to the RM, of all kinds (spec § 8.4).

A pass never waits for an answer of the RM. The deadline of an answer starts when the question is
written to the RM, and questions that were written together share a deadline.
"""

from licorne_core.messages.effects import (
    AskedCheck,
    AskedPreemption,
    Effect,
    PredicatesAsked,
    PreemptionsAsked,
)
from licorne_core.model.rm_context import RmContext
from licorne_core.values.ids import PartitionName, rm_of
from licorne_core.values.timers import Due, Timer, Timers


class Call:
    """A question to the RM, from its opening to its answer."""

    __slots__ = ("asker", "behind", "number", "sent_at", "sent_with")

    def __init__(self, number: int) -> None:
        """Start a question that is not yet written to the RM."""
        self.asker: object = None
        """A feature's state that waits for the answer, for its `ANSWERS`; None if only asks wait."""
        self.behind = 0
        """Number of asks that already waited for answers when the question was opened."""
        self.sent_at = 0.0
        """Time at which the question was written to the RM, in unix seconds; 0 before that."""
        self.number = number
        """Number of the question, ascending within a registration."""
        self.sent_with = 0
        """Number of the last question written together with this one; 0 before it is written."""


class OpenCalls:
    """The open questions of one partition, of all kinds.

    Always true: every open question that was written to the RM has a deadline.
    """

    def __init__(self, partition: PartitionName, rm: RmContext, timers: Timers[Timer]) -> None:
        """Start empty."""
        self._partition = partition
        self._rm = rm
        self.policy = rm.predicates
        """The RM's predicate policy; None if the RM is never asked."""
        self._timers = timers
        self._open: dict[int, Call] = {}
        # Open questions by message: the key is the number of the last question written with them.
        self._sent: dict[int, dict[int, None]] = {}
        # Open questions that no effect contains yet.
        self._unsaid: list[AskedCheck | AskedPreemption] = []

    @property
    def numbers(self) -> list[int]:
        """Numbers of the open questions, ascending."""
        return list(self._open)

    def next_number(self) -> int:
        """Number of a new question; the caller opens it immediately."""
        return self._rm.open_check(self._partition)

    def open(self, call: Call, asked: AskedCheck | AskedPreemption) -> None:
        """Open a question; `asked` is its part of an effect."""
        self._open[call.number] = call
        self._unsaid.append(asked)

    def take_unsaid(self) -> list[Effect]:
        """Effects with the questions that no effect contains yet; predicate checks are first."""
        unsaid, policy = self._unsaid, self._rm.predicates
        if not unsaid or policy is None:
            return []
        self._unsaid = []
        name, rm_id, deadline = self._partition, rm_of(self._partition), policy.deadline
        effects: list[Effect] = []
        nodes = [one for one in unsaid if isinstance(one, AskedCheck)]
        if nodes:
            effects.append(PredicatesAsked(rm_id=rm_id, partition=name, checks=nodes, deadline=deadline))
        victims = [one for one in unsaid if isinstance(one, AskedPreemption)]
        if victims:
            effects.append(PreemptionsAsked(rm_id=rm_id, partition=name, checks=victims, deadline=deadline))
        return effects

    def find(self, number: int) -> Call | None:
        """Open question of the number, if any."""
        return self._open.get(number)

    def is_awaited(self, call: Call) -> bool:
        """True if the question is open and, once it was written to the RM, its deadline is still running."""
        if self._open.get(call.number) is not call:
            return False
        return not call.sent_with or Timer(Due.ANSWER, check=call.sent_with) in self._timers

    def note_sent(self, numbers: list[int], now: float) -> None:
        """Start the deadline of questions that were written together; `numbers` ascend."""
        policy, last = self._rm.predicates, numbers[-1]
        assert policy is not None, "an RM that has no predicates is not asked"
        for number in numbers:
            call = self._open[number]
            call.sent_with, call.sent_at = last, now
        self._sent[last] = dict.fromkeys(numbers)
        self._timers.set(Timer(Due.ANSWER, check=last), now + policy.deadline)

    def overdue(self, last: int) -> list[int]:
        """Numbers of the unanswered questions that were written together with `last`, ascending."""
        return list(self._sent[last])

    def close(self, number: int) -> Call | None:
        """Close a question and return it; None if it is not open."""
        call = self._open.pop(number, None)
        if call is None:
            return None
        self._rm.close_check(number)
        if call.sent_with:
            together = self._sent[call.sent_with]
            del together[number]
            if not together:
                del self._sent[call.sent_with]
                self._timers.cancel(Timer(Due.ANSWER, check=call.sent_with))
        return call
