"""Smallest set of victims that covers the shortage, first in rank order (spec § 9.4)."""

from collections.abc import Callable, Iterator, Sequence

from licorne_core.scheduling.preemption.whatif import Candidate, Vector, WhatIf


def covers(vector: Vector, missing: Vector) -> bool:
    """True if there is enough of every type."""
    return all(have >= need for have, need in zip(vector, missing, strict=True))


def less(missing: Vector, given: Vector) -> Vector:
    """Amounts that are still missing; never below zero."""
    return tuple(
        [need - have if need > have else 0 for need, have in zip(missing, given, strict=True)]
    )


class Covering:
    """Sets of candidates, by size and then by rank, tried on the what-if books.

    A set is tried if the laws allow it and it covers the shortage. The first one that `accept`
    agrees to is the answer; its victims are taken off while it is asked, and put back afterwards.
    """

    __slots__ = ("_accept", "_candidates", "_chosen", "_most", "_what_if")

    def __init__(
        self,
        candidates: Sequence[Candidate],
        what_if: WhatIf,
        accept: Callable[[Sequence[Candidate]], bool],
    ) -> None:
        """Take candidates in rank order."""
        self._candidates = candidates
        self._what_if = what_if
        self._accept = accept
        self._chosen: list[Candidate] = []
        # For each place in the order, the largest amount by type from there on.
        self._most: list[Vector] = _largest_from(candidates)

    def first(self, missing: Vector) -> tuple[Candidate, ...] | None:
        """The first set; None if there is none, or if the steps are used up."""
        for size in range(fewest(self._candidates, missing), len(self._candidates) + 1):
            if self._search(0, size, missing):
                return tuple(self._chosen)
        return None

    def _search(self, start: int, size: int, missing: Vector) -> bool:
        """Add `size` more victims from a place on; the answer stays in `_chosen`."""
        if size == 0:
            return not any(missing) and self._accept(self._chosen)
        candidates, what_if = self._candidates, self._what_if
        for index in range(start, len(candidates) - size + 1):
            if what_if.left <= 0 or not self._reachable(index, size, missing):
                return False
            candidate = candidates[index]
            if what_if.take(candidate):
                self._chosen.append(candidate)
                found = self._search(index + 1, size - 1, less(missing, candidate.gives))
                what_if.put_back(candidate)
                if found:
                    return True
                self._chosen.pop()
        return False

    def _reachable(self, index: int, size: int, missing: Vector) -> bool:
        """True if so many from here on could be enough, if the laws allowed the largest."""
        for most, need in zip(self._most[index], missing, strict=True):
            if most * size < need:
                return False
        return True


def fewest(candidates: Sequence[Candidate], missing: Vector) -> int:
    """Least number of victims, laws aside; more than there are if all are too few."""
    least = 0
    for index, need in enumerate(missing):
        if need > 0:
            least = max(least, _fewest_of(sorted(_amounts(candidates, index), reverse=True), need))
    return least


def _fewest_of(amounts: Sequence[int], need: int) -> int:
    for count, amount in enumerate(amounts, start=1):
        need -= amount
        if need <= 0:
            return count
    return len(amounts) + 1


def _amounts(candidates: Sequence[Candidate], index: int) -> Iterator[int]:
    return (candidate.gives[index] for candidate in candidates)


def _largest_from(candidates: Sequence[Candidate]) -> list[Vector]:
    largest: list[Vector] = []
    for candidate in reversed(candidates):
        if largest:
            largest.append(tuple(map(max, largest[-1], candidate.gives)))
        else:
            largest.append(candidate.gives)
    largest.reverse()
    return largest
