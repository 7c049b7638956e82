"""Lets the applications of state-aware and strict leaves start in turn."""

from collections.abc import Mapping, Sequence
from typing import Final

from licorne_core.extensions.state_aware import AS_FIFO, NAME, POLICY, STRICT
from licorne_core.extensions.state_aware.admission import STARTING_TIME, Admission, StrictOrder
from licorne_core.model.apps.application import Application
from licorne_core.model.queues.queue import Queue
from licorne_core.points import Extension, Former
from licorne_core.scheduling.rules import CheckContext
from licorne_core.values.app_states import AppState
from licorne_core.values.asks import Allocation
from licorne_core.values.errors import InvariantBroken
from licorne_core.values.ids import AppId
from licorne_core.values.rule_kinds import tag_value
from licorne_core.values.timers import Clock, Due, Timer

NO_STARTING_TAG: Final = "application.stateaware.disable"
TIMER: Final = Timer(Due.EXTENSION, name=NAME)

# Looked up once: for every allocation, a lookup in the enumeration would cost as much as two calls.
_ACCEPTED: Final = AppState.ACCEPTED
_RUNNING: Final = AppState.RUNNING


class StateAware(Extension):
    """The admission of each strict or state-aware leaf, and of former ones with a starting application.

    Always true: these leaves, and no others, have the bit.
    """

    def __init__(self, name: str, bit: int, context: CheckContext) -> None:
        """Start without leaves."""
        super().__init__(name, bit, context)
        self._admissions: dict[Queue, Admission] = {}
        self._starts: Clock[Application] = Clock(self.timers, TIMER)

    def ahead_of(self, app: Application) -> Application | None:
        """The application that has to start before this one; None if it may be tried."""
        if not self.waits_in_turn(app):
            return None
        admission = self._admissions[app.leaf]
        first = admission.starting or admission.next()
        return None if first is app else first

    def waits_in_turn(self, app: Application) -> bool:
        """True if the application has to wait for its turn: any in a strict leaf, else only a new one."""
        return self._is_on(app.leaf) and self._admissions[app.leaf].waits_in_turn(app)

    def settled(self, queue: Queue, before: Former | None, now: float) -> None:
        """Rank all applications of the queue again."""
        admission = self._admissions.get(queue)
        if admission is not None:
            admission.forget_waiting()
        if queue.is_leaf and queue.settings.app_sort in (POLICY, STRICT):
            kind = StrictOrder if queue.settings.app_sort == STRICT else Admission
            if type(admission) is not kind:
                if admission is not None and admission.starting is not None:
                    self._starts.cancel(admission.starting)
                self._admissions[queue] = kind()
            queue.interests |= self.bit
        elif admission is not None:
            self._forget_if_unused(queue, admission)

    def removed(self, queue: Queue) -> None:
        """Drop the admission of a removed leaf."""
        self._admissions.pop(queue, None)

    def flagged(self) -> None:
        """Rank all applications again."""
        for admission in self._admissions.values():
            admission.forget_waiting()

    def admitted(self, leaf: Queue, app: Application) -> Sequence[tuple[Application, bool]] | None:
        """Applications, each with True if it may be tried; of those that wait in turn, only the next may."""
        if not self._is_on(leaf):
            return None
        admission = self._admissions[leaf]
        before = admission.next()
        admission.note(app, present=app.app_id in leaf.applications and not app.held)
        first = admission.next()
        others = [other for other in (before, first) if other is not None and other is not app]
        due = app is first or not admission.waits_in_turn(app)
        return [(app, due), *((one, one is first) for one in others)]

    def departed(self, leaf: Queue, app: Application) -> None:
        """Let the next application start, if the departed one was starting."""
        admission = self._admissions.get(leaf)
        if admission is not None:
            admission.note(app, present=False)
            self._end_start(leaf, admission, app)
            due = admission.next()
            if due is not None:
                self.dirty.mark_app(due)

    def state_entered(self, leaf: Queue, app: Application) -> None:
        """End the start of an application that is accepted, completes or ends."""
        admission = self._admissions.get(leaf)
        if admission is not None and app.state is not _RUNNING:
            self._end_start(leaf, admission, app)

    def served(self, leaf: Queue, app: Application, allocation: Allocation, now: float) -> None:
        """Record a placed ask: its application is starting, or has started.

        Until a gang is complete its application still counts as the oldest accepted one.
        """
        admission = self._admissions.get(leaf)
        if admission is None:
            return
        starts = self._is_on(leaf) and leaf.settings.app_sort == POLICY
        if allocation.ask.placeholder:
            starts = starts and app.gang.is_complete(app.placeholder_allocated)
        if admission.starting is app:
            self._end_start(leaf, admission, app)
        elif starts and app.state is _ACCEPTED and not _starts_at_once(app):
            if admission.starting is not None:
                # Asks with a reserved node are placed even while another application is starting (§ 8.6).
                self._end_start(leaf, admission, admission.starting)
            self._set_starting(admission, app)
            self._starts.set(app, now + STARTING_TIME)

    def pass_time(self, now: float, most: int) -> int:
        """End starts whose time has passed, whatever allocations the applications have."""
        count = 0
        while count < most and (app := self._starts.take_due(now)) is not None:
            count += 1
            self._end_start(app.leaf, self._admissions[app.leaf], app)
        self._starts.arm()
        return count

    def recount(self, applications: Mapping[AppId, Application], *, settled: bool) -> None:
        """Check that starting applications have a deadline, and leaves with admissions the bit."""
        for leaf, admission in self._admissions.items():
            starting = admission.starting
            if starting is not None and (starting.leaf is not leaf or starting not in self._starts):
                raise InvariantBroken(f"L1: {leaf.path}: {starting!r} starts for ever")
            if not leaf.interests & self.bit:
                raise InvariantBroken(f"L1: {leaf.path} has an admission, and no interest")
        if not self._starts.is_armed:
            raise InvariantBroken("L1: the first end of a start is not awaited")

    def _is_on(self, leaf: Queue) -> bool:
        sort = leaf.settings.app_sort
        return sort == STRICT or (sort == POLICY and not self.context.flags.get(AS_FIFO))

    def _end_start(self, leaf: Queue, admission: Admission, app: Application) -> None:
        if admission.starting is app:
            self._starts.cancel(app)
            self._set_starting(admission, None)
            self._forget_if_unused(leaf, admission)

    def _set_starting(self, admission: Admission, starting: Application | None) -> None:
        """Set the starting application; None if there is none."""
        before = admission.next()
        admission.starting = starting
        for app in (before, admission.next()):
            if app is not None:
                self.dirty.mark_app(app)

    def _forget_if_unused(self, leaf: Queue, admission: Admission) -> None:
        if admission.starting is None and leaf.settings.app_sort not in (POLICY, STRICT):
            del self._admissions[leaf]
            leaf.interests &= ~self.bit


def _starts_at_once(app: Application) -> bool:
    return tag_value(app.tags, NO_STARTING_TAG).lower() == "true"


KIND: Final = StateAware
