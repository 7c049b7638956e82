"""One open stream of a session: requests in, responses out, both numbered and acknowledged."""

import asyncio

from licorne.v1.session_pb2 import (
    Ack,
    Goodbye,
    Heartbeat,
    ReplayEnd,
    UpdateRequest,
    UpdateResponse,
    Welcome,
)
from licorne_core.commands import BeginReplay, Command, EndReplay, RemoveRm
from licorne_core.errors import shown
from licorne_server.convert_callbacks import predicate_answer
from licorne_server.convert_in import parse
from licorne_server.convert_out import Kind
from licorne_server.engine import Engine
from licorne_server.envelope import Envelope, Sealer, open_envelope
from licorne_server.errors import invalid_argument, unavailable
from licorne_server.outbox import Batch, Sent
from licorne_server.requests import LAYOUTS, handle_request
from licorne_server.rms import Rm, Rms, check_registered
from licorne_server.sessions import Session
from licorne_server.streams import Stream
from licorne_server.wire import delimited, split

ACK_SECONDS = 0.02
"""How long an acknowledgement waits for a response that can carry it."""

MANY_COMMANDS = 64
"""With so many commands waiting for the engine, each answer waits for the one before it."""

MANY_OVERDUE = 256
"""Overdue messages that are dropped before everything else gets a turn of the loop."""

SILENT_HEARTBEATS = 3
"""An RM from which nothing came for so many heartbeats is taken for lost."""

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
        UpdateRequest.GOODBYE_FIELD_NUMBER,
        UpdateRequest.PREDICATE_ANSWER_FIELD_NUMBER,
    }
)


def control(field: int, message: Ack | Goodbye | Heartbeat | Welcome) -> bytes:
    """A message of the session itself, as the field of an UpdateResponse."""
    return delimited(field, message.SerializeToString())


ACK = control(UpdateResponse.ACK_FIELD_NUMBER, Ack())
HEARTBEAT = control(UpdateResponse.HEARTBEAT_FIELD_NUMBER, Heartbeat())


