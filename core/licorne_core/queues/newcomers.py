"""Which new application a state-aware leaf lets in: one at a time (spec § 5.2, S0)."""

from licorne_core.apps.application import Application
from licorne_core.apps.states import AppState
from licorne_core.ranking import Ranking

STARTING_TIME = 300.0
"""Seconds from the first allocation until an application counts as running without a second."""


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
        if self.starter is not None:
            return None
        first = self._accepted.top()
        return None if first is None else first.item
