"""One stream: a hello, a welcome, a replay or resumption, and then messages in both directions.

One task reads and one writes, both for the lifetime of the stream: gRPC allows only one writer at a time, and
a cancelled reader cannot be replaced.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import TypeAlias

import grpc
from grpc import aio

from licorne.addresses import Addresses
from licorne.callbacks import (
    container_states,
    event_records,
    predicate_check,
    preemption_check,
    preemption_notices,
)
from licorne.client_context import ACK_EVERY, ClientContext
from licorne.errors import ConnectionLost, ProtocolError
from licorne.events import Drained, Event, Reconnected
from licorne.outgoing import Replay
from licorne.v1.session_pb2 import Ack, Drain, Heartbeat, ReplayResult, UpdateRequest, UpdateResponse

LOG = logging.getLogger("licorne")

Call: TypeAlias = "aio.StreamStreamCall[UpdateRequest, UpdateResponse]"

WELCOME_TIME = 30.0
"""Seconds that a server may take to answer a hello."""
GRACE = 5.0
"""Seconds that a server may take to end a stream after the client's goodbye."""
ACK_DELAY = 0.05
"""Seconds after which fewer than `ACK_EVERY` processed responses are acknowledged."""
SILENCE = 3
"""Number of heartbeat intervals without a response after which the server counts as lost."""