class Conversation:
    """Reads and writes one stream of a session after its hello."""

    def __init__(
        self,
        engine: Engine,
        rms: Rms,
        rm: Rm,
        session: Session,
        stream: Stream,
        heartbeat: float,
    ) -> None:
        """Over a stream of the session of an RM; `heartbeat` is in seconds."""
        self._engine = engine
        self._rms = rms
        self._rm = rm
        self._session = session
        self._stream = stream
        self._heartbeat = heartbeat
        self._loop = asyncio.get_running_loop()
        # The last request that was acknowledged on this stream.
        self._acknowledged = 0

    async def read(self) -> None:
        """Handle requests until the RM's side ends or it says goodbye."""
        while (raw := await self._stream.read()) is not None:
            envelope = open_envelope(raw)
            finished = await self._take(envelope)
            self._rm.outbox.wake()
            if finished:
                return

    async def _take(self, envelope: Envelope) -> bool:
        """Handle one request; True after a goodbye."""
        session = self._session
        session.check_acknowledged(envelope.acknowledged)
        self._rm.outbox.acknowledge(envelope.acknowledged)
        if session.is_repeat(envelope.number):
            return False
        if envelope.message in NUMBERED and not envelope.number:
            raise invalid_argument("a request must have a number", "number")
        if envelope.message in REQUESTS:
            await self._rm.outbox.room.wait()
            self._rm.check()
        # An RM that resumes is told the last request that was handled, and sends the next one
        # again. So a request is handled and counted, or neither.
        with self._stream.to_completion():
            finished = await self._handle(envelope)
            session.handled(envelope.number)
        return finished

    async def _handle(self, envelope: Envelope) -> bool:
        """Carry out one request; True after a goodbye."""
        match envelope.message:
            case field if field in REQUESTS:
                await self._request(REQUESTS[field], envelope.payload)
            case UpdateRequest.PREDICATE_ANSWER_FIELD_NUMBER:
                await self._answer(envelope.payload)
            case UpdateRequest.REPLAY_BEGIN_FIELD_NUMBER:
                self._session.begin_replay()
                await self._submit(BeginReplay(rm_id=self._rm.rm_id), "ReplayBegin")
            case UpdateRequest.REPLAY_END_FIELD_NUMBER:
                await self._end_replay(parse(ReplayEnd, envelope.payload))
            case UpdateRequest.GOODBYE_FIELD_NUMBER:
                goodbye = parse(Goodbye, envelope.payload)
                if goodbye.unregister:
                    await self._unregister()
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
        refused = await handle_request(self._engine, self._rms, rm, kind, request)
        if refused:
            self._session.refuse(kind, refused)

    async def _answer(self, payload: bytes) -> None:
        """Hand an answer about nodes to the core.

        Reading goes on before the answer is handled, unless much waits for the engine: there may
        be an answer for every ask, and a round of the engine for each would take too long.
        """
        answer = predicate_answer(self._rm.rm_id, payload)
        if self._engine.inbox < MANY_COMMANDS:
            self._engine.post(answer, is_current=self._rm.registration_guard())
        else:
            await self._submit(answer, "PredicateAnswer")

    async def _submit(self, command: Command, message: str) -> None:
        """Have a command of this registration handled; `message` is what the RM sent.

        Raises:
            CallError: the RM is not registered any more.
        """
        effects = await self._engine.submit(command, is_current=self._rm.registration_guard())
        check_registered(effects, message)

    async def _unregister(self) -> None:
        """Forget the RM, unless it was registered anew meanwhile: the later request counts."""
        is_current = self._rm.registration_guard()
        await self._engine.submit(RemoveRm(rm_id=self._rm.rm_id), is_current=is_current)
        if is_current():
            self._rms.forget(self._rm.rm_id)

    async def _end_replay(self, end: ReplayEnd) -> None:
        """End the replay. The core is told the counts less the items that it never saw.

        Such items were refused before, with a reason; they are not missing.
        """
        session = self._session
        command = EndReplay(
            rm_id=self._rm.rm_id,
            nodes=end.nodes - session.refused(Kind.NODES),
            applications=end.applications - session.refused(Kind.APPLICATIONS),
            allocations=end.allocations - session.refused(Kind.ALLOCATIONS),
        )
        await self._submit(command, "ReplayEnd")

    async def write(self, sealer: Sealer, welcome: bytes, resend: list[Sent]) -> None:
        """Send the welcome, then `resend` under its old numbers, then what comes."""
        outbox = self._rm.outbox
        await self._send(sealer, Kind.SESSION, welcome)
        for sent in resend:
            await self._send(sealer, sent.kind, sent.data, sent.number)
        while True:
            self._rm.check()
            batch = await self._next_batch()
            if batch is not None:
                if await self._stream.more_may_come(batch.items, busy=self._engine.busy):
                    continue
                number = self._session.next_number()
                outbox.sending(batch, number)
                await self._send(sealer, batch.kind, batch.data, number)
                self._stream.wrote_items = batch.items
            elif self._stream.finishing.is_set():
                return
            else:
                await self._idle(sealer)

    async def _next_batch(self) -> Batch | None:
        """What is to be sent next; predicate checks that are past their deadline are dropped.

        There may be many of those when an RM comes back after a while.
        """
        outbox, overdue = self._rm.outbox, 0
        while (batch := outbox.peek(ALL_KINDS)) is not None:
            if self._engine.now() < batch.until:
                break
            outbox.sent(batch)
            overdue += 1
            if overdue % MANY_OVERDUE == 0:
                await asyncio.sleep(0)
        return batch

    async def _idle(self, sealer: Sealer) -> None:
        """With nothing to send: acknowledge after a moment, send heartbeats, and notice silence."""
        owes = self._session.received > self._acknowledged
        due = self._stream.wrote_at + (ACK_SECONDS if owes else self._heartbeat)
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
        await self._stream.write(sealer.seal(kind, data, number=number, acknowledged=received))
