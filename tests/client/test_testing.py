"""The test kit for users: its fake RM and its clock."""

import asyncio

import pytest

from licorne import AskRejected, ConfigInvalid, Rejected
from licorne_core.values.ids import AppId
from licorne_server.process.settings import SettingsError
from licorne_server.testing import FakeRM, VirtualClock, serve
from support.core.reports import applications_in


async def test_rejections_are_raised_by_their_call() -> None:
    """A rejected item is an error of the call that submitted it."""
    async with serve() as server, FakeRM(server.target) as rm:
        with pytest.raises(Rejected, match=r"\[rm1\]nowhere"):
            await rm.add_nodes(1, partition="nowhere")
        with pytest.raises(Rejected, match=r"\[rm1\]nowhere"):
            await rm.submit("app", partition="nowhere")
        await rm.ask("nobody", 1)
        with pytest.raises(Rejected, match="nobody-1: failed to find application nobody"):
            await rm.allocated(1)
        assert [type(event) for event in rm.events if isinstance(event, AskRejected)]
        await rm.add_nodes(1)
        await rm.submit("app")
        await rm.ask("app", 1)
        assert set(await rm.allocated(1)) == {"app-1"}


async def test_a_failed_wait_lists_the_received_events() -> None:
    """A wait ends after a while, and its error lists the events that arrived."""
    async with serve() as server, FakeRM(server.target) as rm:
        await rm.submit("app")
        await rm.ask("app", 1)
        rm.patience = 0.05
        with pytest.raises(TimeoutError, match=r"1 allocations; there are 0 allocations"):
            await rm.allocated(1)


async def test_a_missing_server_is_an_error_with_its_target() -> None:
    """A fake RM without a server raises an error with the target and its own name."""
    with pytest.raises(TimeoutError, match=r"waited 0\.1 s for 127\.0\.0\.1:1 to .* RM shim7"):
        async with FakeRM("127.0.0.1:1", rm_id="shim7", patience=0.1):
            pass


async def test_invalid_configurations_are_refused() -> None:
    """An invalid configuration stops the server, or the RM, before it starts."""
    with pytest.raises(SettingsError, match="default configuration is refused"):
        async with serve("partitions: 7"):
            pass
    async with serve() as server:
        with pytest.raises(ConfigInvalid):
            async with FakeRM(server.target, config="partitions: 7"):
                pass


async def test_time_passes_only_on_request() -> None:
    """With a virtual clock nothing is due until the clock is moved, and everything at its time."""
    clock = VirtualClock(start=1000.0)
    async with serve(clock=clock) as server, FakeRM(server.target) as rm:
        await rm.add_nodes(1)
        await rm.submit("app")
        await rm.ask("app", 1)
        await rm.release(await rm.allocated(1))
        await rm.until(lambda: rm.states["app"] == "Completing", "the last release")
        await clock.advance(29.9)
        assert rm.states["app"] == "Completing"
        partition = server.views.partitions()[0].name
        (app,) = applications_in(server.views, partition)
        assert app.submission_time == 1000.0
        await clock.advance(0.1)
        assert applications_in(server.views, partition) == []
        done = applications_in(server.views, partition, state="completed")
        assert [(item.app_id, item.finished_time) for item in done] == [(AppId("app"), 1030.0)]


async def test_the_clock_stops_at_every_deadline() -> None:
    """In one long step every deadline is handled at its own time and in order."""
    clock = VirtualClock(start=0.0)
    heard: list[tuple[float, str]] = []

    async def tick(name: str, every: float) -> None:
        event = asyncio.Event()
        due = every
        while True:
            event.clear()
            await clock.wait(due, event)
            if clock.now() >= due:
                heard.append((clock.now(), name))
                due += every

    tasks = [asyncio.create_task(tick("a", 2.0)), asyncio.create_task(tick("b", 3.0))]
    await asyncio.sleep(0)
    await clock.advance(6.0)
    for task in tasks:
        task.cancel()
    assert heard[:3] == [(2.0, "a"), (3.0, "b"), (4.0, "a")]
    assert sorted(heard[3:]) == [(6.0, "a"), (6.0, "b")]
    assert clock.now() == 6.0


async def test_advance_wakes_sleepers_and_does_not_wait_for_them() -> None:
    """A sleeper is woken when the clock reaches its time, and `advance` does not wait for it."""
    clock = VirtualClock(start=0.0)
    woken: list[float] = []

    async def sleeper(seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append(clock.now())

    tasks = [asyncio.create_task(sleeper(seconds)) for seconds in (2.0, 3.0, 9.0)]
    await asyncio.sleep(0)
    await clock.advance(5.0)
    await asyncio.gather(*tasks[:2])
    assert (sorted(woken), clock.now()) == ([2.0, 3.0], 5.0)
    await clock.advance(4.0)
    await tasks[2]
    assert woken[-1] == 9.0
