"""Base of the rules that can stop an ask, and what they read (`checks.py` has the rules)."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from licorne_core.messages import reasons
from licorne_core.messages.commands import Hold
from licorne_core.model.apps.application import Application
from licorne_core.model.budgets import BudgetBook
from licorne_core.model.nodes.book import NodeBook
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.tree import QueueTree
from licorne_core.scheduling.escalation import Escalation
from licorne_core.scheduling.lost_places import LostPlaces
from licorne_core.scheduling.node_search.candidates import NodeIndex
from licorne_core.scheduling.predicates import PredicateChecks
from licorne_core.scheduling.preempting import Preemption
from licorne_core.scheduling.shadows import Shadows
from licorne_core.scheduling.start_search import StartSearch
from licorne_core.scheduling.waiting.blockers import Blocker
from licorne_core.scheduling.waiting.dirty import Dirty
from licorne_core.scheduling.waiting.waiting import Watch
from licorne_core.scheduling.waiting.wakeups import Wakeups
from licorne_core.values.ids import AppId, NodeId, PartitionName
from licorne_core.values.timers import Timer, Timers

Checks = Iterable[reasons.Check]


@dataclass(slots=True, eq=False)
class CheckContext:
    """Parts of a partition that rules and measures read, in addition to the ask."""

    partition: PartitionName
    tree: QueueTree
    applications: Mapping[AppId, Application]
    holds: Mapping[Hold, None]
    nodes: Mapping[NodeId, Node]
    node_book: NodeBook
    index: NodeIndex
    dirty: Dirty
    wakeups: Wakeups
    escalation: Escalation
    predicates: PredicateChecks
    timers: Timers[Timer]
    preemption: Preemption
    watch: Watch
    budgets: BudgetBook
    shadows: Shadows
    start_search: StartSearch
    places: LostPlaces


class Rule(ABC):
    """A rule for asks. `who` is an `Application` if it is for all its asks, or else an `Asking`."""

    def __init__(
        self,
        codes: tuple[str, ...],
        parks: type[Blocker] | None = None,
        *,
        spares_reserved: bool = False,
        only_with_predicate: bool = False,
        only_in_gangs: bool = False,
        only_with_hours: bool = False,
        found_by_search: bool = False,
    ) -> None:
        """State which asks the rule is for."""
        self.codes = codes  # of its reports
        self.parks = parks
        """Kind of its blockers; None if no pass tries asks that break the rule."""
        self.spares_reserved = spares_reserved
        """True if the rule does not stop asks with a reserved node (spec § 8.6)."""
        self.only_with_predicate = only_with_predicate
        """True if the rule stops only asks with a predicate, whose nodes the RM has to accept."""
        self.only_in_gangs = only_in_gangs
        """True if the rule stops only asks of applications that have had placeholders."""
        self.only_with_hours = only_with_hours
        """True if the rule stops only asks below a budget of resource-hours, while one is used up."""
        self.found_by_search = found_by_search
        """True if a search of nodes finds its blockers, and not the comparison."""

    @abstractmethod
    def obstacle(self, context: CheckContext, who: Any) -> Any:
        """First obstacle by this rule; None if the rule is met."""

    def blocker(self, context: CheckContext, who: Any, obstacle: Any) -> Blocker | None:
        """Blocker that asks with this obstacle are parked with."""
        return None

    @abstractmethod
    def reports(self, context: CheckContext, who: Any, obstacle: Any) -> Checks:
        """All comparisons of the rule with their operands; with an obstacle, one has failed."""
