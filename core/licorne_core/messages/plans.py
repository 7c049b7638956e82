"""Plans as immutable reports. Seconds count from the time of the plan; 0.0 is at once.

Resources are in bytes, milli-cores or counts. Lists are bounded; counts include the entries left
out.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from licorne_core.values.errors import Problem
from licorne_core.values.ids import AllocationKey, AppId, PartitionName, QueuePath
from licorne_core.values.resources import Resources

Spent = Callable[[], float]
"""Returns the spent share of a plan's budget, from 0.0 to 1.0, as measured by the caller."""

ADDED, CHANGED, REMOVED, DRAINING = "added", "changed", "removed", "draining"
"""Changes of a queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedValue:
    """A changed value of a queue, as a configuration spells it."""

    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedQueue:
    """A queue that would change.

    `change` is ``added``, ``draining``, ``removed`` or ``changed``. `over_max` is the excess over the
    new maximum, `over_max_before` the excess over the old one. `applications` counts those in the
    queue and below.
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
    """A limit that a user or group (`kind`) exceeds right after the update.

    `used` and `limit` have the types of the limit. 0 `max_applications` means no limit. `already`:
    before the update the excess was at least as high.
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
    """An ask that would be placed on `node_id`, or stopped by the check `code`."""

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

    `rule` is a `PreemptionRule`, or ``partition-removed``. Empty beneficiary fields mean none.
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
    """A value that the text leaves to its default.

    `path` is empty for a value of the partition. `origin` is ``default``, or the path of the queue
    that passes the value on.
    """

    partition: PartitionName
    path: str
    name: str
    value: str
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanCounts:
    """Full length of each list of a configuration plan.

    `queues_over_max` counts queues with a higher excess over their maximum than before. The `newly_`
    counts are of limits with a higher excess than before, and of asks without an obstacle before.
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

    `horizon` is the number of seconds that the plan looks ahead. `holds` are the present reasons to
    schedule nothing for the RM. A plan is not `complete` if its budget was spent, if a deadline lies
    beyond the horizon, or if there are holds.
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
    """Refusal of the configuration, with the reason and problems of an update."""

    reason: str
    problems: Sequence[Problem]


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionPlan:
    """Plan of a submission: the queue of the application, and the outcome of its asks.

    `rejection` is the reason for refusing the application. `rule` is the placement rule that chose the
    queue; empty if the partition has no rules. Other fields mean the same as in `ConfigurationPlan`.
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
