"""What can stop an ask, as values with their operands (DESIGN § 2).

Explain, logs and metrics are made from these; none of them is ever made into text on the way to a
decision. Each kind says what has to change before the ask is looked at again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from licorne_core.commands import Hold
from licorne_core.ids import AppId, NodeId, QueuePath
from licorne_core.resources import Resources, describe


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionGate:
    """Scheduling in the partition is on hold or stopped, or the partition has no nodes."""

    partition: str
    stopped: bool = False
    holds: tuple[Hold, ...] = ()
    nodes: int = 0

    code = "PARTITION_NOT_SCHEDULING"

    @property
    def passed(self) -> bool:
        """Whether asks of the partition are looked at."""
        return not self.stopped and not self.holds and self.nodes > 0

    def message(self) -> str:
        """One sentence."""
        if self.stopped:
            return f"partition {self.partition} is stopped"
        if self.holds:
            return f"scheduling is on hold: {', '.join(hold.value for hold in self.holds)}"
        return f"partition {self.partition} has {self.nodes} nodes"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationGate:
    """The application's state must be one in which asks are looked at."""

    app_id: AppId
    state: str
    passed: bool

    code = "APPLICATION_NOT_RUNNABLE"

    def message(self) -> str:
        """One sentence."""
        return f"application {self.app_id} is {self.state}"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueGate:
    """What is allocated in a queue, and the ask, must stay within the queue's maximum."""

    queue: QueuePath
    requested: Resources
    allocated: Resources
    max: Resources | None
    is_root: bool = False

    code = "QUEUE_MAX_EXCEEDED"

    @property
    def short(self) -> dict[str, int]:
        """By how much each type that does not fit is over."""
        if self.max is None:
            return {}
        over = {}
        for name, wanted in self.requested.items():
            if name not in self.max and not self.is_root:
                continue
            excess = self.allocated.get(name, 0) + wanted - self.max.get(name, 0)
            if wanted > 0 and excess > 0:
                over[name] = excess
        return over

    @property
    def passed(self) -> bool:
        """Whether the ask fits here."""
        return not self.short

    def message(self) -> str:
        """One sentence."""
        if self.passed:
            return f"fits in queue {self.queue}"
        what = "the cluster" if self.is_root else f"the maximum of queue {self.queue}"
        return f"exceeds {what} by {describe(self.short)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesGate:
    """Some schedulable node must have the ask's resources available.

    `causes` counts the nodes that are out: ``unschedulable``, ``too small: T`` where the
    node's whole capacity of T would not do, ``full: T`` where only what is available would not.
    """

    total: int
    fitting: int
    required_node: NodeId | None = None
    causes: Mapping[str, int] = field(default_factory=dict)

    code = "NO_NODE_FITS"

    @property
    def passed(self) -> bool:
        """Whether a node would take the ask now."""
        return self.fitting > 0

    def message(self) -> str:
        """One sentence."""
        if self.passed:
            return f"fits on {self.fitting} of {self.total} nodes"
        if self.required_node is not None and not self.total:
            return f"required node {self.required_node} is not registered"
        counts = ", ".join(f"{count} {cause}" for cause, count in sorted(self.causes.items()))
        return f"fits on none of {self.total} nodes" + (f": {counts}" if counts else "")


Gate = PartitionGate | ApplicationGate | QueueGate | NodesGate
