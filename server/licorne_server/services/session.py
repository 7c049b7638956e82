"""`licorne.v1.Session`: one ordered, numbered, resumable stream for each RM (DESIGN § 3).

An RM may receive its own events over its session (spec § 12.1.1). The server reads them from the log like any
subscriber. It puts them into the outbox only while the outbox is nearly empty, so that decisions do not wait
for events, and scheduling for the RM is not held because of its events.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import grpc
import structlog

from licorne.v1.session_pb2 import Hello, UpdateRequest, UpdateResponse, Welcome
from licorne_core.messages.commands import BeginReplay, RegisterRm
from licorne_core.values.errors import shown
from licorne_core.values.ids import RmId
from licorne_server.engine.engine import Engine
from licorne_server.process.fair import TimeSlices
from licorne_server.rms.admission import Admission
from licorne_server.rms.event_log import EventLog, EventLogs
from licorne_server.rms.event_watch import Over, Overtaken, Watch
from licorne_server.rms.outbox import Sent
from licorne_server.rms.registry import Rms, check_owned, is_owned, owned
from licorne_server.rms.rm import Rm, Session
from licorne_server.rms.rm_log import logging_refusal
from licorne_server.rms.streams import Stream
from licorne_server.security.access import Access, Caller
from licorne_server.services.calls import CallGuard, stream_handler
from licorne_server.services.exchange import UPDATES, Exchange, control
from licorne_server.services.members.passing import Passing
from licorne_server.store.coordination.reach import Reach
from licorne_server.store.coordination.store import Member
from licorne_server.wire.caps import ADVISED_ITEMS
from licorne_server.wire.checks import policy
from licorne_server.wire.errors import CallError, aborted, failed_precondition, invalid_argument, unavailable
from licorne_server.wire.events import record_of_session, session_events
from licorne_server.wire.framing import check_fields
from licorne_server.wire.items import parse
from licorne_server.wire.requests import registration
from licorne_server.wire.responses import Envelopes, Kind, Payload

_feed_log = structlog.get_logger("core.event_feed")

FEED_SECONDS = 2.0
"""Seconds for which events are gathered for a message, unless it is full earlier."""

FEED_BYTES = 64 * 1024


@asynccontextmanager
async def feeding(rm: Rm, session: Session, logs: EventLogs, time_slices: TimeSlices) -> AsyncIterator[None]:
    """Send events to the RM inside the block, if its session asks for them."""
    if not session.callbacks.events:
        yield
        return
    feed = Feed(rm, session, logs.get(rm.rm_id), time_slices)
    task = asyncio.create_task(feed.run(), name=f"events of {rm.rm_id}")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled() and (error := task.exception()) is not None:
            _feed_log.error("no more events for the RM", rm_id=rm.rm_id, exc_info=error)


class Feed:
    """Sends the events of the log to one session, from the event that its last stream has reached."""

    def __init__(self, rm: Rm, session: Session, events: EventLog, time_slices: TimeSlices) -> None:
        """Read for a session that has just been opened or resumed."""
        self._rm = rm
        self._is_current = rm.registration.is_current
        self._session = session
        self._events = events
        self._watch = Watch(events, session.next_event, time_slices, f"RM {rm.rm_id}")
        self._sent_at = -FEED_SECONDS

    async def run(self) -> None:
        """Send events until the log ends."""
        with self._events.reading():
            await self._send_all()

    async def _send_all(self) -> None:
        while True:
            try:
                await self._due()
                size = self._events.settings.event_request_capacity
                batch = await self._watch.next(record_of_session, size, FEED_BYTES)
            except Overtaken as error:
                self._watch.next_id = error.next_id
                continue
            except Over:
                return
            data = session_events(batch.first_id, batch.data)
            await self._put(Payload(Kind.SESSION, "events", data, batch.events))
            self._session.next_event = self._watch.next_id

    async def _due(self) -> None:
        """Wait for an event, then until a message is full or `FEED_SECONDS` have passed.

        Raises:
            Over: the log has ended.
        """
        await self._watch.arrival()
        try:
            async with asyncio.timeout_at(self._sent_at + FEED_SECONDS):
                while self._watch.waiting < self._events.settings.event_request_capacity:
                    await self._events.news()
        except TimeoutError:
            pass

    async def _put(self, payload: Payload) -> None:
        """Put a message into the outbox, after waiting until the outbox has room."""
        while self._is_current():
            if self._rm.outbox.offer(payload):
                self._sent_at = asyncio.get_running_loop().time()
                return
            await asyncio.sleep(FEED_SECONDS)


log = structlog.get_logger("core.session")

COMES_BACK = 0.25
"""Seconds after which an RM should retry if its owner does not answer."""

PROTOCOL = 1
"""Supported version of the session's protocol."""
REGISTRATION = (UpdateRequest.HELLO_FIELD_NUMBER, Hello.REGISTRATION_FIELD_NUMBER)
"""Field path of the registration in a hello."""


