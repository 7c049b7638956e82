"""What all partitions of one RM have in common."""

from licorne_core.commands import Hold, PredicatePolicy
from licorne_core.events import Journal


class RmContext:
    """An RM's holds, its journal, and what it wants to be asked and told."""

    __slots__ = ("_checks", "container_states", "holds", "journal", "predicates")

    def __init__(self, predicates: PredicatePolicy | None, *, container_states: bool) -> None:
        """No holds, nothing noted; without `predicates` the RM is never asked."""
        self.holds: dict[Hold, None] = {}
        """Why nothing of the RM is scheduled at the moment."""
        self.journal = Journal()
        """What happened in its partitions."""
        self.predicates = predicates
        """How it answers predicate checks."""
        self.container_states = container_states
        """Whether it wants to hear of asks that no node takes (spec § 8.12)."""
        self._checks = 0

    def next_check(self) -> int:
        """The number of the next predicate check, from 1."""
        self._checks += 1
        return self._checks
