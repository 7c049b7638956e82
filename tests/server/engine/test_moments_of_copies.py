"""When copies of the core are made: in a time slice of readers, between commands."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import pytest

import licorne_server.engine.engine
from licorne_core.messages.commands import Hold
from licorne_core.scheduler import Scheduler
from licorne_core.values.ids import RmId
from licorne_core.values.slices import Tuning
from licorne_server.assembly.server import Server
from licorne_server.engine.copied_process import Spent
from licorne_server.engine.copies import Copies, Pauses
from licorne_server.process.fair import TimeSlices
from support.core.builders import config, reload
from support.core.steps import listed
from support.peers.shim import Shim, connected, eventually, serving

RM = RmId("rm")
FREE = Pauses(0.0, lambda: 0)


def nothing() -> None:
    """Check nothing."""


class Gauge:
    """A recorder of time slices."""

    def __init__(self, time_slices: TimeSlices) -> None:
        """Record the use of these slices."""
        self._time_slices = time_slices
        self.slices: list[tuple[str, bool]] = []

    def slice(self, peer: str, more: float = 0.0, *, whole: bool = False) -> Any:
        """Record the slice, and pass it on."""
        self.slices.append((peer, whole))
        return self._time_slices.slice(peer, more, whole=whole)


async def test_copies_are_charged_as_slices_of_the_peer(server: Server, shim: Shim) -> None:
    """Each copy is charged to its caller as one slice of the readers' time."""
    await shim.set_up()
    gauge: Any = Gauge(TimeSlices(lambda: False))
    copies = Copies(server.engine, server.scheduler, gauge, lambda _: "", FREE)
    for peer in ("a", "b", "a"):
        assert await copies.ask(peer, RM, lambda *_: b"done", nothing) == b"done"
    assert gauge.slices == [("a", True), ("b", True), ("a", True)]
    await copies.stop()


async def test_a_copy_waits_for_the_slices_of_other_readers(server: Server, shim: Shim) -> None:
    """A copy is made when its caller gets a slice, and not before."""
    await shim.set_up()
    time_slices = TimeSlices(lambda: False)
    copies = Copies(server.engine, server.scheduler, time_slices, lambda _: "", FREE)
    held: Any = time_slices.slice("reader")
    await held.__aenter__()
    plan = asyncio.create_task(copies.ask("me", RM, lambda *_: b"done", nothing))
    for _ in range(100):
        await asyncio.sleep(0)
    assert copies.made == 0
    await held.__aexit__(None, None, None)
    assert await plan == b"done"
    await copies.stop()


class Meddler:
    """Time slices, in the first of which a large command of the RM is unfinished."""

    def __init__(self, server: Server) -> None:
        """Use a server that carries out large commands in many slices."""
        self._server = server
        self._time_slices = TimeSlices(lambda: False)
        self.found: list[bool] = []

    def is_in_the_middle(self) -> bool:
        """True if a large command has begun and has not ended."""
        [name] = self._server.scheduler.partitions
        return Hold.UNFINISHED in self._server.scheduler.partitions[name].holds

    @asynccontextmanager
    async def slice(self, peer: str, *, whole: bool) -> AsyncIterator[None]:
        """The slice, once the command has begun."""
        if not self.found:
            queues = ", ".join(f"{{name: q{number}}}" for number in range(200))
            self._server.engine.post(reload(config(f"[{queues}]"), rm="rm"))
            await eventually(self.is_in_the_middle)
        async with self._time_slices.slice(peer, whole=whole):
            self.found.append(self.is_in_the_middle())
            yield


async def test_a_copy_waits_for_the_end_of_a_large_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If a large command is unfinished, the copy is made after it."""
    # Each slice of the command takes a whole round, so the test sees it on any machine.
    monkeypatch.setattr(licorne_server.engine.engine, "perf_counter", count(step=10).__next__)
    scheduler = Scheduler(tuning=Tuning(slice_size=1))
    async with serving(scheduler=scheduler) as server, connected(server) as channel:
        await Shim(channel).register()
        meddler: Any = Meddler(server)
        copies = Copies(server.engine, scheduler, meddler, lambda _: "", FREE)

        def queues(scheduler: Scheduler, now: float, spent: Spent) -> bytes:
            [name] = scheduler.partitions
            return str(len(listed(scheduler.views.children(name, "root")))).encode()

        assert await copies.ask("me", RM, queues, nothing) == b"200"
        assert (meddler.found[0], meddler.found[-1], copies.made) == (True, False, 1)
        await copies.stop()
