"""kill -9 of the server, and of the RM, in the middle of scheduling: the books are restored."""

import pytest

from soak.kills import kill_the_rm, kill_the_server

SERVER_KILLS = 10
RM_KILLS = 2


@pytest.mark.slow
@pytest.mark.row(161)
async def test_a_server_killed_while_it_schedules_loses_nothing() -> None:
    """Killed at many moments, it and its RM have the same books again, and every ask runs once."""
    cycles: list[int] = []
    await kill_the_server(SERVER_KILLS, cycles.append)
    assert cycles == [*range(1, SERVER_KILLS + 1)]


@pytest.mark.slow
@pytest.mark.row(5, 161)
async def test_a_killed_rm_reports_what_runs_and_the_rest_is_freed() -> None:
    """A new instance of a killed RM replays its own state; the books have nothing else."""
    cycles: list[int] = []
    await kill_the_rm(RM_KILLS, cycles.append)
    assert cycles == [*range(1, RM_KILLS + 1)]
