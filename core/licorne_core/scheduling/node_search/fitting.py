"""Index of items that lack room, searched by available room."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Mapping
from math import inf
from typing import Any, NamedTuple


class _Wanted(NamedTuple):
    amount: float
    serial: int
    item: Any


class FittingIndex:
    """Items that want amounts (`items`), sorted by the amount of each resource type.

    Always true: every item stands in the list of each type that it wants.
    """

    __slots__ = ("_by_type", "_serial", "_serials")

    def __init__(self) -> None:
        """Start empty."""
        self._by_type: dict[str, list[_Wanted]] = {}
        self._serials: dict[Any, int] = {}
        self._serial = 0

    def __len__(self) -> int:
        """Number of items."""
        return len(self._serials)

    def __iter__(self) -> Any:
        """All of them, in the order in which they came."""
        return iter(self._serials)

    def add(self, item: Any) -> None:
        """The item lacks room."""
        self._serial += 1
        self._serials[item] = self._serial
        for name, amount in item.items:
            insort(self._by_type.setdefault(name, []), _Wanted(amount, self._serial, item))

    def remove(self, item: Any) -> None:
        """The item lacks room no longer."""
        serial = self._serials.pop(item)
        for name, amount in item.items:
            wanting = self._by_type[name]
            del wanting[bisect_left(wanting, (amount, serial))]
            if not wanting:
                del self._by_type[name]

    def that_may_fit(self, room: Mapping[str, int], *, strict: bool = False) -> Iterable[Any]:
        """Return the items that can fit in the room, and some others; the caller checks each.

        A type that is not in the room is unlimited, or with `strict` unavailable. The search uses
        one type: the most selective of those that all items want.
        """
        total = len(self._serials)
        fewest: list[_Wanted] | None = None
        count = total
        for name, wanting in self._by_type.items():
            left = room.get(name, 0 if strict else None)
            if left is not None and len(wanting) == total:
                fitting = bisect_right(wanting, (left, inf))
                if fitting < count:
                    fewest, count = wanting, fitting
        if fewest is None:
            return list(self._serials)
        return [entry.item for entry in fewest[:count]]
