"""Ranges of expected starts: four of five starts lie within their ranges."""

from collections.abc import Callable, Iterator
from itertools import count
from math import inf
from random import Random
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest

from licorne_core.extensions.backfill.ranges import (
    FEWEST_ERRORS,
    FEWEST_OWN,
    MOST_ERRORS,
    Expected,
    Range,
    Ranges,
)
from licorne_core.extensions.backfill.reports import StartSample
from licorne_core.model.runtimes import FEWEST_SAMPLES
from licorne_core.values.asks import Shape
from licorne_core.values.ids import AllocationKey, AppId, PartitionName, QueuePath
from licorne_core.values.resources import Items
from licorne_core.values.tags import RUNTIME
from licorne_server.extensions.backfill import Observed
from licorne_server.testing import FakeRM, VirtualClock, serve
from support.core.builders import app, apps, ask, asks, config, node, nodes, register
from support.core.driver import Driver
from support.core.steps import last

LEAF, PARTITION = QueuePath("root.a"), PartitionName("[rm1]default")
SMALL, LARGE = (("vcore", 1000),), (("vcore", 8000),)
STARTS = 2000
BACKFILL = config("[{name: a}]", properties="{backfill: easy}")


def expected(start: float, items: Items = SMALL, *, is_declared: bool = False) -> Expected:
    """A start that was published at the time 0."""
    return Expected(LEAF, items, is_declared, 0.0, start)


def told(ranges: Ranges, ask: Expected, start: float) -> Range | None:
    """Return the range of the expected start, or None, and let the ask start."""
    found = ranges.range(ask)
    if found is not None:
        ranges.judge(ask, found, start, 1)
    ranges.started(ask, start)
    return found


