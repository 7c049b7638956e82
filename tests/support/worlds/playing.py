"""Plays a script to a core; the RMs in it answer predicate checks."""

from collections.abc import Sequence
from typing import NamedTuple

from licorne_core.commands import Command
from licorne_core.effects import Effect
from licorne_core.events import Fact
from licorne_core.tuning import Tuning
from support.driver import Driver
from support.worlds.answering import Answers

REST = None
"""Instead of a command: let the core decide until it has nothing left to do."""
TURN = 5


class Step(NamedTuple):
    """One thing that happens at a time in unix seconds."""

    now: float
    command: Command | None


def play_watched(
    script: Sequence[Step], tuning: Tuning | None = None
) -> tuple[list[Effect], list[Fact]]:
    """All effects that a core answers to a script, and all that those who watch hear."""
    driver = Driver(tuning=tuning)
    answers = Answers(driver.scheduler)
    told: list[Effect] = []
    for now, command in script:
        driver.now = now
        for answer in answers.due():
            effects = driver.send(answer)
            answers.hear(effects)
            told += effects
        effects = driver.run(TURN) if command is REST else driver.send(command)
        answers.hear(effects)
        told += effects
    return told, driver.facts
