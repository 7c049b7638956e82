"""R1: actions of an RM do not affect the messages to another RM."""

from collections.abc import Sequence

import pytest

from licorne_core.messages.commands import OfNoRm
from support.core.driver import Driver
from support.seeds import lively
from support.worlds import Step, World


def told(script: Sequence[Step], rm: str, *, alone: bool) -> list[list[str]]:
    """The messages to an RM after each of its own commands and each step of time.

    After every step the core runs until it is idle, in turns of three decisions. With `alone`, the commands
    of all other RMs are left out.
    """
    driver = Driver()
    answers = []
    for now, command in script:
        driver.now = now
        mine = command is None or isinstance(command, OfNoRm) or command.rm_id == rm
        if not mine and alone:
            continue
        effects = driver.run(3)
        if command is not None and not isinstance(command, OfNoRm):
            effects += driver.send(command) + driver.run(3)
        # Effects have no equality, but their text has everything that is sent.
        own = [repr(effect) for effect in effects if effect.rm_id == rm]
        if mine:
            answers.append(own)
        else:
            assert not own, f"{command} made the core tell {rm}: {own}"
    return answers


@pytest.mark.row(6, 7)
@pytest.mark.worlds(first=4_000_000, one_in=10)
def test_messages_to_an_rm_do_not_depend_on_others(part: range) -> None:
    """Each RM receives the same messages with and without the commands of other RMs."""
    compared = 0
    for seed in part:
        world = World(seed, budgets=False)
        names = [rm.rm for rm in world.rms]
        for rm in names if len(names) > 1 else []:
            together, apart = (told(world.steps, rm, alone=alone) for alone in (False, True))
            assert together == apart, f"world {seed}: {rm} is told other things when alone"
            compared += 1
    assert compared >= lively(len(part)), "too few worlds with several RMs"
