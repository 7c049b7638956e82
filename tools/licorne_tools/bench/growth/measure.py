"""Dimensions, the limits of their growth, and the measurement of each size in a fresh process."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log10
from typing import Any

from licorne_tools.bench.driver import BenchError
from licorne_tools.bench.growth.world import Cost, World, place

WORK = 10_000
"""Default number of allocations measured at each size."""

PER_TENFOLD = 0.5
"""Share of the first cost by which the cost may rise with each tenfold of the size. This is the growth of
log n from 100 to 1,000; at 10,000 it has doubled.
"""

Measure = Callable[[int, int], Cost]
"""Makes one measurement, with a size and an approximate number of allocations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimension:
    """A quantity that grows, such as the number of asks.

    `note` explains the growth of the cost. The report shows it if the cost grows faster than log n.
    """

    name: str
    about: str
    sizes: tuple[int, int, int]
    measure: Measure
    work: int = WORK
    note: str = ""


def allowed(first: int, last: int) -> float:
    """The allowed factor of the cost from the first size to the last."""
    return 1 + PER_TENFOLD * log10(last / first)


def built(build: Callable[[int, int], World], act: Callable[[World], None] = place) -> Measure:
    """A measurement of `act` in the world that `build` creates; the creation is not measured."""

    def measure(size: int, work: int) -> Cost:
        world = build(size, work)
        wanted = world.wanted or len(world.waiting)
        world.begin()
        act(world)
        cost = world.cost()
        if cost.allocations != wanted:
            raise BenchError(f"{cost.allocations} of {wanted} allocations were made")
        return cost

    return measure


LIMIT_SECONDS = 600.0
"""Maximum number of seconds for all rounds of a size, ten times what the slowest needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The cost at a size, in microseconds of CPU; `us_per_ask` is 0 if there were no asks."""

    size: int
    rounds: int
    allocations: int
    us_per_allocation: float
    asks: int
    us_per_ask: float


@dataclass(frozen=True, slots=True)
class Curve:
    """Costs relative to the first one, in order of size."""

    sizes: tuple[int, ...]
    factors: tuple[float, ...]

    @property
    def last(self) -> float:
        """The factor at the last size."""
        return self.factors[-1]

    @property
    def holds(self) -> bool:
        """True if the cost grows no faster than log n up to each size."""
        first = self.sizes[0]
        return all(
            factor <= allowed(first, size) for size, factor in zip(self.sizes, self.factors, strict=True)
        )


@dataclass(frozen=True, slots=True)
class Growth:
    """A dimension, and the runs of each size, in order of size."""

    dimension: Dimension
    runs: tuple[tuple[Point, ...], ...]

    @property
    def points(self) -> tuple[Point, ...]:
        """The cost at each size: the minimum over its runs."""
        return tuple(map(least, self.runs))

    @property
    def deciding(self) -> Curve:
        """The cost of an allocation, by size."""
        return self._curve([point.us_per_allocation for point in self.points])

    @property
    def taking(self) -> Curve | None:
        """The cost of accepting an ask, by size; None if there were no asks."""
        if not self.points[0].asks:
            return None
        return self._curve([point.us_per_ask for point in self.points])

    @property
    def holds(self) -> bool:
        """True if neither cost grows faster than log n."""
        return self.deciding.holds and (self.taking is None or self.taking.holds)

    def _curve(self, costs: Sequence[float]) -> Curve:
        sizes = tuple(point.size for point in self.points)
        return Curve(sizes, tuple(cost / costs[0] for cost in costs))


def grown(dimension: Dimension, runs: int = 1, tell: Callable[[Point], None] = lambda _: None) -> Growth:
    """Measure a dimension `runs` times. Every new point is passed to `tell`.

    The sizes are measured in turn, so that a slow phase of the machine affects all of them.

    Raises:
        BenchError: a process has failed.
    """
    found: dict[int, list[Point]] = {size: [] for size in dimension.sizes}
    for _ in range(runs):
        for size in dimension.sizes:
            point = measured(dimension.name, size)
            tell(point)
            found[size].append(point)
    return Growth(dimension, tuple(map(tuple, found.values())))


def least(points: Sequence[Point]) -> Point:
    """The minimum of each figure over points of one size."""
    return Point(
        size=points[0].size,
        rounds=sum(point.rounds for point in points),
        allocations=points[0].allocations,
        us_per_allocation=min(point.us_per_allocation for point in points),
        asks=points[0].asks,
        us_per_ask=min(point.us_per_ask for point in points),
    )


def measured(name: str, size: int) -> Point:
    """Measure a size of a dimension in a new process, which ends with this one.

    Raises:
        BenchError: the process has failed, or was killed after its time limit.
    """
    command = [sys.executable, "-m", "licorne_tools.bench.growth.catalogue", name, str(size)]
    # The process ends when the other end of its stdin is closed.
    stdin, held = os.pipe()
    try:
        done = subprocess.run(
            command, stdin=stdin, stdout=subprocess.PIPE, timeout=LIMIT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise BenchError(f"{name} {size:,}: not done after {LIMIT_SECONDS:.0f} s") from None
    finally:
        os.close(stdin)
        os.close(held)
    if done.returncode:
        raise BenchError(f"{name} {size:,}: the process ended with {done.returncode}")
    figures: dict[str, Any] = json.loads(done.stdout)
    if "error" in figures:
        raise BenchError(f"{name} {size:,}: {figures['error']}")
    return Point(size=size, **figures)
