"""Packing: the number of gang members of each kind to place in each room.

A *room* is a node, or a set of nodes that takes whole bundles of members. A search visits the rooms in
order, and puts into each as many members of the first kind as possible, then as many of the second, and so
on. If members are left over, it backtracks. The first packing found is used.

With one kind there is no backtracking. With several kinds the problem is NP-hard: `PackingEffort` bounds the
steps, and a search that needs more steps finds no packing.
"""

from collections.abc import Callable, Mapping, Sequence

from licorne_core.model.apps.groups import AskGroup
from licorne_core.model.apps.members import Share, first_asks
from licorne_core.model.apps.requests import Request
from licorne_core.model.nodes.node import RESERVED, Node
from licorne_core.values.asks import AskClass
from licorne_core.values.resources import EMPTY, Items, charge

Most = Callable[[int, int, Sequence[int]], int]
"""Maximum number of members of a kind that a room takes in addition to the given numbers of earlier kinds."""

Beside = Callable[[Node, Sequence[AskClass], int, Sequence[int]], int]
"""Number of asks of a class for which a node has room in addition to the given numbers of earlier classes."""

Free = Callable[[Node], Mapping[str, int]]
"""Amounts that a node has at most for asks of all classes together."""

MembersOnNode = tuple[AskGroup, Node, int]
"""A number of members of a group on one node."""


class PackingEffort:
    """Steps of a search, and their bound; `is_spent` is True once the bound has stopped a search."""

    __slots__ = ("is_spent", "left", "looks", "taken")

    def __init__(self, steps: int) -> None:
        """Start with a bound of `steps`."""
        self.left = steps
        self.taken = 0
        self.looks = 0
        """Nodes, and sets of nodes, examined so far."""
        self.is_spent = False

    @property
    def work(self) -> int:
        """Examined nodes and steps so far."""
        return self.looks + self.taken

    def spend(self, steps: int = 1) -> bool:
        """Spend steps of the budget; return False if too few are left."""
        if self.left < steps:
            self.is_spent = True
            return False
        self.left -= steps
        self.taken += steps
        return True


