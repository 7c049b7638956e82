"""The highest of many priorities, kept up to date at the cost of one count (spec § 4.11)."""

from heapq import heappop, heappush
from typing import Final

INT32_MAX: Final = 2**31 - 1
INT32_MIN: Final = -(2**31)
NO_PRIORITY: Final = INT32_MIN
"""The priority of a queue without pending asks; fences and offsets leave it as it is."""

# So many stale entries may be in the heap before it is built anew.
_SLACK: Final = 32


def clamp_priority(value: int) -> int:
    """The value, or the end of int32 that it lies beyond."""
    return max(INT32_MIN, min(INT32_MAX, value))


class PriorityCounts:
    """Counts by priority. `top` is the highest that has a count, NO_PRIORITY for none.

    The heap has every counted priority. It may also have stale ones, which are dropped when they
    come to its top.
    """

    __slots__ = ("_counts", "_heap", "top")

    def __init__(self) -> None:
        """Start with none."""
        self._counts: dict[int, int] = {}
        self._heap: list[int] = []
        self.top = NO_PRIORITY

    def add(self, priority: int) -> bool:
        """Count one more; True when `top` changed."""
        counts = self._counts
        count = counts.get(priority)
        if count is not None:
            counts[priority] = count + 1
            return False
        counts[priority] = 1
        heappush(self._heap, -priority)
        if priority <= self.top:
            return False
        self.top = priority
        return True

    def remove(self, priority: int) -> bool:
        """Count one less; True when `top` changed."""
        counts = self._counts
        left = counts[priority] - 1
        if left:
            counts[priority] = left
            return False
        del counts[priority]
        heap = self._heap
        if len(heap) > _SLACK + 2 * len(counts):
            heap[:] = sorted(-known for known in counts)
        if priority != self.top:
            return False
        while heap and -heap[0] not in counts:
            heappop(heap)
        self.top = -heap[0] if heap else NO_PRIORITY
        return True
