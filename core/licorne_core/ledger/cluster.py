"""The nodes of one partition come, change and go (spec § 7)."""

from licorne_core.model.books import book_foreign
from licorne_core.model.nodes.book import NodeBook
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.tree import QueueTree
from licorne_core.scheduling.node_search.candidates import NodeIndex
from licorne_core.scheduling.reservations.reserving import Reservations
from licorne_core.scheduling.waiting.wakeups import Wakeups
from licorne_core.values.resources import Items, Resources


class Cluster:
    """Changes nodes, and wakes waiting items."""

    __slots__ = ("_index", "_nodes", "_reservations", "_tree", "_wakeups")

    def __init__(
        self,
        tree: QueueTree,
        nodes: NodeBook,
        index: NodeIndex,
        wakeups: Wakeups,
        reservations: Reservations,
    ) -> None:
        """Book in one partition."""
        self._tree = tree
        self._nodes = nodes
        self._index = index
        self._wakeups = wakeups
        self._reservations = reservations

    def add(self, node: Node) -> None:
        """Take a node in; the cluster grows."""
        self._nodes.add(node)
        self.resized()
        self.changed(node)

    def resize(self, node: Node, capacity: Resources, now: float) -> None:
        """Replace a node's capacity (spec § 7.2: nothing is killed)."""
        self._nodes.resize(node, capacity)
        node.note_known_change(narrowed=True)
        self._reservations.shrunk(node, now)
        self.resized()
        self.changed(node)

    def remove(self, node: Node, now: float) -> None:
        """Remove an empty node; the cluster shrinks."""
        self._reservations.leave(node, now)
        self._nodes.remove(node)
        self._index.left(node)
        self._wakeups.kept_nodes.left(node)
        self.resized()

    def set_schedulable(self, node: Node, *, schedulable: bool) -> bool:
        """Drain the node for the RM, or reopen it; True if that changed it."""
        before = node.schedulable
        node.set_schedulable(schedulable=schedulable)
        return self._is_another(node, before)

    def set_drained(self, node: Node, *, drained: bool, now: float) -> bool:
        """Drain the node for an operator, or take that back; True if that changed it.

        While it is drained, only asks that require it have it reserved.
        """
        before = node.schedulable
        node.set_drained(drained=drained)
        if drained:
            self._reservations.give_way(node, now)
        return self._is_another(node, before)

    def _is_another(self, node: Node, before: bool) -> bool:
        """True if the node was schedulable before and is not, or the other way round."""
        changed = node.schedulable != before
        if changed:
            node.note_known_change(narrowed=True)
        self.changed(node)
        return changed

    def occupy(self, node: Node, before: Items, after: Items) -> None:
        """Replace the amounts of a foreign allocation on a node (spec § 7.3)."""
        book_foreign(before, after, node)
        node.note_known_change(narrowed=bool(after))
        self.changed(node)

    def changed(self, node: Node) -> None:
        """The node has more room, may be schedulable again or come earlier in the order."""
        self._wakeups.node_improved(node)

    def resized(self) -> None:
        """Root's maximum is the size of the cluster (spec § 4.5), and shares follow from it."""
        root = self._tree.root
        root.max = self._nodes.total
        self._tree.shares_stale = True
        self._wakeups.cluster_resized(root)
