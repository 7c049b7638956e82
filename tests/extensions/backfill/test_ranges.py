"""Ranges of expected starts: four of five starts lie within their ranges."""

from collections.abc import Callable
from itertools import count
from random import Random

import pytest

from licorne_core.extensions.backfill.ranges import FEWEST_ERRORS, MOST_ERRORS, Expected, Range, Ranges
from licorne_core.values.ids import QueuePath
from licorne_server.testing import FakeRM, VirtualClock, serve
from support.core.builders import config

LEAF = QueuePath("root.a")
SMALL, LARGE = (("vcore", 1000),), (("vcore", 8000),)
STARTS = 3000
BACKFILL = config("[{name: a}]", properties="{backfill: easy}")


def expected(start: float, items: tuple[tuple[str, int], ...] = SMALL, *, is_held: bool = False) -> Expected:
    """A start that was published at the time 0."""
    return Expected(LEAF, items, is_held, 0.0, start)


def told(ranges: Ranges, ask: Expected, start: float) -> Range | None:
    """The range of the expected start, None without one; then let the ask start."""
    found = ranges.range(ask)
    ranges.started(ask, found, start)
    return found


ERRORS: dict[str, Callable[[Random, int], float]] = {
    "as always": lambda random, _: random.lognormvariate(-0.5, 1.0),
    "in waves": lambda random, number: random.lognormvariate(number // 300 % 2, 0.3),
    "ever later": lambda random, number: random.uniform(0.5, 1.5) * (1.0 + number / STARTS),
}


@pytest.mark.parametrize("error", ERRORS.values(), ids=ERRORS)
def test_four_of_five_starts_come_within_their_ranges(error: Callable[[Random, int], float]) -> None:
    """This holds for constant errors, for waves, and for growing ones."""
    random, ranges, within = Random(29), Ranges(), []
    for number in range(STARTS):
        ask = expected(random.uniform(60.0, 7200.0), random.choice((SMALL, LARGE)))
        start = ask.start * error(random, number)
        found = told(ranges, ask, start)
        if found is not None:
            within.append(found.earliest <= start <= found.latest)
    assert len(within) == STARTS - FEWEST_ERRORS
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
