"""Nodes that would take a class of asks, and who waits while there are none (spec §§ 8.4-8.8).

A supply is asked for its first node. When it has none it is *short*: from then on it blocks those
who ask, and notes the nodes that have changed since and would do, its *hopeful* nodes. Asks that
the RM has no say in share the supply of their shape; the others have one each, which matters only
where the shape's has nodes.
"""

from collections.abc import Mapping
from itertools import islice
from operator import attrgetter
from typing import Any, ClassVar

from licorne_core.asks import AskClass, Shape
from licorne_core.nodes.node import Node
from licorne_core.resources import Items
from licorne_core.scheduling.blockers import Blocker
from licorne_core.scheduling.fitting import FittingIndex
from licorne_core.scheduling.greatest import Greatest
from licorne_core.scheduling.node_heap import NodeHeap

SIFTED = 512
"""Nodes whose room is compared in one go."""

SIFTED_TYPES = 4
"""Resource types by which they are compared; most asks want no more."""

MAX_HOPEFUL = 8
"""Hopeful nodes that a supply notes; with more it is not thought to be short any more."""


class Supply(Blocker):
    """The nodes for one shape or ask class.

    Always true: it is in the index of those in short supply if and only if it `is_short`, and then
    every node that would do has changed since and is in `hopeful`.
    """

    __slots__ = ("_shortages", "asks", "heap", "hopeful", "is_short", "wanted")

    amounts: "ClassVar[attrgetter[Mapping[str, int]]]" = attrgetter("available")
    """What of a node the amounts wanted have to fit in."""

    def __init__(self, wanted: AskClass | Shape, shortages: FittingIndex) -> None:
        """Nobody has asked for it yet. `shortages` has the supplies of its kind that are short."""
        super().__init__()
        self.wanted = wanted
        self._shortages = shortages
        self.asks = 0
        """Groups of asks that want it."""
        self.heap: SupplyHeap | None = None
        """Its nodes in order, once somebody needed more than the first few of all nodes."""
        self.is_short = False
        """Whether a look at all nodes was in vain."""
        self.hopeful: dict[Node, None] = {}
        """The nodes that would do and have changed since, in the order in which they changed."""

    @property
    def items(self) -> Items:
        """The amounts wanted."""
        return self.wanted.items

    def takes(self, node: Node) -> bool:
        """Whether the node would do now."""
        return node.refusal(self.wanted) is None

    def that_may_do(self, nodes: list[Node]) -> list[Node]:
        """All nodes that would do, and some others: whoever asks looks closely."""
        amounts = self.amounts
        for name, value in self.items[:SIFTED_TYPES]:
            nodes = [node for node in nodes if amounts(node).get(name, 0) >= value]
        return nodes

    def rank(self, node: Node) -> Any:
        """What orders the nodes, before their ids."""
        return node.score

    def run_short(self) -> None:
        """A look at all nodes was in vain."""
        self.hopeful.clear()
        if not self.is_short:
            self.is_short = True
            self._shortages.add(self)

    def end_shortage(self) -> None:
        """A node was found, or a look at all nodes is worth it again."""
        if self.is_short:
            self.is_short = False
            self.hopeful.clear()
            self._shortages.remove(self)

    def offer(self, node: Node) -> bool:
        """The node has changed: whether it is the first hope of a supply that is short."""
        if not self.takes(node):
            return False
        is_first = not self.hopeful
        self.hopeful[node] = None
        if len(self.hopeful) > MAX_HOPEFUL:
            self.end_shortage()
        return is_first

    def end_pass(self) -> None:
        """Nobody who could be tried waits for it: its hopeful nodes are not kept for them."""
        if self.hopeful:
            self.end_shortage()

    def lets_through(self) -> bool:
        """Whether a look is worth it: no node would do, but one that has changed since."""
        if not self.is_short or any(self.takes(node) for node in self.hopeful):
            return True
        self.hopeful.clear()
        return False


class ReservableSupply(Supply):
    """The nodes that could be reserved for asks of a shape or class, the least short first."""

    __slots__ = ()

    amounts = attrgetter("capacity")

    @property
    def items(self) -> Items:
        """The amounts that the node has to hold: none for asks that require it (spec § 8.7)."""
        return () if self.wanted.required_node is not None else self.wanted.items

    def takes(self, node: Node) -> bool:
        """Open, with the capacity, and a reservation not refused; or the node required."""
        return node.may_be_reserved(self.wanted)

    def rank(self, node: Node) -> Any:
        """How short the node is of the ask, then its place in node order."""
        return (fit_score(node, self.items), node.score)


class SupplyHeap(NodeHeap):
    """The open nodes that a supply takes.

    It is filled part by part. Nodes that change meanwhile are offered to it like any other time.
    """

    __slots__ = ("_rest", "_supply", "counted", "is_filling", "sizes")

    def __init__(self, supply: Supply, nodes: list[Node], sizes: Greatest | None) -> None:
        """To be filled from these nodes; `sizes` notes all of them if none would do."""
        super().__init__(steady=isinstance(supply.wanted, Shape))
        self._supply = supply
        self._rest = iter(nodes)
        self.sizes = sizes
        """Notes what was looked at, as long as nothing of it would do."""
        self.is_filling = True
        """Whether it has not looked at all nodes yet: until then its first node is not known."""
        self.counted = 0
        """How many entries it had when they were counted last."""

    def fill_on(self, most: int) -> int:
        """Look at nodes until that has cost so much; what it has cost.

        A microsecond is the unit, roughly.
        """
        types = min(SIFTED_TYPES, len(self._supply.items))
        cost_of_entry = 1 + len(self._supply.items) // 8
        cost = 0
        while cost < most:
            part = list(islice(self._rest, min(SIFTED, most)))
            if not part:
                self.put_in_order()
                self.is_filling = False
                break
            may_do = self._supply.that_may_do(part)
            self.gather(may_do)
            cost += 1 + len(part) * (1 + types) // 16 + len(may_do) * cost_of_entry
            if self.entries:
                self.sizes = None
            elif self.sizes is not None:
                self.sizes.note(part)
                cost += len(part) // 4
        return cost

    def takes(self, node: Node) -> bool:
        """Whether the node would do now."""
        return self._supply.takes(node)

    def rank(self, node: Node) -> Any:
        """What orders the nodes, before their ids."""
        return self._supply.rank(node)


def fit_score(node: Node, items: Items) -> float:
    """How short the node is of the amounts: 0.0 fits, 1.0 for each type of which there is none."""
    score = 0.0
    for name, wanted in items:
        available = node.available.get(name, 0)
        if available <= 0:
            score += 1.0
        elif available < wanted:
            score += (wanted - available) / wanted
    return score
