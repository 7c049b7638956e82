"""Expected starts in `licorne.v1.State`: the calendar of a partition, and the start of one ask."""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from google.protobuf.message import Message

from licorne.v1 import state_pb2 as pb
from licorne_core.extensions.backfill.reports import CalendarEntry, ExpectedStart
from licorne_core.values.errors import NotFound
from licorne_core.values.ids import PartitionName
from licorne_server.http.sources import Sources
from licorne_server.services.paging import Page, Slices, filled, read_place, walked
from licorne_server.services.reports import filled as message_of

start_message = message_of(pb.ExpectedStart, ExpectedStart)
entry_message = message_of(
    pb.CalendarEntry,
    CalendarEntry,
    {"application_id": "app_id", "allocation_key": "key", "start": ("start", start_message)},
)


class Starts:
    """Tells when asks are expected to start."""

    def __init__(
        self,
        sources: Sources,
        resolve: Callable[[str, Any], PartitionName],
        now: Callable[[], float],
    ) -> None:
        """`resolve` gives the partition of a name, if the caller may see it; `now` unix seconds."""
        self._sources = sources
        self._resolve = resolve
        self._now = now

    async def calendar(self, request: pb.ListCalendarRequest, context: Any) -> Message:
        """A page of held shadow starts by their times; its token names the last of them."""
        partition, slices = self._resolve(request.partition, context), self._slices(context)
        async with slices():
            entries = list(self._sources.views.listed("calendar", partition, request.queue))
        behind = _behind(entries, request.page_token)
        page = await filled(Page(behind, entry_message, size=request.page_size), slices)
        token = json.dumps(_place(page.last)) if page.last else ""
        return pb.ListCalendarResponse(entries=page.rows, next_page_token=token)

    async def tell(self, message: pb.ExplainResponse, partition: PartitionName, context: Any) -> None:
        """Add the expected start to the explanation of an ask, if backfill is on and it is pending."""
        app_id, key = message.application_id, message.allocation_key
        with suppress(NotFound):
            steps = self._sources.views.listed("expected_start", partition, app_id, key, self._now())
            for start in await walked(steps, self._slices(context)):
                message.expected_start.CopyFrom(start_message(start))

    def _slices(self, context: Any) -> Slices:
        return partial(self._sources.time_slices.slice, self._sources.access.caller(context).peer)


def _behind(entries: Iterable[CalendarEntry], token: str) -> Iterator[CalendarEntry]:
    """The entries that come after the one that a token names, or all for the empty token."""
    behind = read_place(token, float, str, str) if token else ()
    return (entry for entry in entries if _place(entry) > behind)


def _place(entry: CalendarEntry) -> tuple[float, str, str]:
    return (entry.start.starts_at, entry.app_id, entry.key)
