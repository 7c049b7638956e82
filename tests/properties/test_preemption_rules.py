"""Preemption keeps its promises in random worlds, as far as that is seen from outside."""

import pytest

from licorne_core.messages.commands import Command, Tick
from properties.test_decisions import CROWDED, MOSTLY
from support.core.driver import Driver
from support.seeds import lively
from support.worlds import World
from support.worlds.answering import Answers
from support.worlds.confirming import Confirmations
from support.worlds.evictions import Evictions
from support.worlds.playing import REST
from support.worlds.resizing import Resizes

SWEEP = 10
"""Commands after which the core's books are added up."""


class Play:
    """A core, what its RMs answer, and who watches its preemption."""

    def __init__(self) -> None:
        self.driver = Driver(sweep=SWEEP)
        self.answers = Answers(self.driver.scheduler)
        self.confirmations = Confirmations()
        self.resizes = Resizes(self.driver.scheduler)
        self.evictions = Evictions(self.driver.scheduler)

    def send(self, command: Command) -> None:
        """One command; of a turn first what is due, and then what is decided."""
        if isinstance(command, Tick):
            self._send(Tick(decisions=0))
        self._send(command)

    def _send(self, command: Command) -> None:
        self.evictions.before()
        effects = self.driver.send(command)
        self.answers.hear(effects)
        self.confirmations.hear(effects)
        self.resizes.hear(effects)
        self.evictions.after(effects, decided=isinstance(command, Tick) and command.decisions > 0)

    def settle(self, turns: int) -> None:
        """Up to so many turns, as long as there is something to do."""
        for _ in range(turns):
            deadline = self.driver.scheduler.next_deadline()
            if deadline is None or deadline > self.driver.now:
                break
            self.send(Tick(decisions=1))


def victims_in(world: World) -> int:
    """Play the world one decision at a time; how many victims there were below a guarantee."""
    play = Play()
    for now, command in world.steps:
        play.driver.now = now
        due = [*play.answers.due(), *play.confirmations.due(), *play.resizes.due()]
        for reply in due:
            play.send(reply)
        if command is REST:
            play.settle(1000)
        elif isinstance(command, Tick):
            play.settle(command.decisions)
        else:
            play.send(command)
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
    assert victims >= lively(len(part)) // 4, f"the worlds are too quiet: {victims} victims"
