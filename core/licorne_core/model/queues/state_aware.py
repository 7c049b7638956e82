"""State-aware admission: a leaf starts one new application at a time (spec § 5.2, S0)."""

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.states import AppState
from licorne_core.values.ranking import Ranking

STARTING_TIME = 300.0
"""Seconds from its first allocation for which an application is starting at the most."""


class StateAwareAdmission:
    """The application of a leaf that is starting, and the one that starts next.

    An application is *starting* from its first allocation to its second, and for `STARTING_TIME` at
    most. While one is starting, with or without asks, no accepted application is looked at. While
    none is, the oldest accepted one is looked at, and no other accepted one.
    """

    __slots__ = ("_accepted", "starting")

    def __init__(self) -> None:
        """Start without applications."""
        self.starting: Application | None = None
        # Made on first use, as most leaves admit all.
        self._accepted: Ranking[Application] | None = None

    def note(self, app: Application, *, present: bool) -> None:
        """Follow a change of the application's state; `present` is False for one that left."""
        if present and app.state is AppState.ACCEPTED:
            if self._accepted is None:
                self._accepted = Ranking()
            self._accepted.put(app, (app.submission_time, app.app_id))
        elif self._accepted is not None:
            self._accepted.discard(app)

    def forget_accepted(self) -> None:
        """Forget the accepted application; the starting one goes on."""
        self._accepted = None

    def next_accepted(self) -> Application | None:
        """The accepted application that may start now; None while another is starting."""
        if self._accepted is None or self.starting is not None:
            return None
        return self._accepted.top()
