"""Who is starting in one state-aware leaf, and who starts next."""

from typing import Final

from licorne_core.model.apps.application import Application
from licorne_core.values.app_states import AppState
from licorne_core.values.ranking import Ranking

STARTING_TIME: Final = 300.0
"""Seconds from its first allocation for which an application is starting at the most."""


class Admission:
    """The application of a leaf that is starting, and the one that starts next.

    An application is *starting* from its first allocation to its second, and for `STARTING_TIME` at
    most. While one is starting, with or without asks, no accepted application is looked at. While
    none is, the oldest accepted one is looked at, and no other accepted one.
    """

    __slots__ = ("_accepted", "starting")

    def __init__(self) -> None:
        """Start without applications."""
        self.starting: Application | None = None
        self._accepted: Ranking[Application] = Ranking()

    def note(self, app: Application, *, present: bool) -> None:
        """Follow a change of the application's state; `present` is False for one that left."""
        if present and app.state is AppState.ACCEPTED:
            self._accepted.put(app, (app.submission_time, app.app_id))
        else:
            self._accepted.discard(app)

    def forget_accepted(self) -> None:
        """Forget the accepted application; the starting one goes on."""
        self._accepted.clear()

    def next_accepted(self) -> Application | None:
        """The accepted application that may start now; None while another is starting."""
        return None if self.starting is not None else self._accepted.top()
