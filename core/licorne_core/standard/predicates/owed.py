"""The bound on the number of asks that wait for answers of the RM."""

from collections.abc import Sized

from licorne_core.scheduling.calls import Call
from licorne_core.scheduling.waiting.blockers import Blocker

MAX_ASSUMED = 1024
"""Maximum number of asks of a partition that wait for answers at a time; further asks are not tried."""

MAX_ASSUMED_IN_SILENCE = 8
"""The same maximum for an RM that missed the last deadline, until it answers again."""

MORE_WHILE_QUICK = 8
"""Factor of `MAX_ASSUMED` for a quick RM, so that checks are open while answers are being sent."""

QUICK_PART = 0.5
"""Share of the deadline in which a quick RM answers `MAX_ASSUMED * MORE_WHILE_QUICK` checks."""


class AnswersOwed(Blocker):
    """Blocks asks with a predicate while too many wait for answers of the RM."""

    __slots__ = ("_waiting", "is_quick", "is_silent")

    def __init__(self, waiting: Sized) -> None:
        """Block asks by the number of `waiting` requests."""
        super().__init__()
        self._waiting = waiting
        self.is_quick = False
        """True if the RM answered quickly the last check that had many other checks before it."""
        self.is_silent = False
        """True if the RM missed the last deadline, and a missing answer counts as a refusal."""

    @property
    def most(self) -> int:
        """Maximum number of requests that wait for answers at a time."""
        if self.is_silent:
            return MAX_ASSUMED_IN_SILENCE
        return MAX_ASSUMED * (MORE_WHILE_QUICK if self.is_quick else 1)

    def lets_through(self) -> bool:
        """True if another ask may wait."""
        return len(self._waiting) < self.most

    def answered(self, call: Call, now: float, deadline: float) -> None:
        """Record that the RM has answered in time; `deadline` is the allowed time in seconds.

        A check with few other checks before it does not show the RM's speed.
        """
        self.is_silent = False
        if call.sent_with and call.behind >= MAX_ASSUMED // 2:
            for_all = (now - call.sent_at) * MAX_ASSUMED * MORE_WHILE_QUICK / call.behind
            self.is_quick = for_all <= deadline * QUICK_PART
