"""Ranges of expected starts: four of five starts lie within their ranges."""

from collections.abc import Callable
from itertools import count
from math import inf
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from licorne_core.extensions.backfill.ranges import FEWEST_ERRORS, MOST_ERRORS, Expected, Range, Ranges
from licorne_core.extensions.backfill.reports import StartSample
from licorne_core.values.ids import AllocationKey, AppId, PartitionName, QueuePath
from licorne_server.extensions.backfill import Observed
from licorne_server.testing import FakeRM, VirtualClock, serve
from support.core.builders import config

LEAF = QueuePath("root.a")
SMALL, LARGE = (("vcore", 1000),), (("vcore", 8000),)
STARTS = 2000
BACKFILL = config("[{name: a}]", properties="{backfill: easy}")


def expected(start: float, items: tuple[tuple[str, int], ...] = SMALL, *, is_held: bool = False) -> Expected:
    """A start that was published at the time 0."""
    return Expected(LEAF, items, is_held, 0.0, start)


def told(ranges: Ranges, ask: Expected, start: float) -> Range | None:
    """Return the range of the expected start, or None, and let the ask start."""
    found = ranges.range(ask)
    if found is not None:
        ranges.judge(ask, found, start, 1)
    ranges.started(ask, start)
    return found


ERRORS: dict[str, tuple[float, Callable[[Random, int], float]]] = {
    "as always": (1e5, lambda random, _: random.lognormvariate(-0.5, 1.0)),
    "in waves": (1e5, lambda random, number: random.lognormvariate(number // 300 % 2, 0.3)),
    "ever later": (1e5, lambda random, number: random.uniform(0.5, 1.5) * (1.0 + number / STARTS)),
    "known hours later": (5.0, lambda random, _: random.lognormvariate(-0.5, 0.7)),
}


@pytest.mark.parametrize("case", ERRORS)
def test_four_of_five_starts_come_within_their_ranges(case: str) -> None:
    """So it is with constant, alternating and growing errors, and while hundreds of starts are awaited."""
    (pause, error), starts, now = ERRORS[case], dict[AllocationKey, float](), 0.0
    views: Any = SimpleNamespace(listed=lambda *ask: iter([at if (at := starts[ask[-1]]) <= now else inf]))
    random, observed, within = Random(29), Observed(), []
    for number in range(STARTS):
        now, key, wait = pause * number, AllocationKey(str(number)), random.uniform(1500.0, 4500.0)
        observed.learn(views, PartitionName("default"), now)
        ask = Expected(LEAF, random.choice((SMALL, LARGE)), False, now, now + wait)
        starts[key] = now + wait * error(random, number)
        observed.take(StartSample(app_id=AppId("a"), key=key, behind=0, expected=ask))
        found = observed.awaited[AppId("a"), key].range
        if found is not None:
            within.append(found.earliest <= starts[key] <= found.latest)
    assert 0.78 <= sum(within) / len(within) <= 0.82


def test_there_is_no_range_before_enough_starts() -> None:
    """A range needs a number of earlier starts; shadow starts and estimates are counted separately."""
    ranges = Ranges()
    assert [told(ranges, expected(600.0), 500.0) for _ in range(FEWEST_ERRORS)] == [None] * FEWEST_ERRORS
    assert ranges.range(expected(600.0)) == (500, 500)
    assert ranges.range(expected(600.0, is_held=True)) is None


def test_a_size_has_a_range_of_its_own_once_it_has_started_often_enough() -> None:
    """Until then the range of all sizes counts; only the latest errors are kept."""
    ranges = Ranges()
    for _ in range(4 * MOST_ERRORS):
        told(ranges, expected(600.0), 600.0)
    assert ranges.range(expected(600.0, LARGE)) == (600, 600)
    for _ in range(FEWEST_ERRORS):
        told(ranges, expected(600.0, LARGE), 60.0)
    assert ranges.range(expected(600.0, LARGE)) == (60, 60)
    assert ranges.range(expected(600.0)) == (600, 600)
    for _ in range(MOST_ERRORS):
        told(ranges, expected(600.0), 300.0)
    assert ranges.range(expected(600.0)) == (300, 300)


async def test_the_server_learns_the_range_of_expected_starts() -> None:
    """Jobs declare 600 seconds and take 25: after enough of them the range ends before the expected start."""
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
            if number > FEWEST_ERRORS:
                assert found.level == 80
                assert clock.now() * 1e9 < found.earliest <= found.latest < found.starts_at
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
