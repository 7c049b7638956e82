"""The ageing applications of one partition, by their next steps."""

from collections.abc import Iterator, Mapping
from math import inf
from typing import Final

from licorne_core.extensions.ageing.ages import Ages
from licorne_core.extensions.ageing.recount import check_ages
from licorne_core.extensions.ageing.terms import Ageing
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import Request
from licorne_core.model.queues.queue import Queue
from licorne_core.points import Extension
from licorne_core.scheduling.order import raise_by
from licorne_core.scheduling.rules import CheckContext
from licorne_core.values.ids import AppId
from licorne_core.values.slices import parts_of
from licorne_core.values.timers import Clock, Due, Timer

NAME: Final = "ageing"
TIMER: Final = Timer(Due.EXTENSION, name=NAME)


class AgeClock(Extension):
    """The pending asks by age of each application whose leaf has ageing, and their next steps.

    Always true: the deadline of an application is never later than its next step. It may be earlier, as it is
    seldom moved. The partition has a timer for the first deadline.
    """

    def __init__(self, name: str, bit: int, context: CheckContext) -> None:
        """Start without applications."""
        super().__init__(name, bit, context)
        self._ages: dict[Application, Ages] = {}
        self._steps: Clock[Application] = Clock(self.timers, TIMER)

    def apply_leaf(self, app: Application, leaf: Queue, now: float) -> Iterator[int]:
        """Apply the ageing terms of the leaf to the application."""
        terms: Ageing | None = leaf.settings.of(NAME)
        before = self._ages.get(app)
        if terms == (None if before is None else before.terms):
            return
        after = None if terms is None else Ages(terms)
        if after is not None:
            for part in parts_of(list(app.requests.values())):
                for request in part:
                    if request.is_pending:
                        after.add(request, app.pending_count)
                yield 1
        if before is not None:
            raise_by(app, 0)
            self.app_gone(app)
        if after is not None:
            self._keep(app, after)
            self._follow(app, after, now)

    def entered(self, app: Application, request: Request, now: float) -> None:
        """Add a pending ask."""
        ages = self._ages.get(app)
        if ages is not None:
            ages.add(request, app.pending_count)
            self._settle(app, ages, now)

    def left(self, app: Application, now: float) -> None:
        """Update the bonus, as the removed ask may have been the oldest."""
        ages = self._ages.get(app)
        if ages is not None:
            self._settle(app, ages, now)

    def app_gone(self, app: Application) -> None:
        """Cancel the next step of an ended application."""
        if self._ages.pop(app, None) is not None:
            app.interests &= ~self.bit
            self._steps.cancel(app)

    def pass_time(self, now: float, most: int) -> int:
        """Update the bonus of at most `most` applications; return their number."""
        count = 0
        while count < most and (app := self._steps.take_due(now)) is not None:
            count += 1
            ages = self._ages[app]
            ages.awaited = inf
            self._follow(app, ages, now)
        self._steps.arm()
        return count

    def recount(self, applications: Mapping[AppId, Application], *, settled: bool) -> None:
        """Check the ages and the bonus of each application (`recount.py`)."""
        fires = self.timers.deadline(TIMER)
        for app in applications.values():
            terms: Ageing | None = app.leaf.settings.of(NAME)
            awaited = self._next_step(app), fires
            check_ages(app, self._ages.get(app), terms, awaited, settled=settled)

    def _keep(self, app: Application, ages: Ages) -> None:
        self._ages[app] = ages
        app.interests |= self.bit

    def _settle(self, app: Application, ages: Ages, now: float) -> None:
        """Order the application by the age of its oldest pending ask at `now`, in unix seconds."""
        if not ages.is_settled(app.priorities.top, now):
            self._follow(app, ages, now)

    def _follow(self, app: Application, ages: Ages, now: float) -> None:
        ages.follow(app.priorities.top, now)
        if ages.step < ages.awaited:
            ages.awaited = ages.step
            self._steps.set(app, ages.step)
        if raise_by(app, ages.bonus):
            self.dirty.mark_due(app)

    def _next_step(self, app: Application) -> float:
        """Time of the next update of the application, in unix seconds; inf if there is none."""
        step = self._steps.deadline(app)
        return inf if step is None else step


KIND: Final = AgeClock
