"""Copies of a server that is not notified of its children: some parents leave SIGCHLD ignored."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from licorne_core.scheduler import Scheduler
from licorne_core.values.ids import RmId
from licorne_server.engine.copied_process import Spent
from support.peers.shim import Shim, connected, serving


@pytest.fixture
def untold() -> Iterator[None]:
    """The system forgets a child as soon as it has ended."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGCHLD, before)


@pytest.mark.usefixtures("untold")
async def test_a_copy_that_the_system_has_forgotten_has_answered() -> None:
    """A copy that has exited by the time at which it is to be ended has answered."""

    def hand_on(scheduler: Scheduler, now: float, spent: Spent) -> bytes:
        pid = os.getpid()
        if os.fork():
            os._exit(0)
        while Path(f"/proc/{pid}").exists():
            os.sched_yield()
        return b"told"

    async with serving() as server, connected(server) as channel:
        await Shim(channel).set_up()
        assert await server.copies.ask("me", RmId("rm"), hand_on, lambda: None) == b"told"
