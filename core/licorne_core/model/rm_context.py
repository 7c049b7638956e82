"""What all partitions of one RM have in common."""

from collections import deque

from licorne_core.events.journal import Journal
from licorne_core.messages.commands import Hold, PredicatePolicy
from licorne_core.values.ids import PartitionName
from licorne_core.values.rm_caps import Holdings


class RmContext:
    """An RM's holds, its journal, and what it wants to be asked and told."""

    __slots__ = (
        "_checks",
        "_open",
        "_unsent",
        "answers_late",
        "container_states",
        "holdings",
        "holds",
        "journal",
        "predicates",
    )

    def __init__(
        self, predicates: PredicatePolicy | None, holdings: Holdings, *, container_states: bool
    ) -> None:
        """No holds, nothing noted; without `predicates` the RM is never asked."""
        self.holds: dict[Hold, None] = {}
        """Why nothing of the RM is scheduled at the moment."""
        self.holdings = holdings
        """How much it has."""
        self.journal = Journal()
        """What happened in its partitions."""
        self.predicates = predicates
        """How it answers predicate checks."""
        self.container_states = container_states
        """Whether it wants to hear of asks that no node takes (spec § 8.12)."""
        self.answers_late = 0
        """Answers to predicate checks that were not open any more."""
        self._checks = 0
        # The partitions that the open predicate checks are of.
        self._open: dict[int, PartitionName] = {}
        # Numbers of the checks that were not written to the RM yet, in order.
        self._unsent: deque[int] = deque()

    def open_check(self, partition: PartitionName) -> int:
        """The partition has another predicate check; its number, which rises from 1."""
        self._checks += 1
        self._open[self._checks] = partition
        self._unsent.append(self._checks)
        return self._checks

    def close_check(self, number: int) -> None:
        """A check is not open any more."""
        del self._open[number]

    def partition_of(self, check: int) -> PartitionName | None:
        """The partition that an open check is of."""
        return self._open.get(check)

    def checks_of(self, partition: PartitionName) -> list[int]:
        """The open checks of a partition, in order."""
        return [check for check, name in self._open.items() if name == partition]

    def take_unsent(self, number: int) -> dict[PartitionName, list[int]]:
        """The checks up to this number are written now: those that are open, by partition."""
        sent: dict[PartitionName, list[int]] = {}
        unsent = self._unsent
        while unsent and unsent[0] <= number:
            check = unsent.popleft()
            partition = self._open.get(check)
            if partition is not None:
                sent.setdefault(partition, []).append(check)
        return sent

    def forget(self, partition: PartitionName) -> None:
        """The partition is gone, and nobody waits for answers about its nodes."""
        self._open = {check: name for check, name in self._open.items() if name != partition}
