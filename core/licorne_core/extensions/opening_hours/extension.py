"""The leaves of one partition that have opening hours, and the times at which they open and close."""

from collections.abc import Iterator, Mapping
from math import inf
from typing import Final

from licorne_core.extensions.opening_hours import NAME
from licorne_core.extensions.opening_hours.recount import check_leaf
from licorne_core.extensions.opening_hours.terms import OpeningHours
from licorne_core.model.apps.application import Application
from licorne_core.model.queues.queue import Queue
from licorne_core.points import MOST_SETTLED, Extension, Former
from licorne_core.scheduling.rules import CheckContext
from licorne_core.values.errors import InvariantBroken
from licorne_core.values.ids import AppId
from licorne_core.values.timers import Clock, Due, Timer

TIMER: Final = Timer(Due.EXTENSION, name=NAME)


class OpeningClock(Extension):
    """The leaves with opening hours, each with the time of its next change.

    Always true: a leaf has the bit if and only if it is closed, as of the last change; the partition has a
    timer for the first next change. A turn makes no decision before all due changes are applied.
    """

    def __init__(self, name: str, bit: int, context: CheckContext) -> None:
        """Start without leaves."""
        super().__init__(name, bit, context)
        self._hours: dict[Queue, OpeningHours] = {}
        self._changes: Clock[Queue] = Clock(self.timers, TIMER)

    def changes_at(self, leaf: Queue) -> float | None:
        """Time at which the leaf opens or closes next, in unix seconds; None if it is always open."""
        return self._changes.deadline(leaf)

    def settled(self, queue: Queue, before: Former | None, now: float) -> None:
        """Apply the hours of its settings to a leaf."""
        hours: OpeningHours | None = queue.settings.of(NAME) if queue.is_leaf else None
        if hours == self._hours.get(queue):
            return
        if hours is None:
            self.removed(queue)
        else:
            self._hours[queue] = hours
            self._follow(queue, now)
        self.dirty.usage.track(self.bit, on=bool(self._hours))

    def removed(self, queue: Queue) -> None:
        """Drop a removed leaf."""
        if self._hours.pop(queue, None) is not None:
            queue.interests &= ~self.bit
            self._changes.cancel(queue)
            self.dirty.usage.track(self.bit, on=bool(self._hours))

    def opens(self, leaf: Queue, time: float) -> tuple[bool, float]:
        """Whether the leaf is open at a time, and until when."""
        hours, until = self._hours.get(leaf), self.changes_at(leaf)
        if hours is None or until is None:
            return True, inf
        return (not leaf.interests & self.bit, until) if time < until else hours.at(time)

    def begin(self, now: float) -> bool:
        """Open and close leaves up to the current time, unless there are too many for one turn."""
        if self._is_due(now):
            self.pass_time(now, MOST_SETTLED)
        return not self._is_due(now)

    def pass_time(self, now: float, most: int) -> int:
        """Open or close at most `most` leaves; return their number."""
        count = 0
        while count < most and (leaf := self._changes.take_due(now)) is not None:
            count += 1
            self._follow(leaf, now)
        self._changes.arm()
        return count

    def dispose(self) -> Iterator[int]:
        """Drop references to leaves."""
        while self._hours:
            self._hours.popitem()
            yield 1

    def recount(self, applications: Mapping[AppId, Application], *, settled: bool) -> None:
        """See `recount.py`."""
        if settled:
            for queue in self.context.tree.all():
                check_leaf(queue, self._hours.get(queue), self.changes_at(queue), self.bit)
        if not self._changes.is_armed:
            raise InvariantBroken("L1: the first change of opening hours is not awaited")
        if bool(self.dirty.usage.tracking & self.bit) != bool(self._hours):
            raise InvariantBroken(f"O1: {len(self._hours)} leaves have hours, and turns do not follow them")

    def _is_due(self, now: float) -> bool:
        due = self.timers.deadline(TIMER)
        return due is not None and due <= now

    def _follow(self, leaf: Queue, now: float) -> None:
        """Open or close the leaf, as its hours require now."""
        is_open, until = self._hours[leaf].at(now)
        self._changes.set(leaf, until)
        leaf.interests = leaf.interests & ~self.bit if is_open else leaf.interests | self.bit
        self.dirty.mark((leaf,))
        # Holders of starts are tried in each pass, also when their leaf has closed.
        self.context.wakeups.waiting.runnable = True


KIND: Final = OpeningClock
