"""Preemption keeps its promises in random worlds, as far as that is seen from outside."""

import pytest

from licorne_core.messages.commands import Command, Tick
from properties.test_decisions import CROWDED, MOSTLY
from support.core.driver import Driver
from support.seeds import lively
from support.worlds import Step, World
from support.worlds.evictions import Evictions
from support.worlds.playing import REST, Players

SWEEP = 10
"""Commands after which the core's books are added up."""


class Play:
    """A core with the RMs of a world, and rules of preemption that are checked after each command."""

    def __init__(self) -> None:
        self.driver = Driver(sweep=SWEEP)
        self.players = Players(self.driver)
        self.evictions = Evictions(self.driver.scheduler)

    def send(self, command: Command) -> None:
        """One command; of a turn first what is due, and then what is decided."""
        if isinstance(command, Tick):
            self._send(Tick(decisions=0))
        self._send(command)

    def _send(self, command: Command) -> None:
        self.evictions.before()
        effects = self.players.send(command)
        self.evictions.after(effects, decided=isinstance(command, Tick) and command.decisions > 0)

    def settle(self, turns: int) -> None:
        """Up to so many turns, as long as there is something to do."""
        for _ in range(turns):
            deadline = self.driver.scheduler.next_deadline()
            if deadline is None or deadline > self.driver.now:
                break
            self.send(Tick(decisions=1))

    def step(self, step: Step) -> None:
        """Have the RMs reply, and then carry out a step one decision at a time."""
        self.driver.now = step.now
        for reply in self.players.due():
            self.send(reply)
        if step.command is REST:
            self.settle(1000)
        elif isinstance(step.command, Tick):
            self.settle(step.command.decisions)
        else:
            self.send(step.command)


def victims_in(world: World) -> int:
    """Play the world; the number of victims for asks below a guarantee."""
    play = Play()
    for step in world.steps:
        play.step(step)
    return play.evictions.victims


@pytest.mark.row(12, 140)
@pytest.mark.worlds(first=2_800_000, one_in=2)
def test_preemption_keeps_its_rules(part: range) -> None:
    """Nobody is left below a guarantee, told twice, stopped for nothing or robbed of a promise."""
    victims = 0
    for seed in part:
        try:
            victims += victims_in(World(seed, CROWDED, preempting=MOSTLY))
        except AssertionError as error:
            pytest.fail(f"world {seed}: {error}")
    assert victims >= lively(len(part)) // 20, f"the worlds are too quiet: {victims} victims"
