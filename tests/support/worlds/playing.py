"""Plays a script to a core; the RMs in it answer what they are asked."""

from collections.abc import Sequence
from typing import NamedTuple

from licorne_core.events.journal import Fact
from licorne_core.messages.commands import Command
from licorne_core.messages.effects import Effect
from licorne_core.values.slices import Tuning
from support.core.driver import Driver
from support.worlds.answering import Answers
from support.worlds.confirming import Confirmations

REST = None
"""Instead of a command: let the core decide until it has nothing left to do."""
TURN = 5


class Step(NamedTuple):
    """One thing that happens at a time in unix seconds."""

    now: float
    command: Command | None


def play_watched(script: Sequence[Step], tuning: Tuning | None = None) -> tuple[list[Effect], list[Fact]]:
    """All effects that a core answers to a script, and all that those who watch hear."""
    driver = Driver(tuning=tuning)
    answers, confirmations = Answers(driver.scheduler), Confirmations()
    told: list[Effect] = []
    for now, command in script:
        driver.now = now
        for reply in [*answers.due(), *confirmations.due()]:
            effects = driver.send(reply)
            answers.hear(effects)
            confirmations.hear(effects)
            told += effects
        effects = driver.run(TURN) if command is REST else driver.send(command)
        answers.hear(effects)
        confirmations.hear(effects)
        told += effects
    return told, driver.facts
