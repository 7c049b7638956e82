"""Waits of asks as a distribution, and the course of a run in few points. Both are bounded."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Final

from licorne_core.values.resources import Resources

MOST_POINTS: Final = 240
"""Maximum number of points of a course. Beyond it, every two points become one of twice the length."""

MOST_TYPES: Final = 16
"""Maximum number of resource types of a course: the first ones that nodes have."""

MILLISECOND: Final = 1e-3


class Waits:
    """Waiting times of asks, in seconds, each rounded to three significant digits.

    Waits below a millisecond count as 0.
    """

    __slots__ = ("_counts", "count", "total")

    def __init__(self) -> None:
        """Start without waits."""
        self.count = 0
        """Number of waits."""
        self.total = 0.0
        """Sum of all waits in seconds, not rounded."""
        self._counts: dict[float, int] = {}

    def add(self, seconds: float) -> None:
        """Add a wait."""
        self.count += 1
        self.total += seconds
        rounded = 0.0 if seconds < MILLISECOND else float(f"{seconds:.2e}")
        self._counts[rounded] = self._counts.get(rounded, 0) + 1

    def plus(self, other: "Waits") -> "Waits":
        """A distribution of both sets of waits."""
        both = Waits()
        both.count, both.total = self.count + other.count, self.total + other.total
        both._counts = dict(self._counts)
        for seconds, count in other._counts.items():
            both._counts[seconds] = both._counts.get(seconds, 0) + count
        return both

    @property
    def mean(self) -> float | None:
        """The mean in seconds; None without waits."""
        return self.total / self.count if self.count else None

    def quantile(self, share: float) -> float | None:
        """The shortest wait not exceeded by a share (above 0, up to 1) of all waits; None without waits."""
        rank = ceil(share * self.count)
        for seconds in sorted(self._counts):
            rank -= self._counts[seconds]
            if rank <= 0:
                return seconds
        return None


@dataclass(slots=True)
class Point:
    """One point of a curve: the figures of a stretch of a run, over all partitions."""

    seconds: float = 0.0
    """Length of the sampled part of the stretch, in seconds."""
    waiting: float = 0.0
    """Number of waiting asks, multiplied by seconds."""
    used: dict[str, float] = field(default_factory=dict)
    """Allocated amounts, multiplied by seconds."""
    capacity: dict[str, float] = field(default_factory=dict)
    """Amounts of the nodes, multiplied by seconds."""
    placed: int = 0
    """Number of asks that were placed in the stretch."""
    waited: float = 0.0
    """Total wait of these asks, in seconds."""

    def add(self, other: "Point") -> None:
        """Add the stretch that follows."""
        self.seconds += other.seconds
        self.waiting += other.waiting
        self.placed += other.placed
        self.waited += other.waited
        add_amounts(self.used, other.used)
        add_amounts(self.capacity, other.capacity)


class Course:
    """A run from its `begin`, in stretches of equal `width`, in seconds."""

    __slots__ = ("begin", "points", "width")

    def __init__(self, begin: float, width: float) -> None:
        """Start at a time in unix seconds."""
        self.begin = begin
        self.width = width
        self.points: list[Point] = []

    def at(self, time: float) -> Point:
        """The stretch that contains a time, which must not be before the beginning."""
        while (index := int((time - self.begin) / self.width)) >= MOST_POINTS:
            self.halve()
        while len(self.points) <= index:
            self.points.append(Point())
        return self.points[index]

    def sampled(
        self, until: float, seconds: float, waiting: int, used: Resources, capacity: Resources
    ) -> None:
        """Add a sample: these amounts apply to the `seconds` before a time."""
        self.at(until)
        since = until - seconds
        first = max(0, int((since - self.begin) / self.width))
        for index in range(first, len(self.points)):
            start = self.begin + index * self.width
            length = min(until, start + self.width) - max(since, start)
            if length > 0.0:
                _extend(self.points[index], length, waiting, used, capacity)

    def halve(self) -> None:
        """Merge every two stretches into one."""
        points = self.points
        self.width *= 2
        self.points = points[::2]
        for point, following in zip(self.points, points[1::2], strict=False):
            point.add(following)


def _extend(point: Point, seconds: float, waiting: int, used: Resources, capacity: Resources) -> None:
    point.seconds += seconds
    point.waiting += waiting * seconds
    for mine, amounts in ((point.used, used), (point.capacity, capacity)):
        for name, amount in amounts.items():
            if name in mine or len(mine) < MOST_TYPES:
                mine[name] = mine.get(name, 0.0) + amount * seconds


def add_amounts(total: dict[str, float], amounts: Mapping[str, float], times: float = 1.0) -> None:
    """Add amounts, multiplied by `times`, to a running total."""
    for name, amount in amounts.items():
        total[name] = total.get(name, 0.0) + amount * times


def shares(used: Mapping[str, float], capacity: Mapping[str, float]) -> dict[str, float]:
    """Used amounts divided by capacity, for each type with a capacity, in order of names."""
    return {name: used.get(name, 0.0) / capacity[name] for name in sorted(capacity) if capacity[name] > 0}


def common_width(courses: Sequence[Course]) -> float:
    """Use stretches of the same width for all courses; returns the width."""
    width = max(course.width for course in courses)
    for course in courses:
        while course.width < width:
            course.halve()
    return width
