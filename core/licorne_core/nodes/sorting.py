"""How full a node is, and the order that follows from it (spec § 7.5)."""

from licorne_core.config.schema import NodeSortPolicy, NodeSortType
from licorne_core.nodes.node import Node


class NodeOrder:
    """Scores nodes under one policy: the lowest score is looked at first, ties by node id."""

    __slots__ = ("_weights", "fullest_first", "policy")

    def __init__(self, policy: NodeSortPolicy) -> None:
        """Take the policy's type and weights; types without weight do not count.

        `fullest_first`: an allocation moves its node towards the front.
        """
        self.policy = policy
        self._weights = tuple(
            sorted((name, weight) for name, weight in policy.weights.items() if weight > 0)
        )
        self.fullest_first = policy.type is NodeSortType.BINPACKING

    def utilization(self, node: Node) -> float:
        """Weighted mean of what is taken of each type: 0.0 empty, 1.0 full (spec § 7.5)."""
        taken = 0.0
        total = 0.0
        capacity = node.capacity
        available = node.available
        for name, weight in self._weights:
            size = capacity.get(name, 0)
            if size > 0:
                taken += weight * (1 - available.get(name, 0) / size)
                total += weight
        return taken / total if total else 0.0

    def score(self, node: Node) -> float:
        """The sort key: utilization for fair, its negative for bin packing."""
        return -self.utilization(node) if self.fullest_first else self.utilization(node)
