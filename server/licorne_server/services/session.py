"""`licorne.v1.Session`: one ordered, numbered, resumable stream for each RM (DESIGN § 3)."""

import asyncio
from typing import Any

import grpc
import structlog

from licorne.v1.session_pb2 import (
    Ack,
    Goodbye,
    Heartbeat,
    Hello,
    ReplayEnd,
    UpdateRequest,
    UpdateResponse,
    Welcome,
)
from licorne_core.commands import BeginReplay, EndReplay, RegisterRm, RemoveRm
from licorne_server.access import Access
from licorne_server.caps import ADVISED_ITEMS
from licorne_server.convert_in import parse, registration
from licorne_server.convert_out import Kind
from licorne_server.engine import Engine
from licorne_server.envelope import Envelope, Sealer, open_envelope
from licorne_server.errors import failed_precondition, invalid_argument, shown, unavailable
from licorne_server.guard import stream_handler
from licorne_server.outbox import Sent
from licorne_server.requests import LAYOUTS, handle_request, register
from licorne_server.sessions import Rm, Rms, Session, check_registered
from licorne_server.streams import Stream
from licorne_server.wire import delimited, split

log = structlog.get_logger(__name__)

PROTOCOL = 1
ACK_SECONDS = 0.02
"""How long an acknowledgement may wait for a response that can carry it."""

SILENT_HEARTBEATS = 3
ALL_KINDS = tuple(Kind)
REQUESTS = {
    UpdateRequest.NODES_FIELD_NUMBER: Kind.NODES,
    UpdateRequest.APPLICATIONS_FIELD_NUMBER: Kind.APPLICATIONS,
    UpdateRequest.ALLOCATIONS_FIELD_NUMBER: Kind.ALLOCATIONS,
}
NUMBERED = frozenset(
    {
        *REQUESTS,
        UpdateRequest.REPLAY_BEGIN_FIELD_NUMBER,
        UpdateRequest.REPLAY_END_FIELD_NUMBER,
    }
)


def control(field: int, message: Ack | Goodbye | Heartbeat | Welcome) -> bytes:
    """A message of the session itself, as the field of an UpdateResponse."""
    return delimited(field, message.SerializeToString())


ACK = control(UpdateResponse.ACK_FIELD_NUMBER, Ack())
HEARTBEAT = control(UpdateResponse.HEARTBEAT_FIELD_NUMBER, Heartbeat())


