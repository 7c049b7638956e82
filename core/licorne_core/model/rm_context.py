"""State that all partitions of one RM share: holds, the journal of events, and the state of all RMs."""

from collections import deque
from collections.abc import Iterable

from licorne_core.messages.commands import Hold, PredicatePolicy
from licorne_core.messages.effects import ExtensionEffect
from licorne_core.messages.events.records import Fact
from licorne_core.model.core import Core
from licorne_core.values.ids import PartitionName
from licorne_core.values.rm_caps import Holdings


class Journal:
    """Facts of one RM that no subscriber has read yet, in order; nothing is recorded while it is off."""

    __slots__ = ("facts", "on")

    def __init__(self) -> None:
        """Start without facts, and switched on."""
        self.facts: list[Fact] = []
        self.on = True

    def note(self, fact: Fact) -> None:
        """Record a fact. Where facts are frequent, check `on` before creating one."""
        if self.on:
            self.facts.append(fact)

    def note_all(self, facts: Iterable[Fact]) -> None:
        """Record facts in their order."""
        if self.on:
            self.facts += facts


class RmContext:
    """An RM's holds, its journal, its use of caps and its predicate policy."""

    def __init__(
        self, predicates: PredicatePolicy | None, holdings: Holdings, core: Core, *, container_states: bool
    ) -> None:
        """Start without holds or events; without `predicates` the RM is never asked."""
        self.holds: dict[Hold, None] = {}
        """Current reasons to schedule nothing of the RM."""
        self.holdings = holdings
        """The RM's use of its caps."""
        self.core = core
        """State shared by all RMs of the core."""
        self.journal = Journal()
        """Events of its partitions."""
        self.predicates = predicates
        """Predicate policy of the RM."""
        self.container_states = container_states
        """True if the RM is to be notified of asks that fit no node (spec § 8.12)."""
        self.answers_late = 0
        """Number of answers to predicate checks that were already closed."""
        self.notifications: list[ExtensionEffect] = []
        """Effects of extensions that follow those of the current command."""
        self._checks = 0
        # The partition of each open predicate check.
        self._open: dict[int, PartitionName] = {}
        # Numbers of the checks that were not written to the RM yet, in order.
        self._unsent: deque[int] = deque()

    def open_check(self, partition: PartitionName) -> int:
        """Open a predicate check of the partition; return its number, which rises from 1."""
        self._checks += 1
        self._open[self._checks] = partition
        self._unsent.append(self._checks)
        return self._checks

    def close_check(self, number: int) -> None:
        """Close the check with this number."""
        del self._open[number]

    def partition_of(self, check: int) -> PartitionName | None:
        """The partition of an open check; None if it is closed."""
        return self._open.get(check)

    def checks_of(self, partition: PartitionName) -> list[int]:
        """The open checks of a partition, in order."""
        return [check for check, name in self._open.items() if name == partition]

    def take_unsent(self, number: int) -> dict[PartitionName, list[int]]:
        """Record that the checks up to this number were sent; return the still open ones, by partition."""
        sent: dict[PartitionName, list[int]] = {}
        unsent = self._unsent
        while unsent and unsent[0] <= number:
            check = unsent.popleft()
            partition = self._open.get(check)
            if partition is not None:
                sent.setdefault(partition, []).append(check)
        return sent

    def forget(self, partition: PartitionName) -> None:
        """Drop the open checks of a removed partition."""
        self._open = {check: name for check, name in self._open.items() if name != partition}
