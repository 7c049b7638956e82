"""State-aware admission: a leaf starts one new application at a time (spec § 5.2, S0)."""

from licorne_core.apps.application import Application
from licorne_core.apps.states import AppState
from licorne_core.ranking import Ranking

STARTING_TIME = 300.0
"""Seconds from its first allocation for which an application is starting at the most."""


class StateAwareAdmission:
    """The application of a leaf that is starting, and the one that starts next.

    An application is *starting* from its first allocation to its second, and for `STARTING_TIME` at
    most. While one is starting, with or without asks, no accepted application is looked at. While
    none is, the oldest accepted one is looked at, and no other accepted one.
    """

    __slots__ = ("_accepted", "starting")

    def __init__(self, starting: Application | None = None) -> None:
        """Start without accepted applications."""
        self.starting = starting
        self._accepted: Ranking[Application] = Ranking()

    def note(self, app: Application, *, present: bool) -> None:
        """Follow a change of the application's state; `present` is False for one that left."""
        if present and app.state is AppState.ACCEPTED:
            self._accepted.put(app, (app.submission_time, app.app_id))
        else:
            self._accepted.discard(app)

    def next_accepted(self) -> Application | None:
        """The accepted application that may start now; None while another is starting."""
        return self._accepted.top() if self.starting is None else None
