"""Asks for which no start was found: when one is looked for again.

The pause is that of asks alike, or of one gang: others are planned meanwhile. It lasts `RETRY_TIME`. Where
more than `MOST_IN_VAIN` of them pause, they have their turns one after the other, so many in that time,
however many there are. Those that come while so many wait are queued, too, before anything is searched.
"""

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import Request
from licorne_core.values.asks import AskClass
from licorne_core.values.ids import AppId

RETRY_TIME = 15.0
"""Least seconds from a search in vain to the next one for the same asks."""

MOST_IN_VAIN = 16
"""Searches in `RETRY_TIME` for asks that one was in vain for."""

MOST_KEPT = 1_000
"""Classes and gangs that pause in turn; more of them pause as long as the last of these, without a turn."""

Likeness = AskClass | AppId
"""What asks have in common that have the same start: the class, or for members the gang."""


def likeness(app: Application, request: Request) -> Likeness:
    """What the ask has in common with those that it fails with."""
    return app.app_id if app.gang.has_member(request.ask) else request.ask.ask_class


class Unplanned:
    """The pauses of one partition. Times are in unix seconds.

    Always true: they are in the order of their ends.
    """

    __slots__ = ("_next", "_turns")

    def __init__(self) -> None:
        """Start without pauses."""
        self._turns: dict[Likeness, float] = {}
        # The first time that nobody has yet.
        self._next = 0.0

    def turn(self, asks: Likeness, now: float) -> float:
        """The time at which a start may be looked for, `now` for at once."""
        at = self._turns.get(asks)
        if at is None and self._next > now + 2 * RETRY_TIME:
            at = self.failed(asks, now)
        return now if at is None else max(at, now)

    def failed(self, asks: Likeness, now: float) -> float:
        """Note that no start was found; return the time at which one is looked for again."""
        turns = self._turns
        turns.pop(asks, None)
        while turns and next(iter(turns.values())) <= now - RETRY_TIME:
            # Nobody has come.
            del turns[next(iter(turns))]
        if len(turns) >= MOST_KEPT:
            return now + MOST_KEPT * RETRY_TIME / MOST_IN_VAIN
        at = turns[asks] = max(self._next, now + RETRY_TIME)
        self._next = at + RETRY_TIME / MOST_IN_VAIN
        return at

    def found(self, asks: Likeness) -> None:
        """Note that a start was found."""
        self._turns.pop(asks, None)
