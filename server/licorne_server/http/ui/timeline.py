"""The timeline of an application: when each of its asks waited, ran and was stopped, and why.

Present asks come from the core. Ended ones come from the record of victims and from the RM's
event log, as far back as these go.
"""

from collections.abc import Iterator
from contextlib import suppress
from operator import itemgetter

from aiohttp import web

from licorne_core.messages.events.allocations import Asked as AskCame
from licorne_core.messages.events.allocations import Freed
from licorne_core.messages.events.records import EventDetail, EventRecord, Fact
from licorne_core.messages.preemption import PreemptionRecord, PreemptionRule
from licorne_core.values.asks import Ask
from licorne_core.values.errors import NotFound
from licorne_core.values.ids import rm_of
from licorne_core.views.applications import AppReport
from licorne_server.http.pages import Maker
from licorne_server.http.stream import JsonObject, Rows
from licorne_server.http.units import Asked, milliseconds
from licorne_server.reads.sources import Sources

MAX_ROWS = 500
"""Asks that are shown, at most: the latest."""

MAX_FACTS = 200_000
"""Facts of the event log that are examined, at most: the latest."""

PART = 256
"""Facts that are examined without a pause, at most."""

_ENDS = {
    EventDetail.ALLOC_CANCEL: "released",
    EventDetail.ALLOC_PREEMPT: "preempted",
    EventDetail.ALLOC_TIMEOUT: "timed out",
    EventDetail.ALLOC_REPLACED: "replaced",
    EventDetail.ALLOC_NODEREMOVED: "node removed",
    EventDetail.REQUEST_CANCEL: "cancelled",
    EventDetail.REQUEST_TIMEOUT: "timed out",
}
"""Ends of asks and allocations."""

_RULES = {
    PreemptionRule.GUARANTEE: "a queue was below its guarantee",
    PreemptionRule.REQUIRED_NODE: "the ask may go to no other node",
    PreemptionRule.QUOTA: "a queue had more than its maximum",
    PreemptionRule.DRAIN: "an operator drains its node",
}


async def timeline(request: web.Request) -> web.StreamResponse:
    """The latest asks of an application, each with its phases; `more` counts the others."""
    asked, maker = Asked(request), Maker.of(request)
    found = Timeline(asked)
    await maker.all(found.steps())
    return await maker.send(request, found.answer())


class Timeline:
    """The rows of one application, the latest first."""

    def __init__(self, asked: Asked) -> None:
        """Find the application; raises NotFound."""
        self._sources: Sources = asked.sources
        self._partition = asked.partition
        self._name = asked.name("app")
        self._app: AppReport = asked.views.application(self._partition, self._name)
        self._victims: dict[str, PreemptionRecord] = {}
        # The ends of asks that never ran, until their arrival is found in the log.
        self._ends: dict[str, tuple[float, str]] = {}
        self._rows: list[tuple[float, JsonObject]] = []
        self._count = 0

    def steps(self) -> Iterator[None]:
        """Collect the rows; the reader may pause at every step."""
        views, partition, app = self._sources.views, self._partition, self._name
        for victim in views.preemptions(partition, self._app.app_id):
            self._victims.setdefault(victim.key, victim)
            yield
        for report in views.asks(partition, app):
            if report is not None:
                self._add(report.ask, "", report.request_time, 0.0, None)
            yield
        for item in views.allocations(partition, app):
            if item is not None:
                allocation, stopping = item.allocation, item.stopping
                times = allocation.request_time, allocation.allocation_time
                self._add(allocation.ask, allocation.node_id, *times, None, why=stopping)
            yield
        with suppress(NotFound):
            log = self._sources.events.get(rm_of(partition))
            for number, fact in enumerate(log.latest_facts(), 1):
                if fact.time < self._app.submission_time or number > MAX_FACTS:
                    break
                self._take(fact)
                if not number % PART:
                    yield

    def _take(self, fact: Fact) -> None:
        """Add the row of an ask, if the fact is its end."""
        app_id, finished = self._app.app_id, self._app.finished_time
        if finished and fact.time > finished + 1.0:
            return
        if isinstance(fact, Freed):
            of = fact.allocation
            if of.ask.app_id == app_id:
                times = of.request_time, of.allocation_time, fact.time
                self._add(of.ask, of.node_id, *times, end=_ENDS.get(fact.detail, ""))
        elif isinstance(fact, AskCame):
            ended = self._ends.pop(fact.ask.key, None) if fact.ask.app_id == app_id else None
            if ended is not None:
                self._add(fact.ask, "", fact.time, 0.0, ended[0], end=ended[1])
        elif isinstance(fact, EventRecord) and fact.object_id == app_id:
            is_end = fact.detail in (EventDetail.REQUEST_CANCEL, EventDetail.REQUEST_TIMEOUT)
            if is_end and len(self._ends) < MAX_ROWS:
                self._ends[fact.reference_id] = fact.time, _ENDS[fact.detail]

    def _add(
        self,
        ask: Ask,
        node: str,
        requested: float,
        allocated: float,
        ended: float | None,
        *,
        end: str = "",
        why: str = "",
    ) -> None:
        """Add a row. Times are in unix seconds: `allocated` is 0.0 and `ended` None for not yet."""
        victim = self._victims.get(ask.key) if allocated else None
        if victim is not None and not allocated <= victim.time <= (ended or victim.time):
            victim = None  # an earlier allocation of the same key
        stopped = None if victim is None else victim.time
        queue = None if victim is None else victim.beneficiary_queue
        self._count += 1
        row: JsonObject = {
            "key": ask.key,
            "taskGroup": ask.task_group,
            "placeholder": ask.placeholder,
            "resources": dict(ask.ask_class.resources),
            "node": node,
            "phases": _phases(requested, allocated, stopped, ended),
            "end": end,
            "why": why if victim is None else _RULES[victim.rule],
            "forApplication": "" if victim is None else victim.beneficiary_app_id,
            "forQueue": "" if queue is None else queue.path,
        }
        self._rows.append((requested, row))
        if len(self._rows) >= 2 * MAX_ROWS:
            self._trim()

    def _trim(self) -> None:
        self._rows.sort(key=itemgetter(0), reverse=True)
        del self._rows[MAX_ROWS:]

    def answer(self) -> JsonObject:
        """The rows, the latest first, and the time that they span."""
        self._trim()
        rows = list(map(itemgetter(1), self._rows))
        begin = self._rows[-1][0] if self._rows else self._app.submission_time
        end = self._app.finished_time or self._sources.now()
        span: JsonObject = {"from": milliseconds(begin), "to": milliseconds(end)}
        return {**span, "more": self._count - len(rows), "rows": Rows(rows)}


def _phases(
    requested: float, allocated: float, stopped: float | None, ended: float | None
) -> list[JsonObject]:
    """The phases of an ask, each until the next one begins."""
    begins = [("waiting", requested)]
    if allocated:
        begins.append(("running", allocated))
    if stopped is not None:
        begins.append(("stopping", stopped))
    ends = [*(milliseconds(time) for _, time in begins[1:]), None if ended is None else milliseconds(ended)]
    return [
        {"kind": kind, "from": milliseconds(time), "to": end}
        for (kind, time), end in zip(begins, ends, strict=True)
    ]
