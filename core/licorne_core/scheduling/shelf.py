"""What leads to those whom one blocker blocks, in one ranking."""

from heapq import heapify, heappop, heappush, heapreplace
from typing import Any

from licorne_core.ranking import Ranked, Ranking

_SLACK = 32


class Shelf:
    """The items of one ranking that lead to those whom one blocker blocks, in key order.

    `members` counts for how many reasons an item is here: it is blocked itself, something in it is.
    The heap may have stale entries; they are found out by the entry that the ranking has.
    """

    __slots__ = ("_forgotten", "_heap", "_read", "members")

    def __init__(self, ranking: Ranking[Any]) -> None:
        """Empty."""
        self.members: dict[Any, int] = {}
        self._heap: list[Ranked] = []
        self._read = len(ranking.improved)
        self._forgotten = ranking.forgotten

    def add(self, item: Any, ranking: Ranking[Any]) -> None:
        """One more reason for the item to be here."""
        count = self.members.get(item, 0)
        self.members[item] = count + 1
        if not count:
            entry = ranking.entry(item)
            assert entry is not None, f"{item!r} is not ranked"
            heappush(self._heap, entry)
            if len(self._heap) > _SLACK + 2 * len(self.members):
                self._fill(ranking)

    def remove(self, item: Any) -> bool:
        """One reason less; whether it was the last."""
        count = self.members[item] - 1
        if count:
            self.members[item] = count
            return False
        del self.members[item]
        return True

    def first(self, ranking: Ranking[Any]) -> Ranked:
        """The entry of the first item; the shelf is not empty."""
        self._catch_up(ranking)
        heap = self._heap
        while True:
            entry = heap[0]
            valid = ranking.entry(entry.item) if entry.item in self.members else None
            if valid is None:
                heappop(heap)
            elif valid.serial == entry.serial:
                return entry
            else:
                heapreplace(heap, valid)

    def _catch_up(self, ranking: Ranking[Any]) -> None:
        """Enter those whose key has become smaller; a larger one is noticed at the top."""
        if self._forgotten != ranking.forgotten:
            self._fill(ranking)
            return
        for entry in ranking.improved[self._read :]:
            if entry.item in self.members:
                heappush(self._heap, entry)
        self._read = len(ranking.improved)

    def _fill(self, ranking: Ranking[Any]) -> None:
        entries = (ranking.entry(item) for item in self.members)
        self._heap = [entry for entry in entries if entry is not None]
        heapify(self._heap)
        self._read = len(ranking.improved)
        self._forgotten = ranking.forgotten
