"""Pauses applications if too many of their asks find no node."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from licorne_core.extensions.back_off import DELAY, NAME, STANDARD_DELAY
from licorne_core.extensions.back_off.counting import backs_off, stopped_meanwhile
from licorne_core.extensions.back_off.rules import BackOff
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.groups import AskGroup
from licorne_core.model.apps.requests import AskPlace
from licorne_core.model.queues.queue import Queue
from licorne_core.points import Extension, Former
from licorne_core.scheduling.checks import is_stopped
from licorne_core.scheduling.rules import CheckContext
from licorne_core.scheduling.waiting.blockers import Blocker
from licorne_core.values.errors import InvariantBroken
from licorne_core.values.ids import AppId
from licorne_core.values.timers import Clock, Due, Timer

TIMER: Final = Timer(Due.EXTENSION, name=NAME)


class BackOffs(Extension):
    """The applications that back off, and the ends of their back-offs.

    Always true: an application that backs off has the bit and an end, and others have neither.
    """

    def __init__(self, name: str, bit: int, context: CheckContext) -> None:
        """Start without applications."""
        super().__init__(name, bit, context)
        self._ends: Clock[Application] = Clock(self.timers, TIMER)

    def ends_at(self, app: Application) -> float:
        """The end of the application's back-off, in unix seconds; 0.0 if it does not back off."""
        return self._ends.deadline(app) or 0.0

    def settled(self, queue: Queue, before: Former | None, now: float) -> None:
        """Mark leaves with a threshold: the pass may pause their applications."""
        if queue.settings.of(self.name):
            queue.interests |= self.bit
        else:
            queue.interests &= ~self.bit

    def visited(self, leaf: Queue, app: Application) -> Sequence[AskGroup]:
        """Groups that another rule stops now; they are tried, so that they count once it lets them go."""
        return stopped_meanwhile(app, partial(is_stopped, self.context)) if leaf.interests & self.bit else ()

    def pauses(self, leaf: Queue, app: Application, found: AskPlace | None, now: float) -> Blocker | None:
        """Start a back-off if enough asks found no node; otherwise return the blocker for owed answers."""
        if not leaf.interests & self.bit:
            return None
        threshold: int = leaf.settings.of(self.name)
        predicates, context = self.context.predicates, self.context
        if backs_off(app, threshold, found, partial(is_stopped, context), asking=not predicates.full):
            app.interests |= self.bit
            self._ends.set(app, now + leaf.settings.of(DELAY, STANDARD_DELAY))
            context.wakeups.waiting.unpark_inside(app)
            return context.wakeups.blockers.get(BackOff, app)
        return predicates.owed if found is None and predicates.full else None

    def app_gone(self, app: Application) -> None:
        """Cancel the end of the back-off of an ended application."""
        if app.interests & self.bit:
            app.interests &= ~self.bit
            self._ends.cancel(app)

    def pass_time(self, now: float, most: int) -> int:
        """End at most `most` due back-offs; return their number."""
        count = 0
        while count < most and (app := self._ends.take_due(now)) is not None:
            count += 1
            app.interests &= ~self.bit
            self.dirty.mark((app,))
            self.dirty.mark_due(app)
        self._ends.arm()
        return count

    def recount(self, applications: Mapping[AppId, Application], *, settled: bool) -> None:
        """Check that only applications with an end have the bit, and that the timer is for the first."""
        for app in applications.values():
            if bool(app.interests & self.bit) != (app in self._ends):
                raise InvariantBroken(f"A4: {app!r} backs off until {self._ends.deadline(app)}")
        if not self._ends.is_armed:
            raise InvariantBroken("L1: the first end of a back-off is not awaited")


KIND: Final = BackOffs
