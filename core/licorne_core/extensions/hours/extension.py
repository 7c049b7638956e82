"""Budgets of hours as a part of a partition."""

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
"""Budgets that follow the time in one turn."""


class Hours(Extension):
    """The budgets of a partition's queues. One is of interest if it has some, or is below one that has."""

    def __init__(self, name: str, bit: int, context: CheckContext) -> None:
        """Start without budgets."""
        super().__init__(name, bit, context)
        self.book = HoursBook(self.timers, context.journal)

    def settled(self, queue: Queue, before: Former | None, now: float) -> None:
        """Give it the budgets that its settings ask for."""
        self.book.attach(queue, now)
        parent = queue.parent
        if queue in self.book.of or (parent is not None and parent.interests & self.bit):
            queue.interests |= self.bit
        else:
            queue.interests &= ~self.bit
        self.dirty.usage.follow(self.bit, on=bool(self.book.known))

    def removed(self, queue: Queue) -> None:
        """What it has used is kept."""
        self.book.detach(queue)
        self.dirty.usage.follow(self.bit, on=bool(self.book.known))

    def settle(self, touched: Mapping[Application, Queue], queues: Sequence[Queue], now: float) -> None:
        """Have the budgets follow the books."""
        if self.book.known:
            self.book.settle(queues, now)

    def begin(self, now: float) -> bool:
        """Follow the time, unless too many windows begin for one turn."""
        book = self.book
        if book.is_due(now):
            self.follow_time(now, MOST_BUDGETS)
            return not book.is_due(now)
        return True

    def follow_time(self, now: float, most: int) -> int:
        """Let so many budgets follow the time, as a new window may have begun; return how many have."""
        followed, opened = self.book.pass_time(now, max(1, most))
        if opened:
            self.dirty.mark(opened)
        return followed

    def kept(self, now: float) -> Iterator[Mapping[Any, Any] | None]:
        """Hours that were used, by queue and resource."""
        yield self.book.kept(now)

    def restore(self, kept: Mapping[Any, Any], now: float) -> Iterator[int]:
        """Used hours count on when their budgets are there."""
        for key, hours in kept.items():
            self.book.keep(key, hours)
        return iter(())

    def dispose(self) -> Iterator[int]:
        """Forget the queues."""
        while self.book.of:
            self.book.of.popitem()
            yield 1

    def recount(self, applications: Mapping[AppId, Application], *, settled: bool) -> None:
        """See `recount.py`."""
        check_budgets(self.book, self.context.tree, self.bit, settled=settled)


KIND: Final = Hours
