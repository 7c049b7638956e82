"""Sorted values in parts, so that a change costs about the same for any number of values."""

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")

MOST: Final = 512
"""Maximum number of values in a part. A change moves the values of one part; a longer part is halved."""


class SortedParts(Generic[T]):
    """Values in ascending order; duplicates are allowed.

    Always true: no part is empty, and `_lasts` has the last value of each part.
    """

    __slots__ = ("_lasts", "_parts")

    def __init__(self) -> None:
        """Start empty."""
        self._parts: list[list[Any]] = []
        self._lasts: list[Any] = []

    def add(self, value: T) -> None:
        """Add a value."""
        parts, lasts = self._parts, self._lasts
        if not parts:
            parts.append([value])
            lasts.append(value)
            return
        place = min(bisect_left(lasts, value), len(lasts) - 1)
        part = parts[place]
        insort(part, value)
        if len(part) > MOST:
            half = len(part) // 2
            parts.insert(place + 1, part[half:])
            lasts.insert(place + 1, part[-1])
            del part[half:]
        lasts[place] = part[-1]

    def remove(self, value: T) -> None:
        """Remove one occurrence of a value, which must be present."""
        place = bisect_left(self._lasts, value)
        part = self._parts[place]
        del part[bisect_left(part, value)]
        if part:
            self._lasts[place] = part[-1]
        else:
            del self._parts[place], self._lasts[place]

    def first(self) -> T | None:
        """The smallest value; None if there are no values."""
        if not self._parts:
            return None
        value: T = self._parts[0][0]
        return value

    def __iter__(self) -> Iterator[T]:
        """The values in order; none may be added or removed in the meantime."""
        for part in self._parts:
            yield from part
