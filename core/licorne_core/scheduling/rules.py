"""Base of the rules that can stop an ask, and the state that they read (`checks.py` has the rules)."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import product
from typing import Any, Final

from licorne_core.messages import reasons
from licorne_core.messages.commands import Hold
from licorne_core.model.apps.application import Application
from licorne_core.model.claims import Claims
from licorne_core.model.core import Core
from licorne_core.model.effort import Effort
from licorne_core.model.nodes.book import NodeBook
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.tree import QueueTree
from licorne_core.model.quotas import ApplicationTotals
from licorne_core.model.rm_context import Journal, RmContext
from licorne_core.model.runtimes import Runtimes
from licorne_core.scheduling.calls import OpenCalls
from licorne_core.scheduling.escalation import Escalation
from licorne_core.scheduling.node_search.index import NodeIndex
from licorne_core.scheduling.predicates import Predicates
from licorne_core.scheduling.stays import Stays
from licorne_core.scheduling.waiting.blockers import Blocker
from licorne_core.scheduling.waiting.dirty import Dirty
from licorne_core.scheduling.waiting.waiting import BlockedItemEvents
from licorne_core.scheduling.waiting.wakeups import Wakeups
from licorne_core.values.ids import AppId, NodeId, PartitionName
from licorne_core.values.slices import Tuning
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
    calls: OpenCalls
    """Open questions to the RM."""
    timers: Timers[Timer]
    watch: BlockedItemEvents
    journal: Journal
    core: Core
    effort: Effort
    claims: Claims
    tally: ApplicationTotals
    stays: Stays
    runtimes: Runtimes
    tuning: Tuning
    may_hold: bool
    """True if nodes may be reserved for asks that fit no node."""
    rm: RmContext
    """State shared by the partitions of the RM."""
    predicates: Predicates = field(init=False)
    """Predicate checks, implemented by a standard feature."""
    extensions: dict[str, Any] = field(default_factory=dict)
    """State of extensions in the partition, by their names; each reads its own."""
    flags: Mapping[str, bool] = field(default_factory=dict)
    """Flags of extensions that are on in the RM's extra configuration."""
    seeking: tuple[Any, ...] = ()
    """Extensions that find nodes for rooms reserved for gang members."""
    opens: tuple[Any, ...] = ()
    """Extensions that stop asks until a known time."""
    visited: tuple[Any, ...] = ()
    pauses: tuple[Any, ...] = ()
    """Extensions that may pause an application."""
    pausing: int = 0
    """Bits of these extensions, which a leaf has in `interests` if its applications may be paused."""
    delaying: int = 0
    """Bits of the extensions that may delay stops of victims; a leaf has the bits that apply to it."""


IN_GANG: Final = 1
"""Interest in asks of applications that have had placeholders."""
WITH_PREDICATE: Final = 2
"""Interest in asks with a predicate, whose nodes the RM has to accept."""
RESERVED: Final = 4
"""Interest of asks with a reserved node: rules that spare such asks are left out."""


class RulePlace(IntEnum):
    """Order of a rule in the pass. Rules of the same place are in the order of the table of features."""

    # Rules for all asks of an application.
    PARTITION = 1
    """A partition that breaks the rule gets no turn."""
    STATE = 2
    """An application that breaks the rule is not tried in a pass."""
    TURN = 3
    """Other applications are served first."""
    MARK = 4
    """Only an operator can remove the obstacle."""
    PAUSE = 5
    """The rule reads only the application."""
    START = 6
    """The rule stops all asks: it precedes rules for one ask, and follows pauses, whose end is known."""
    # Rules for one ask.
    DUE = 11
    """The ask is not tried in a pass before its back-off ends."""
    PLACEHOLDER = 12
    """Room is reserved for the ask, or has to be given up before it is placed on other nodes."""
    TIME = 13
    """Only time can remove the obstacle: it precedes maxima, as preemption does not help."""
    QUOTA = 14
    """Maxima precede the search for nodes, as there are fewer of them."""
    HELD = 15
    """The rule reads amounts held under maxima for later starts; asks beyond a maximum wait for it first."""
    ANSWER = 16
    """The RM could not be asked about a node, even if one was found."""
    TOGETHER = 17
    """The rule replaces the search for a node."""


class Rule(ABC):
    """A rule for asks. `who` is an `Application` if the rule is for all its asks, or else an `Asking`.

    Rules of a feature are in its `rules.py`, as `RULES`, for applications or asks by their places.
    """

    def __init__(
        self,
        place: RulePlace,
        codes: tuple[str, ...],
        parks: type[Blocker] | None = None,
        *,
        interest: int = 0,
        spares_reserved: bool = False,
        found_by_search: bool = False,
    ) -> None:
        """State which asks the rule is for."""
        self.place = place
        self.codes = codes  # the codes that it reports
        self.parks = parks
        """Kind of its blockers; None if no pass tries asks that break the rule."""
        self.interest = interest
        """Bits of `interests`. A pass evaluates the rule only if the application has one of the bits or, for
        a rule for asks, its leaf has; 0 means always."""
        self.spares_reserved = spares_reserved
        """True if the rule does not stop asks with a reserved node (spec § 8.6)."""
        self.found_by_search = found_by_search
        """True if the search for nodes finds its blockers, not the comparison."""

    @abstractmethod
    def obstacle(self, context: CheckContext, who: Any) -> Any:
        """First obstacle by this rule; None if the rule is met."""

    def blocker(self, context: CheckContext, who: Any, obstacle: Any) -> Blocker | None:
        """Blocker with which asks with this obstacle are parked; None if they are not parked."""
        return None

    @abstractmethod
    def reports(self, context: CheckContext, who: Any, obstacle: Any) -> Checks:
        """All comparisons of the rule with their operands; with an obstacle, one has failed."""

    def named(self, obstacle: Any) -> tuple[str, str]:
        """The code of an obstacle, and its subject, such as a queue, or a user or group ``in`` a queue."""
        return self.codes[0], ""


def in_order(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """The rules by their places; rules of the same place keep their order."""
    return tuple(sorted(rules, key=lambda rule: rule.place))


def by_interests(rules: Iterable[Rule]) -> tuple[int, Mapping[int, tuple[Rule, ...]]]:
    """All bits of interests that affect the choice of rules, and the rules of the pass by these bits.

    A rule that an ask cannot violate is left out, so that it costs such asks nothing.
    """
    tried = [rule for rule in rules if rule.parks and not rule.found_by_search]
    differ = RESERVED
    for rule in tried:
        differ |= rule.interest
    bits = [1 << n for n in range(differ.bit_length()) if differ & 1 << n]
    found = {}
    for some in product((0, 1), repeat=len(bits)):
        has = sum(bit * each for bit, each in zip(bits, some, strict=True))
        found[has] = tuple(
            rule
            for rule in tried
            if (not rule.interest or rule.interest & has) and not (rule.spares_reserved and has & RESERVED)
        )
    return differ, found
