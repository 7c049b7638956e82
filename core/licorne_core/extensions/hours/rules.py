"""The rule for asks: if the hours of a resource are used up, they wait for the next window."""

from collections.abc import Iterator
from typing import Final

from licorne_core.extensions.hours import NAME
from licorne_core.extensions.hours.book import HoursBook
from licorne_core.extensions.hours.budget import HoursBudget
from licorne_core.extensions.hours.messages import BUDGET_EXHAUSTED, hours_text, microseconds_as_hours
from licorne_core.features import BITS
from licorne_core.messages.checks import RuleCheck
from licorne_core.model.apps.application import Asking
from licorne_core.model.queues.queue import Queue
from licorne_core.scheduling.rules import CheckContext, Checks, Rule, RulePlace
from licorne_core.scheduling.waiting.blockers import Blocker, OfThing
from licorne_core.values.resources import Resources


class HoursSpent(OfThing):
    """Asks for a resource wait for the next window of a budget of hours."""

    __slots__ = ()

    def lets_through(self) -> bool:
        """True if hours are available."""
        budget: HoursBudget = self.thing
        return not budget.spent


class HoursLeft(Rule):
    """No queue has used up its hours of a resource that the ask requests in the current window."""

    def obstacle(self, context: CheckContext, asking: Asking) -> HoursBudget | None:
        book: HoursBook = context.extensions[NAME].book
        return book.spent_by(asking.app.leaf, asking.items) if book.spent else None

    def blocker(self, context: CheckContext, asking: Asking, obstacle: HoursBudget) -> Blocker:
        return context.wakeups.blockers.get(HoursSpent, obstacle)

    def named(self, obstacle: HoursBudget) -> tuple[str, str]:
        return BUDGET_EXHAUSTED, obstacle.path

    def reports(self, context: CheckContext, asking: Asking, obstacle: HoursBudget | None) -> Checks:
        requested = dict(asking.group.together) or asking.group.ask_class.resources
        return _checks(context.extensions[NAME].book, asking.app.leaf, requested, context.dirty.usage.time)


def _checks(book: HoursBook, leaf: Queue, requested: Resources, now: float) -> Iterator[RuleCheck]:
    """The checks of all budgets of the requested resources, from the leaf up, as of `now`."""
    for queue in leaf.lineage:
        for budget in book.of.get(queue, ()):
            if requested.get(budget.limit.resource):
                span, used = budget.at(now)
                yield RuleCheck(
                    code=BUDGET_EXHAUSTED,
                    kind="hours",
                    subject=queue.path,
                    text=_text(budget, microseconds_as_hours(used)),
                    requested=requested,
                    until=float(span.end),
                    passed=not budget.spent,
                )


def _text(budget: HoursBudget, hours: float) -> str:
    """The reason in one sentence, without the time of the reset."""
    resource, amount, window = budget.limit
    used, most = hours_text(resource, hours), hours_text(resource, amount)
    end = ": nothing new starts with it before the window ends" if budget.spent else ""
    return f"{used} of {most} {resource}-hours of this {window.value} used in queue {budget.path}{end}"


RULES: Final[tuple[Rule, ...]] = (
    HoursLeft(RulePlace.TIME, (BUDGET_EXHAUSTED,), HoursSpent, interest=BITS[NAME]),
)
