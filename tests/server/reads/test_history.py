"""The history of a day, sampled by the server's clock."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from licorne_server.process.fair import TimeSlices
from licorne_server.reads.history.recorder import SAMPLES, History
from licorne_server.testing import VirtualClock
from support.core.builders import app, apps, ask, asks, config, node, nodes, register
from support.core.driver import Driver


@pytest.fixture
def driver() -> Driver:
    """Two RMs with a node each, and an application of two allocations of the first."""
    driver = Driver()
    for rm in ("rm1", "rm2"):
        driver.do(register(config("[{name: a}]"), rm=rm), nodes(node("n1", vcore=10), rm=rm))
    driver.do(apps(app("one", "root.a"), app("idle", "root.a")))
    driver.do(asks(ask("one", "k1", vcore=1), ask("one", "k2", vcore=1), ask("one", "k3", gpu=1)))
    return driver


@pytest.fixture
async def clock() -> VirtualClock:
    """A clock that the test moves."""
    return VirtualClock(1000.0)


@pytest.fixture
async def history(driver: Driver, clock: VirtualClock) -> AsyncIterator[History]:
    """A history that has begun to record."""
    history = History(driver.views, clock, TimeSlices(lambda: False))
    history.start()
    # The task of the history has to begin before the clock moves.
    await asyncio.sleep(0)
    yield history
    await history.stop()


async def test_counts_are_sampled_each_minute(driver: Driver, clock: VirtualClock, history: History) -> None:
    """Each minute the running applications and the allocations of all RMs are counted."""
    assert not history.samples
    await clock.advance(60)
    assert list(history.samples) == [(1060.0, 1, 2)]
    driver.do(apps(app("one", "root.a"), rm="rm2"), asks(ask("one", "k1", vcore=1), rm="rm2"))
    await clock.advance(119)
    assert list(history.samples) == [(1060.0, 1, 2), (1120.0, 2, 3)]


async def test_a_day_is_kept(clock: VirtualClock, history: History) -> None:
    """After a day each new sample replaces the oldest."""
    await clock.advance(60 * (SAMPLES + 2))
    assert len(history.samples) == SAMPLES
    assert history.samples[0].time == 1000 + 60 * 3
    assert history.samples[-1].time == 1000 + 60 * (SAMPLES + 2)
