"""Fields about budgets of hours in reports of queues."""

from dataclasses import dataclass

from licorne_core.extensions.hours.budget import HoursBudget
from licorne_core.extensions.hours.messages import microseconds_as_hours
from licorne_core.views.fields import Added, Moment, Span


@dataclass(frozen=True, slots=True, kw_only=True)
class HoursReport:
    """A budget of resource-hours in its current window.

    Hours are in amounts times hours. While it is `spent`, asks for the resource wait for the next window.
    """

    resource: str
    limit: float
    used: float
    left: float
    window: Span
    resets_at: Moment
    spent: bool


def hours_report(budget: HoursBudget, now: float) -> HoursReport:
    """A budget as of `now`, or of the last change if that is later."""
    span, used = budget.at(now)
    return HoursReport(
        resource=budget.limit.resource,
        limit=float(budget.limit.amount),
        used=microseconds_as_hours(used),
        left=microseconds_as_hours(budget.most - used),
        window=float(span.end - span.begin),
        resets_at=float(span.end),
        spent=used >= budget.most,
    )


FIELDS = {
    "queue": (
        Added(
            "hours_budgets",
            tuple[HoursReport, ...],
            lambda own, queue, now: tuple(hours_report(budget, now) for budget in own.book.of.get(queue, ())),
            of_time=True,
        ),
    ),
}
