"""Asks for which no start was found: when one is looked for again.

The pause is that of asks alike, or of one gang: others are planned meanwhile. It lasts `RETRY_TIME`, or as
long as it takes to look once for all that pause, so many in that time. What has never failed does not queue
behind these: it has a turn of its own, and an application that has had none of late has one before others.
"""

from collections.abc import Callable

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import Request
from licorne_core.values.asks import AskClass
from licorne_core.values.ids import AppId

RETRY_TIME = 15.0
"""Least seconds from a failed search to the next one for the same asks."""

MOST_AGAIN = 16
"""Failed searches in `RETRY_TIME` for what one has failed for before."""

MOST_FIRST = 16
"""Failed searches in `RETRY_TIME` for what has none behind it; as many more for applications without any."""

Likeness = AskClass | AppId
"""What asks have in common that have the same start: the class, or for members the gang."""


def likeness(app: Application, request: Request) -> Likeness:
    """What the ask has in common with those that it fails with."""
    return app.app_id if app.gang.has_member(request.ask) else request.ask.ask_class


class Unplanned:
    """The pauses of one partition. Times are in unix seconds."""

    def __init__(self) -> None:
        """Start without pauses."""
        self._ends: dict[Likeness, float] = {}
        """The ends of the pauses of all that pause or have paused and still wait."""
        self._since = 0.0
        """The begin of the `RETRY_TIME` in which searches are counted."""
        self._again = 0
        self._first: list[AppId] = []
        """The applications of the failed first searches since then."""

    def turn(self, app_id: AppId, asks: Likeness, now: float) -> float:
        """The time at which to ask again whether a start may be looked for, `now` for at once."""
        end = self._ends.get(asks)
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
        self, app_id: AppId, asks: Likeness, now: float, is_waiting: Callable[[Likeness], bool]
    ) -> float:
        """Note that no start was found; return the time at which one may be looked for again.

        `is_waiting` tells whether there are still such asks.
        """
        if now >= self._since + RETRY_TIME:
            self._since, self._again, self._first = now, 0, []
            # Only what is there makes the pauses of others longer.
            self._ends = {one: end for one, end in self._ends.items() if is_waiting(one)}
        if asks in self._ends:
            self._again += 1
        else:
            self._first.append(app_id)
        count = len(self._ends) + (asks not in self._ends)
        end = self._ends[asks] = now + RETRY_TIME * max(1.0, count / MOST_AGAIN)
        return end

    def found(self, asks: Likeness) -> None:
        """Note that a start was found."""
        self._ends.pop(asks, None)
