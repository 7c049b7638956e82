"""How many victims each node takes at least; kept from search to search.

Any allocation counts, unless law 5 spares its leaf whoever asks. The numbers spare a search nearly
all nodes: with a plan at hand, only those count that could do with fewer.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator

from licorne_core.nodes.node import Node
from licorne_core.preemption.hosts import room_shortage
from licorne_core.preemption.laws import keeps_all
from licorne_core.preemption.residents import Residents
from licorne_core.queues.queue import Queue
from licorne_core.resources import Items

SHAPES = 32
"""For so many sizes of asks the numbers are kept, those that were asked for last."""

UNKNOWN = -1
"""In place of a version: the number was never derived."""

CHECKS = 16
"""To see whether so many nodes have changed costs as much as to look at one of them."""

NOBODY: dict[str, int] = {}
"""Nothing of a node is going."""


class Prospects:
    """The nodes by the number of victims that they take at least, for some sizes of asks."""

    __slots__ = ("_by_size", "_residents", "work")

    work: int
    """How many nodes were looked at so far. It only rises."""

    def __init__(self, residents: Residents) -> None:
        """No size was asked for yet."""
        self._residents = residents
        self._by_size: dict[Items, OfSize] = {}
        self.work = 0

    def of(self, wanted: Items) -> "OfSize":
        """The nodes for asks of this size, as they are now."""
        known = self._by_size.pop(wanted, None)
        if known is None:
            if len(self._by_size) >= SHAPES:
                del self._by_size[next(iter(self._by_size))]
            known = OfSize(wanted, self._residents)
        self._by_size[wanted] = known
        self.work += known.refresh()
        return known


class OfSize:
    """The nodes for asks of one size.

    Always true after `refresh`: a node is in the rank of its number, or in none if all that is on
    it would not do. No leaf that was left out for a node may give by now; some may count that are
    spared by now, so a number may be too small and is never too large.
    """

    __slots__ = (
        "_going",
        "_least",
        "_left_out",
        "_nodes",
        "_ranks",
        "_residents",
        "_spared",
        "_versions",
        "_wanted",
    )

    def __init__(self, wanted: Items, residents: Residents) -> None:
        """Nothing is derived yet."""
        self._wanted = wanted
        self._residents = residents
        self._nodes: list[Node] = []
        self._versions: list[int] = []
        self._going: list[dict[str, int]] = []
        self._least: list[int | None] = []
        # Leaves that are spared, and by place those that were left out.
        self._spared: dict[Queue, None] = {}
        self._left_out: list[list[Queue]] = []
        # By number of victims, the places of its nodes in the order of ids.
        self._ranks: dict[int, list[int]] = {}

    def refresh(self) -> int:
        """Derive the numbers of the nodes that have changed; how many nodes that is worth.

        That victims were told to stop may leave the version of their node as it was.
        """
        nodes = self._residents.nodes()
        if nodes is not self._nodes:
            self._nodes = nodes
            self._versions = [UNKNOWN] * len(nodes)
            self._going = [NOBODY] * len(nodes)
            self._least = [None] * len(nodes)
            self._left_out = [[] for _ in nodes]
            self._ranks = {}
        versions, going = self._versions, self._going
        stale = [
            place
            for place, node in enumerate(nodes)
            if node.version != versions[place]
            or (node.preempting and node.preempting != going[place])
        ]
        stale += self._no_longer_spared()
        for place in stale:
            node = nodes[place]
            versions[place] = node.version
            going[place] = dict(node.preempting)
            self._move(place, self._fewest(node, self._left_out[place]))
        return len(stale) + len(nodes) // CHECKS

    def _no_longer_spared(self) -> list[int]:
        """The places of nodes for which a leaf was left out that may give by now."""
        giving = {leaf for leaf in self._spared if not keeps_all(leaf, self._wanted)}
        if not giving:
            return []
        for leaf in giving:
            del self._spared[leaf]
        left_out = enumerate(self._left_out)
        return [place for place, leaves in left_out if not giving.isdisjoint(leaves)]

    def in_order(self) -> Iterator[tuple[int, Node]]:
        """Nodes with their numbers, the smallest first, then by id."""
        for least in sorted(self._ranks):
            for place in self._ranks[least]:
                yield least, self._nodes[place]

    def with_room(self) -> Iterator[Node]:
        """The nodes that will have room without victims."""
        return (self._nodes[place] for place in self._ranks.get(0, ()))

    def _fewest(self, node: Node, left_out: list[Queue]) -> int | None:
        left_out.clear()
        wanted, known = self._wanted, self._spared

        def spared(leaf: Queue) -> bool:
            """Whether nothing of the leaf may go; noted, as that can change."""
            if leaf not in known:
                if not keeps_all(leaf, wanted):
                    return False
                known[leaf] = None
            left_out.append(leaf)
            return True

        if not node.holds(wanted):
            return None
        return self._residents.fewest(node, wanted, room_shortage(node, wanted), spared)

    def _move(self, place: int, least: int | None) -> None:
        before = self._least[place]
        if before == least:
            return
        self._least[place] = least
        if before is not None:
            rank = self._ranks[before]
            del rank[bisect_left(rank, place)]
        if least is not None:
            insort(self._ranks.setdefault(least, []), place)
