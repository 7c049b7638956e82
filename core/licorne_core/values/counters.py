"""Counters of partitions and leaves, which only rise, and histograms; metrics read them on a scrape."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate


class Histogram:
    """Number of values up to each bound, and the sum of all values."""

    __slots__ = ("_counts", "bounds", "total")

    total: float
    """The sum of all values."""

    def __init__(self, bounds: Sequence[float]) -> None:
        """Start without values; the bounds must be in ascending order."""
        self.bounds = tuple(bounds)
        self.total = 0.0
        self._counts = [0] * (len(self.bounds) + 1)

    def observe(self, value: float, times: int = 1) -> None:
        """Count `times` equal values."""
        self._counts[bisect_left(self.bounds, value)] += times
        self.total += value * times

    @property
    def count(self) -> int:
        """Number of values."""
        return sum(self._counts)

    def cumulative(self) -> list[int]:
        """Number of values up to each bound, and then the number of all values."""
        return list(accumulate(self._counts))

    def add(self, other: "Histogram") -> None:
        """Add the values of another histogram with the same bounds."""
        self._counts = [one + more for one, more in zip(self._counts, other._counts, strict=True)]
        self.total += other.total

    def coarser(self, bounds: Sequence[float]) -> "Histogram":
        """The same values with fewer bounds, all of which are bounds of this histogram."""
        other = Histogram(bounds)
        other.total = self.total
        other._counts = [0] * (len(bounds) + 1)
        for bound, count in zip((*self.bounds, float("inf")), self._counts, strict=True):
            other._counts[bisect_left(other.bounds, bound)] += count
        return other


@dataclass(slots=True)
class QueueCounters:
    """Counters of a leaf since its creation."""

    allocations_made: int = 0
    allocations_released: int = 0
    allocations_resized: int = 0
    applications_completed: int = 0
    applications_failed: int = 0
    applications_rejected: int = 0
    """Number of applications that named the queue and were rejected."""
    checkpoints: int = 0
    """Number of checkpoints that RMs have reported for its allocations."""


@dataclass(slots=True)
class Counters:
    """Counters of a partition since its registration."""

    allocations_made: int = 0
    allocations_passing: int = 0
    """Number of allocations that passed a claim."""
    allocations_recovered: int = 0
    allocations_rejected: int = 0
    rejection_time: float = 0.0
    """Time of the last rejection of an ask or allocation, in unix seconds; 0 if there was none."""
    allocations_released: int = 0
    allocations_failed_on_rm: int = 0
    """Number of allocations that the RM failed to run; their asks are pending again."""
    applications_submitted: int = 0
    applications_accepted: int = 0
    applications_rejected: int = 0
    applications_completed: int = 0
    applications_failed: int = 0
    nodes_decommissioned: int = 0
    asks_received: int = 0
    asks_tried: int = 0
    turns: int = 0
    placeholders_replaced: int = 0
    """Number of placeholders replaced by real allocations."""
    placeholders_timed_out: int = 0
    """Number of placeholders that have ended without replacement, or are being stopped."""
    reservations_made: int = 0
    """Number of reservations of nodes, including required ones."""
    reservations_idle: int = 0
    """Number of reservations cancelled because a maximum or limit blocked their asks for too long."""
    reservations_yielded: int = 0
    """Number of reservations cancelled in favour of asks within their queue's guarantee."""
    checks_overdue: int = 0
    """Number of predicate checks that the RM did not answer in time."""
    work: int = 0
    """Work of passes, in units of one try of an item."""
    search_work: int = 0
    """The part of `work` that victim searches took, in the same units."""
