"""State-aware admission: a leaf starts one new application at a time (spec § 5.2, S0)."""

from licorne_core.apps.application import Application
from licorne_core.apps.states import AppState
from licorne_core.ranking import Ranking

STARTING_TIME = 300.0
"""Seconds after its first allocation in which an application is starting, without a second one."""


class Newcomers:
    """The application that is starting, and those that are accepted, the oldest first.

    An application is *starting* from its first allocation to its second. While one is, with or
    without asks, no accepted one is looked at; otherwise the oldest accepted one is.
    """

    __slots__ = ("_accepted", "starter")

    def __init__(self, starter: Application | None = None) -> None:
        """Nobody is accepted yet."""
        self.starter = starter
        self._accepted: Ranking[Application] = Ranking()

    def note(self, app: Application, *, present: bool) -> None:
        """The application's state changed, or it came or went."""
        if present and app.state is AppState.ACCEPTED:
            self._accepted.put(app, (app.submission_time, app.app_id))
        else:
            self._accepted.discard(app)

    def due(self) -> Application | None:
        """The accepted application whose turn it is."""
        return None if self.starter is not None else self._accepted.top()
