"""Calls of `licorne.v1.State` that list reports of the core's extensions.

Such an answer is long and made without a pause, so only one is made at a time, for all its callers.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from google.protobuf.message import Message

from licorne_core.values.ids import PartitionName
from licorne_server.reads.paging import MAX_PAGE_SIZE, Page, filled
from licorne_server.reads.sources import Sources
from licorne_server.wire.features import Listed

FRESH_SECONDS = 1.0
"""Seconds for which an answer is reused."""


class _Answer(NamedTuple):
    """An answer, and the time at which its making began, in unix seconds."""

    time: float
    making: asyncio.Task[Message]

    def is_wanted(self, since: float) -> bool:
        """True if it is being made, or was made without a failure since that time."""
        if not self.making.done():
            return True
        return self.time > since and not self.making.cancelled() and not self.making.exception()


class ListCall:
    """One of these calls, with its last answer."""

    def __init__(
        self,
        listed: Listed,
        sources: Sources,
        resolve: Callable[[str, Any], PartitionName],
        now: Callable[[], float],
    ) -> None:
        """`resolve` gives the partition of a name, if the caller may see it; `now` gives unix seconds."""
        self._listed = listed
        self._sources = sources
        self._resolve = resolve
        self._now = now
        self._answers: dict[PartitionName, _Answer] = {}

    async def answer(self, request: Any, context: Any) -> Message:
        """The list of a partition; it may be up to `FRESH_SECONDS` old."""
        partition = self._resolve(request.partition, context)
        now = self._now()
        self._answers = {
            name: made for name, made in self._answers.items() if made.is_wanted(now - FRESH_SECONDS)
        }
        made = self._answers.get(partition)
        if made is None:
            peer = self._sources.access.caller(context).peer
            made = self._answers[partition] = _Answer(now, asyncio.create_task(self._make(partition, peer)))
        # This caller may be cancelled while others wait for the same answer.
        return await asyncio.shield(made.making)

    async def _make(self, partition: PartitionName, peer: str) -> Message:
        found = self._sources.views.listed(self._listed.name, partition)
        slices = partial(self._sources.time_slices.slice, peer)
        page = await filled(Page(found, self._listed.row, size=MAX_PAGE_SIZE), slices)
        return self._listed.response(page.rows)
