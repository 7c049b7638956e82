"""How much is done at a time: large portions for one RM alone, small ones in company.

What is done at once costs less in all; what is done in small portions keeps nobody else waiting. So
it depends on whether several RMs are at work (DESIGN § 2, fairness between RMs).
"""

from time import monotonic
from typing import NamedTuple

from licorne_core.ids import RmId

COMPANY_SECONDS = 1.0
"""How long after two RMs took turns the server still counts on both."""


class Pace(NamedTuple):
    """Portions. `items`: of a request at a time. `inbox` and `turn`: seconds at a time.

    `rounds`: how often the loop comes round between two turns, as a message needs a few rounds
    to get in or out, and should not need a turn of somebody else's for each.
    """

    items: int
    inbox: float
    turn: float
    rounds: int


ALONE = Pace(items=500, inbox=0.002, turn=0.003, rounds=1)
TOGETHER = Pace(items=40, inbox=0.0002, turn=0.0003, rounds=4)


class Pacer:
    """Notices whether commands come from one RM or from several."""

    def __init__(self) -> None:
        """Nobody has said anything yet."""
        self._last: RmId | None = None
        self._together_until = 0.0

    def note(self, rm_id: RmId) -> None:
        """A command of the RM has come."""
        if rm_id != self._last:
            if self._last is not None:
                self._together_until = monotonic() + COMPANY_SECONDS
            self._last = rm_id

    def pace(self) -> Pace:
        """The portions for now."""
        return TOGETHER if monotonic() < self._together_until else ALONE
