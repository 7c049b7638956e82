"""Log of changed things, for any number of readers.

A reader keeps the `count` up to which it has read. A thing with several changes is read once, so
the log is never longer than there are things, and no reader has to be waited for.
"""

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class Recent(Generic[T]):
    """Things in the order of their last changes."""

    __slots__ = ("_last", "count")

    count: int
    """Number of changes noted so far."""

    def __init__(self) -> None:
        """Start empty."""
        self.count = 0
        self._last: dict[T, int] = {}

    def note(self, thing: T) -> None:
        """The thing has changed just now."""
        self.count += 1
        self._last.pop(thing, None)
        self._last[thing] = self.count

    def number(self, thing: T) -> int:
        """Number of the thing's last change; 0 if it has not changed."""
        return self._last.get(thing, 0)

    def forget(self, thing: T) -> None:
        """The thing is gone: no reader hears of it any more."""
        self._last.pop(thing, None)

    def clear(self) -> None:
        """All things are gone."""
        self._last.clear()

    def since(self, count: int) -> Iterator[T]:
        """Yield the things changed since that count, the latest first."""
        for thing, number in reversed(self._last.items()):
            if number <= count:
                return
            yield thing
