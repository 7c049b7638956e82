"""kill -9 of the server, and of the RM, during scheduling: the state is restored."""

import pytest

from soak.kills import kill_the_rm, kill_the_server

SERVER_KILLS = 10
RM_KILLS = 2


@pytest.mark.slow
@pytest.mark.row(161)
async def test_a_killed_server_loses_nothing() -> None:
    """After kills at many moments the server and its RM have the same state, and every ask runs once."""
    cycles: list[int] = []
    await kill_the_server(SERVER_KILLS, cycles.append)
    assert cycles == [*range(1, SERVER_KILLS + 1)]


@pytest.mark.slow
@pytest.mark.row(5, 161)
async def test_a_killed_rm_replays_its_allocations_and_others_are_released() -> None:
    """A new instance of a killed RM replays its own state, and the server has nothing else."""
    cycles: list[int] = []
    await kill_the_rm(RM_KILLS, cycles.append)
    assert cycles == [*range(1, RM_KILLS + 1)]
