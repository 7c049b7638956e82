"""Result of a victim search: a plan, or a refusal (spec § 9.4)."""

from collections.abc import Mapping
from typing import NamedTuple

from licorne_core.model.nodes.node import Node
from licorne_core.scheduling.preemption.laws import Comparison, Law, Out
from licorne_core.scheduling.preemption.ranks import kind_of
from licorne_core.scheduling.preemption.whatif import Victim
from licorne_core.values.ids import NodeId, QueuePath
from licorne_core.values.resources import Resources

Score = tuple[int, int, NodeId]
"""Kind of victims, their number, node: the smallest is the best."""


class Plan(NamedTuple):
    """A node for an ask, and the victims for it."""

    node: Node
    on_node: tuple[Victim, ...]
    """Victims on the node, in rank order."""
    other_nodes: tuple[Victim, ...]
    """Victims on other nodes, in rank order; without them a queue would exceed its maximum."""
    spare: tuple[Victim, ...] = ()
    """More on the node that could go as well, in rank order, should the RM want them to."""

    @property
    def victims(self) -> tuple[Victim, ...]:
        """All that have to go."""
        return self.on_node + self.other_nodes

    @property
    def offered(self) -> tuple[Victim, ...]:
        """Victims on the node offered to the RM: it may want the spare ones to go as well."""
        return self.on_node + self.spare

    def victims_upto(self, upto: int) -> tuple[Victim, ...]:
        """All that have to go if, of those on the node, the RM wants them up to this index to.

        -1 is for none on the node. Those elsewhere go in any case.
        """
        return self.offered[: upto + 1] + self.other_nodes

    @property
    def start(self) -> int:
        """Index of the last victim on the node, as sent to the RM; -1 for none."""
        return len(self.on_node) - 1

    @property
    def score(self) -> Score:
        """Sort key of plans."""
        return self.score_upto(self.start)

    def score_upto(self, upto: int) -> Score:
        """The same for `victims_upto`; opted-out victims weigh more than originators."""
        kind, victims = 0, self.victims_upto(upto)
        for victim in victims:
            kind |= kind_of(victim.request)
        return (kind, len(victims), self.node.node_id)


class Refusal(NamedTuple):
    """Reason that there is no plan."""

    law: Law
    queue: QueuePath
    """Queue whose guarantee counts for the ask; its leaf if it has no guarantee."""
    requested: Resources
    settled: Resources
    """Usage of the queue, of the ask's types, once all decisions are carried out."""
    guaranteed: Resources
    """Guarantee of the queue, of the ask's types."""
    out: Mapping[Out, int] = {}
    """Number of excluded leaves, or allocations of other leaves, by reason.

    Of very many allocations not all are counted.
    """
    spared: tuple[Comparison, ...] = ()
    """Comparisons by which priority spares candidates: the ask's priority, and their lowest.

    By the queue where their ways meet, the lowest queue first.
    """
    until: float | None = None
    """Time at which the result may change by itself, in unix seconds; None for never.

    Then a candidate is old enough, a loss expires, or a reservation yields. It is the time of the
    search itself if it did not look at all candidates that may become old enough.
    """
