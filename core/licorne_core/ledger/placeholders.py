"""Counts of placeholders in their task groups (spec § 6.4)."""

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.gang import TaskGroup
from licorne_core.model.apps.requests import Request, RequestEvent, RequestState
from licorne_core.scheduling.waiting.wakeups import Wakeups
from licorne_core.values.counters import Counters


class Placeholders:
    """Keeps the numbers of task groups, and wakes asks that wait for them."""

    __slots__ = ("_counters", "_wakeups")

    def __init__(self, wakeups: Wakeups, counters: Counters) -> None:
        """Book in one partition."""
        self._wakeups = wakeups
        self._counters = counters

    def give_up(self, app: Application, placeholder: Request) -> None:
        """Give up a free placeholder: it keeps its room for no ask any more."""
        app.gang.take(placeholder)
        self.time_out(app.gang.group_of(placeholder.ask))

    def cancel(self, app: Application, placeholder: Request) -> None:
        """Cancel a free placeholder; the larger real ask waits until it has ended (§ 6.5a)."""
        app.gang.take(placeholder)
        app.gang.group_of(placeholder.ask).cancelled[placeholder] = None

    def end(self, app: Application, placeholder: Request, event: RequestEvent) -> None:
        """End a placeholder. One that was stopped in another way was counted already."""
        group = app.gang.group_of(placeholder.ask)
        if placeholder in group.cancelled:
            del group.cancelled[placeholder]
            self.time_out(group)
        elif placeholder.state is RequestState.PLACEHOLDER:
            if event is RequestEvent.ASK_BACK:
                app.gang.take(placeholder)
            else:
                self.give_up(app, placeholder)

    def end_cancelled(self, app: Application) -> None:
        """End the wait for cancelled placeholders, confirmed by the RM or not."""
        for group in app.gang.groups.values():
            if group.cancelled:
                number = len(group.cancelled)
                group.cancelled.clear()
                self.time_out(group, number)

    def time_out(self, group: TaskGroup, number: int = 1) -> None:
        """Count placeholders that are no longer open and were not replaced."""
        group.timed_out += number
        self._counters.placeholders_timed_out += number
        self._went(group)

    def replace(self, group: TaskGroup) -> None:
        """Count a placeholder that a real allocation has replaced."""
        group.replaced += 1
        self._counters.placeholders_replaced += 1
        self._went(group)

    def _went(self, group: TaskGroup) -> None:
        self._wakeups.placeholder_went(group)
