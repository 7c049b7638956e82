"""Nothing of the core waits for the garbage collector: its full pass would stop everybody."""

import gc
from collections import Counter
from collections.abc import Iterator

import pytest

from licorne_core.messages.commands import Command, RemoveRm, Tick
from support.core.driver import Driver
from support.core.ledger import Ledger
from support.worlds import Step, World
from support.worlds.answering import Answers
from support.worlds.confirming import Confirmations
from support.worlds.playing import REST, TURN

LENGTH = 60
MOSTLY = 0.9


@pytest.fixture(autouse=True)
def collector_off() -> Iterator[None]:
    """Nothing is freed but what nobody knows any more."""
    gc.collect()
    gc.disable()
    yield
    gc.set_debug(0)
    gc.garbage.clear()
    gc.enable()


class Players:
    """A core under the driver, and the RMs of a world, which answer what they are asked."""

    def __init__(self) -> None:
        """Nobody has registered."""
        self.driver = Driver(sweep=LENGTH)
        self._answers, self._confirmations = Answers(self.driver.scheduler), Confirmations()

    def play(self, script: list[Step]) -> None:
        """Carry out the script."""
        for now, command in script:
            self.driver.now = now
            for reply in [*self._answers.due(), *self._confirmations.due()]:
                self._send(reply)
            self._send(command)

    def _send(self, command: Command | None) -> None:
        driver = self.driver
        effects = driver.run(TURN) if command is REST else driver.send(command)
        self._answers.hear(effects)
        self._confirmations.hear(effects)

    def leave(self) -> None:
        """All RMs go, and what they had with them."""
        core = self.driver.scheduler
        for rm in core.views.rms():
            core.handle(RemoveRm(rm_id=rm.rm_id), self.driver.now)
        while core.next_deadline() is not None:
            core.handle(Tick(), self.driver.now)
        # The last one that knows partitions that are gone.
        self.driver.ledger = Ledger()


def garbage() -> Counter[str]:
    """What of the core nobody knows, and only the collector would free, by kind."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    gc.set_debug(0)
    kinds = Counter(
        f"{type(thing).__module__}.{type(thing).__name__}"
        for thing in gc.garbage
        if str(type(thing).__module__).startswith("licorne_core.")
    )
    gc.garbage.clear()
    return kinds


@pytest.mark.worlds(first=4_700_000, one_in=4)
def test_reference_counts_free_all_that_goes(part: range) -> None:
    """What leaves the core while RMs are there, and all that they had, leaves no cycles behind."""
    for seed in part:
        gangs, preempting = ((None, None), (MOSTLY, None), (None, MOSTLY))[seed % 3]
        script = World(seed, LENGTH, gangs=gangs, preempting=preempting).steps
        players = Players()
        players.play(script)
        assert not garbage(), f"world {seed}, at work"
        players.leave()
        assert not garbage(), f"world {seed}, when all have left"
