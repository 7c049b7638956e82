"""Budgets of hours of one partition, and their hook points."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from licorne_core.extensions.hours.book import HoursBook
from licorne_core.extensions.hours.recount import check_budgets
from licorne_core.model.apps.application import Application
from licorne_core.model.queues.queue import Queue
from licorne_core.points import Extension, Former
from licorne_core.scheduling.rules import CheckContext
from licorne_core.values.ids import AppId

MOST_BUDGETS: Final = 500
"""Maximum number of budgets that one turn advances."""


class Hours(Extension):
    """The budgets of a partition's queues. A queue has the bit if it has a budget, or is below one."""

    def __init__(self, name: str, bit: int, context: CheckContext) -> None:
        """Start without budgets."""
        super().__init__(name, bit, context)
        self.book = HoursBook(self.timers, context.journal)

    def settled(self, queue: Queue, before: Former | None, now: float) -> None:
        """Create the budgets that the settings of the queue require."""
        self.book.attach(queue, now)
        parent = queue.parent
        if queue in self.book.of or (parent is not None and parent.interests & self.bit):
            queue.interests |= self.bit
        else:
            queue.interests &= ~self.bit
        self.dirty.usage.track(self.bit, on=bool(self.book.known))

    def removed(self, queue: Queue) -> None:
        """Retain the usage of a removed queue."""
        self.book.detach(queue)
        self.dirty.usage.track(self.bit, on=bool(self.book.known))

    def settle(self, touched: Mapping[Application, Queue], queues: Sequence[Queue], now: float) -> None:
        """Update the budgets from the books."""
        if self.book.known:
            self.book.settle(queues, now)

    def begin(self, now: float) -> bool:
        """Advance budgets in time, unless too many windows begin for one turn."""
        book = self.book
        if book.is_due(now):
            self.follow_time(now, MOST_BUDGETS)
            return not book.is_due(now)
        return True

    def follow_time(self, now: float, most: int) -> int:
        """Advance at most `most` budgets, as a new window may have begun; return their number."""
        followed, opened = self.book.pass_time(now, max(1, most))
        if opened:
            self.dirty.mark(opened)
        return followed

    def retained(self, now: float) -> Iterator[Mapping[Any, Any] | None]:
        """Used hours, by queue and resource."""
        yield self.book.kept(now)

    def restore(self, kept: Mapping[Any, Any], now: float) -> Iterator[int]:
        """Restore used hours, until their budgets are attached."""
        for key, hours in kept.items():
            self.book.keep(key, hours)
        return iter(())

    def dispose(self) -> Iterator[int]:
        """Drop references to queues."""
        while self.book.of:
            self.book.of.popitem()
            yield 1

    def recount(self, applications: Mapping[AppId, Application], *, settled: bool) -> None:
        """See `recount.py`."""
        check_budgets(self.book, self.context.tree, self.bit, settled=settled)


KIND: Final = Hours
