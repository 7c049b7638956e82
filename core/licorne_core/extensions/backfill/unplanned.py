"""Repeated searches: for asks without a planned start, and for earlier starts.

A pause is for all asks of a class, or one gang: others are planned meanwhile. It lasts `RETRY_TIME`, or the
time for one search for each paused item at a bounded rate, if that is longer. Asks that have never failed
have a rate of their own, and an application without a recent search comes before others.
"""

from collections.abc import Callable, Sequence

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import Request
from licorne_core.model.quotas import Quota
from licorne_core.values.asks import AskClass
from licorne_core.values.ids import AppId

RETRY_TIME = 15.0
"""Minimum seconds from a failed search to the next one for the same asks."""

MOST_AGAIN = 16
"""Maximum number of failed searches in `RETRY_TIME` for asks that have failed before."""

MOST_FIRST = 16
"""Most failed searches in `RETRY_TIME` for asks without one; as many again for applications without any."""

Likeness = AskClass | tuple[AskClass, tuple[Quota, ...]] | AppId
"""Common property of asks that get the same start: the class, and the maxima that bind; or the gang."""


def likeness(app: Application, request: Request, binding: Sequence[Quota]) -> Likeness:
    """The likeness of the ask: all its asks fail together."""
    if app.gang.has_member(request.ask):
        return app.app_id
    ask_class = request.ask.ask_class
    return (ask_class, tuple(binding)) if binding else ask_class


REPLAN_TIME = 5.0
"""Seconds after which an earlier start is searched in any case: learnt runtimes may have become shorter."""

MOST_WORK, WORK_PER_SECOND = 20_000.0, 25_000.0
"""Work of looks at changes at one time, and per second: a tenth of a processor in plain Python."""


class LookBudget:
    """The budget of searches for earlier starts right after a change.

    A search may begin while some budget is left. Searches for single asks examine only the changed nodes;
    searches for gangs examine all nodes, and wait for the budget if many nodes change all the time.
    """

    def __init__(self) -> None:
        """Start with the whole budget."""
        self.changes = 0
        """Number of ended allocations, and of starts that have ended or moved: reasons for a search."""
        self._left = MOST_WORK
        self._at = 0.0

    def has(self, now: float) -> bool:
        """True if a search may begin at unix seconds `now`."""
        self._left = min(MOST_WORK, self._left + max(0.0, now - self._at) * WORK_PER_SECOND)
        self._at = now
        return self._left > 0.0

    def spend(self, work: int) -> None:
        """Note the work of a search."""
        self._left -= work


class Unplanned:
    """The pauses of one partition. Times are in unix seconds."""

    def __init__(self) -> None:
        """Start without pauses."""
        self._ends: dict[Likeness, tuple[float, AppId]] = {}
        """The ends of all pauses, past ones included, whose asks still wait; with the application that failed
        last."""
        self._since = 0.0
        """Beginning of the `RETRY_TIME` in which searches are counted."""
        self._again = 0
        self._first: list[AppId] = []
        """Applications of the failed first searches since then."""

    @property
    def known(self) -> int:
        """Number of pauses, present or past."""
        return len(self._ends)

    def turn(self, app_id: AppId, asks: Likeness, now: float) -> float:
        """The time of the next search for these asks; `now` if it may begin immediately."""
        end, _ = self._ends.get(asks, (None, app_id))
        if end is not None and end > now:
            return end
        until = self._since + RETRY_TIME
        if now >= until:
            return now
        count = len(self._first)
        if end is not None:
            has_turn = self._again < MOST_AGAIN
        else:
            has_turn = count < MOST_FIRST or (count < 2 * MOST_FIRST and app_id not in self._first)
        return now if has_turn else until

    def failed(
        self, app_id: AppId, asks: Likeness, now: float, is_waiting: Callable[[Likeness, AppId], bool]
    ) -> float:
        """Note that no start was found; return the time at which a search may begin again.

        `is_waiting` returns True while such asks exist (of the application, if maxima bind them).
        """
        if now >= self._since + RETRY_TIME:
            self._since, self._again, self._first = now, 0, []
            # Only asks that still wait lengthen the pauses of other asks.
            self._ends = {one: end for one, end in self._ends.items() if is_waiting(one, end[1])}
        if asks in self._ends:
            self._again += 1
        else:
            self._first.append(app_id)
        count = len(self._ends) + (asks not in self._ends)
        end = now + RETRY_TIME * max(1.0, count / MOST_AGAIN)
        self._ends[asks] = end, app_id
        return end

    def found(self, asks: Likeness) -> None:
        """Note that a start was found."""
        self._ends.pop(asks, None)
