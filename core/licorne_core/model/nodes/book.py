"""The nodes of one partition and their sum."""

from licorne_core.config.schema import NodeSortPolicy
from licorne_core.model.nodes.node import Node, Recent
from licorne_core.model.nodes.sorting import NodeOrder, node_order
from licorne_core.values.ids import NodeId
from licorne_core.values.resources import Resources, add, subtract, without_zeros
from licorne_core.values.rm_caps import Holdings


class NodeBook:
    """Nodes by id. `total` is the sum of all capacities, drained nodes' too (spec § 4.5)."""

    __slots__ = ("_births", "_holdings", "by_id", "changed", "order", "total")

    order: NodeOrder
    """The order in which nodes are looked at."""

    def __init__(self, policy: NodeSortPolicy, holdings: Holdings | None = None) -> None:
        """Start empty, ordered by the policy."""
        self._holdings = holdings or Holdings()
        self.by_id: dict[NodeId, Node] = {}
        self.order = node_order(policy)
        self.total: Resources = {}
        self._births = 0
        self.changed: Recent[Node] = Recent()
        """The nodes that are here, by their last changes: in size, use, victims or reservations."""

    def add(self, node: Node) -> None:
        """Take a node in."""
        self._births += 1
        node.birth = self._births
        self.by_id[node.node_id] = node
        self._holdings.node_came(node.footprint)
        self.total = add(self.total, node.capacity)
        self.order.add(node)
        self.changed.note(node)

    def remove(self, node: Node) -> None:
        """Remove a node; other references see it as unschedulable."""
        del self.by_id[node.node_id]
        self._holdings.node_went(node.footprint)
        node.set_schedulable(schedulable=False)
        self.total = without_zeros(subtract(self.total, node.capacity))
        self.order.remove(node)
        self.changed.forget(node)

    def resize(self, node: Node, capacity: Resources) -> None:
        """Replace a node's capacity."""
        self.total = without_zeros(add(subtract(self.total, node.capacity), capacity))
        self._holdings.memory -= node.footprint
        node.set_capacity(capacity)
        self._holdings.memory += node.footprint

    @property
    def made_of(self) -> tuple[int, int]:
        """Version of the set of nodes: number of arrivals, and present number."""
        return (self._births, len(self.by_id))

    def reorder(self, policy: NodeSortPolicy) -> None:
        """Order by another policy from now on; the caller scores the nodes anew and adds them."""
        self.order = node_order(policy)