class SessionService:
    """Opens and resumes sessions; `Exchange` reads and writes an open stream."""

    name = "licorne.v1.Session"

    def __init__(
        self,
        engine: Engine,
        rms: Rms,
        access: Access,
        call_guard: CallGuard,
        admission: Admission,
        time_slices: TimeSlices,
        heartbeat: float,
        version: str,
        elsewhere: Passing | Reach,
    ) -> None:
        """Serve the RMs of the engine.

        `call_guard` admits streams, and `admission` new RMs. Events for RMs are encoded in `time_slices`.
        `heartbeat` is in seconds; RMs are sent the server's `version`. Sessions of RMs that another member
        serves are passed on, or redirected to members in `Reach`.
        """
        self._engine = engine
        self._rms = rms
        self._access = access
        self._call_guard = call_guard
        self._admission = admission
        self._time_slices = time_slices
        self._heartbeat = heartbeat
        self._version = version
        self._elsewhere = elsewhere

    def handler(self) -> grpc.GenericRpcHandler:
        """The methods by name, bytes in and bytes out."""
        return grpc.method_handlers_generic_handler(self.name, {"Update": stream_handler(self._serve)})

    async def _serve(self, context: Any) -> None:
        stream = self._call_guard.stream(context)
        first = await self._call_guard.first(stream, context)
        if first is None:
            return
        check_fields("Hello", first, REGISTRATION)
        request = parse(UpdateRequest, first)
        if request.WhichOneof("message") != "hello":
            raise invalid_argument("the first message of a stream must be a Hello", "hello")
        hello = request.hello
        what = "registration" if hello.HasField("registration") else "session"
        with logging_refusal(what, hello.rm_id, self._access, context):
            opened = await self._open(hello, stream, context)
        if isinstance(opened, Member):
            if isinstance(self._elsewhere, Passing):
                method = f"/{self.name}/Update"
                await self._elsewhere.pass_stream(opened, method, context, stream, first, hello.rm_id)
            elif await self._elsewhere.may_answer(opened.address):
                await stream.write(_redirect(opened))
            else:
                text = f"member {opened.name}, which serves RM {hello.rm_id}, does not answer"
                raise unavailable(text, COMES_BACK)
            return
        rm, resend = opened
        framing = Envelopes(rm.epoch, rm.registration.number)
        opening = [self._welcome(rm, resumed=resend is not None), *(resend or ())]
        exchange = Exchange(self._engine, self._rms, rm, stream, framing, self._heartbeat, opening)
        try:
            async with feeding(rm, rm.session, self._rms.events, self._time_slices):
                await exchange.run()
        finally:
            rm.detach(Kind.SESSION, stream)

    async def _open(
        self, hello: Hello, stream: Stream, context: Any
    ) -> tuple[Rm, list[Sent] | None] | Member:
        """The RM, served over the stream, and the messages to send again; or the member that owns the RM.

        The list of messages is None for a new session.

        Raises:
            CallError: the RM cannot have such a session now.
        """
        command = _registration(hello)
        rm_id = RmId(hello.rm_id)
        self._access.check_rm(context, rm_id)
        if command is None and self._rms.find(rm_id) is None:
            owner = self._rms.ownership.owner_of(rm_id)
            if owner is None:
                raise _registration_needed()
            return owner
        async with owned(self._rms, rm_id, hello.epoch) as owner:
            return owner or await self._opened(hello, command, stream, self._access.caller(context))

    async def _opened(
        self, hello: Hello, command: RegisterRm | None, stream: Stream, caller: Caller
    ) -> tuple[Rm, list[Sent] | None]:
        """`_open` for an RM that is served here."""
        async with self._rms.lock(hello.rm_id):
            self._rms.check_open()
            farewell = self._farewell(hello)
            resend: list[Sent] | None = None
            if (found := self._resumable(hello)) is not None:
                await found[0].displace(Kind.SESSION, farewell)
                # The end of the older stream may have taken long: check again.
                self._rms.check_open()
                resend = self._resume(hello)
            if resend is None:
                await self._register(hello, command, caller, farewell)
            check_owned(self._rms, RmId(hello.rm_id))
            rm = self._rms.get(hello.rm_id, "Hello")
            rm.attach(Kind.SESSION, stream)
        return rm, resend

    def _farewell(self, hello: Hello) -> CallError:
        """The error with which the RM's open stream ends, once the stream of this hello replaces it.

        Raises:
            CallError: a newer instance of the RM has the open session.
        """
        rm = self._rms.find(hello.rm_id)
        present = hello.instance if rm is None else rm.session.instance
        if hello.instance < present:
            raise failed_precondition(
                f"instance {hello.instance} of RM {hello.rm_id} is older than instance "
                f"{present}, which has taken over; if that number is a mistake, "
                "register the RM over si.v1 to start over",
                "INSTANCE_FENCED",
            )
        newer = hello.instance > present
        reason = "fenced by a newer instance" if newer else "taken over by a newer stream"
        return aborted(reason, "STREAM_REPLACED")

    def _resumable(self, hello: Hello) -> tuple[Rm, list[Sent]] | None:
        """The RM whose session this hello resumes, and the messages to send again.

        The result is None if the RM has to register.
        """
        rm = self._rms.find(hello.rm_id)
        if rm is None or rm.halted:
            return None
        if not is_owned(self._rms, rm):
            # Another member has served the RM since, so these books are outdated.
            return None
        if not secrets.compare_digest(hello.resume_token.encode(), rm.session.token.encode()):
            return None
        resend = rm.outbox.after(hello.acknowledged)
        if resend is None or hello.acknowledged > rm.session.sent:
            return None
        return rm, resend

    def _resume(self, hello: Hello) -> list[Sent] | None:
        """Resume the RM's session; return the messages to repeat, or None if it cannot be resumed."""
        found = self._resumable(hello)
        if found is None:
            return None
        rm, resend = found
        rm.session.instance = hello.instance
        rm.outbox.acknowledge(hello.acknowledged)
        log.info("session resumed", rm_id=rm.rm_id, resent=len(resend))
        return resend

    async def _register(
        self, hello: Hello, command: RegisterRm | None, caller: Caller, farewell: CallError
    ) -> None:
        """Register the RM; none of its asks is scheduled before its replay has ended.

        Its open stream continues if the registration is refused, and otherwise ends with the farewell.

        Raises:
            CallError: the hello has no registration, or the registration is refused.
        """
        if command is None:
            raise _registration_needed()
        with self._rms.unsettled(command.rm_id, farewell):
            config = hello.registration.config
            then = partial(self._begin_session, command.rm_id, hello, farewell)
            await self._admission.register(command, config, caller, then)

    async def _begin_session(self, rm_id: RmId, hello: Hello, farewell: CallError) -> None:
        """Serve the RM, which has just been registered, over a session; its streams of `si.v1` end.

        All tasks of its former session have ended when this returns.
        """
        await self._engine.submit(BeginReplay(rm_id=rm_id))
        if self._rms.tracing is not None:
            self._rms.tracing.replaying(rm_id)
        rm = self._rms.get(rm_id, "Hello")
        await rm.displace(Kind.SESSION, farewell)
        taken = aborted(f"RM {rm_id} is served over {self.name} now", "STREAM_REPLACED")
        for kind in UPDATES.values():
            await rm.displace(kind, taken)
        rm.open_session(Session(hello.instance, hello.callbacks))

    def _welcome(self, rm: Rm, *, resumed: bool) -> Sent:
        session = rm.session
        others = self._rms.ownership.told(rm.rm_id)
        if resumed:
            # The list of members that follows the welcome may repeat an earlier list.
            rm.tell_others(others)
        else:
            session.others = others
        welcome = Welcome(
            resumed=resumed,
            resume_token=session.token,
            heartbeat_seconds=max(1, round(self._heartbeat)),
            max_items=ADVISED_ITEMS,
            server_version=self._version,
            other_members=others,
        )
        return Sent(0, Kind.SESSION, control(UpdateResponse.WELCOME_FIELD_NUMBER, welcome))


