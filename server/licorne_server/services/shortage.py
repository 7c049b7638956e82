"""`ListOutstanding` of `licorne.v1.State`: how much a cluster is short of.

The answer is long and made without a pause, so that one is made at a time, for all who ask.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from google.protobuf.message import Message

from licorne.v1 import state_pb2 as pb
from licorne_core.values.ids import PartitionName
from licorne_server.http.sources import Sources
from licorne_server.services.paging import MAX_PAGE_SIZE, Page, filled
from licorne_server.services.reports import outstanding_message

FRESH_SECONDS = 1.0
"""Seconds for which an answer is reused."""


class _Shapes(NamedTuple):
    """An answer, and since when it is made, in unix seconds."""

    time: float
    making: asyncio.Task[pb.ListOutstandingResponse]

    def is_wanted(self, since: float) -> bool:
        """True if it is being made, or was made without a failure since that time."""
        if not self.making.done():
            return True
        return self.time > since and not self.making.cancelled() and not self.making.exception()


class Shortage:
    """Gives the asks that quota admits and no node takes, by size."""

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
        self._shapes: dict[PartitionName, _Shapes] = {}

    async def outstanding(self, request: pb.ListOutstandingRequest, context: Any) -> Message:
        """Shortage of the cluster; the answer may be a second old."""
        partition = self._resolve(request.partition, context)
        now = self._now()
        self._shapes = {
            name: made for name, made in self._shapes.items() if made.is_wanted(now - FRESH_SECONDS)
        }
        shapes = self._shapes.get(partition)
        if shapes is None:
            peer = self._sources.access.caller(context).peer
            shapes = self._shapes[partition] = _Shapes(now, asyncio.create_task(self._make(partition, peer)))
        # This caller may leave while others wait for the same answer.
        return await asyncio.shield(shapes.making)

    async def _make(self, partition: PartitionName, peer: str) -> pb.ListOutstandingResponse:
        found = self._sources.views.outstanding(partition)
        slices = partial(self._sources.time_slices.slice, peer)
        page = await filled(Page(found, outstanding_message, size=MAX_PAGE_SIZE), slices)
        return pb.ListOutstandingResponse(shapes=page.rows)