class Stream:
    """One stream of the session: one call of `Session.Update`."""

    def __init__(self, context: ClientContext, call: Call, addresses: Addresses) -> None:
        """Use `call` for the client of `context`. The welcome adds other members to `addresses`."""
        self._context = context
        self._addresses = addresses
        self._call = call
        self._loop = asyncio.get_running_loop()
        self._heartbeat = 30.0
        """Seconds between two heartbeats of either side, from the welcome."""
        self._max_items = 1000
        """Maximum number of items in a request, from the welcome."""
        self._repeats: list[UpdateRequest] = []
        """The requests of earlier streams to send again after a resumption."""
        self._replaying = False
        """True from a welcome without resumption until the whole replay was sent."""
        self._reading_since: float | None = None
        """Start of the wait for a response, by the loop's clock; None while there is no wait."""
        self._goodbye_said = False
        """True once the client has sent a goodbye."""
        self._goodbye_heard = False
        """True once the server has sent a goodbye."""
        self.welcomed_at: float | None = None
        """Time of the server's welcome, by the loop's clock; None before."""
        self.was_live = False
        """True if, when the stream ended, no replay was needed or incomplete."""
        self.redirect = ""
        """The address to which the server redirects the client; empty without a redirect."""
        self.retry_after: float | None = None
        """Seconds to wait before the next stream, from a server that is about to stop; None without one."""

    async def run(self) -> None:
        """Use the stream until it ends; returns after a goodbye of either side, or a redirect.

        Raises ConnectionLost if the stream broke, AioRpcError if the server ended it with an error, and
        ProtocolError if the server does not use this protocol.
        """
        try:
            async with asyncio.timeout(WELCOME_TIME):
                welcome = await self._greet()
            self.redirect = welcome.welcome.redirect
            if not self.redirect:
                self._begin(welcome)
                await self._talk()
        except TimeoutError:
            raise ConnectionLost(f"no welcome within {WELCOME_TIME:.0f} s") from None
        except (asyncio.InvalidStateError, aio.UsageError) as error:
            raise ConnectionLost(f"the stream broke: {error}") from error
        finally:
            self._call.cancel()
            self.was_live = self._context.live.is_set()
            self._context.live.clear()
            if self._replaying:
                self._context.session.forget()
            self._context.outgoing.pause(resumable=self._context.session.resumable)

    async def _greet(self) -> UpdateResponse:
        await self._call.write(self._context.session.hello())
        try:
            response = await self._call.read()
        except asyncio.CancelledError:
            # gRPC also raises CancelledError if the server has cancelled the call.
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise ConnectionLost("the server cancelled the call") from None
        if not isinstance(response, UpdateResponse):
            await self._raise_for_status()
            _check_parsed(response)
            raise ConnectionLost("the stream ended before its welcome")
        if not response.HasField("welcome"):
            raise ProtocolError("the server's first message is no welcome")
        return response

    def _begin(self, response: UpdateResponse) -> None:
        context = self._context
        welcome = response.welcome
        self._heartbeat = float(welcome.heartbeat_seconds or self._heartbeat)
        self._max_items = welcome.max_items or self._max_items
        repeats = context.session.welcome(response)
        self.welcomed_at = self._loop.time()
        if failed := self._addresses.failures.total():
            LOG.warning("connected to %s, failures before: %d", self._addresses.current, failed)
        self._addresses.welcomed(welcome.other_members)
        context.stats.welcomed += 1
        context.outgoing.open(self._max_items)
        if repeats is None:
            self._replaying = True
        else:
            self._repeats = repeats
            context.stats.resumed += 1
            self._tell([Reconnected(resumed=True)])
            context.live.set()

    def _tell(self, events: Sequence[Event], number: int = 0) -> None:
        self._context.inbox.put(self._context.session.stamp, number, events)

    async def _talk(self) -> None:
        reader = asyncio.create_task(self._read())
        writer = asyncio.create_task(self._write())
        try:
            await asyncio.wait((reader, writer), return_when=asyncio.FIRST_COMPLETED)
            if not reader.done() and self._goodbye_said:
                await asyncio.wait((reader,), timeout=GRACE)
            await self._raise_for_status()
        finally:
            reader.cancel()
            writer.cancel()
            ends = await asyncio.gather(reader, writer, return_exceptions=True)
        for end in ends:
            if isinstance(end, Exception):
                raise end
        if not (self._goodbye_said or self._goodbye_heard):
            raise ConnectionLost("the stream ended without a goodbye")

    async def _raise_for_status(self) -> None:
        """Raise AioRpcError if the server ended the stream with an error."""
        if self._call.done() and await self._call.code() is not grpc.StatusCode.OK:
            raise aio.AioRpcError(
                await self._call.code(),
                await self._call.initial_metadata(),
                await self._call.trailing_metadata(),
                await self._call.details(),
            )

    # ---- Reading ----

    async def _read(self) -> None:
        session = self._context.session
        while True:
            self._reading_since = self._loop.time()
            response = await self._call.read()
            if not isinstance(response, UpdateResponse):
                return _check_parsed(response)
            self._reading_since = None
            if session.accepts(response):
                self._take(response)
            await self._context.inbox.room()

    def _take(self, response: UpdateResponse) -> None:
        answers = self._context.answers
        events: Sequence[Event] = ()
        match response.WhichOneof("message"):
            case "nodes":
                events = answers.nodes(response.nodes)
            case "applications":
                events = answers.applications(response.applications)
            case "allocations":
                events = answers.allocations(response.allocations)
            case "replay_result":
                events = self._replay_result(response.replay_result)
            case "predicate_checks" | "preemption_checks":
                self._check(response)
            case "container_states" | "preemption_notices" | "events" | "state_dump_wanted":
                self._call_back(response)
            case "other_members":
                self._addresses.tell(response.other_members.addresses)
            case "notice":
                LOG.warning("%s: %s", response.notice.code, response.notice.message)
            case "drain":
                events = [self._drain(response.drain)]
            case "goodbye":
                self._goodbye_heard = True
            case _:
                pass
        if events or response.number:
            self._tell(events, response.number)

    def _check(self, response: UpdateResponse) -> None:
        """Pass the checks in a response to the functions that decide them, if the caller has set any."""
        state, callbacks = self._context, self._context.callbacks
        stamp = state.session.stamp
        if callbacks.predicates is not None and response.HasField("predicate_checks"):
            wanted = response.predicate_checks.checks
            callbacks.predicates.start(stamp, [predicate_check(c, state.cache) for c in wanted])
        if callbacks.victims is not None and response.HasField("preemption_checks"):
            victims = response.preemption_checks.checks
            callbacks.victims.start(stamp, [preemption_check(c, state.cache) for c in victims])

    def _call_back(self, response: UpdateResponse) -> None:
        """Pass a message to its callback, if the caller has set it."""
        state, callbacks = self._context, self._context.callbacks
        if response.HasField("container_states") and callbacks.states is not None:
            callbacks.states.put(container_states(response.container_states))
        elif response.HasField("preemption_notices") and callbacks.notices is not None:
            callbacks.notices.put(preemption_notices(response.preemption_notices))
        elif response.HasField("events") and callbacks.events is not None:
            callbacks.events.put(event_records(response.events))
        elif response.HasField("state_dump_wanted") and callbacks.dumps is not None:
            callbacks.dumps.start(state.session.stamp, response.state_dump_wanted)

    def _replay_result(self, result: ReplayResult) -> list[Event]:
        state = self._context
        if not result.complete:
            # The server has stored the items that it received, and would reject them in a second replay. It
            # drops them when the next hello registers the RM again.
            state.session.forget()
            raise ConnectionLost(f"a replay is wanted again: {result.reason}")
        events = state.answers.end_replay()
        state.live.set()
        state.stats.replayed += 1
        return [*events, Reconnected(resumed=False)] if state.stats.welcomed > 1 else events

    def _drain(self, drain: Drain) -> Drained:
        self.retry_after = drain.retry_after_milliseconds / 1000
        self._context.wake.set()
        return Drained(drain.reason, self.retry_after)

    # ---- Writing ----

    async def _write(self) -> None:
        state = self._context
        if self._replaying:
            await self._replay()
        for repeat in self._repeats:
            await self._call.write(state.session.acknowledging(repeat))
        timed_out = False
        while True:
            if held := self._held():
                await self._woken(held)
            elif (request := self._next()) is not None:
                await self._call.write(state.session.outgoing(request))
            elif state.leaving.is_set() or self.retry_after is not None:
                return await self._part()
            elif state.session.unacknowledged >= ACK_EVERY or (timed_out and state.session.unacknowledged):
                await self._call.write(state.session.acknowledging(UpdateRequest(ack=Ack())))
            elif timed_out:
                await self._call.write(UpdateRequest(heartbeat=Heartbeat()))
            else:
                timed_out = not await self._awake()
                continue
            timed_out = False

    def _held(self) -> float:
        """Seconds for which the next request waits for more items; 0 to send it immediately."""
        if self._context.leaving.is_set() or self.retry_after is not None:
            return 0.0
        return self._context.outgoing.hold(self._loop.time())

    def _next(self) -> UpdateRequest | None:
        return self._context.outgoing.next(self._loop.time(), self._context.session.unprocessed)

    async def _replay(self) -> None:
        state = self._context
        # The snapshot includes all queued items. Later changes are sent after the replay.
        state.outgoing.clear()
        self._tell(state.answers.begin_replay())
        replay = Replay(state.cache)
        for request in replay.requests(self._max_items):
            await self._call.write(state.session.outgoing(request))
        self._replaying = False

    async def _part(self) -> None:
        goodbye = self._context.session.goodbye(unregister=self._context.unregister)
        self._goodbye_said = True
        await self._call.write(goodbye)
        await self._call.done_writing()

    async def _awake(self) -> bool:
        """Wait for something to send. Returns False if an acknowledgement or a heartbeat is due first."""
        patience = ACK_DELAY if self._context.session.unacknowledged else self._heartbeat / 2
        if await self._woken(patience):
            return True
        since = self._reading_since
        if since is not None and self._loop.time() - since > SILENCE * self._heartbeat:
            raise ConnectionLost("the server has fallen silent")
        return False

    async def _woken(self, patience: float) -> bool:
        """Wait at most `patience` seconds for the context's `wake`; returns False if it was not set."""
        wake = self._context.wake
        try:
            async with asyncio.timeout(patience):
                await wake.wait()
        except TimeoutError:
            return False
        wake.clear()
        return True


def _check_parsed(response: object) -> None:
    """Raise ProtocolError for None, which gRPC returns for a response that it cannot parse."""
    if response is None:
        raise ProtocolError("a response cannot be parsed; the logger `grpc` has the details")
