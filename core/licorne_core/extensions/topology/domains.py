"""Domains: nodes with equal attributes down to a level; and their slots.

The levels are names of node attributes, the widest first. A domain's path has the values of the attributes
from the widest level down to its own. A node without the attribute of a level is in no domain of that
level. *Depth* 0 is the whole partition, with an empty path; depth 1 the widest level, and so on.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence

from licorne_core.model.nodes.book import NodeBook
from licorne_core.model.nodes.node import Node
from licorne_core.scheduling.gang_slots import Slots

Path = tuple[str, ...]
"""Values of the attributes; an empty text for an attribute that the node lacks."""

Domain = tuple[int, Path]
"""A domain by its depth and path."""

EVERYTHING: Domain = (0, ())
"""The domain of the whole partition, at depth 0."""


class Domains:
    """The domains of one partition, and the nodes of each.

    Always true: each node of the partition is in one domain of each level of which it has the attribute,
    and each domain has nodes.
    """

    def __init__(self, levels: tuple[str, ...], nodes: Iterable[Node]) -> None:
        """Index these nodes."""
        self.levels = levels
        self.nodes: list[dict[Path, dict[Node, None]]] = [{(): {}}, *({} for _ in levels)]
        """The nodes of each domain, by depth and path."""
        self._grouped: dict[tuple[int, int], dict[Path, list[Domain]]] = {}
        self._paths: dict[Node, list[Domain]] = {}
        for node in nodes:
            self.add(node)

    def depth(self, level: str) -> int:
        """Depth of a level: 0 for an empty name, -1 for a level that the partition does not have."""
        if not level:
            return 0
        return self.levels.index(level) + 1 if level in self.levels else -1

    def paths(self, node: Node) -> list[Domain]:
        """All domains of the node, the whole partition first; for a removed node, its former domains."""
        return self._paths.get(node) or self._paths_of(node)

    def _paths_of(self, node: Node) -> list[Domain]:
        values = tuple([node.attributes.get(level, "") for level in self.levels])
        found = [EVERYTHING]
        found += [(depth, values[:depth]) for depth, value in enumerate(values, 1) if value]
        return found

    def domain_of(self, node: Node, depth: int) -> Domain | None:
        """The domain of the node at the depth; None if it is in no domain."""
        values = tuple(node.attributes.get(level, "") for level in self.levels[:depth])
        return (depth, values) if not depth or values[-1] else None

    def add(self, node: Node) -> None:
        """Add a node."""
        self._grouped.clear()
        paths = self._paths[node] = self._paths_of(node)
        for depth, path in paths:
            self.nodes[depth].setdefault(path, {})[node] = None

    def remove(self, node: Node) -> None:
        """Remove a node, if it was added, and domains without another node."""
        self._grouped.clear()
        for depth, path in self._paths.pop(node, ()):
            there = self.nodes[depth][path]
            del there[node]
            if not there and depth:
                del self.nodes[depth][path]

    def grouped(self, outer: int, inner: int) -> dict[Path, list[Domain]]:
        """The domains of the inner depth by the path of their domain of the outer depth, each in order.

        If `inner` is not deeper than `outer`, each outer domain contains only itself; those outside of all
        inner domains are left out. The result is cached while the nodes are the same, and never changed.
        """
        known = self._grouped.get((outer, inner))
        if known is None:
            known = self._grouped[outer, inner] = self._group(outer, inner)
        return known

    def _group(self, outer: int, inner: int) -> dict[Path, list[Domain]]:
        if inner <= outer:
            paths = self.nodes[outer]
            return {path: [(outer, path)] for path in paths if not inner or path[inner - 1]}
        found: dict[Path, list[Domain]] = {}
        for path in sorted(self.nodes[inner]):
            found.setdefault(path[:outer], []).append((inner, path))
        return found


class DomainBook:
    """The domains of one partition by the levels of its configuration, created at the first use."""

    def __init__(self, nodes: NodeBook) -> None:
        """Index these nodes later, without levels at first."""
        self.nodes = nodes
        self.levels: tuple[str, ...] = ()
        """Names of the attributes that define domains, the widest first."""
        self._domains: Domains | None = None
        self._births = 0

    def current(self) -> Domains:
        """The domains; they are indexed again after a change of the levels."""
        self.nodes.refusals_count = True
        births, _ = self.nodes.made_of
        domains = self._domains
        if domains is None or domains.levels != self.levels:
            domains = self._domains = Domains(self.levels, self.nodes.by_id.values())
        elif self._births != births:
            for node in self.nodes.since(self._births):
                domains.add(node)
        self._births = births
        return domains

    def remove(self, node: Node) -> None:
        """Remove a node."""
        if self._domains is not None:
            self._domains.remove(node)

    def clear(self) -> Iterator[int]:
        """Drop the domains of a removed partition, step by step."""
        domains, self._domains = self._domains, None
        for nodes in domains.nodes if domains is not None else ():
            while nodes:
                nodes.popitem()
                yield 1


class DomainSlots(Slots):
    """The slots for one class, by node and by domain."""

    __slots__ = ("_by_slots", "_domains", "sums")

    def __init__(self, domains: Domains) -> None:
        """Start without slots."""
        super().__init__()
        self._domains = domains
        self.sums: list[dict[Path, int]] = [{} for _ in range(len(domains.levels) + 1)]
        """Number of slots of the domains, by depth and path."""
        self._by_slots: dict[int, list[tuple[int, Path]]] = {}

    def with_slots(self, depth: int, least: int) -> Sequence[tuple[int, Path]]:
        """The domains of a depth with at least `least` slots, ordered by number of slots, then by path."""
        known = self._by_slots.get(depth)
        if known is None:
            # From now on each change of a node also updates this list.
            known = self._by_slots[depth] = sorted((slots, path) for path, slots in self.sums[depth].items())
        return known[bisect_left(known, (least, ())) :]

    def moved(self, node: Node, more: int) -> None:
        """Record that the slots of the node, and of each of its domains, have changed by `more`."""
        for depth, path in self._domains.paths(node):
            sums = self.sums[depth]
            before = sums.get(path, 0)
            left = before + more
            if left:
                sums[path] = left
            else:
                del sums[path]
            known = self._by_slots.get(depth)
            if known is not None:
                if before:
                    del known[bisect_left(known, (before, path))]
                if left:
                    insort(known, (left, path))
