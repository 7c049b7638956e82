"""Node index: finds the first node in node order on which an ask fits (spec §§ 7.4, 8.4)."""

from collections import Counter
from collections.abc import Iterable, Iterator

from licorne_core.config.schema import NodeSortPolicy
from licorne_core.model.nodes.book import NodeBook, NodeOrder
from licorne_core.model.nodes.node import NO_ANSWER, Node
from licorne_core.scheduling.node_search.heaps import NodeHeaps
from licorne_core.scheduling.waiting.blockers import Blocker
from licorne_core.scheduling.waiting.supply import MAX_ROOMS, Supplies, Supply
from licorne_core.values.asks import AskClass, Shape
from licorne_core.values.slices import Tuning, parts_of


class NodeIndex:
    """Finds nodes for ask classes, and owns the score and the version of every node.

    Every change of a node is reported here: `took` for less room, `improved` for more room or a node
    that may be chosen again, `victims_changed` for other possible victims, `left` for a removed node.
    """

    __slots__ = ("_groups", "_nodes", "heaps", "supplies", "version")

    def __init__(self, nodes: NodeBook, tuning: Tuning) -> None:
        """Index these nodes."""
        self._nodes = nodes
        self.version = 0
        """Number of changes of nodes."""
        for _ in self._score_all():
            pass
        self.heaps = NodeHeaps(nodes, tuning.fill_work)
        """Nodes in order. Its `work` counts what touches many nodes at once."""
        self.supplies = Supplies()
        """Nodes by shape and ask class, and the asks that wait for them."""
        self._groups: dict[AskClass | Shape, int] = {}
        """Number of groups of each shape, and of each class with a predicate."""

    def reorder(self, policy: NodeSortPolicy) -> Iterator[int]:
        """Put another node order in force, step by step; yield the cost of each step.

        Between two steps nodes may change. No node may be added or removed, and no search may run.
        """
        yield from self.heaps.close()
        self._nodes.reorder(policy)
        for part in parts_of(self._nodes.by_id.values()):
            for node in part:
                self._nodes.order.add(node)
            yield 1
        yield from self._score_all()
        yield from self.heaps.reopen()

    # Classes in use

    def class_came(self, ask_class: AskClass) -> None:
        """Count a group of the class."""
        groups, shape = self._groups, ask_class.shape
        groups[shape] = groups.get(shape, 0) + 1
        if ask_class.predicate is not None:
            groups[ask_class] = groups.get(ask_class, 0) + 1

    def class_went(self, ask_class: AskClass) -> None:
        """Count a group of the class less; drop supplies that no group needs any more."""
        self._leave(ask_class.shape)
        if ask_class.predicate is not None:
            self._leave(ask_class)

    def is_wanted(self, ask_class: AskClass) -> bool:
        """True if there is a group of the class, which has a predicate."""
        return ask_class in self._groups

    def clear(self) -> Iterator[int]:
        """Forget all nodes of a removed partition, step by step."""
        yield from self.heaps.close()
        self.supplies.clear()

    def _leave(self, wanted: AskClass | Shape) -> None:
        left = self._groups.pop(wanted) - 1
        if left:
            self._groups[wanted] = left
        elif self.supplies.made:
            for dropped in self.supplies.drop(wanted):
                self.heaps.drop(dropped)

    # Searches

    def best(self, ask_class: AskClass) -> Node | Supply:
        """First node in node order for an ask of the class, or the supply that is short.

        Most asks fit on the first of all nodes. Only for others a supply is needed.

        Raises:
            StillLooking: not all nodes have been searched yet.
        """
        shape = ask_class.shape
        has_predicate = ask_class.predicate is not None
        if shape.required_node is None:
            first = self.heaps.top()
            if first is not None and first.refusal(ask_class if has_predicate else shape) is None:
                return first
        supply = self.supplies.get(shape)
        if not has_predicate:
            return self._find(supply) or supply
        own = self.supplies.get(ask_class)
        if self._find(supply) is None:
            return supply
        node = self._find(own)
        return own if node is None else node

    def to_reserve(self, ask_class: AskClass) -> Node | Supply:
        """Best node to reserve for an ask of the class, or the supply that is short.

        Raises:
            StillLooking: not all nodes have been searched yet.
        """
        supply = self.supplies.reservable(ask_class.shape)
        node = self._find(supply)
        if node is None:
            return supply
        if ask_class.predicate is not None:
            supply = self.supplies.reservable(ask_class)
            node = self._find(supply)
        return supply if node is None else node

    def ahead(self, ask_class: AskClass, count: int) -> list[Node]:
        """At most `count` of the first nodes for the class; nodes that need a long search are left out."""
        if ask_class.required_node is not None:
            return []
        found = self.heaps.ahead(self.supplies.get(ask_class), count)
        return [node for node in found if node.takes(ask_class)]

    # Changes

    def improved(self, node: Node) -> list[Blocker]:
        """Note a node that is new, has more room or may be chosen again; return the open blockers."""
        found = self.supplies.improved(node)
        self.took(node)
        self.heaps.write(node)
        return found

    def _score_all(self) -> Iterator[int]:
        for part in parts_of(self._nodes.by_id.values()):
            for node in part:
                self._nodes.changed.note(node)
                self.version += 1
                _score_afresh(node, self._nodes.order)
            yield 1

    def took(self, node: Node) -> None:
        """Note a node with less room: its score is void, and maybe scores of other nodes."""
        self._nodes.changed.note(node)
        for pool in self.supplies.changed:
            pool.took(node)
        self._void_scores(node)

    def victims_changed(self, node: Node) -> None:
        """Note a change of the possible victims on the node; its score stays."""
        self._nodes.changed.note(node)

    def refused(self, node: Node) -> None:
        """Note that the RM has refused a class on the node, or has not answered: gangs count its room."""
        if self._nodes.refusals_count:
            self._nodes.changed.note(node)

    def left(self, node: Node) -> None:
        """Note a removed node: no heap keeps it, and scores of other nodes may be void."""
        self._void_scores(node)
        node.version += 1
        self.heaps.write(node)
        self.supplies.left(node)

    def _void_scores(self, node: Node) -> None:
        order = self._nodes.order
        self.version += 1
        if self.heaps.closed:
            for mate in order.voids(node):
                _score_afresh(mate, order)
            return
        if not order.has_mates:
            before = node.score
            score = node.score = order.score(node)
            node.version += 1
            if before is not None and score < before:
                self.heaps.write(node)
            return
        voided = list(order.voids(node))
        self.heaps.work += len(voided) - 1
        # A heap may read any node of the log, so all need scores first: a new node has none yet.
        for better in [mate for mate in voided if _rescore(mate, order)]:
            self.heaps.write(better)

    # Search of one supply

    def _find(self, supply: Supply) -> Node | None:
        """First node of the supply; without one the supply is short from now on."""
        required = supply.wanted.required_node
        if required is not None:
            node = self._nodes.by_id.get(required)
            if node is not None and not supply.takes(node):
                node = None
        elif (
            # Most supplies never were short.
            supply.short_in >= 0
            and supply.heap is None
            and supply.is_short
            and len(supply.nodes.rooms) <= MAX_ROOMS
        ):
            node = _first(supply, supply.nodes.rooms)
        else:
            node = self.heaps.first(supply)
        if node is None:
            supply.run_short()
            # The heap is empty; the next one is filled from changed nodes only.
            self.heaps.drop(supply)
        return node


def _first(supply: Supply, nodes: Iterable[Node]) -> Node | None:
    """First node that the supply takes, by a scan of the nodes."""
    found = [node for node in nodes if supply.takes(node)]
    return min(found, key=lambda node: (supply.rank(node), node.node_id), default=None)


def _score_afresh(node: Node, order: NodeOrder) -> None:
    """Derive the score anew; the former one may be of another node order."""
    node.score = order.score(node)
    node.version += 1


def _rescore(node: Node, order: NodeOrder) -> bool:
    """Derive the node's score anew; True if the node comes earlier in node order now."""
    before = node.score
    score = node.score = order.score(node)
    node.version += 1
    return before is not None and score < before


def refusals(nodes: Iterable[Node], ask_class: AskClass) -> dict[str, int]:
    """Count the nodes by the reason for which the RM refuses the class there.

    A missing answer of the RM is no reason.
    """
    results = (node.results.get((ask_class, True)) for node in nodes)
    spoken = (reason for reason in results if reason and reason is not NO_ANSWER)
    return dict(sorted(Counter(spoken).items()))
