"""The event calls of `licorne.v1.State`: list and watch."""

import asyncio
from functools import partial
from typing import Any

import grpc
from google.protobuf.message import Message

from licorne.v1 import state_pb2 as pb
from licorne_core.messages.events.records import EventRecord
from licorne_core.values.errors import shown
from licorne_server.process.fair import TimeSlices
from licorne_server.reads.paging import MAX_PAGE_SIZE, Page, filled
from licorne_server.rms.event_log import Ending, EventLog, EventLogs, TooManyStreams
from licorne_server.rms.event_watch import Batch, Over, Overtaken, Watch
from licorne_server.security.access import Access
from licorne_server.services.calls import unary_handler, watch_handler
from licorne_server.wire.errors import (
    CallError,
    aborted,
    exhausted,
    failed_precondition,
    not_found,
    out_of_range,
    unavailable,
)
from licorne_server.wire.events import event_of_watch, record_message, watch_response

STALL_SECONDS = 30.0
"""Seconds without progress after which a subscriber is cut off."""


class EventsService:
    """Lists and watches the events of one RM."""

    name = "licorne.v1.State"

    def __init__(self, logs: EventLogs, access: Access, time_slices: TimeSlices) -> None:
        """Serve the logs of all RMs; readers take turns in `time_slices`."""
        self._logs = logs
        self._access = access
        self._time_slices = time_slices

    def handler(self) -> grpc.GenericRpcHandler:
        """The methods by name, with bytes for requests and responses."""
        return grpc.method_handlers_generic_handler(
            self.name,
            {
                "ListEvents": unary_handler(pb.ListEventsRequest, self._list),
                "WatchEvents": watch_handler(pb.WatchEventsRequest, self._watch),
            },
        )

    async def _list(self, request: pb.ListEventsRequest, context: Any) -> Message:
        """Events from the requested id on, or from the oldest in the log: as many as fit into the answer."""
        log = self._log(request.rm_id, context)
        lowest_id, highest_id = log.lowest_id, log.next_id - 1
        size = min(request.count or MAX_PAGE_SIZE, MAX_PAGE_SIZE)
        page = Page(log.read(request.start, size), _event, size=size)
        await filled(page, partial(self._time_slices.slice, self._access.caller(context).peer))
        return pb.ListEventsResponse(
            instance=log.instance, lowest_id=lowest_id, highest_id=highest_id, events=page.rows
        )

    async def _watch(self, request: pb.WatchEventsRequest, context: Any) -> None:
        """Send events as they happen, until the caller disconnects or cannot keep up."""
        log = self._log(request.rm_id, context)
        peer = self._access.caller(context).peer
        watch = Watch(log, _start(log, request), self._time_slices, peer)
        try:
            with log.watched_by(peer):
                await self._send_all(log, watch, context)
        except TooManyStreams as error:
            text = f"Too many streaming connections: at most {error}"
            raise exhausted(text, "TOO_MANY_STREAMS") from None
        except Overtaken as error:
            raise _slow(log, error.next_id) from None
        except Over as error:
            raise self._over(log, error.ending) from None

    async def _send_all(self, log: EventLog, watch: Watch, context: Any) -> None:
        """Send batches of events. The first message has no events, but the instance, and is sent at once."""
        batch = Batch(watch.next_id, 0, b"")
        while True:
            try:
                async with asyncio.timeout(STALL_SECONDS):
                    await context.write(watch_response(log.instance, batch.data))
            except TimeoutError:
                # The message that is being written arrives before the status.
                raise _slow(log, max(watch.next_id, log.lowest_id)) from None
            batch = await watch.next(event_of_watch)

    def _log(self, rm_id: str, context: Any) -> EventLog:
        """The log of a request's RM.

        Raises:
            NotFound: the RM is not registered.
            CallError: the caller may not see it, or its events are not tracked.
        """
        if rm_id:
            self._access.check_read(context, rm_id)
            log = self._logs.get(rm_id)
        else:
            caller = self._access.caller(context)
            log = self._logs.first(lambda name: self._access.may_read(caller, name))
            self._access.check_read(context, log.rm_id)
        if not log.settings.event_tracking:
            raise failed_precondition("Event tracking is disabled", "EVENTS_OFF")
        return log

    def _over(self, log: EventLog, ending: Ending) -> CallError:
        """The status for a subscriber that has read all events of an ended log."""
        match ending:
            case Ending.CLOSED:
                return unavailable(ending.value)
            case Ending.FORGOTTEN:
                return not_found(f"RM {log.rm_id} is not registered any more")
            case Ending.REPLACED:
                return _other_instance(self._logs.get(log.rm_id), ending.value)


def _event(item: tuple[int, EventRecord]) -> pb.Event:
    event_id, record = item
    return pb.Event(id=event_id, record=record_message(record))


def _start(log: EventLog, request: pb.WatchEventsRequest) -> int:
    """The id of the first event to send.

    Raises:
        CallError: the id is of another instance, was dropped already, or was not assigned yet.
    """
    if request.instance and request.instance != log.instance:
        raise _other_instance(log, f"instance {shown(request.instance)} is over")
    if not request.HasField("start"):
        return log.next_id
    if not log.lowest_id <= request.start <= log.next_id:
        next_id = log.lowest_id if request.start < log.lowest_id else log.next_id
        raise out_of_range(
            f"event {request.start} is not kept: the first one is {log.lowest_id}, "
            f"the next one will be {log.next_id}",
            "EVENTS_NOT_KEPT",
            next_id=str(next_id),
            instance=log.instance,
        )
    return request.start


def _other_instance(log: EventLog, why: str) -> CallError:
    return out_of_range(
        f"{why}; continue with instance {log.instance} from event {log.lowest_id}",
        "INSTANCE_CHANGED",
        next_id=str(log.lowest_id),
        instance=log.instance,
    )


def _slow(log: EventLog, next_id: int) -> CallError:
    return aborted(
        f"this watcher did not keep up; go on from event {next_id}",
        "SLOW_WATCHER",
        next_id=str(next_id),
        instance=log.instance,
    )
