"""Plans as immutable reports. Seconds count from the time of the plan; 0.0 means immediately.

Resources are in bytes, milli-cores or counts. Lists are bounded; counts include omitted entries.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from licorne_core.values.errors import Problem
from licorne_core.values.ids import AllocationKey, AppId, NodeId, PartitionName, QueuePath, RmId
from licorne_core.values.resources import Resources, in_units

Spent = Callable[[], float]
"""Returns the spent share of a plan's budget, from 0.0 to 1.0, which the caller measures."""

ADDED, CHANGED, REMOVED, DRAINING = "added", "changed", "removed", "draining"
"""Changes of a queue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedValue:
    """A changed value of a queue, in the syntax of a configuration."""

    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedQueue:
    """A queue that would change.

    `change` is ``added``, ``draining``, ``removed`` or ``changed``. `over_max` is the excess over the new
    maximum, and `over_max_before` over the old one. `applications` is the number of applications in the queue
    and its descendants.
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

    `used` and `limit` have the types of the limit. With 0 for `max_applications` there is no limit. `already`
    is True if the excess was at least as high before the update.
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
    """An ask that would be placed on `node_id` or blocked by check `code`; now `code_before` blocks it."""

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

    `rule` is a `PreemptionRule`, or ``partition-removed``. Without a beneficiary, its fields are empty.
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
    """A value that the text does not set.

    `path` is empty for a value of the partition. `origin` is ``default``, or the path of the queue from which
    the value is inherited.
    """

    partition: PartitionName
    path: str
    name: str
    value: str
    origin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanCounts:
    """Full length of each list of a configuration plan.

    `queues_over_max` counts queues with a higher excess over their maximum than before. The `newly_` counts
    are numbers of limits with a higher excess than before, and of asks that had no obstacle before.
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

    `horizon` is the number of seconds that the plan looks ahead. `holds` are the current reasons to schedule
    nothing for the RM. A plan is not `complete` if its budget was spent, if a deadline lies beyond the
    horizon, or if there are holds.
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

    `rejection` is the reason for refusing the application. `rule` is the placement rule that chose the queue;
    empty if the partition has no rules. Other fields have the same meaning as in `ConfigurationPlan`.
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


class WaitingAskName(NamedTuple):
    """The name of a waiting ask of a registered RM. The partition has its name on the wire."""

    rm_id: RmId
    partition: str
    app_id: AppId
    key: AllocationKey


MAXIMUM, RUNNING, FREED_NODE, NEW_NODE, ALONE = "maximum", "running", "freed-node", "new-node", "alone"
"""Kinds of changes that may let an ask start."""

NEW_NODE_ID = NodeId("one-more-node")
"""Id of a node that is added in a trial."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartChange:
    """A change that is tried for a waiting ask.

    ``maximum``: the `holder` (``queue``, or user or group `name` in the queue `path`) may use `amounts` of
    the types that block the ask. ``running``: `count` applications may run there. ``freed-node``: the `count`
    allocations on node `name`, of size `amounts`, end. ``new-node``: there is one more node of size
    `amounts`, otherwise like node `name`. ``alone``: without the `count` other asks of the partition.
    `before` has the current amounts: of the maximum, or of node `name`.
    """

    kind: str
    holder: str = ""
    name: str = ""
    path: str = ""
    amounts: Resources = field(default_factory=dict)
    count: int = 0
    before: Resources = field(default_factory=dict)

    def text(self) -> str:
        """The change as a condition, after ``with``."""
        if self.kind == ALONE:
            return "no other ask waiting"
        if self.kind == NEW_NODE:
            return f"one more node of {in_units(self.amounts)}"
        if self.kind == FREED_NODE:
            allocations = "allocation" if self.count == 1 else f"{self.count} allocations"
            return f"node {self.name} free of its {allocations}"
        of_queue = self.holder == "queue"
        where = f"queue {self.path}" if of_queue else f"{self.holder} {self.name} in queue {self.path}"
        if self.kind == RUNNING:
            return f"{self.count} running applications allowed for {where}"
        return f"the {'maximum' if of_queue else 'limit'} of {where} at {in_units(self.amounts)}"

    def present(self) -> str:
        """The current amounts in brackets; empty if `before` is."""
        if not self.before:
            return ""
        return f" ({f'node {self.name} has' if self.kind == NEW_NODE else 'now'} {in_units(self.before)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartTrial:
    """Outcome of a trial: whether a waiting ask starts immediately with `changes`, and on which node.

    `others` is the number of asks of its partition that start before it, and `stopped` the number of
    allocations that are stopped. With `unasked` the RM, which decides about nodes for the ask, was not asked.
    A trial that is not `complete` has spent its budget.
    """

    changes: Sequence[StartChange] = ()
    node_id: str = ""
    others: int = 0
    stopped: int = 0
    unasked: bool = False
    complete: bool = True

    @property
    def starts(self) -> bool:
        """True if the ask starts."""
        return bool(self.node_id)

    def text(self) -> str:
        """The outcome in one sentence, without an initial capital."""
        with_all = " and ".join(change.text() for change in self.changes)
        after = f", after {self.others} other asks" if self.others > 1 else ", after one other ask"
        first = f"with {with_all} it starts" if with_all else "it starts without any change,"
        where = "the new node" if self.node_id == NEW_NODE_ID else self.node_id
        victims = (
            "one allocation is stopped" if self.stopped == 1 else f"{self.stopped} allocations are stopped"
        )
        return "".join(
            (
                f"{first} on {where} once {victims}" if self.stopped else f"{first} at once on {where}",
                after if self.others else "",
                ", if its RM accepts the node" if self.unasked else "",
            )
        )

    def advice(self) -> str:
        """The changes that the checks suggest, with the current amounts; none of them was tried."""
        return " and ".join(f"{change.text()}{change.present()}" for change in self.changes)
