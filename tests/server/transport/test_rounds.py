"""Rounds of the loop: the work of all connections together in one round."""

import asyncio

import pytest

from licorne_server.transport.loop.rounds import CALL_WORK, LEAST_BYTES, ROUND_WORK, Rounds

HOST = (False, "host")


class Turns:
    """Counts rounds of the loop, and the work of connections in each."""

    def __init__(self) -> None:
        """Start without rounds."""
        self.rounds = Rounds()
        self.work: list[int] = [0]
        self.order: list[str] = []

    async def pass_by(self, count: int) -> None:
        """Let rounds pass."""
        for _ in range(count):
            self.work.append(0)
            await asyncio.sleep(0)


class Busy:
    """A connection with a number of steps of equal work."""

    def __init__(self, name: str, turns: Turns, steps: int, work: int) -> None:
        """Start with all steps to do."""
        self._name = name
        self._turns = turns
        self._steps = steps
        self._work = work
        self.is_waiting = True

    def go_on(self) -> int:
        """Do a step."""
        self._turns.work[-1] += self._work
        self._turns.order.append(self._name)
        self._steps -= 1
        self.is_waiting = self._steps > 0
        return self._work


@pytest.mark.parametrize("work", [256, LEAST_BYTES, 4 * CALL_WORK, ROUND_WORK + 4 * CALL_WORK])
async def test_the_work_of_a_round_is_bounded(work: int) -> None:
    """A round does its work and one step more, however many connections wait."""
    turns = Turns()
    steps = 3
    connections = max(9, 10 * ROUND_WORK // work // steps)
    for number in range(connections):
        turns.rounds.wait(HOST, Busy(str(number), turns, steps, work))
    await turns.pass_by(40)
    assert len(turns.order) == connections * steps
    assert max(turns.work) < ROUND_WORK + work
    assert turns.work[-1] == 0


async def test_the_two_queues_take_turns() -> None:
    """After a turn of the first queue a connection of the second queue has a turn."""
    turns = Turns()
    for _ in range(9):
        turns.rounds.wait((False, "crowd"), Busy("crowd", turns, 1, ROUND_WORK))
    turns.rounds.wait((False, "other"), Busy("other", turns, 1, 1))
    await turns.pass_by(20)
    assert turns.order.index("other") <= 2
    assert turns.order.count("crowd") == 9


async def test_strangers_have_every_second_turn() -> None:
    """However many hosts of strangers wait, an authenticated peer has every second turn."""
    turns = Turns()
    for number in range(20):
        turns.rounds.wait((False, f"host {number}"), Busy("stranger", turns, 1, ROUND_WORK))
    for _ in range(5):
        turns.rounds.wait((True, "host 1"), Busy("known", turns, 1, ROUND_WORK))
    await turns.pass_by(40)
    assert turns.order[:11].count("known") == 5
    assert turns.order.count("stranger") == 20


async def test_ended_connections_take_no_turn() -> None:
    """Connections that end while they wait cost no work, and the loop then sleeps."""
    turns = Turns()
    turns.rounds.wait(HOST, Busy("first", turns, 1, ROUND_WORK))
    for _ in range(100):
        turns.rounds.wait(HOST, Busy("gone", turns, 0, 0))
    turns.rounds.wait(HOST, Busy("last", turns, 1, 1))
    await turns.pass_by(1)
    assert turns.order[-1] == "last"
    assert turns.rounds.room == ROUND_WORK - 1
    await turns.pass_by(2)
    assert turns.rounds.room == ROUND_WORK


async def test_little_is_read_after_the_work_of_a_round() -> None:
    """A connection may read as much as the remaining work of the round, and little after that."""
    turns = Turns()
    assert turns.rounds.room == ROUND_WORK
    turns.rounds.wait(HOST, Busy("a", turns, 1, ROUND_WORK - 2 * LEAST_BYTES))
    assert turns.rounds.room == 2 * LEAST_BYTES
    turns.rounds.wait(HOST, Busy("b", turns, 1, ROUND_WORK))
    assert turns.rounds.room == LEAST_BYTES
    await turns.pass_by(1)
    assert turns.rounds.room == ROUND_WORK
