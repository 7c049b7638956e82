"""Plans as immutable reports. Seconds count from the moment of the plan, 0.0 is at once.

Resources are in bytes, milli-cores or counts. A list has `MOST` entries at most; counts are of all.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from licorne_core.values.errors import Problem
from licorne_core.values.ids import AllocationKey, AppId, PartitionName, QueuePath
from licorne_core.values.resources import Resources

MOST = 1_000
"""Entries of each list."""

T = TypeVar("T")


class Capped(Generic[T]):
    """First entries of a list, with its full length and the number of each kind."""

    __slots__ = ("count", "items", "kinds")

    def __init__(self) -> None:
        """Start empty."""
        self.items: list[T] = []
        self.count = 0
        self.kinds: Counter[str] = Counter()

    @property
    def is_full(self) -> bool:
        """True if further entries are only counted."""
        return self.count >= MOST

    def add(self, item: T, *kinds: str) -> None:
        """Add an entry of these kinds; it is only counted if there are too many."""
        if not self.is_full:
            self.items.append(item)
        self.count += 1
        self.kinds.update(kinds)

    def count_one(self) -> None:
        """Count an entry that was not made, as the list is full."""
        self.count += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedValue:
    """A changed value of a queue, in the words of a configuration."""

    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedQueue:
    """A queue that would change.

    `change` is ``added``, ``draining``, ``removed`` or ``changed``. `over_max` is its excess over
    its new maximum, and `over_max_before` that over its old one. `applications` are those in it and
    below.
    """

    partition: PartitionName
    path: QueuePath
    change: str
    values: Sequence[PlannedValue] = ()
    over_max: Resources = field(default_factory=dict)
    over_max_before: Resources = field(default_factory=dict)
    applications: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExceededLimit:
    """A limit that a user or a group (`kind`) exceeds, before anything is done about it.

    `used` and `limit` have the types that the limit names; 0 applications are no limit. `already`:
    it was exceeded before as well, by at least as much.
    """

    partition: PartitionName
    queue: QueuePath
    kind: str
    name: str
    used: Resources
    limit: Resources
    applications: int
    max_applications: int
    already: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedAsk:
    """An ask that would be placed (`node_id`), or stopped by the check of `code`."""

    partition: PartitionName
    app_id: AppId
    key: AllocationKey
    queue: str
    node_id: str = ""
    code: str = ""
    message: str = ""
    code_before: str = ""
    resources: Resources = field(default_factory=dict)
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedVictim:
    """An allocation that the RM would be asked to stop.

    `rule` is a `PreemptionRule`, or ``partition-removed``. The beneficiary is empty for none.
    """

    partition: PartitionName
    app_id: AppId
    key: AllocationKey
    queue: str
    node_id: str
    rule: str
    beneficiary_app_id: str = ""
    beneficiary_key: str = ""
    resources: Resources = field(default_factory=dict)
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultedValue:
    """A value that the text does not give.

    `path` is empty for the partition itself. `origin` is ``default``, or the path of the queue that
    it is inherited from.
    """

    partition: PartitionName
    path: str
    name: str
    value: str
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanCounts:
    """Full length of each list of a configuration's plan.

    Of the queues some drain, and some would have more above their maxima than they have. Of the
    limits and of the blocked asks some are new: those that nothing exceeds or stops before.
    """

    queues: int = 0
    exceeded_limits: int = 0
    placed: int = 0
    blocked: int = 0
    victims: int = 0
    defaults: int = 0
    queues_draining: int = 0
    queues_over_max: int = 0
    newly_exceeded: int = 0
    newly_blocked: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationPlan:
    """Plan of a configuration update.

    Not `complete`: there was too much to work out, or something is due only after `horizon`, the
    seconds that the plan looks ahead, or there are `holds`: reasons for which nothing is scheduled
    for the RM just now.
    """

    checksum: str
    changed: bool
    warnings: Sequence[str] = ()
    complete: bool = True
    horizon: float = 0.0
    holds: Sequence[str] = ()
    queues: Sequence[PlannedQueue] = ()
    exceeded_limits: Sequence[ExceededLimit] = ()
    placed: Sequence[PlannedAsk] = ()
    blocked: Sequence[PlannedAsk] = ()
    victims: Sequence[PlannedVictim] = ()
    defaults: Sequence[DefaultedValue] = ()
    counts: PlanCounts = field(default_factory=PlanCounts)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationPlanRefused:
    """The configuration would be refused, as an update with it would."""

    reason: str
    problems: Sequence[Problem]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionPlan:
    """Queue for an application. `rejection` is the reason against accepting it.

    `rule` is the placement rule that chose the queue, empty where there are none. `holds` are
    reasons for which nothing is scheduled for the RM just now.
    """

    accepted: bool
    rejection: str = ""
    partition: str = ""
    queue: str = ""
    rule: str = ""
    complete: bool = True
    horizon: float = 0.0
    holds: Sequence[str] = ()
    asks: Sequence[PlannedAsk] = ()
    victims: Sequence[PlannedVictim] = ()
