"""Ageing: applications are ordered by a priority that rises while their oldest ask waits (§ 5.2).

The bonus is of the application as a whole: of its place in the leaf, and through the leaf's priority of the
queues above. The priorities of its asks stay as they are, by which preemption compares. It follows the time
in steps, for which each application has one deadline, and every ask that comes or goes.
"""

from collections.abc import Iterator
from math import inf

from licorne_core.model.apps.ages import Ages
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import Request
from licorne_core.model.queues.queue import Queue
from licorne_core.scheduling.order import settle_priority
from licorne_core.scheduling.waiting.dirty import Dirty
from licorne_core.values.ageing import Ageing
from licorne_core.values.ranking import NO_PRIORITY
from licorne_core.values.slices import parts_of
from licorne_core.values.timers import Due, Timer, Timers

TIMER = Timer(Due.AGEING)


class AgeClock:
    """The applications of one partition that have `ages`, by their next steps.

    Always true: the deadline of an application is that of its next step, or earlier, as it is seldom set
    anew; the partition has a timer for the first of them.
    """

    __slots__ = ("_dirty", "_steps", "_timers")

    def __init__(self, dirty: Dirty, timers: Timers[Timer]) -> None:
        """Start without applications."""
        self._dirty = dirty
        self._timers = timers
        self._steps: Timers[Application] = Timers()

    def came(self, app: Application, ages: Ages, request: Request, now: float) -> None:
        """A request of the application is pending."""
        ages.add(request, app.pending_count)
        self.settle(app, ages, now)

    def settle(self, app: Application, ages: Ages, now: float) -> None:
        """Order the application by the age that its oldest pending ask has at unix seconds `now`."""
        if not ages.is_settled(app.priorities.top, now):
            self._follow(app, ages, now)

    def pass_time(self, now: float, most: int) -> int:
        """Let at most so many applications follow the time; return how many have."""
        count = 0
        while count < most and (app := self._steps.take_due(now)) is not None:
            count += 1
            if app.ages is not None:
                app.ages.awaited = inf
                self._follow(app, app.ages, now)
        self._set_timer()
        return count

    def _follow(self, app: Application, ages: Ages, now: float) -> None:
        before = ages.priority
        ages.follow(app.priorities.top, now)
        if ages.step < ages.awaited:
            ages.awaited = ages.step
            self._steps.set(app, ages.step)
            self._set_timer()
        if ages.priority != before:
            count_aged(app.leaf, before, ages.priority)
            self._dirty.mark_due(app)

    def change(self, app: Application, terms: Ageing | None, now: float) -> Iterator[int]:
        """Let the application age by these terms from now on, in steps of a job."""
        before = app.ages
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
            count_aged(app.leaf, before.priority, NO_PRIORITY)
        app.ages = after
        self.forget(app)
        if after is not None:
            self._follow(app, after, now)

    def forget(self, app: Application) -> None:
        """Await no step of the application."""
        self._steps.cancel(app)
        self._set_timer()

    def next_step(self, app: Application) -> float:
        """Time at which the application is looked at next, in unix seconds; inf for none."""
        step = self._steps.deadline(app)
        return inf if step is None else step

    def _set_timer(self) -> None:
        first = self._steps.next_deadline()
        if first is None:
            self._timers.cancel(TIMER)
        elif first != self._timers.deadline(TIMER):
            self._timers.set(TIMER, first)


def count_aged(leaf: Queue, before: int, after: int) -> None:
    """Let a leaf count an aged priority in place of another one, NO_PRIORITY for none."""
    if before != NO_PRIORITY:
        leaf.priorities.remove(before)
    if after != NO_PRIORITY:
        leaf.priorities.add(after)
    settle_priority(leaf)
