"""The highest of many priorities, kept up to date at the cost of one count (spec § 4.11)."""

INT32_MAX = 2**31 - 1
INT32_MIN = -(2**31)
NO_PRIORITY = INT32_MIN
"""What a queue without pending asks has; it passes every fence and offset unchanged."""


def clamp_priority(value: int) -> int:
    """The value, or the end of int32 that it lies beyond."""
    return max(INT32_MIN, min(INT32_MAX, value))


class PriorityCounts:
    """How many there are of each priority, and the highest of them in `top`."""

    __slots__ = ("_counts", "top")

    def __init__(self) -> None:
        """Start with none."""
        self._counts: dict[int, int] = {}
        self.top = NO_PRIORITY

    def add(self, priority: int) -> bool:
        """Count one more; True when `top` changed."""
        counts = self._counts
        counts[priority] = counts.get(priority, 0) + 1
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
        if priority != self.top:
            return False
        self.top = max(counts, default=NO_PRIORITY)
        return True