def pack(rooms: int, counts: Sequence[int], most: Most, effort: PackingEffort) -> list[int] | None:
    """Numbers of members by room and kind, for the rooms in use; None if no packing is found.

    `rooms` is the number of rooms, `counts` the number of members of each kind.
    """
    if len(counts) == 1:
        return _pack_alike(rooms, counts[0], most)
    straight = _pack_straight(rooms, counts, most, effort.left)
    if straight is not None:
        effort.spend(len(straight))
        return straight
    kinds = len(counts)
    tails = _tails(rooms, kinds, most)
    left = list(counts)
    picks: list[int] = []
    dead: set[tuple[int, tuple[int, ...]]] = set()
    while any(left):
        room, kind = divmod(len(picks), kinds)
        if kind or _may_go_on(room, left, tails, dead):
            if not effort.spend():
                return None
            pick = min(left[kind], most(room, kind, picks[room * kinds :]))
            picks.append(pick)
            left[kind] -= pick
            continue
        while picks and not picks[-1]:
            picks.pop()
            if not len(picks) % kinds:
                dead.add((len(picks) // kinds, tuple(left)))
        if not picks:
            return None
        picks[-1] -= 1
        left[(len(picks) - 1) % kinds] += 1
    return picks


def _pack_alike(rooms: int, count: int, most: Most) -> list[int] | None:
    picks: list[int] = []
    for room in range(rooms):
        if not count:
            break
        pick = min(count, most(room, 0, ()))
        picks.append(pick)
        count -= pick
    return None if count else picks


def _pack_straight(rooms: int, counts: Sequence[int], most: Most, steps: int) -> list[int] | None:
    """The packing without backtracking, which visits no more rooms than it needs; None if it fails.

    It is also the first packing that `pack` finds, as partial results never exceed the bounds of `_tails`.
    """
    kinds, left = len(counts), list(counts)
    picks: list[int] = []
    while any(left):
        room, kind = divmod(len(picks), kinds)
        if room == rooms or len(picks) >= steps:
            return None
        pick = min(left[kind], most(room, kind, picks[room * kinds :]))
        picks.append(pick)
        left[kind] -= pick
    return picks


def _tails(rooms: int, kinds: int, most: Most) -> list[list[int]]:
    """By room: the maximum number of members of each kind, taken alone, in this and all later rooms."""
    tails = [[0] * kinds]
    for room in range(rooms - 1, -1, -1):
        after = tails[-1]
        tails.append([after[kind] + most(room, kind, (0,) * kind) for kind in range(kinds)])
    tails.reverse()
    return tails


def _may_go_on(
    room: int, left: list[int], tails: list[list[int]], dead: set[tuple[int, tuple[int, ...]]]
) -> bool:
    """True if this room and later ones may hold the remaining members; the bound is not exact."""
    if room == len(tails) - 1:
        return False
    rest = tails[room]
    return all(wanted <= rest[kind] for kind, wanted in enumerate(left)) and (room, tuple(left)) not in dead


def slots_on(node: Node, ask_class: AskClass) -> int:
    """Maximum number of asks of the class for which the node has room now.

    Both kinds of refusal count: the RM is asked about a gang without `allocate`, about an ask with it.
    """
    if node.refusal(ask_class) is not None:
        return 0
    if ask_class.predicate is not None and node.results.get((ask_class, False)):
        return 0
    return _times(node, ask_class, ())


def slots_if_empty(node: Node, ask_class: AskClass) -> int:
    """Maximum number of asks of the class that a schedulable node holds if nothing else is on it."""
    if not node.schedulable or ask_class.required_node not in (None, node.node_id):
        return 0
    return times(ask_class.items, node.capacity)


def beside_if_empty(node: Node, classes: Sequence[AskClass], kind: int, picks: Sequence[int]) -> int:
    """Like `slots_if_empty`, in addition to `picks` asks of the previous classes."""
    if not slots_if_empty(node, classes[kind]):
        return 0
    free = dict(node.capacity)
    for ask_class, pick in zip(classes, picks, strict=False):
        charge(free, tuple((name, -value * pick) for name, value in ask_class.items))
    return times(classes[kind].items, free)


def times(items: Items, free: Mapping[str, int]) -> int:
    """Number of times that all amounts together fit into `free`; 0 if there are no amounts."""
    fitting = -1
    for name, value in items:
        number = free.get(name, 0) // value
        if number <= 0:
            return 0
        if number < fitting or fitting < 0:
            fitting = number
    return max(0, fitting)


def takes_reserved(node: Node, ask_class: AskClass, own: Items) -> bool:
    """True if an ask may use the node, where `own` is the part of the reserved amounts that is its own."""
    if node.takes(ask_class):
        return True
    if not node.open or node.refusal(ask_class) != RESERVED or node.results.get((ask_class, True)):
        return False
    left = dict(own)
    return all(
        node.available.get(name, 0) - node.kept.get(name, 0) + left.get(name, 0) >= value
        for name, value in ask_class.items
    )


def slots_beside(node: Node, classes: Sequence[AskClass], kind: int, picks: Sequence[int]) -> int:
    """Number of asks of the kind's class that fit on the node in addition to `picks` of previous classes."""
    ask_class = classes[kind]
    slots = slots_on(node, ask_class)
    if not slots or not any(picks):
        return slots
    taken: list[tuple[str, int]] = []
    for number, pick in enumerate(picks):
        taken += [(name, value * pick) for name, value in classes[number].items]
    return max(0, _times(node, ask_class, tuple(taken)))


def _times(node: Node, ask_class: AskClass, taken: Items) -> int:
    kept = EMPTY if ask_class.required_node is not None else node.kept
    available = free_for(node, ask_class) if node.claims else node.available
    if taken:
        available = dict(available)
        for name, value in taken:
            available[name] = available.get(name, 0) - value
    fewest = -1
    for name, value in ask_class.items:
        slots = (available.get(name, 0) - kept.get(name, 0)) // value
        if fewest < 0 or slots < fewest:
            fewest = slots
            if fewest <= 0:
                return 0
    return fewest


def free_for(node: Node, ask_class: AskClass) -> dict[str, int]:
    """Available amounts of a node for asks of the class, without room that is held for later starts."""
    free = dict(node.available)
    if ask_class.required_node is None:
        for room in node.claims.values():
            for name, value in room.leaves(ask_class, node).items():
                free[name] = min(value, free.get(name, 0))
    return free


def on_nodes(
    nodes: Sequence[Node],
    classes: Sequence[AskClass],
    counts: Sequence[int],
    effort: PackingEffort,
    beside: Beside,
) -> list[int] | None:
    """Pack `counts` members of each class on the nodes, in their order (see `pack`)."""

    def most(room: int, kind: int, picks: Sequence[int]) -> int:
        return beside(nodes[room], classes, kind, picks)

    return pack(len(nodes), counts, most, effort)


def members_on(shares: Sequence[Share], places: Sequence[MembersOnNode]) -> list[tuple[Request, Node]]:
    """Pairs of asks and nodes: the asks of each group in order, on its nodes in order."""
    asks = {share[0]: iter(first_asks(share)) for share in shares}
    return [(next(asks[group]), node) for group, node, pick in places for _ in range(pick)]
