"""Commands about nodes, their outcomes, and their lasting marks."""

from dataclasses import dataclass
from math import inf

from licorne_core.messages.commands import ExtensionCommand
from licorne_core.messages.effects import ExtensionEffect
from licorne_core.messages.operators import UNKNOWN_MARK, OperatorMark
from licorne_core.values.ids import NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainTerms:
    """Pace of a drain: of the `allocations` at its `start`, the last one is stopped at its `deadline`.

    Times are in unix seconds. If both are equal, all are stopped immediately. Without a deadline no
    allocation is stopped: the drain waits until all have ended.
    """

    start: float
    deadline: float | None
    allocations: int

    def due(self, running: int) -> float:
        """Time at which the next allocation is stopped, if `running` allocations are not being stopped.

        An allocation that ends by itself counts as stopped. An allocation added since is stopped immediately.
        Without a deadline the time is infinite.
        """
        if self.deadline is None:
            return inf
        if not self.allocations:
            return self.start
        span = self.deadline - self.start
        return self.start + span * (self.allocations - running) / self.allocations


@dataclass(frozen=True, slots=True, kw_only=True)
class Cordon:
    """An operator has closed a node to new allocations; with `drain`, its allocations are stopped."""

    mark: OperatorMark = UNKNOWN_MARK
    drain: DrainTerms | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetNodeSchedulable(ExtensionCommand):
    """An operator cordons a node, or ends the cordon; the RM's own flag counts in addition.

    A node that has a cordon already keeps its mark.
    """

    partition: str
    node_id: NodeId
    schedulable: bool
    mark: OperatorMark = UNKNOWN_MARK


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainNode(ExtensionCommand):
    """An operator cordons a node, and has its allocations stopped evenly over `seconds`.

    If `seconds` is None, no allocation is stopped: the drain waits until all have ended. The drain replaces
    an earlier one of the node.
    """

    partition: str
    node_id: NodeId
    seconds: float | None
    mark: OperatorMark = UNKNOWN_MARK


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSchedulableSet(ExtensionEffect):
    """An operator has cordoned a node, or ended the cordon. `changed` is False if it was so already.

    `allocations` is the number of allocations on the node, which continue to run.
    """

    changed: bool
    allocations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDrainBegun(ExtensionEffect):
    """A node is cordoned; its allocations, except the `exempt` ones, are stopped by these terms."""

    terms: DrainTerms
    exempt: int