def _registration_needed() -> CallError:
    return failed_precondition(
        "the session cannot be resumed, and the hello has no registration", "REGISTRATION_NEEDED"
    )


def _redirect(owner: Member) -> bytes:
    """The only response on a stream whose RM is served by another member."""
    return control(UpdateResponse.WELCOME_FIELD_NUMBER, Welcome(redirect=owner.address))


def _registration(hello: Hello) -> RegisterRm | None:
    """The registration in a hello, without its configuration; None if the hello has none.

    Raises:
        CallError: the hello is invalid.
    """
    if hello.protocol != PROTOCOL:
        raise failed_precondition(
            f"protocol {hello.protocol} is not spoken here, {PROTOCOL} is", "PROTOCOL_UNKNOWN"
        )
    if not hello.instance:
        raise invalid_argument(
            "instance is 0: it must rise with every start of the RM, such as the time of the start",
            "hello.instance",
        )
    if not hello.HasField("registration"):
        return None
    wire = hello.registration
    if wire.rmID not in ("", hello.rm_id):
        raise invalid_argument(
            f"registration of RM failed: rmID is {shown(wire.rmID)}, but the hello's rm_id is "
            f"{shown(hello.rm_id)}",
            "hello.registration.rmID",
        )
    wire.rmID = hello.rm_id
    callbacks = hello.callbacks
    return replace(
        registration(wire),
        predicates=policy(callbacks),
        container_states=callbacks.container_states,
    )
