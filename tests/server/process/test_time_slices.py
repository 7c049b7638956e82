"""All readers together have a share of the loop's time, whatever their number."""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from structlog.testing import capture_logs

from licorne_server.process import fair
from licorne_server.process.fair import PAUSE_FACTOR, SLICE_SECONDS, TimeSlices
from licorne_server.process.loop import SLOW_SECONDS, SlowSteps
from licorne_server.reads.paging import Page, filled
from support.patience import PATIENCE


class Time:
    """A time that only passes during work, or while all tasks wait."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Start at 0; timers of the loop are due as soon as all tasks have had a turn."""
        self.now = self.worked = self.rested = 0.0
        loop = asyncio.get_running_loop()

        def later(delay: float, callback: Callable[[], None]) -> asyncio.Handle:
            self.now += delay
            self.rested += delay
            return loop.call_soon(callback)

        monkeypatch.setattr(fair, "perf_counter", lambda: self.now)
        monkeypatch.setattr(loop, "call_later", later)

    def work(self, seconds: float) -> None:
        """Work for this number of seconds."""
        self.now += seconds
        self.worked += seconds


async def read(time_slices: TimeSlices, peer: str, slices: int, work: Callable[[], None]) -> None:
    """Read in this number of slices."""
    for _ in range(slices):
        async with time_slices.slice(peer):
            work()


def yes() -> bool:
    """True: there is scheduling to do."""
    return True


def no() -> bool:
    """False: there is no scheduling to do."""
    return False


@pytest.mark.parametrize("readers", [1, 100])
@pytest.mark.parametrize("busy", [yes, no])
async def test_readers_have_a_quarter_of_the_time(
    busy: Callable[[], bool], readers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many readers there are, they pause three times as long as they work, if scheduling waits."""
    time, time_slices = Time(monkeypatch), TimeSlices(busy)
    work = [read(time_slices, f"p{n}", 5, lambda: time.work(0.0007)) for n in range(readers)]
    await asyncio.gather(*work)
    assert time.worked == pytest.approx(readers * 5 * 0.0007)
    expected = PAUSE_FACTOR * time.worked if busy is yes else 0.0
    assert time.rested == pytest.approx(expected, abs=SLICE_SECONDS)


async def test_a_slice_is_over_after_a_millisecond(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader gets a signal when it has to stop."""
    time, time_slices = Time(monkeypatch), TimeSlices(no)
    async with time_slices.slice("p") as over:
        time.work(SLICE_SECONDS * 0.9)
        assert not over()
        time.work(SLICE_SECONDS * 0.2)
        assert over()


@pytest.mark.parametrize(
    ("turn", "gap", "length"),
    [(0.003, 0.0, 0.001), (0.003, 0.006, 0.002), (0.003, 0.5, 0.003), (0.0003, 0.5, 0.001)],
)
async def test_the_length_of_slices_follows_the_pauses_and_is_bounded(
    turn: float, gap: float, length: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If rounds of the engine are long, readers still have a quarter of the time."""
    time = Time(monkeypatch)
    time_slices = TimeSlices(yes, lambda: turn)
    time.now += gap
    async with time_slices.slice("p") as over:
        time.work(length * 0.9)
        assert not over()
        time.work(length * 0.2)
        assert over()


async def test_other_tasks_run_between_slices() -> None:
    """Between two slices of any readers all other tasks run at least once."""
    time_slices, done = TimeSlices(no), 0
    most, running = 0, True

    def work() -> None:
        nonlocal done
        done += 1

    async def other() -> None:
        nonlocal most
        while running:
            before = done
            await asyncio.sleep(0)
            most = max(most, done - before)

    watching = asyncio.create_task(other())
    await asyncio.gather(*(read(time_slices, f"p{n % 3}", 4, work) for n in range(30)))
    running = False
    await watching
    assert (done, most) == (120, 1)


async def test_peers_take_turns_whatever_their_number_of_readers() -> None:
    """A peer with a hundred readers delays another by two slices for each of the other's."""
    time_slices, order = TimeSlices(no), list[str]()
    many = [
        asyncio.create_task(read(time_slices, "many", 3, lambda: order.append("many"))) for _ in range(100)
    ]
    await asyncio.sleep(0)
    await read(time_slices, "one", 20, lambda: order.append("one"))
    assert order.count("many") <= 42
    await asyncio.gather(*many)
    assert len(order) == 320


async def test_cancelled_readers_are_skipped() -> None:
    """Readers that are cancelled while they wait, or when their turn comes, delay no others."""
    time_slices, order = TimeSlices(no), list[str]()
    for rounds in range(6):
        async with time_slices.slice("first"):
            tasks = [
                asyncio.create_task(read(time_slices, f"p{n % 2}", 1, lambda: order.append("x")))
                for n in range(6)
            ]
            turns = asyncio.create_task(asyncio.sleep(0))
        for _ in range(rounds):
            await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        await asyncio.gather(*tasks, turns, return_exceptions=True)
        assert all(not task.cancelled() for task in tasks[1::2])
    async with asyncio.timeout(PATIENCE):
        await read(time_slices, "last", 1, lambda: order.append("last"))
    assert order[-1] == "last"


async def test_cancelled_readers_are_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that fails, or is cancelled after its slice, is charged for its time."""
    time, time_slices = Time(monkeypatch), TimeSlices(yes)

    async def fail() -> None:
        async with time_slices.slice("p"):
            time.work(0.01)
            raise ValueError("failed")

    for _ in range(10):
        with pytest.raises(ValueError, match="failed"):
            await fail()
        task = asyncio.create_task(read(time_slices, "p", 1, lambda: time.work(0.01)))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert time.rested == pytest.approx(PAUSE_FACTOR * time.worked)


async def test_indivisible_work_is_always_paid_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Indivisible work is followed by its pause, even if no scheduling waits."""
    time, time_slices = Time(monkeypatch), TimeSlices(no)
    for _ in range(3):
        async with time_slices.slice("plans", whole=True):
            time.work(0.05)
    async with time_slices.slice("lists"):
        time.work(SLICE_SECONDS)
    assert time.rested == pytest.approx(3 * 0.05 * PAUSE_FACTOR)


async def test_a_slice_that_is_too_long_is_paid_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a slice of fifty times the usual length nobody reads for a while, even if the core is idle."""
    time, time_slices = Time(monkeypatch), TimeSlices(no)
    await read(time_slices, "p", 3, lambda: time.work(50 * SLICE_SECONDS))
    assert time.rested == pytest.approx(3 * 50 * SLICE_SECONDS * PAUSE_FACTOR)
    time.rested = 0.0
    await read(time_slices, "p", 3, lambda: time.work(1.5 * SLICE_SECONDS))
    assert time.rested == 0.0


async def test_slow_slices_are_counted_and_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log has the duration of a slow slice, its peer, and the reading functions."""
    time, slow = Time(monkeypatch), SlowSteps()
    time_slices = TimeSlices(no, slow=slow)

    def slowly() -> Iterator[str]:
        time.work(0.08)
        yield "row"

    with capture_logs() as lines:
        await read(time_slices, "10.0.0.1", 2, lambda: time.work(SLOW_SECONDS))
        assert not lines
        page = Page[str, str](slowly(), str, cost=len)
        await filled(page, partial(time_slices.slice, "10.0.0.1"))
    told = {"peer": "10.0.0.1", "reader": ["paging.filled"], "seconds": 0.08}
    assert lines == [{"event": "slow slice", "log_level": "warning", **told}]
    assert slow.count["slice"] == 1
    assert slow.seconds["slice"] == pytest.approx(0.08)