class SessionService:
    """Opens sessions; what happens on an open one is `_Conversation`'s."""

    name = "licorne.v1.Session"

    def __init__(
        self, engine: Engine, rms: Rms, access: Access, epoch: int, heartbeat: float
    ) -> None:
        """`epoch` rises with every start of a server; `heartbeat` is in seconds."""
        self._engine = engine
        self._rms = rms
        self._access = access
        self._epoch = epoch
        self._heartbeat = heartbeat

    def handler(self) -> grpc.GenericRpcHandler:
        """The methods by name, bytes in and bytes out."""
        return grpc.method_handlers_generic_handler(
            self.name, {"Update": stream_handler(self._serve)}
        )

    async def _serve(self, context: Any) -> None:
        stream = Stream(context)
        first = await stream.read()
        if first is None:
            return
        request = parse(UpdateRequest, first)
        if request.WhichOneof("message") != "hello":
            raise invalid_argument("the first message of a stream must be a Hello", "hello")
        hello = request.hello
        command = _registration(hello)
        self._access.check_rm(context, hello.rm_id)
        async with self._rms.registering:
            self._rms.check_open()
            await self._make_way(hello)
            resend = self._resume(hello)
            if resend is None:
                await self._register(hello, command)
            rm, session = self._current(hello.rm_id)
            rm.attach(Kind.SESSION, stream)
        talk = _Conversation(self._engine, self._rms, rm, session, stream, self._heartbeat)
        welcome = self._welcome(session, resumed=resend is not None)
        sealer = Sealer(self._epoch, rm.registration)
        try:
            await stream.run(talk.read(), talk.write(sealer, welcome, resend or []), rm.outbox.wake)
        finally:
            rm.detach(Kind.SESSION, stream)

    async def _make_way(self, hello: Hello) -> None:
        """End an older stream of the RM, and wait until it touches nothing any more.

        Raises:
            CallError: it is this hello that is older.
        """
        rm = self._rms.find(hello.rm_id)
        if rm is None or rm.session is None:
            return
        if hello.instance < rm.session.instance:
            raise failed_precondition(
                f"instance {hello.instance} of RM {rm.rm_id} is older than {rm.session.instance}",
                "INSTANCE_FENCED",
            )
        newer = hello.instance > rm.session.instance
        reason = "fenced by a newer instance" if newer else "taken over by a newer stream"
        await rm.displace(Kind.SESSION, reason)

    def _resume(self, hello: Hello) -> list[Sent] | None:
        """Go on where the stream broke: what to send again; None when that cannot be done."""
        rm = self._rms.find(hello.rm_id)
        session = rm.session if rm else None
        if rm is None or session is None or rm.halted or hello.resume_token != session.token:
            return None
        resend = rm.outbox.after(hello.acknowledged)
        if resend is None or hello.acknowledged > session.sent:
            return None
        session.instance = hello.instance
        rm.outbox.acknowledge(hello.acknowledged)
        log.info("session resumed", rm_id=rm.rm_id, resent=len(resend))
        return resend

    async def _register(self, hello: Hello, command: RegisterRm | None) -> None:
        """Register anew; nothing of the RM is scheduled before its replay has ended."""
        if command is None:
            raise failed_precondition(
                "the session cannot be resumed, and the hello has no registration",
                "REGISTRATION_NEEDED",
            )
        before = self._rms.find(hello.rm_id)
        if hello.resume_token and before is not None:
            before.resyncs += 1
        await register(self._engine, self._rms, command)
        await self._engine.submit(BeginReplay(rm_id=command.rm_id))
        rm = self._rms.get(command.rm_id, "Hello")
        for kind in REQUESTS.values():
            await rm.displace(kind, f"RM {rm.rm_id} is served over {self.name} now")
        rm.session = Session(hello.instance)

    def _current(self, rm_id: str) -> tuple[Rm, Session]:
        rm = self._rms.get(rm_id, "Hello")
        assert rm.session is not None, "a session was opened or resumed just now"
        return rm, rm.session

    def _welcome(self, session: Session, *, resumed: bool) -> bytes:
        welcome = Welcome(
            resumed=resumed,
            resume_token=session.token,
            heartbeat_seconds=max(1, round(self._heartbeat)),
            max_items=ADVISED_ITEMS,
        )
        return control(UpdateResponse.WELCOME_FIELD_NUMBER, welcome)


