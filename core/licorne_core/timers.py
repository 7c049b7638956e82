"""Deadlines as data (DESIGN § 2): the core never waits, it says when it wants to be called."""

from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

from licorne_core.ids import AllocationKey, AppId

T = TypeVar("T")

TimerName = tuple[str, AppId, AllocationKey]
"""What is due, and for which application and ask; empty where it is not about one."""

_SLACK = 64


class Timers(Generic[T]):
    """At most one deadline for each name; times are in unix seconds."""

    __slots__ = ("_deadlines", "_heap", "_made")

    def __init__(self) -> None:
        """Start with none."""
        self._heap: list[tuple[float, int, T]] = []
        self._deadlines: dict[T, tuple[float, int, T]] = {}
        self._made = 0

    def __contains__(self, name: T) -> bool:
        """Whether the name has a deadline."""
        return name in self._deadlines

    def names(self) -> list[T]:
        """All names that have a deadline, in the order in which they got it."""
        return list(self._deadlines)

    def set(self, name: T, deadline: float) -> None:
        """Give the name a deadline, instead of the one it has."""
        self._made += 1
        entry = (deadline, self._made, name)
        self._deadlines[name] = entry
        heappush(self._heap, entry)
        if len(self._heap) > _SLACK + 2 * len(self._deadlines):
            self._heap = list(self._deadlines.values())
            heapify(self._heap)

    def cancel(self, name: T) -> None:
        """Take the name's deadline away, if it has one."""
        self._deadlines.pop(name, None)

    def next_deadline(self) -> float | None:
        """The earliest deadline."""
        heap = self._heap
        while heap:
            if self._deadlines.get(heap[0][2]) is heap[0]:
                return heap[0][0]
            heappop(heap)
        return None

    def take_due(self, now: float) -> T | None:
        """Take out the earliest name whose deadline has come."""
        deadline = self.next_deadline()
        if deadline is None or deadline > now:
            return None
        name = heappop(self._heap)[2]
        del self._deadlines[name]
        return name
