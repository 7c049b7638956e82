"""kill -9 of the server, and of the RM, in the middle of scheduling: the books come back."""

import pytest

from licorne import RetryConfig
from licorne_server.testing import FakeRM
from soak.kills import CONFIG, kill_the_rm, kill_the_server
from support.server.books import read_books
from support.server.server_process import ServerProcess

QUICK = RetryConfig(initial=0.05, maximum=0.2)
SERVER_KILLS = 10
RM_KILLS = 2


@pytest.mark.row(161)
async def test_a_server_killed_while_it_schedules_loses_nothing() -> None:
    """Killed at many moments, it and its RM have the same books again, and every ask runs once."""
    cycles: list[int] = []
    await kill_the_server(SERVER_KILLS, cycles.append)
    assert cycles == [*range(1, SERVER_KILLS + 1)]


@pytest.mark.row(161)
async def test_a_killed_server_comes_back_with_the_same_books() -> None:
    """Queues, nodes, applications, allocations and pending asks are those of before the kill."""
    async with (
        ServerProcess() as server,
        FakeRM(server.target, config=CONFIG, retry=QUICK, patience=30) as rm,
    ):
        await rm.add_nodes(20, vcore=10_000)
        await rm.client.drain_node("node-20")
        await rm.submit("app", queue="root.work")
        await rm.submit("waits", queue="root.small", user="bob")
        await rm.ask("app", 100, vcore=1000)
        await rm.ask("waits", 10, vcore=30)
        await rm.allocated(103)
        await rm.release(["app-1", "app-2"])
        before = await read_books(server.target)
        assert len(before.pending) == 7
        await server.restart()
        await rm.until(lambda: rm.client.stats.replayed == 2, "the replay")
        assert await read_books(server.target) == before


@pytest.mark.row(5, 161)
async def test_a_killed_rm_reports_what_runs_and_the_rest_is_freed() -> None:
    """A new instance of a killed RM replays from its own truth; nothing else stays in the books."""
    cycles: list[int] = []
    await kill_the_rm(RM_KILLS, cycles.append)
    assert cycles == [*range(1, RM_KILLS + 1)]
