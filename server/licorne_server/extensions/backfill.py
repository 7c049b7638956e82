"""Shadow starts: in State, in REST, on the page, and in metrics."""

import json
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from google.protobuf.message import Message

from licorne.v1 import state_pb2 as pb
from licorne_core.extensions.backfill.reports import CalendarEntry, Confidence, ExpectedStart
from licorne_core.values.ids import PartitionName
from licorne_core.views import Views
from licorne_core.views.fields import Moment
from licorne_core.views.partitions import PartitionReport
from licorne_server.reads.paging import Page, filled, read_place
from licorne_server.reads.reports import filled as message_of
from licorne_server.wire.features import Measured, PageList, RestList
from licorne_server.wire.responses import nanoseconds

LISTED = "calendar"

_start = message_of(pb.ExpectedStart, ExpectedStart)
_entry = message_of(
    pb.CalendarEntry,
    CalendarEntry,
    {"application_id": "app_id", "allocation_key": "key", "start": ("start", _start)},
)


class Calendar:
    """A page of held shadow starts by their times; its token names the last of them."""

    def __init__(self, sources: Any, resolve: Callable[[str, Any], PartitionName]) -> None:
        """`resolve` gives the partition of a name, if the caller may see it."""
        self._sources = sources
        self._resolve = resolve

    async def answer(self, request: pb.ListCalendarRequest, context: Any) -> Message:
        """Take the entries at once, and make the page in slices."""
        sources, partition = self._sources, self._resolve(request.partition, context)
        slices = partial(sources.time_slices.slice, sources.access.caller(context).peer)
        async with slices():
            entries = list(sources.views.listed(LISTED, partition, request.queue))
        behind = _behind(entries, request.page_token)
        page = await filled(Page(behind, _entry, size=request.page_size), slices)
        token = json.dumps(_place(page.last)) if page.last else ""
        return pb.ListCalendarResponse(entries=page.rows, next_page_token=token)


def _behind(entries: Iterable[CalendarEntry], token: str) -> Iterator[CalendarEntry]:
    """The entries that come after the one that a token names, or all for the empty token."""
    behind = read_place(token, float, str, str) if token else ()
    return (entry for entry in entries if _place(entry) > behind)


def _place(entry: CalendarEntry) -> tuple[float, str, str]:
    return (entry.start.starts_at, entry.app_id, entry.key)


def _expect(
    views: Views, partition: PartitionName, message: pb.ExplainResponse, now: float
) -> Iterator[None]:
    """Add the expected start of the ask, if backfill is on and it is pending; pause now and then."""
    for start in views.listed(
        "expected_start", partition, message.application_id, message.allocation_key, now
    ):
        if start is None:
            yield
        else:
            message.expected_start.CopyFrom(_start(start))


def _measured(views: Views, report: PartitionReport) -> Iterator[Measured]:
    """Expected starts, and how far from them asks have started."""
    if not report.extended["backfill"]:
        return
    held = {one.value: 0 for one in Confidence if one is not Confidence.UNKNOWN}
    late = 0
    for entry in views.listed(LISTED, report.name):
        held[entry.start.confidence] += 1
        late += entry.start.is_late
    text = "Asks and gangs that hold a shadow start, by the confidence in it."
    yield Measured("gauge", "licorne_shadow_starts", text, "confidence", held)
    text = "Asks and gangs whose shadow start is later than they want to start."
    yield Measured("gauge", "licorne_shadow_starts_late", text, "", {"": late})
    for counters in views.listed("start_counters", report.name):
        text = "Asks and gangs that were told a shadow start later than they want to start."
        at_risk = {"": counters.deadlines_at_risk}
        yield Measured("counter", "licorne_deadlines_at_risk_total", text, "", at_risk)
        text = "Seconds between the start that an ask or gang was told first and its start."
        yield Measured("histogram", "licorne_eta_error_seconds", text, "confidence", counters.eta_errors)


PARTITION_ON_PAGE = {"backfill": "backfill"}
PAGED = {"ListCalendar": (pb.ListCalendarRequest, lambda sources, resolve: Calendar(sources, resolve).answer)}
EXPLAINED = (_expect,)
MEASURED = (_measured,)
REST_LISTS = {
    LISTED: RestList(
        LISTED,
        CalendarEntry,
        {
            "applicationId": "app_id",
            "allocationKey": "key",
            "queueName": "queue",
            "startTime": ("start.starts_at", nanoseconds),
            "confidence": "start.confidence",
            "firstToldTime": ("start.first_told", nanoseconds),
            "startBy": ("start.start_by", nanoseconds),
            "requestedResource": ("requested", dict),
        },
        optional="allocationKey startBy",
    )
}
PAGE_LISTS = {
    LISTED: PageList(
        LISTED,
        CalendarEntry,
        "key queue asks requested nodes since",
        {
            "application": "app_id",
            "start": ("start.starts_at", Moment),
            "confidence": "start.confidence",
            "firstTold": ("start.first_told", Moment),
            "startBy": ("start.start_by", Moment),
            "late": "start.is_late",
        },
        texts=("app_id", "key"),
        named_by=("application", "key"),
    )
}
