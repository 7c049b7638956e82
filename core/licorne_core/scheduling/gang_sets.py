"""Sets of nodes in which a whole gang is tried: all nodes, or those that an extension gives.

All members are placed on nodes of one set, or none is placed. Within a set, nodes are taken in the
partition's node order or another one, each filled before the next; the kind with the fewest slots in the
set goes first.

The room of a node, now or at a later time, is defined by the slots of each kind and by `Beside`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple

from licorne_core.messages.together import NO_PLACE_TOGETHER, TogetherCheck
from licorne_core.model.apps.application import Application
from licorne_core.model.claims import MemberRoom
from licorne_core.model.nodes.book import NodeBook, Packing
from licorne_core.model.nodes.node import Node
from licorne_core.scheduling.gang_packing import Beside, Free, PackingEffort, on_nodes
from licorne_core.scheduling.gang_slots import Slots
from licorne_core.values.asks import AskClass
from licorne_core.values.ids import AppId
from licorne_core.values.resources import charge

STEPS = 20_000
"""Maximum number of steps of a search, in addition to one for each room and kind of each packing tried."""


class MemberKind(NamedTuple):
    """Equal members of a gang: pending asks of one group."""

    ask_class: AskClass
    members: int
    slots: Slots


class Bundle(NamedTuple):
    """A `number` of bundles of `size` members of a `kind`; each bundle has to be in one part of a set."""

    kind: int
    size: int
    number: int


Picks = list[tuple[int, Node, int]]
"""Index of a kind, a node, and the number of members of the kind on it."""

Key = tuple[str, ...]
"""Name of a set of nodes."""


class SetSearch(ABC):
    """One search for nodes for the kinds of one gang."""

    def __init__(
        self, kinds: Sequence[MemberKind], beside: Beside, free: Free, effort: PackingEffort
    ) -> None:
        """Start a search; `effort` may be shared with other searches."""
        self.kinds = kinds
        self.effort = effort
        self.rank: Callable[[Node], Any] = rank_of
        """Rank by which members take the nodes of a set, the lowest first."""
        self._beside = beside
        self._free = free

    @abstractmethod
    def find(self) -> Picks | None:
        """Picks for all members in the first set that has room for them; None if no packing is found."""

    @abstractmethod
    def inside(self, key: Key) -> Picks | None:
        """Nodes for all members in one set of `NodeSets.names`; None if no packing is found."""

    @abstractmethod
    def groupings(self) -> tuple[tuple[str, ...], ...] | None:
        """For empty nodes: the groupings, each with the attributes that define the narrowest sets that hold
        all members; None if no set holds them."""

    @abstractmethod
    def lack(self, app_id: AppId, *, if_empty: bool = False) -> TogetherCheck:
        """The reason of a failed search, or with `if_empty` of a failed search in empty nodes."""

    def on_nodes(self, there: Collection[Node], counts: Sequence[int], slots: Sequence[int]) -> Picks | None:
        """Place `counts` members of each kind on nodes with `slots` for each; None if no packing is found."""
        present = [number for number, count in enumerate(counts) if count]
        present.sort(key=lambda number: (slots[number], number))
        tables = [self.kinds[number].slots.slots for number in present]
        self.effort.looks += len(there)
        if len(tables) == 1:
            [known] = tables
            nodes = [node for node in there if node in known]
        else:
            nodes = [node for node in there if any(node in known for known in tables)]
        if len(tables) > 1 and not self.may_hold(nodes, counts):
            return None
        nodes.sort(key=self.rank)
        self.effort.left += len(nodes) * len(present)
        classes = [self.kinds[number].ask_class for number in present]
        picks = on_nodes(nodes, classes, [counts[number] for number in present], self.effort, self._beside)
        if picks is None:
            return None
        places = ((divmod(place, len(present)), pick) for place, pick in enumerate(picks) if pick)
        return [(present[kind], nodes[room], pick) for (room, kind), pick in places]

    def may_hold(self, nodes: Collection[Node], counts: Sequence[int]) -> bool:
        """False if `counts` members of each kind need more than the nodes together have."""
        free = self._free
        needed: dict[str, int] = {}
        for kind, count in zip(self.kinds, counts, strict=True):
            charge(needed, tuple([(name, value * count) for name, value in kind.ask_class.items]))
        for name, value in needed.items():
            left = value
            for node in nodes:
                if left <= 0:
                    break
                left -= max(0, free(node).get(name, 0))
            if left > 0:
                return False
        return True


class NodeSets(ABC):
    """The sets of nodes in which the members of one gang may be placed at present."""

    layout: object
    """The grouping by which slots are summed, compared by identity: gangs of one layout share their slots."""
    stamp: object
    """Compares equal as long as the sets are the same."""

    @abstractmethod
    def names(self) -> Iterable[Key]:
        """Names of the sets; all members have to be in one of them."""

    @abstractmethod
    def nodes(self, key: Key) -> Collection[Node]:
        """The nodes in the set of that name."""

    @abstractmethod
    def key_of(self, node: Node) -> Key | None:
        """Name of the set of the node; None if it is in no set."""

    def bundles(self, members: Sequence[int]) -> list[Bundle]:
        """The members of each kind, in bundles that have to be together."""
        return [Bundle(kind, 1, count) for kind, count in enumerate(members)]

    def parts(self, key: Key) -> Sequence[Collection[Node]]:
        """The parts of a set; each bundle lies within one part."""
        return (self.nodes(key),)

    @abstractmethod
    def no_slots(self) -> Slots:
        """Empty slots, to be filled for a search."""

    @abstractmethod
    def search(
        self, kinds: Sequence[MemberKind], beside: Beside, free: Free, effort: PackingEffort
    ) -> SetSearch:
        """A search in the sets, for kinds with slots of `no_slots`."""


class AllNodes(NodeSets):
    """The one set of all nodes, for gangs without constraints."""

    def __init__(self, nodes: NodeBook) -> None:
        """Use these nodes."""
        self._nodes = nodes
        self.layout, self.stamp = None, ()

    def names(self) -> Iterable[Key]:
        """The one name, which is empty."""
        return ((),)

    def nodes(self, key: Key) -> Collection[Node]:
        """All nodes."""
        return self._nodes.by_id.values()

    def key_of(self, node: Node) -> Key | None:
        """The name of the one set, to which every node belongs."""
        return ()

    def no_slots(self) -> Slots:
        """Empty slots, to be filled for a search."""
        return Slots()

    def search(
        self, kinds: Sequence[MemberKind], beside: Beside, free: Free, effort: PackingEffort
    ) -> SetSearch:
        """A search on all nodes."""
        return _AllSearch(self, kinds, beside, free, effort)


class _AllSearch(SetSearch):
    """A search on all nodes."""

    def __init__(
        self, sets: AllNodes, kinds: Sequence[MemberKind], beside: Beside, free: Free, effort: PackingEffort
    ) -> None:
        super().__init__(kinds, beside, free, effort)
        self._sets = sets

    def find(self) -> Picks | None:
        return None if self._short else self.inside(())

    def inside(self, key: Key) -> Picks | None:
        there = self._sets.nodes(key)
        return self.on_nodes(
            there, [one.members for one in self.kinds], [one.slots.total for one in self.kinds]
        )

    def groupings(self) -> tuple[tuple[str, ...], ...] | None:
        return () if self.find() is not None or self.effort.is_spent else None

    def lack(self, app_id: AppId, *, if_empty: bool = False) -> TogetherCheck:
        members = sum(kind.members for kind in self.kinds)
        text = lack_text("the partition", f"{members} gang members", self._short)
        if if_empty:
            text = too_large_text("the partition", "it", members, self._short)
        return no_place(app_id, text)

    @property
    def _short(self) -> int:
        """Number of members without a slot."""
        return sum(max(0, kind.members - kind.slots.total) for kind in self.kinds)


class NodeTerms(ABC):
    """Nodes that an extension requires for a gang, at the request of its application (`Gang.terms`)."""

    @property
    @abstractmethod
    def is_strict(self) -> bool:
        """True if a member with a reserved room may use no other nodes."""

    @abstractmethod
    def sets(self, app: Application) -> NodeSets | str:
        """Sets of nodes for the members that are placed together next, or the reason why there are none."""

    @abstractmethod
    def nodes_of(self, app: Application) -> Sequence[Collection[Node]] | None:
        """Sets of nodes for members that are added later, in order; None for any nodes."""

    @abstractmethod
    def no_node(self, app_id: AppId, room: MemberRoom | None) -> TogetherCheck:
        """The reason why a member finds no node in or near the room reserved for it."""


def sets_for(app: Application, nodes: NodeBook, *, is_gang: bool = True) -> NodeSets | str:
    """The sets of nodes for members of the gang, or the reason why there are none.

    A single ask, for which `is_gang` is false, may use any node.
    """
    nodes.refusals_count = True
    terms: NodeTerms | None = app.gang.terms if is_gang else None
    return AllNodes(nodes) if terms is None else terms.sets(app)


def packing_for(groupings: tuple[tuple[str, ...], ...], classes: Iterable[AskClass]) -> Packing:
    """The units that the node order keeps whole for a gang of these classes."""
    names = {name for one in classes for name, _ in one.items} if groupings else ()
    return Packing(groupings, tuple(sorted(names)))


def no_place(app_id: AppId, text: str, where: str = "") -> TogetherCheck:
    """The reason that a gang has no room; `where` names the nodes in question, empty for all."""
    return TogetherCheck(app_id=app_id, code=NO_PLACE_TOGETHER, text=text, where=where)


def lack_text(where: str, what: str, short: int) -> str:
    """Text of a reason: `short` of the members have no slot there."""
    return f"{where} for {what}: {f'{short} short' if short else 'its members do not fit beside each other'}"


def too_large_text(than: str, best: str, members: int, short: int) -> str:
    """Text of a reason: the `best` nodes lack slots for `short` of the members even if they are empty."""
    holds = f"holds {members - short} of its {members} members" if short else "does not hold its members"
    return f"it is larger than {than}: {best} {holds} if empty"


def rank_of(node: Node) -> tuple[object, str]:
    """Rank of a node in the partition's node order."""
    return node.score, node.node_id
