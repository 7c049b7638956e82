"""The starting application of one leaf, and the next one that may be tried."""

from typing import Final

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.states import SCHEDULABLE
from licorne_core.scheduling.order import app_key
from licorne_core.values.app_states import AppState
from licorne_core.values.ranking import Key, Ranking

STARTING_TIME: Final = 300.0
"""Maximum number of seconds from its first allocation for which an application is starting."""


class Admission:
    """The application of a leaf that is starting, and the one that starts next.

    An application is *starting* from its first allocation to its second, and for at most `STARTING_TIME`.
    While one is starting, with or without asks, no accepted application is tried. Otherwise
    only the oldest accepted one is.
    """

    __slots__ = ("_waiting", "starting")

    def __init__(self) -> None:
        """Start without applications."""
        self.starting: Application | None = None
        self._waiting: Ranking[Application] = Ranking()

    def waits_in_turn(self, app: Application) -> bool:
        """True if the application is not tried before its turn."""
        return app.state is AppState.ACCEPTED

    def key(self, app: Application) -> Key:
        """Sort key among applications that wait for admission."""
        return (app.submission_time, app.app_id)

    def note(self, app: Application, *, present: bool) -> None:
        """Record a change of the application; `present` is False once it has left the leaf."""
        if present and self.waits_in_turn(app):
            self._waiting.put(app, self.key(app))
        else:
            self._waiting.discard(app)

    def forget_waiting(self) -> None:
        """Drop all but the starting application."""
        self._waiting.clear()

    def next(self) -> Application | None:
        """The application whose turn it is; None if another application is starting."""
        return None if self.starting is not None else self._waiting.top()


class StrictOrder(Admission):
    """The first application of a strict leaf in order; no other one is tried, and none is starting."""

    __slots__ = ()

    def waits_in_turn(self, app: Application) -> bool:
        """True if the application has asks to try."""
        return bool(app.pending_count) and app.state in SCHEDULABLE

    def key(self, app: Application) -> Key:
        """Sort key of the application in the leaf."""
        return app_key(app, app.leaf)
