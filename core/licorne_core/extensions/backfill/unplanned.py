"""Retries of the search for asks without a planned start.

A pause concerns all asks of a class, or one gang: others are planned meanwhile. It lasts `RETRY_TIME`, or as
long as it takes to search once for all paused ones, at a bounded rate. Asks that have never failed have a
rate of their own, and an application without a recent search comes before others.
"""

from collections.abc import Callable

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import Request
from licorne_core.values.asks import AskClass
from licorne_core.values.ids import AppId

RETRY_TIME = 15.0
"""Least seconds from a failed search to the next one for the same asks."""

MOST_AGAIN = 16
"""Most failed searches in `RETRY_TIME` for asks that have failed before."""

MOST_FIRST = 16
"""Most failed searches in `RETRY_TIME` for asks without one; as many again for applications without any."""

Likeness = AskClass | AppId
"""Common property of asks that get the same start: the class, or for members the gang."""


def likeness(app: Application, request: Request) -> Likeness:
    """The likeness of the ask: all its asks fail together."""
    return app.app_id if app.gang.has_member(request.ask) else request.ask.ask_class


class Unplanned:
    """The pauses of one partition. Times are in unix seconds."""

    def __init__(self) -> None:
        """Start without pauses."""
        self._ends: dict[Likeness, float] = {}
        """The ends of all pauses, present or past, whose asks still wait."""
        self._since = 0.0
        """Beginning of the `RETRY_TIME` in which searches are counted."""
        self._again = 0
        self._first: list[AppId] = []
        """Applications of the failed first searches since then."""

    def turn(self, app_id: AppId, asks: Likeness, now: float) -> float:
        """The time of the next search for these asks; `now` if it may begin at once."""
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
        """Note that no start was found; return the time at which a search may begin again.

        `is_waiting` returns True while such asks exist.
        """
        if now >= self._since + RETRY_TIME:
            self._since, self._again, self._first = now, 0, []
            # Only asks that still wait lengthen the pauses of others.
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