ERRORS: dict[str, tuple[float, int, Callable[[Random, int], float]]] = {
    "as always": (1e5, 1, lambda random, _: random.lognormvariate(-0.5, 1.0)),
    "in waves": (1e5, 1, lambda random, number: random.lognormvariate(number // 300 % 2, 0.3)),
    "ever later": (1e5, 1, lambda random, number: random.uniform(0.5, 1.5) * (1.0 + number / STARTS)),
    "known hours later": (5.0, 1, lambda random, _: random.lognormvariate(-0.5, 0.7)),
    "only a few": (1e5, STARTS // 40, lambda random, _: random.lognormvariate(-0.5, 1.0)),
}


def hits(random: Random, starts: int, pause: float, error: Callable[[Random, int], float]) -> Iterator[bool]:
    """For each range of a partition, whether its start is within it."""
    observed, actual, now = Observed(), dict[AllocationKey, float](), 0.0
    views: Any = SimpleNamespace(listed=lambda *ask: iter([at if (at := actual[ask[-1]]) <= now else inf]))
    for number in range(starts):
        now, key, wait = pause * number, AllocationKey(str(number)), random.uniform(1500.0, 4500.0)
        observed.learn(views, PARTITION, now)
        ask = Expected(LEAF, random.choice((SMALL, LARGE)), False, now, now + wait)
        actual[key] = now + wait * error(random, number)
        observed.take(StartSample(app_id=AppId("a"), key=key, behind=0, expected=ask))
        found = observed.awaited[AppId("a"), key].range
        if found is not None:
            yield found.earliest <= actual[key] <= found.latest


@pytest.mark.parametrize("case", ERRORS)
def test_four_of_five_starts_come_within_their_ranges(case: str) -> None:
    """So it is with constant, alternating, growing and few errors, and while hundreds are awaited."""
    pause, partitions, error = ERRORS[case]
    random = Random(29)
    within = [hit for _ in range(partitions) for hit in hits(random, STARTS // partitions, pause, error)]
    assert 0.78 <= sum(within) / len(within) <= 0.82


def test_there_is_no_range_before_enough_starts() -> None:
    """A range needs a number of earlier starts; shadow starts and estimates are counted separately."""
    ranges = Ranges()
    assert [told(ranges, expected(600.0), 500.0) for _ in range(FEWEST_ERRORS)] == [None] * FEWEST_ERRORS
    assert ranges.range(expected(600.0)) == (500, 500)
    assert ranges.range(expected(600.0, is_declared=True)) is None


@pytest.mark.parametrize(("start", "items"), [(600.0, LARGE), (60_000.0, SMALL)])
def test_starts_of_one_kind_have_a_range_of_their_own(start: float, items: Items) -> None:
    """Until enough starts of a size and length of waits are known, that of all; only the latest count."""
    ranges, ask = Ranges(), expected(start, items)
    for _ in range(4 * MOST_ERRORS):
        told(ranges, expected(600.0), 600.0)
    assert ranges.range(ask) == (start, start)
    for _ in range(FEWEST_OWN):
        told(ranges, ask, 60.0)
    assert ranges.range(ask) == (60, 60)
    assert ranges.range(expected(600.0)) == (600, 600)
    for _ in range(MOST_ERRORS):
        told(ranges, expected(600.0), 300.0)
    assert ranges.range(expected(600.0)) == (300, 300)


@pytest.mark.pure
@pytest.mark.parametrize(("tags", "level"), [({}, 80), ({RUNTIME: "60"}, 0)])
def test_a_shadow_start_by_learnt_runtimes_has_the_range_of_estimates(
    tags: dict[str, str], level: int
) -> None:
    """One by declared runtimes, which becomes no later, has a range of its own."""
    driver, ranges = Driver(), Ranges()
    driver.do(register(BACKFILL), nodes(node("n1", memory=1)), apps(app("app", "root.a", tags=tags)))
    for _ in range(FEWEST_SAMPLES):
        driver.partition.runtimes.learn(LEAF, Shape({"memory": 1}), 60.0)
    driver.do(asks(*(ask("app", key, memory=1) for key in ("k1", "k2"))))
    for _ in range(FEWEST_ERRORS):
        told(ranges, expected(600.0), 600.0)
    found = last(driver.views.listed("expected_start", PARTITION, "app", "k2", driver.now, ranges))
    assert (found.first_told > 0.0, found.level) == (True, level)


async def test_the_server_learns_the_range_of_expected_starts() -> None:
    """Jobs declare 600 seconds and take 25: after enough of them the range ends before the expected start.

    Explain, the calendar and REST have the same range.
    """
    clock, tags = VirtualClock(), {"licorne/runtime": "600"}
    async with serve(BACKFILL, clock=clock) as served, FakeRM(served.target) as rm:
        await rm.add_nodes(1, vcore=4000)
        await rm.submit("app", queue="root.a", tags=tags)
        await rm.ask("app", vcore=4000)
        for number in count(1):
            await rm.allocated(1)
            await rm.ask("app", vcore=4000)
            await clock.advance(20.0)
            found = (await rm.client.state.explain(f"app-{number + 1}")).expected_start
            assert [entry.start for entry in await rm.client.state.calendar()] == [found]
            if number > FEWEST_ERRORS:
                assert found.level == 80
                assert clock.now() * 1e9 < found.earliest <= found.latest < found.starts_at
                url = f"http://{served.http}/ws/v1/partition/default/calendar"
                async with aiohttp.ClientSession() as http, http.get(url) as answer:
                    [held] = await answer.json()
                assert (held["earliestTime"], held["latestTime"]) == (found.earliest, found.latest)
                return
            assert found.level == found.earliest == found.latest == 0 < found.starts_at
            await rm.release([f"app-{number}"])
            await clock.advance(5.0)


async def test_a_start_beyond_the_range_of_messages_is_the_latest_time() -> None:
    """Behind a job with the longest declared runtime, explain and the calendar show that latest time."""
    async with serve(BACKFILL, clock=VirtualClock()) as served, FakeRM(served.target) as rm:
        await rm.add_nodes(1, vcore=4000)
        await rm.submit("app", queue="root.a", tags={"licorne/runtime": "9999999999"})
        await rm.ask("app", 2, vcore=4000)
        await rm.allocated(1)
        explained, [held] = await rm.client.state.explain("app-2"), await rm.client.state.calendar()
        assert held.start.starts_at == explained.expected_start.starts_at == 2**63 - 1
