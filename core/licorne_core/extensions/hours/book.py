"""The budgets of resource-hours of one partition, and the times at which new windows begin."""

from collections.abc import Iterable
from typing import Final

from licorne_core.extensions.hours import NAME
from licorne_core.extensions.hours.budget import MICROSECONDS, HoursBudget, microseconds
from licorne_core.extensions.hours.messages import (
    BUDGET_AVAILABLE,
    BUDGET_EXHAUSTED,
    HoursLimit,
    KeptHours,
    hours_text,
    microseconds_as_hours,
)
from licorne_core.messages.events.records import EventChange, EventRecord, EventType
from licorne_core.messages.kept import BRIDGED, MOST_KEPT
from licorne_core.model.queues.queue import Queue
from licorne_core.model.rm_context import Journal
from licorne_core.values.ids import QueuePath
from licorne_core.values.resources import Items
from licorne_core.values.timers import Due, Timer, Timers

_HOURS: Final = Timer(Due.EXTENSION, name=NAME)

_NEAR: Final = 60.0
"""Seconds before a change during which its time is tracked exactly."""

_GROWTH: Final = 4
"""Factor by which usage may grow before a distant deadline becomes invalid."""

Key = tuple[QueuePath, str]
"""The path of a queue and the name of a resource."""


class HoursBook:
    """All budgets of hours of one partition, with one deadline for the first change by time alone.

    A near deadline in `_due` is exact. A distant one is computed for four times the usage, so that usage may
    rise without a new deadline. If a deadline is reached and nothing changes, the next one is derived.
    """

    def __init__(self, timers: Timers[Timer], journal: Journal) -> None:
        """Start without budgets."""
        self.known: dict[Key, HoursBudget] = {}
        self.of: dict[Queue, tuple[HoursBudget, ...]] = {}
        """Budgets of the queues that have some."""
        self.spent = 0
        """Number of budgets that are used up."""
        self._kept: dict[Key, KeptHours] = {}
        self._due: Timers[HoursBudget] = Timers()
        self._timers = timers
        self._journal = journal

    def attach(self, queue: Queue, now: float) -> None:
        """Create the budgets that the settings of a queue require; those of its parent exist already."""
        before = {budget.limit.resource: budget for budget in self.of.pop(queue, ())}
        found = []
        limits: tuple[HoursLimit, ...] = queue.settings.of(NAME) or ()
        for limit in limits:
            key = (queue.path, limit.resource)
            budget = before.pop(limit.resource, None)
            if budget is None:
                budget = self.known[key] = HoursBudget(queue.path, limit, now)
                kept = self._kept.pop(key, None)
                if kept is not None:
                    budget.restore(kept, min(now, kept.time / MICROSECONDS + BRIDGED))
            elif budget.limit != limit:
                budget.change(limit, now)
            found.append(budget)
            budget.follow(queue.allocated.get(limit.resource, 0), now)
            self._plan(budget, now)
        for budget in before.values():
            budget.follow(0, now)
            if budget.published:
                text = f"{BUDGET_AVAILABLE}: {budget.limit.resource}-hours are not bounded any more"
                self._tell(budget, text, now)
            self._leave(budget)
        if found:
            self.of[queue] = tuple(found)
        self._arm()

    def detach(self, queue: Queue) -> None:
        """Retain the usage of a removed queue."""
        for budget in self.of.pop(queue, ()):
            self._leave(budget)

    def _leave(self, budget: HoursBudget) -> None:
        """Retain the usage of a budget that is not configured any more; its amount in use becomes 0."""
        self._due.cancel(budget)
        self.spent -= budget.published
        key = (budget.path, budget.resource)
        del self.known[key]
        self.keep(key, budget.kept(0.0))

    def settle(self, queues: Iterable[Queue], now: float) -> None:
        """Update the budgets of these queues from the books."""
        time = microseconds(now)
        for queue in queues:
            for budget in self.of.get(queue, ()):
                amount = queue.allocated.get(budget.resource, 0)
                if amount != budget.amount:
                    changed = budget.follow_at(amount, time)
                    if changed or amount > budget.foreseen or not amount:
                        self._plan(budget, now)
        self._arm()

    def keep(self, key: Key, kept: KeptHours) -> None:
        """Retain the usage of a removed queue for a later queue; if there are too many, drop the oldest."""
        self._kept.pop(key, None)
        if not (kept.used or kept.amount):
            return
        self._kept[key] = kept
        if len(self._kept) > MOST_KEPT:
            del self._kept[next(iter(self._kept))]

    def kept(self, now: float) -> dict[Key, KeptHours]:
        """Usage to retain as of `now`."""
        return {**self._kept, **{key: budget.kept(now) for key, budget in self.known.items()}}

    def pass_time(self, now: float, most: int) -> tuple[int, list[HoursBudget]]:
        """Advance at most `most` budgets in time: all windows of one kind begin at the same time.

        Return the number advanced, and the budgets with a new window, whose asks may be tried again.
        """
        followed, opened = 0, []
        while followed < most and (budget := self._due.take_due(now)) is not None:
            if budget.follow(budget.amount, now) and not budget.spent:
                opened.append(budget)
            self._plan(budget, now)
            followed += 1
        self._arm()
        return followed, opened

    def spent_by(self, leaf: Queue, items: Items) -> HoursBudget | None:
        """The first used-up budget, from the leaf up, of a resource in `items`; None if there is none."""
        for queue in leaf.lineage:
            for budget in self.of.get(queue, ()):
                if budget.spent:
                    for name, value in items:
                        if value and name == budget.limit.resource:
                            return budget
        return None

    def is_due(self, now: float) -> bool:
        """True if time has changed a budget that has not been advanced yet."""
        due = self._due.next_deadline()
        return due is not None and due <= now

    def _plan(self, budget: HoursBudget, now: float) -> None:
        """Publish a change of a budget, and set the time of the next one."""
        if budget.spent != budget.published:
            budget.published = budget.spent
            self.spent += 1 if budget.spent else -1
            self._tell(budget, _text(budget), now)
        budget.foreseen = budget.amount
        at = budget.changes_at(budget.foreseen)
        if at is None:
            self._due.cancel(budget)
            return
        if at > now + _NEAR:
            budget.foreseen *= _GROWTH
            at = budget.changes_at(budget.foreseen) or at
        self._due.set(budget, at)

    def _tell(self, budget: HoursBudget, text: str, now: float) -> None:
        """QUEUE set, without details: the queue's hours of a resource are used up, or available again."""
        about = EventType.QUEUE, budget.path, EventChange.SET
        self._journal.note(EventRecord(now, *about, reference_id=budget.resource, message=text))

    def _arm(self) -> None:
        due = self._due.next_deadline()
        if due is None:
            self._timers.cancel(_HOURS)
        elif due != self._timers.deadline(_HOURS):
            self._timers.set(_HOURS, due)


def _text(budget: HoursBudget) -> str:
    """Text of an event about a budget that has changed."""
    resource, amount, window = budget.limit
    used, most = (hours_text(resource, hours) for hours in (microseconds_as_hours(budget.used), amount))
    text = f"{used} of {most} {resource}-hours of this {window.value} used"
    if budget.spent:
        return f"{BUDGET_EXHAUSTED}: {text}, nothing new starts with {resource} before {budget.span.end}"
    return f"{BUDGET_AVAILABLE}: {text}"
