"""Work budgets between two turns of the loop: large for a single RM, small for several.

A large budget costs less in all. A small one delays other RMs less, so it applies while several
RMs are active (DESIGN § 2, fairness between RMs).
"""

from collections.abc import Callable
from typing import NamedTuple

from licorne_core.values.ids import RmId

TOGETHER_SECONDS = 1.0
"""Seconds for which two RMs count as active after a command of one followed the other's."""


class WorkBudget(NamedTuple):
    """Limits of work done before other tasks of the loop get their turn."""

    items: int
    """Items of one request in one command, at most."""
    inbox: float
    """Seconds for which queued commands are handled."""
    turn: float
    """Target seconds for one turn of the core, and for all turns of a round together."""
    rounds: int
    """Rounds of the loop between two rounds of the engine.

    A message takes a few rounds to get in or out, and should not wait for turns in each.
    """


ALONE = WorkBudget(items=500, inbox=0.002, turn=0.003, rounds=1)
TOGETHER = WorkBudget(items=40, inbox=0.0002, turn=0.0003, rounds=4)


class BudgetChooser:
    """Chooses the budget: commands come from one RM, or from several."""

    def __init__(self, now: Callable[[], float]) -> None:
        """`now` gives the time in seconds."""
        self._now = now
        self._last: RmId | None = None
        self._together_until = 0.0

    def note(self, rm_id: RmId) -> None:
        """Record a command of the RM."""
        if rm_id != self._last:
            if self._last is not None:
                self._together_until = self._now() + TOGETHER_SECONDS
            self._last = rm_id

    def choose(self) -> WorkBudget:
        """The current budget."""
        until = self._together_until
        return TOGETHER if until and self._now() < until else ALONE
