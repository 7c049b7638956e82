"""No object of the core needs the cycle collector, whose full pass would stop all work."""

import gc
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from licorne_core.messages.commands import RemoveRm, Tick
from support.core.driver import Driver
from support.core.ledger import Ledger
from support.worlds import World
from support.worlds.playing import Players

LENGTH = 60
MOSTLY = 0.9

KINDS: tuple[dict[str, Any], ...] = (
    {},
    {"gangs": MOSTLY},
    {"preempting": MOSTLY},
    {"backfill": 1.0, "maxima": 0.7},
)
"""Options of worlds, each with another predominant feature."""


@pytest.fixture(autouse=True)
def collector_off() -> Iterator[None]:
    """Disable the cycle collector, so that objects are freed only by reference counts."""
    gc.collect()
    gc.disable()
    yield
    gc.set_debug(0)
    gc.garbage.clear()
    gc.enable()


def leave(driver: Driver) -> None:
    """Remove all RMs with their partitions."""
    core = driver.scheduler
    for rm in core.views.rms():
        core.handle(RemoveRm(rm_id=rm.rm_id), driver.now)
    while core.next_deadline() is not None:
        core.handle(Tick(), driver.now)
    # The last object that refers to removed partitions.
    driver.ledger = Ledger()


def garbage() -> Counter[str]:
    """The number of objects of the core that only the cycle collector would free, by type."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    gc.set_debug(0)
    kinds = Counter(
        f"{type(thing).__module__}.{type(thing).__name__}"
        for thing in gc.garbage
        if str(type(thing).__module__).startswith("licorne_core.")
    )
    gc.garbage.clear()
    return kinds


# In compiled code a nested function and its variables refer to each other.
@pytest.mark.pure
@pytest.mark.worlds(first=4_700_000, one_in=4)
def test_reference_counts_free_removed_objects(part: range) -> None:
    """Removed objects, and those of removed RMs, leave no reference cycles."""
    for seed in part:
        script = World(seed, LENGTH, **KINDS[seed % len(KINDS)]).steps
        players = Players(Driver(sweep=LENGTH))
        for step in script:
            players.step(step)
        assert not garbage(), f"world {seed}, at work"
        leave(players.driver)
        assert not garbage(), f"world {seed}, when all have left"
