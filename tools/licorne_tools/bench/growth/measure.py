"""Things that grow, how fast their cost may, and all their sizes, each in a fresh process."""

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
"""Allocations that are measured at each size, unless the dimension says otherwise."""

PER_TENFOLD = 0.5
"""Share of the first cost that may come on top with each tenfold of the size.

It is what a cost of log n has from 100 on: it doubles until 10,000.
"""

Measure = Callable[[int, int], Cost]
"""Measures once: with a size, and about so many allocations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimension:
    """One thing that grows.

    `note` says why its cost does too. The report has it if that is faster than log n.
    """

    name: str
    about: str
    sizes: tuple[int, int, int]
    measure: Measure
    work: int = WORK
    note: str = ""


def allowed(first: int, last: int) -> float:
    """By which factor the cost may grow from the first size to the last: as log n, no faster."""
    return 1 + PER_TENFOLD * log10(last / first)


def built(build: Callable[[int, int], World], act: Callable[[World], None] = place) -> Measure:
    """Measures what `act` takes in the world that `build` makes, which takes no part in it."""

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
"""For all rounds of one size. The slowest takes a tenth of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """What one size costs, in microseconds of CPU; without asks they cost nothing."""

    size: int
    rounds: int
    allocations: int
    us_per_allocation: float
    asks: int
    us_per_ask: float


@dataclass(frozen=True, slots=True)
class Curve:
    """What grows with the size: factors to the first cost, by rising size."""

    sizes: tuple[int, ...]
    factors: tuple[float, ...]

    @property
    def last(self) -> float:
        """By which it costs more at the last size than at the first."""
        return self.factors[-1]

    @property
    def holds(self) -> bool:
        """Whether it grows no faster than log n up to any of the sizes."""
        first = self.sizes[0]
        return all(
            factor <= allowed(first, size) for size, factor in zip(self.sizes, self.factors, strict=True)
        )


@dataclass(frozen=True, slots=True)
class Growth:
    """A dimension, and the runs of each size, by rising size."""

    dimension: Dimension
    runs: tuple[tuple[Point, ...], ...]

    @property
    def points(self) -> tuple[Point, ...]:
        """What each size costs: of its runs the least figures."""
        return tuple(map(least, self.runs))

    @property
    def deciding(self) -> Curve:
        """The cost of an allocation."""
        return self._curve([point.us_per_allocation for point in self.points])

    @property
    def taking(self) -> Curve | None:
        """The cost of taking in an ask; None where there are no asks to be taken in."""
        if not self.points[0].asks:
            return None
        return self._curve([point.us_per_ask for point in self.points])

    @property
    def holds(self) -> bool:
        """Whether neither grows faster than log n."""
        return self.deciding.holds and (self.taking is None or self.taking.holds)

    def _curve(self, costs: Sequence[float]) -> Curve:
        sizes = tuple(point.size for point in self.points)
        return Curve(sizes, tuple(cost / costs[0] for cost in costs))


def grown(dimension: Dimension, runs: int = 1, tell: Callable[[Point], None] = lambda _: None) -> Growth:
    """Measure a dimension; of several runs the least of each figure counts.

    The sizes are measured in turn, so that a slow time of the machine is one of all of them.

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
    """Of points of one size the least figures."""
    return Point(
        size=points[0].size,
        rounds=sum(point.rounds for point in points),
        allocations=points[0].allocations,
        us_per_allocation=min(point.us_per_allocation for point in points),
        asks=points[0].asks,
        us_per_ask=min(point.us_per_ask for point in points),
    )


def measured(name: str, size: int) -> Point:
    """One size of a dimension, measured by a fresh process, which ends with this one.

    Raises:
        BenchError: it has failed, or was not done in time and was killed.
    """
    command = [sys.executable, "-m", "licorne_tools.bench.growth.catalogue", name, str(size)]
    # The process ends when nobody holds the other end of its stdin any more.
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
