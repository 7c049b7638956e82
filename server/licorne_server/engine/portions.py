"""How much is done at a time: large portions for one RM alone, small ones for several.

Large portions cost less in all. Small portions keep nobody else waiting, so they are used while
several RMs are at work (DESIGN § 2, fairness between RMs).
"""

from collections.abc import Callable
from typing import NamedTuple

from licorne_core.values.ids import RmId

TOGETHER_SECONDS = 1.0
"""How long after a command of one RM followed on one of another both count as at work."""


class Portions(NamedTuple):
    """How much is done before everything else gets a turn of the loop."""

    items: int
    """Items of one request that go into one command."""
    inbox: float
    """Seconds for which waiting commands are handled."""
    turn: float
    """Seconds that a turn of the core should take, and all turns of a round together."""
    rounds: int
    """Rounds of the loop between two rounds of the engine.

    A message needs a few rounds to get in or out, and should not wait for turns in each.
    """


ALONE = Portions(items=500, inbox=0.002, turn=0.003, rounds=1)
TOGETHER = Portions(items=40, inbox=0.0002, turn=0.0003, rounds=4)


class PortionChooser:
    """Chooses the portions by whether commands come from one RM or from several."""

    def __init__(self, now: Callable[[], float]) -> None:
        """`now` gives the time in seconds."""
        self._now = now
        self._last: RmId | None = None
        self._together_until = 0.0

    def note(self, rm_id: RmId) -> None:
        """Take down that a command of the RM has come."""
        if rm_id != self._last:
            if self._last is not None:
                self._together_until = self._now() + TOGETHER_SECONDS
            self._last = rm_id

    def choose(self) -> Portions:
        """The portions for now."""
        until = self._together_until
        return TOGETHER if until and self._now() < until else ALONE
