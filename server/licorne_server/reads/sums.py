"""Calls of `licorne.v1.State` that sum over all partitions: reasons why asks wait, and resource-hours."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from google.protobuf.message import Message

from licorne.v1 import state_pb2 as pb
from licorne_core.values.errors import NotFound
from licorne_core.values.ids import PartitionName, rm_of
from licorne_server.process.walking import Slices, walked
from licorne_server.reads.reasons import ReasonSum
from licorne_server.reads.resource_hours import Wanted
from licorne_server.reads.sources import Sources
from licorne_server.wire.responses import nanoseconds


class Sums:
    """Sums over the partitions that the caller may see."""

    def __init__(
        self,
        sources: Sources,
        resolve: Callable[[str, Any], PartitionName],
        now: Callable[[], float],
    ) -> None:
        """`resolve` gives the partition of a name, if the caller may see it; `now` gives unix seconds."""
        self._sources = sources
        self._resolve = resolve
        self._now = now

    async def reasons(self, request: pb.ListReasonsRequest, context: Any) -> Message:
        """The reasons why asks wait, in one partition or in all."""
        if request.partition:
            names = [self._resolve(request.partition, context)]
        else:
            may_see = self._may_see(context)
            names = [name for name in self._sources.views.partition_names() if may_see(rm_of(name))]
        total, time = ReasonSum(request.queue), self._now()
        for name in names:
            with suppress(NotFound):
                found = await self._sources.reasons(name)
                time = min(time, found.time)
                await walked(total.add(name, found.rows), self._slices(context))
        return total.message(nanoseconds(time))

    async def resource_hours(self, request: pb.ListResourceHoursRequest, context: Any) -> Message:
        """A page of sums over hours; its token names the last sum."""
        since, until = request.since / 1e9, request.until / 1e9
        wanted = Wanted.of(request.by, since, until, request.partition, self._now())
        hours, slices = await self._sources.hours(), self._slices(context)
        total = await wanted.summed(hours, self._may_see(context), slices)
        page = await total.page(request.page_token, request.page_size, slices)
        page.kept_since = hours.kept_since * 10**9
        return page

    def _may_see(self, context: Any) -> Callable[[str], bool]:
        access = self._sources.access
        return partial(access.may_read, access.caller(context))

    def _slices(self, context: Any) -> Slices:
        return partial(self._sources.time_slices.slice, self._sources.access.caller(context).peer)
