"""What all partitions of one RM have in common."""

from licorne_core.commands import Hold, PredicatePolicy
from licorne_core.events import Journal


class Shared:
    """An RM's holds, its journal, and how it answers questions about nodes."""

    __slots__ = ("_questions", "holds", "journal", "predicates")

    def __init__(self, predicates: PredicatePolicy | None) -> None:
        """No holds, nothing noted; without `predicates` the RM is never asked."""
        self.holds: dict[Hold, None] = {}
        self.journal = Journal()
        self.predicates = predicates
        self._questions = 0

    def next_question(self) -> int:
        """The number of the next question to the RM, from 1."""
        self._questions += 1
        return self._questions
