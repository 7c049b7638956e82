"""Topology domains, and packings of a gang in one of them, by exhaustive search."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from support.oracle.books import AskRecord, NodeRecord, add_to, total
from support.oracle.checks import refused, takes
from support.oracle.order import Look, node_key

Domain = tuple[int, tuple[str, ...]]
"""The depth, and the values of the attributes down to it."""


def levels_of(properties: dict[str, str]) -> list[str]:
    """The configured levels of root, the widest first."""
    written = properties.get("topology.levels", "")
    return [name.strip() for name in written.split(",")] if written else []


def levels_in(look: Look) -> list[str]:
    """The levels of a partition, the widest first."""
    return levels_of(look.queues["root"].properties)


def depth_of(levels: list[str], level: str) -> int:
    """The number of levels above it: 0 for all nodes, -1 for an unconfigured level."""
    if not level:
        return 0
    return levels.index(level) + 1 if level in levels else -1


def domain_of(levels: list[str], node: NodeRecord, depth: int) -> Domain | None:
    """The domain of the node, or None without the attribute of that level."""
    path = tuple(node.attributes.get(level, "") for level in levels[:depth])
    return (depth, path) if not depth or path[-1] else None


def nodes_in(look: Look, domain: Domain) -> list[NodeRecord]:
    """The nodes in the domain, in order."""
    levels = levels_in(look)
    inside = [node for node in look.nodes.values() if domain_of(levels, node, domain[0]) == domain]
    return sorted(inside, key=lambda node: node_key(look, node))


def domains_at(look: Look, depth: int) -> list[Domain]:
    """All domains of this depth."""
    found = {domain_of(levels_in(look), node, depth) for node in look.nodes.values()}
    return sorted(domain for domain in found if domain is not None)


# Packings


def slots(look: Look, node: NodeRecord, ask: AskRecord) -> int:
    """The number of asks of this shape that fit on the node now."""
    if not takes(look, node, ask) or (ask.predicate is not None and refused(node, ask, allocate=False)):
        return 0
    kept = {} if ask.required_node is not None else look.usage.kept_on.get(node.node_id, {})
    available = look.usage.available[node.node_id]
    return min((available.get(name, 0) - kept.get(name, 0)) // value for name, value in ask.size.items())


def first_packing(
    rooms: int, wanted: tuple[int, ...], holds: Callable[[int, Sequence[int]], bool]
) -> list[tuple[int, ...]] | None:
    """The first numbers of each kind by room that hold, with as many as possible in the first rooms."""
    dead: set[tuple[int, tuple[int, ...]]] = set()

    def fillings(room: int, left: tuple[int, ...], chosen: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        """The fillings of the room, those with most of the first kind first."""
        if len(chosen) == len(left):
            yield chosen
            return
        for number in range(left[len(chosen)], -1, -1):
            some = (*chosen, number)
            if holds(room, (*some, *(0,) * (len(left) - len(some)))):
                yield from fillings(room, left, some)

    def rest(room: int, left: tuple[int, ...]) -> list[tuple[int, ...]] | None:
        if not any(left):
            return []
        if room == rooms or (room, left) in dead:
            return None
        for numbers in fillings(room, left, ()):
            after = rest(room + 1, tuple(a - b for a, b in zip(left, numbers, strict=True)))
            if after is not None:
                return [numbers, *after]
        dead.add((room, left))
        return None

    return rest(0, wanted)


@dataclass
class Gang:
    """The kinds of pending placeholders of an application, in the order of tries.

    Counts are cached, as nothing changes during a search.
    """

    look: Look
    kinds: list[tuple[AskRecord, int]]
    size: int
    slice_depth: int
    known: dict[tuple[str, int], int] = field(default_factory=dict)
    inside: dict[Domain, list[NodeRecord]] = field(default_factory=dict)
    tried: dict[Any, list[tuple[int, NodeRecord, int]] | None] = field(default_factory=dict)

    def nodes_in(self, domain: Domain) -> list[NodeRecord]:
        """The nodes of a domain, in order."""
        if domain not in self.inside:
            self.inside[domain] = nodes_in(self.look, domain)
        return self.inside[domain]

    def slots_on(self, node: NodeRecord, kind: int) -> int:
        """The number of asks of one kind that fit on a node."""
        if (node.node_id, kind) not in self.known:
            self.known[node.node_id, kind] = slots(self.look, node, self.kinds[kind][0])
        return self.known[node.node_id, kind]

    def slots_in(self, domain: Domain, kind: int) -> int:
        """The number of asks of one kind that fit in a domain."""
        return sum(self.slots_on(node, kind) for node in self.nodes_in(domain))

    def all_slots(self, domain: Domain) -> int:
        """The numbers of asks of each kind that fit in a domain, each kind taken separately."""
        return sum(self.slots_in(domain, kind) for kind in range(len(self.kinds)))

    def holds(self, node: NodeRecord, kinds: Sequence[int], numbers: Sequence[int]) -> bool:
        """True if these numbers of asks fit on the node, one kind after the other."""
        left = dict(self.look.usage.available[node.node_id])
        for kind, number in zip(kinds, numbers, strict=True):
            if number > self.slots_on(node, kind):
                return False
            ask = self.kinds[kind][0]
            kept = {} if ask.required_node is not None else self.look.usage.kept_on.get(node.node_id, {})
            wanted = {name: value * number for name, value in ask.size.items()}
            if number and any(left[name] - kept.get(name, 0) < value for name, value in wanted.items()):
                return False
            add_to(left, {name: -value for name, value in wanted.items()})
        return True

    def _may_fit(self, domain: Domain, counts: dict[int, int]) -> bool:
        """False if too few asks of a kind fit, or if all nodes together have too little room."""
        nodes = [n for n in self.nodes_in(domain) if any(self.slots_on(n, kind) for kind in counts)]
        left = total(self.look.usage.available[node.node_id] for node in nodes)
        for kind, number in counts.items():
            if number > self.slots_in(domain, kind):
                return False
            add_to(left, {name: -value * number for name, value in self.kinds[kind][0].size.items()})
        return all(value >= 0 for value in left.values()) or any(
            value < 0 for node in nodes for value in self.look.usage.available[node.node_id].values()
        )

    def on_nodes(self, domain: Domain, counts: dict[int, int]) -> list[tuple[int, NodeRecord, int]] | None:
        """Nodes for these numbers of asks of each kind, the kind with the fewest slots first."""
        name = (domain, tuple(sorted(counts.items())))
        if name not in self.tried:
            self.tried[name] = self._on_nodes(domain, counts)
        return self.tried[name]

    def _on_nodes(self, domain: Domain, counts: dict[int, int]) -> list[tuple[int, NodeRecord, int]] | None:
        if not self._may_fit(domain, counts):
            return None
        kinds = [kind for kind in sorted(counts, key=lambda k: (self.slots_in(domain, k), k)) if counts[kind]]
        nodes = self.nodes_in(domain)
        found = first_packing(
            len(nodes),
            tuple(counts[kind] for kind in kinds),
            lambda room, numbers: self.holds(nodes[room], kinds, numbers),
        )
        if found is None:
            return None
        return [
            (kind, node, number)
            for node, numbers in zip(nodes, found, strict=False)
            for kind, number in zip(kinds, numbers, strict=True)
            if number
        ]

    def in_domain(self, domain: Domain) -> list[tuple[int, NodeRecord, int]] | None:
        """Nodes for all members in the domain, with undivided slices."""
        if not self.size:
            return self.on_nodes(domain, {kind: number for kind, (_, number) in enumerate(self.kinds)})
        slices = list(self._slices(domain))
        rooms = sorted(self._rooms(domain), key=lambda room: (self.all_slots(room), room))

        def counts(numbers: Sequence[int]) -> dict[int, int]:
            found: dict[int, int] = {}
            for (kind, size, _), number in zip(slices, numbers, strict=True):
                found[kind] = found.get(kind, 0) + size * number
            return found

        found = first_packing(
            len(rooms),
            tuple(number for _, _, number in slices),
            lambda room, numbers: self.on_nodes(rooms[room], counts(numbers)) is not None,
        )
        if found is None:
            return None
        return [
            place
            for room, numbers in zip(rooms, found, strict=False)
            for place in self.on_nodes(room, counts(numbers)) or []
        ]

    def _slices(self, domain: Domain) -> Iterator[tuple[int, int, int]]:
        """Kind, size and number of the slices."""
        for kind in sorted(range(len(self.kinds)), key=lambda k: (self.slots_in(domain, k), k)):
            whole, left = divmod(self.kinds[kind][1], self.size)
            yield from [(kind, self.size, whole)] if whole else []
            yield from [(kind, left, 1)] if left else []

    def _rooms(self, domain: Domain) -> list[Domain]:
        """The domains for slices inside the domain, or the domain itself if slices contain it."""
        depth, path = domain
        if self.slice_depth <= depth:
            return [domain] if path[self.slice_depth - 1] else []
        return [inner for inner in domains_at(self.look, self.slice_depth) if inner[1][:depth] == path]
