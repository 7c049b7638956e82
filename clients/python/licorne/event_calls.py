"""Calls that read the events of one RM, past and future."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING

from grpc import aio

from licorne.callbacks import EventRecord, event_record
from licorne.calls import Calls, OfOneRm, check_arguments
from licorne.channel import Backoff
from licorne.errors import ConnectionLost, EventsMissed, NotFound
from licorne.options import RetryConfig
from licorne.v1 import state_pb2 as pb
from licorne.v1.state_pb2_grpc import StateStub

if TYPE_CHECKING:
    from licorne.v1.state_pb2_grpc import StateAsyncStub

BEHIND_ALL = 2**64 - 1
"""An id above that of any event."""


def _stub(channel: aio.Channel) -> "StateAsyncStub":
    return StateStub(channel)


class EventCalls(OfOneRm):
    """The part of `StateCalls` for the events of one RM."""

    def __init__(self, calls: Calls, rm_id: str = "", retry: RetryConfig | None = None) -> None:
        """`retry` is the back-off of a watch that connects again."""
        super().__init__(calls, rm_id)
        self._retry = retry or RetryConfig()

    async def kept_events(self, start: int = 0, count: int = 0) -> pb.ListEventsResponse:
        """Past events of the RM from the id `start` on, and the range of ids in the log.

        At most `count` events are returned; 0 means as many as fit into one answer.
        """
        check_arguments(start=start, count=count)
        request = pb.ListEventsRequest(rm_id=self.rm_id, start=start, count=count)
        return await self._calls.call(lambda channel: _stub(channel).ListEvents, request)

    async def watch_events(
        self, start: int | None = None, *, instance: str = ""
    ) -> AsyncGenerator[EventRecord, None]:
        """Events of the RM as they occur, from the id `start` on; by default from now on.

        A lost connection is opened again as often as necessary, without losing events. After a restart of the
        server the call is repeated until the RM has registered again. `instance` is the field of this name in
        the answer of `kept_events` that contained `start`.

        Raises EventsMissed if expected events were dropped, and after a restart of the server or a new
        registration of the RM, because ids start over. Use `contextlib.aclosing` to leave the loop: otherwise
        the call stays open until the iterator is collected.
        """
        check_arguments(start=0 if start is None else start, instance=instance)
        if start is None:
            kept = await self.kept_events(BEHIND_ALL, 1)
            start, instance = kept.highest_id + 1, kept.instance
        backoff = Backoff(self._retry)
        was_there = is_lost = False
        while True:
            request = pb.WatchEventsRequest(rm_id=self.rm_id, start=start, instance=instance)
            watch = self._calls.stream(lambda channel: _stub(channel).WatchEvents, request, may_rest=True)
            try:
                async with aclosing(watch):
                    async for response in watch:
                        was_there, is_lost, instance = True, False, response.instance
                        backoff.reset()
                        for event in response.events:
                            start = event.id + 1
                            yield event_record(event.id, event.record)
            except ConnectionLost:
                if not was_there:
                    raise
                is_lost = True
            except NotFound:
                if not is_lost:
                    raise
            except EventsMissed as missed:
                # A slow watcher may have missed no event.
                if (missed.instance, missed.next_id) != (instance, start):
                    raise
            await asyncio.sleep(backoff.next())
