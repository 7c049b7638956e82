"""The nodes of one partition and their sum."""

from licorne_core.config.schema import NodeSortPolicy
from licorne_core.ids import NodeId
from licorne_core.nodes.node import Node
from licorne_core.nodes.sorting import NodeOrder
from licorne_core.resources import Resources, add, subtract, without_zeros


class NodeBook:
    """Nodes by id. `total` is the sum of all capacities, drained nodes' too (spec § 4.5)."""

    __slots__ = ("_births", "by_id", "order", "total")

    def __init__(self, policy: NodeSortPolicy) -> None:
        """Start empty, ordered by the policy."""
        self.by_id: dict[NodeId, Node] = {}
        self.order = NodeOrder(policy)
        self.total: Resources = {}
        self._births = 0

    def add(self, node: Node) -> None:
        """Take a node in."""
        self._births += 1
        node.birth = self._births
        self.by_id[node.node_id] = node
        self.total = add(self.total, node.capacity)
        node.score = self.order.score(node)

    def remove(self, node: Node) -> None:
        """Let a node go; it is not schedulable any more, whoever still holds it."""
        del self.by_id[node.node_id]
        node.set_schedulable(schedulable=False)
        self.total = without_zeros(subtract(self.total, node.capacity))

    def resize(self, node: Node, capacity: Resources) -> None:
        """Replace a node's capacity."""
        self.total = without_zeros(add(subtract(self.total, node.capacity), capacity))
        node.resize(capacity)
        node.score = self.order.score(node)

    def reorder(self, policy: NodeSortPolicy) -> None:
        """Order by another policy from now on."""
        self.order = NodeOrder(policy)
        for node in self.by_id.values():
            node.score = self.order.score(node)