class _Conversation:
    """One stream of a session after its hello."""

    def __init__(
        self,
        engine: Engine,
        rms: Rms,
        rm: Rm,
        session: Session,
        stream: Stream,
        heartbeat: float,
    ) -> None:
        self._engine = engine
        self._rms = rms
        self._rm = rm
        self._session = session
        self._stream = stream
        self._heartbeat = heartbeat
        self._loop = asyncio.get_running_loop()
        self._acknowledged = 0
        self._wrote_at = 0.0

    async def read(self) -> None:
        """Take requests until the RM's side ends or it says goodbye."""
        while (raw := await self._stream.read()) is not None:
            envelope = open_envelope(raw)
            finished = await self._take(envelope)
            self._rm.outbox.wake()
            if finished:
                return

    async def _take(self, envelope: Envelope) -> bool:
        """Handle one request; True after a goodbye."""
        session = self._session
        if envelope.acknowledged > session.sent:
            raise invalid_argument(
                f"response {envelope.acknowledged} is acknowledged, but {session.sent} were sent",
                "acknowledged",
            )
        self._rm.outbox.acknowledge(envelope.acknowledged)
        number = envelope.number
        if number and number <= session.received:
            return False
        if number > session.received + 1:
            raise invalid_argument(
                f"request {number} where {session.received + 1} was expected", "number"
            )
        if envelope.message in NUMBERED and not number:
            raise invalid_argument("a request must have a number", "number")
        finished = await self._handle(envelope)
        if number:
            session.received = number
        return finished

    async def _handle(self, envelope: Envelope) -> bool:
        rm_id = self._rm.rm_id
        match envelope.message:
            case field if field in REQUESTS:
                await self._request(REQUESTS[field], envelope.payload)
            case UpdateRequest.REPLAY_BEGIN_FIELD_NUMBER:
                self._session.dropped.clear()
                effects = await self._engine.submit(BeginReplay(rm_id=rm_id))
                check_registered(effects, "ReplayBegin")
            case UpdateRequest.REPLAY_END_FIELD_NUMBER:
                await self._end_replay(parse(ReplayEnd, envelope.payload))
            case UpdateRequest.GOODBYE_FIELD_NUMBER:
                goodbye = parse(Goodbye, envelope.payload)
                if goodbye.unregister:
                    await self._engine.submit(RemoveRm(rm_id=rm_id))
                    self._rms.forget(rm_id)
                return True
            case UpdateRequest.HELLO_FIELD_NUMBER:
                raise invalid_argument("a stream has one Hello only", "hello")
        return False

    async def _request(self, kind: Kind, payload: bytes) -> None:
        rm = self._rm
        request = split(payload, LAYOUTS[kind])
        if request.rm_id not in ("", rm.rm_id):
            raise invalid_argument(
                f"rmID is {shown(request.rm_id)} on a stream of RM {rm.rm_id}", "rmID"
            )
        await rm.outbox.room.wait()
        rm.check()
        dropped = await handle_request(self._engine, self._rms, rm, kind, request)
        if dropped:
            self._session.dropped[kind] = self._session.dropped.get(kind, 0) + dropped

    async def _end_replay(self, end: ReplayEnd) -> None:
        """What was refused before the core saw it is no loss."""
        dropped = self._session.dropped
        command = EndReplay(
            rm_id=self._rm.rm_id,
            nodes=end.nodes - dropped.get(Kind.NODES, 0),
            applications=end.applications - dropped.get(Kind.APPLICATIONS, 0),
            allocations=end.allocations - dropped.get(Kind.ALLOCATIONS, 0),
        )
        check_registered(await self._engine.submit(command), "ReplayEnd")

    async def write(self, sealer: Sealer, welcome: bytes, resend: list[Sent]) -> None:
        """Send the welcome, what has to be sent again, and then what comes."""
        outbox = self._rm.outbox
        await self._send(sealer, Kind.SESSION, welcome)
        for sent in resend:
            await self._send(sealer, sent.kind, sent.data, sent.number)
        while True:
            self._rm.check()
            batch = outbox.peek(ALL_KINDS)
            if batch is not None:
                self._session.sent += 1
                outbox.sending(batch, self._session.sent)
                await self._send(sealer, batch.kind, batch.data, self._session.sent)
            elif self._stream.finishing.is_set():
                return
            else:
                await self._idle(sealer)

    async def _idle(self, sealer: Sealer) -> None:
        """Nothing to send: acknowledge after a moment, beat now and then, notice silence."""
        owes = self._session.received > self._acknowledged
        due = self._wrote_at + (ACK_SECONDS if owes else self._heartbeat)
        now = self._loop.time()
        if now < due:
            timer = self._loop.call_at(due, self._rm.outbox.wake)
            try:
                await self._rm.outbox.wait()
            finally:
                timer.cancel()
            return
        if self._stream.silence() > SILENT_HEARTBEATS * self._heartbeat:
            raise unavailable(f"nothing was heard for {self._stream.silence():.0f} s", 0.0)
        await self._send(sealer, Kind.SESSION, ACK if owes else HEARTBEAT)

    async def _send(self, sealer: Sealer, kind: Kind, data: bytes, number: int = 0) -> None:
        received = self._session.received
        self._acknowledged = received
        self._wrote_at = self._loop.time()
        await self._stream.write(sealer.seal(kind, data, number=number, acknowledged=received))


def _registration(hello: Hello) -> RegisterRm | None:
    """What the hello registers with, checked; None when it has no registration.

    Raises:
        CallError: something in the hello is wrong.
    """
    if hello.protocol != PROTOCOL:
        raise failed_precondition(
            f"protocol {hello.protocol} is not spoken here, {PROTOCOL} is", "PROTOCOL_UNKNOWN"
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
    return registration(wire)
