"""Budgets of hours: in State and REST, in metrics, in the journal, and in stored state."""

from collections.abc import Callable, Mapping

from licorne.v1 import state_pb2 as pb
from licorne_core.config.schema import QueueConfig
from licorne_core.extensions.hours.messages import KeptHours
from licorne_core.extensions.hours.reports import HoursReport
from licorne_core.values.windows import HOUR, Window
from licorne_core.views.queues import QueueReport
from licorne_server.engine.journal.forms import LARGE, TEXT, KeptForm, Row, array, plain, word
from licorne_server.store.documents.encoding import Whole
from licorne_server.wire.features import QueueMetric, Reports

FIELD = "hours_budgets"


def _of_each(of: str) -> Callable[[QueueReport, Callable[[str], bool]], Mapping[str, float] | None]:
    """Seconds of each budget whose resource is displayed."""

    def read(queue: QueueReport, shows: Callable[[str], bool]) -> Mapping[str, float] | None:
        budgets = [budget for budget in queue.extended[FIELD] if shows(budget.resource)]
        return {budget.resource: getattr(budget, of) * HOUR for budget in budgets} or None

    return read


def _is_wanted(queue: QueueConfig) -> bool:
    template = queue.child_template
    return bool(queue.settings.of("hours") or (template is not None and template.settings.of("hours")))


_WHOLE = plain(Whole)
_STORED = Row(KeptHours, time=_WHOLE, used=_WHOLE, amount=_WHOLE, window=word(Window))
_HOURS = Row(KeptHours, **{**_STORED.columns, "used": LARGE})  # the journal has no numbers of over 64 bits

QUEUE_REPORTS = {"hoursBudgets": Reports(FIELD, HoursReport, pb.HoursBudget, without="spent", many=True)}
QUEUE_METRICS = {
    "licorne_queue_budget_resource_seconds": QueueMetric(
        "What may be used in a window, in amounts times seconds.",
        True,
        _of_each("limit"),
    ),
    "licorne_queue_budget_left_resource_seconds": QueueMetric(
        "What is left in the present window; below zero if what runs used more.",
        True,
        _of_each("left"),
    ),
}
KEPT = {
    "hours": KeptForm(
        name="hours",
        owner=array(TEXT, TEXT),
        value=_HOURS,
        rows=(_HOURS,),
        stored=_STORED,
        is_wanted=_is_wanted,
    )
}
