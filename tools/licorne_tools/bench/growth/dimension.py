"""One thing that grows, and how fast its cost may."""

from collections.abc import Callable
from dataclasses import dataclass
from math import log10

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
