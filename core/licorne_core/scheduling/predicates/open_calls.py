"""Questions to the RM that are open: their numbers, and the time for their answers (spec § 8.4).

A pass never waits for an answer. The time begins when the question is written to the RM, and those
that were written together have one deadline.
"""

from typing import Any

from licorne_core.model.rm_context import RmContext
from licorne_core.values.ids import PartitionName
from licorne_core.values.timers import Due, Timer, Timers


class Call:
    """A question to the RM."""

    __slots__ = ("number", "proposal", "sent_with")

    def __init__(self, number: int) -> None:
        """Start unwritten."""
        self.number = number
        """Rises with every question of a registration."""
        self.sent_with = 0
        """Number of the last question that was written together with it; 0 while it is not."""
        self.proposal: Any = None
        """The plans by which victims are to stop, if they wait for its answer (`Proposal`)."""


class OpenCalls:
    """The open questions of one partition, of all kinds.

    Always true: every open question has a deadline from when it was written to the RM.
    """

    __slots__ = ("_open", "_partition", "_rm", "_sent", "_timers")

    def __init__(self, partition: PartitionName, rm: RmContext, timers: Timers[Timer]) -> None:
        """Start empty."""
        self._partition = partition
        self._rm = rm
        self._timers = timers
        self._open: dict[int, Call] = {}
        # The open questions that were written together, by the number of the last of them.
        self._sent: dict[int, dict[int, None]] = {}

    @property
    def numbers(self) -> list[int]:
        """The open questions, in order."""
        return list(self._open)

    def next_number(self) -> int:
        """The number of a new question, which has to be opened at once."""
        return self._rm.open_check(self._partition)

    def open(self, call: Call) -> None:
        """The question is asked."""
        self._open[call.number] = call

    def find(self, number: int) -> Call | None:
        """The open question of that number."""
        return self._open.get(number)

    def is_open(self, call: Call) -> bool:
        """True if its answer would count."""
        return self._open.get(call.number) is call

    def is_awaited(self, call: Call) -> bool:
        """True if it is open, and has a deadline if it was written."""
        if not self.is_open(call):
            return False
        return not call.sent_with or Timer(Due.ANSWER, check=call.sent_with) in self._timers

    def note_sent(self, numbers: list[int], now: float) -> None:
        """These questions, in order, were written: the time for their answers begins."""
        policy, last = self._rm.predicates, numbers[-1]
        assert policy is not None, "an RM that has no predicates is not asked"
        for number in numbers:
            self._open[number].sent_with = last
        self._sent[last] = dict.fromkeys(numbers)
        self._timers.set(Timer(Due.ANSWER, check=last), now + policy.deadline)

    def overdue(self, last: int) -> list[int]:
        """Unanswered questions among those written together, in order."""
        return list(self._sent[last])

    def close(self, number: int) -> Call | None:
        """The question is answered, or will not be; None if it is not open."""
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
