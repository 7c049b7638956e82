"""The test kit for others: its documentation, its fake RM, and its clock."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import pytest

from licorne import AskRejected, ConfigInvalid, Rejected
from licorne_core.ids import AppId
from licorne_server.settings import SettingsError
from licorne_server.testing import FakeRM, VirtualClock, serve

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "testing.md"


def snippets() -> list[str]:
    """The Python code in the document."""
    return re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)


def test_the_documented_test_passes(tmp_path: Path) -> None:
    """The example of the documentation, copied into an empty folder, is a test that passes."""
    (tmp_path / "test_example.py").write_text(snippets()[0], encoding="utf-8")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_example.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1 passed" in run.stdout, run.stdout + run.stderr


async def test_the_documented_clock_works() -> None:
    """The example with the virtual clock does what the documentation says."""
    namespace: dict[str, object] = {}
    exec(snippets()[1], namespace)
    example = namespace["completes_after_half_a_minute"]
    assert callable(example)
    await example()


async def test_refusals_are_raised_where_they_belong() -> None:
    """What the server does not take is an error of the call that offered it."""
    async with serve() as server, FakeRM(server.target) as rm:
        with pytest.raises(Rejected, match=r"\[rm1\]nowhere"):
            await rm.add_nodes(1, partition="nowhere")
        with pytest.raises(Rejected, match=r"\[rm1\]nowhere"):
            await rm.submit("app", partition="nowhere")
        await rm.ask("nobody", 1)
        with pytest.raises(Rejected, match="nobody-1: failed to find application nobody"):
            await rm.allocated(1)
        assert [type(event) for event in rm.events if isinstance(event, AskRejected)]


async def test_what_does_not_come_is_an_error_that_tells_the_rest() -> None:
    """Waiting ends after a while, and says what was there instead."""
    async with serve() as server, FakeRM(server.target, patience=0.05) as rm:
        await rm.submit("app")
        await rm.ask("app", 1)
        with pytest.raises(TimeoutError, match=r"1 allocations; there are 0 allocations"):
            await rm.allocated(1)


async def test_bad_configurations_are_refused_at_once() -> None:
    """A configuration that is no good stops the server, or the RM, before it begins."""
    with pytest.raises(SettingsError, match="default configuration is refused"):
        async with serve("partitions: 7"):
            pass
    async with serve() as server:
        with pytest.raises(ConfigInvalid):
            async with FakeRM(server.target, config="partitions: 7"):
                pass


async def test_time_stands_still_until_it_is_moved() -> None:
    """With a virtual clock nothing becomes due by itself, and everything when its time comes."""
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
        (app,) = server.views.applications(partition)
        assert app.submission_time == 1000.0
        await clock.advance(0.1)
        assert server.views.applications(partition) == []
        done = server.views.applications(partition, state="completed")
        assert [(item.app_id, item.finished_time) for item in done] == [(AppId("app"), 1030.0)]


async def test_the_clock_stops_at_every_deadline() -> None:
    """One long step does everything at its own time and in order, however many wait."""
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
