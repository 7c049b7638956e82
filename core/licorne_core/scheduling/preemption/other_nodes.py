"""Victims on other nodes that keep the ask's queues below their maxima (§ 9.4.6)."""

from collections.abc import Iterator

from licorne_core.model.nodes.node import Node
from licorne_core.scheduling.preemption.covering import covers, less
from licorne_core.scheduling.preemption.victims import Candidates, Giver
from licorne_core.scheduling.preemption.whatif import Candidate, Vector, WhatIf

Kinds = frozenset[int]
"""Allowed kinds of victims."""


class OtherNodes:
    """All candidates of a search in rank order, looked at only as far as needed."""

    __slots__ = (
        "_candidates",
        "_known",
        "_largest",
        "_most",
        "_source",
        "_undisturbed",
        "_what_if",
        "asked",
    )

    asked: bool
    """True if victims elsewhere were looked for."""

    def __init__(self, candidates: Candidates, what_if: WhatIf) -> None:
        """Start unsearched."""
        self._candidates = candidates
        self._what_if = what_if
        self._known: list[Candidate] = []
        self._source: Iterator[Candidate] | None = None
        self._most: Vector | None = None
        self._largest: Vector | None = None
        self._undisturbed: dict[Kinds, tuple[Candidate, ...] | None] = {}
        self.asked = False

    @property
    def most(self) -> Vector:
        """Most that all candidates together have, by type of the ask, within the laws."""
        if self._most is None:
            givers = list(self._candidates.givers())
            self._most = tuple(
                [sum(_most_of(giver, name) for giver in givers) for name in self._candidates.names]
            )
        return self._most

    @property
    def largest(self) -> Vector:
        """Most that one candidate has, by type of the ask."""
        if self._largest is None:
            candidates = self._candidates
            givers = list(candidates.givers())
            self._largest = tuple(
                [
                    max((candidates.largest(giver, name) for giver in givers), default=0)
                    for name in candidates.names
                ]
            )
        return self._largest

    def all_but(self, node: Node, kinds: Kinds | None = None) -> Iterator[Candidate]:
        """The candidates that are not on the node, in rank order."""
        index = 0
        while (one := self._at(index)) is not None:
            index += 1
            if one.victim.node is not node and (kinds is None or one.kind in kinds):
                yield one

    def undisturbed(
        self, node: Node, kinds: Kinds, missing: Vector
    ) -> tuple[Candidate, ...] | None:
        """Return `first` with no victim taken off; it is the same for most nodes, so it is kept."""
        if kinds not in self._undisturbed:
            found = self.first(missing, None, kinds)
            if self._what_if.left <= 0:
                return None
            self._undisturbed[kinds] = found
        known = self._undisturbed[kinds]
        if known is None or all(one.victim.node is not node for one in known):
            return known
        return self.first(missing, node, kinds)

    def least(self) -> int | None:
        """The number of regular victims below which no plan can be; None if not known."""
        found = self._undisturbed.get(frozenset({0}))
        return None if found is None else len(found)

    def first(
        self, missing: Vector, node: Node | None, kinds: Kinds
    ) -> tuple[Candidate, ...] | None:
        """Return the first set, by size and rank, that covers the shortage; None for none."""
        self.asked = True
        if not covers(self.most, missing):
            return None
        chosen: list[Candidate] = []
        needs = [pair for pair in zip(missing, self.largest, strict=True) if pair[0]]
        if not all(largest for _, largest in needs):
            return None
        size = max([-(-need // largest) for need, largest in needs], default=0)
        while self._what_if.left > 0:
            reached = self._search(0, size, missing, node, kinds, chosen)
            if reached is None:
                return tuple(chosen)
            if reached < size:
                return None
            size += 1
        return None

    def _search(
        self,
        start: int,
        size: int,
        missing: Vector,
        node: Node | None,
        kinds: Kinds,
        chosen: list[Candidate],
    ) -> int | None:
        """Add so many victims from a place on: None if that is enough, and they stay in `chosen`.

        Otherwise the largest number that could be added, or might have been: if a number is out of
        reach, so are all larger ones.
        """
        if size == 0:
            return None if not any(missing) else 0
        for need, largest in zip(missing, self.largest, strict=True):
            if need > largest * size:
                return size
        most = 0
        index = start
        while self._what_if.left > 0 and (one := self._at(index)) is not None:
            index += 1
            if one.victim.node is node or one.kind not in kinds or not self._what_if.take(one):
                continue
            chosen.append(one)
            reached = self._search(index, size - 1, less(missing, one.gives), node, kinds, chosen)
            self._what_if.put_back(one)
            if reached is None:
                return None
            chosen.pop()
            most = max(most, reached + 1)
        return most

    def _at(self, index: int) -> Candidate | None:
        """The candidate of that rank; None behind the last."""
        known = self._known
        if index >= len(known):
            if self._source is None:
                self._source = self._candidates.in_order()
            one = next(self._source, None)
            if one is None:
                return None
            known.append(one)
        return known[index]


def _most_of(giver: Giver, name: str) -> int:
    """Most that the leaf can give of a type: its usage, or less if a guarantee is in the way."""
    leaf = giver.leaf
    most = leaf.allocated.get(name, 0) - leaf.preempting.get(name, 0)
    for above in giver.above:
        if name in above:
            most = min(most, above[name])
    return max(0, most)
