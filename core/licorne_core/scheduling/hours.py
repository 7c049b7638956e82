"""Budgets of resource-hours as a rule for asks: who has used them up waits for the next window."""

from collections.abc import Iterator

from licorne_core.messages.fairness import HoursCheck, microseconds_as_hours
from licorne_core.model.memory import HoursBudget
from licorne_core.model.queues.queue import Queue
from licorne_core.scheduling.waiting.blockers import OfThing
from licorne_core.values.resources import Resources


class HoursSpent(OfThing):
    """Asks for a resource wait for the next window of a budget of hours."""

    __slots__ = ()

    def lets_through(self) -> bool:
        """True if there are hours left."""
        budget: HoursBudget = self.thing
        return not budget.spent


def hours_checks(leaf: Queue, requested: Resources, now: float) -> Iterator[HoursCheck]:
    """The checks of all budgets of the requested resources, from the leaf up, as of `now`."""
    for queue in leaf.lineage:
        for budget in queue.hours:
            if requested.get(budget.limit.resource):
                span, used = budget.at(now)
                yield HoursCheck(
                    queue=queue.path,
                    requested=requested,
                    limit=budget.limit,
                    used=microseconds_as_hours(used),
                    until=float(span.end),
                    passed=not budget.spent,
                )
