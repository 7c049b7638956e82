"""What all partitions of one RM have in common."""

from licorne_core.commands import Hold, PredicatePolicy
from licorne_core.events import Journal


class Shared:
    """An RM's holds, its journal, how it answers questions about nodes, what it wants to hear."""

    __slots__ = ("_questions", "container_states", "holds", "journal", "predicates")

    def __init__(self, predicates: PredicatePolicy | None, *, container_states: bool) -> None:
        """No holds, nothing noted; without `predicates` the RM is never asked."""
        self.holds: dict[Hold, None] = {}
        self.journal = Journal()
        self.predicates = predicates
        self.container_states = container_states
        self._questions = 0

    def next_question(self) -> int:
        """The number of the next question to the RM, from 1."""
        self._questions += 1
        return self._questions
