"""The clock of the server."""

import asyncio
import time

import aiohttp
from structlog.testing import capture_logs

from licorne_server.process.clock import Clock, Periodic, SystemClock
from licorne_server.testing import VirtualClock
from support.peers.shim import LOOPBACK, RawSession, connected, serving


def test_time_is_unix_time_and_never_goes_back() -> None:
    """The clock starts at the wall clock's time, and only rises."""
    clock = SystemClock()
    assert abs(clock.now() - time.time()) < 5.0
    times = [clock.now() for _ in range(1000)]
    assert times == sorted(times)


async def test_waiting_ends_at_the_time() -> None:
    """A wait ends close to its deadline, and at once if the deadline has passed."""
    clock = SystemClock()
    until = clock.now() + 0.02
    await clock.wait(until, asyncio.Event())
    # The loop's timers may be early by the resolution of its clock.
    assert clock.now() >= until - 0.001
    await clock.wait(until, asyncio.Event())


async def test_waiting_ends_with_the_event() -> None:
    """An event ends any wait, with or without a deadline."""
    clock = SystemClock()
    for until in (None, clock.now() + 3600):
        event = asyncio.Event()
        waiting = asyncio.create_task(clock.wait(until, event))
        await asyncio.sleep(0)
        assert not waiting.done()
        event.set()
        await waiting


class _Failing(Periodic):
    """Work that fails the first time, and is due every two seconds from then on."""

    def __init__(self, clock: Clock) -> None:
        super().__init__("failing", clock, 5.0)
        self.times: list[float] = []

    async def _work(self) -> float:
        self.times.append(self._clock.now())
        if len(self.times) == 1:
            raise ValueError("broken")
        return self._clock.now() + 2.0


async def test_periodic_work_continues_after_a_failure() -> None:
    """A failure is logged with the name of the task, which runs again after its first wait."""
    clock = VirtualClock(start=100.0)
    work = _Failing(clock)
    work.start()
    await asyncio.sleep(0)
    with capture_logs() as lines:
        await clock.advance(12.0)
    await work.stop()
    assert work.times == [105.0, 110.0, 112.0]
    assert [(line["event"], line["task"]) for line in lines] == [("periodic work failed", "failing")]


async def test_server_has_no_other_clock() -> None:
    """Epoch and start time are times of the clock given to the server."""
    clock = VirtualClock(start=1_234_567.0)
    async with serving(clock=clock, http=LOOPBACK) as server, connected(server) as channel:
        session = RawSession(channel)
        _, welcome = await session.begin()
        assert welcome.epoch == 1_234_567_000_000
        async with (
            aiohttp.ClientSession() as client,
            client.get(f"http://{server.http_address}/ws/v1/clusters") as answer,
        ):
            [cluster] = await answer.json()
        assert cluster["startTime"] == 1_234_567_000_000_000
