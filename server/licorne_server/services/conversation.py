"""One open stream of a session: requests in, responses out, both numbered and acknowledged."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from math import inf
from typing import Any

from licorne.v1.session_pb2 import (
    Ack,
    Goodbye,
    Heartbeat,
    Notice,
    ReplayEnd,
    StateDump,
    UpdateRequest,
    UpdateResponse,
    Welcome,
)
from licorne_core.messages.commands import (
    AnswerPredicates,
    AnswerPreemptions,
    BeginReplay,
    Command,
    EndReplay,
    NotePredicatesSent,
    RemoveRm,
)
from licorne_core.values.errors import shown
from licorne_core.values.ids import RmId
from licorne_server.engine.engine import Engine
from licorne_server.rms.intake import LAYOUTS, Entry, Intake, handle_request
from licorne_server.rms.outbox import Sent
from licorne_server.rms.registry import Rms, check_registered
from licorne_server.rms.rm import Rm, Session
from licorne_server.rms.streams import Stream
from licorne_server.wire.checks import predicate_answers
from licorne_server.wire.envelope import Envelope, Sealer, open_envelope
from licorne_server.wire.errors import CallError, Malformed, invalid_argument, unavailable
from licorne_server.wire.framing import Pace, Split, delimited, split
from licorne_server.wire.items import parse
from licorne_server.wire.responses import Kind
from licorne_server.wire.victims import preemption_answers

ACK_SECONDS = 0.02
"""Seconds that an acknowledgement waits for a response that can carry it."""

SILENT_HEARTBEATS = 3
"""Heartbeats without a message after which an RM is taken for lost."""

ALL_KINDS = tuple(Kind)
REQUESTS = {
    UpdateRequest.NODES_FIELD_NUMBER: Kind.NODES,
    UpdateRequest.APPLICATIONS_FIELD_NUMBER: Kind.APPLICATIONS,
    UpdateRequest.ALLOCATIONS_FIELD_NUMBER: Kind.ALLOCATIONS,
}
ReadAnswers = Callable[
    [RmId, bytes, Pace], Coroutine[Any, Any, Sequence[AnswerPredicates | AnswerPreemptions]]
]
ANSWERS: dict[int, ReadAnswers] = {
    UpdateRequest.PREDICATE_ANSWERS_FIELD_NUMBER: predicate_answers,
    UpdateRequest.PREEMPTION_ANSWERS_FIELD_NUMBER: preemption_answers,
}
"""Readers of the RM's answers to checks."""

NUMBERED = frozenset(
    {
        *REQUESTS,
        UpdateRequest.REPLAY_BEGIN_FIELD_NUMBER,
        UpdateRequest.REPLAY_END_FIELD_NUMBER,
        UpdateRequest.GOODBYE_FIELD_NUMBER,
        *ANSWERS,
        UpdateRequest.STATE_DUMP_FIELD_NUMBER,
    }
)
KNOWN = NUMBERED | {
    UpdateRequest.HELLO_FIELD_NUMBER,
    UpdateRequest.ACK_FIELD_NUMBER,
    UpdateRequest.HEARTBEAT_FIELD_NUMBER,
}


def control(field: int, message: Ack | Goodbye | Heartbeat | Notice | Welcome) -> bytes:
    """A message of the session itself, as the field of an UpdateResponse."""
    return delimited(field, message.SerializeToString())


ACK = control(UpdateResponse.ACK_FIELD_NUMBER, Ack())
HEARTBEAT = control(UpdateResponse.HEARTBEAT_FIELD_NUMBER, Heartbeat())
REPLAY_MISSING = control(
    UpdateResponse.NOTICE_FIELD_NUMBER,
    Notice(
        code="REPLAY_MISSING",
        message="nothing is scheduled before a replay: send ReplayBegin, what there is, and "
        "ReplayEnd with the counts",
    ),
)


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
        self._intake = Intake()
        # What is read and what is carried out goes on at a pace of its own.
        self._reading, self._carrying_out = rms.pace(), rms.pace()
        # Whether the registration of this session is still the RM's.
        self._is_current = rm.registration_guard()
        # The last request that was acknowledged on this stream.
        self._acknowledged = 0
        # When a replay that is missing was last waited for anew, in the loop's time.
        self._replay_noted = self._loop.time()
        session.begin_stream()

    async def read(self) -> None:
        """Read requests until the RM's side ends, it says goodbye or a message is malformed.

        The RM's answers go to the engine at once, ahead of queued requests: they have a deadline.
        Only while the intake is full nothing is read at all.
        """
        try:
            while (raw := await self._stream.read()) is not None:
                envelope = open_envelope(raw)
                await self._take(envelope)
                if envelope.message == UpdateRequest.GOODBYE_FIELD_NUMBER:
                    self._stream.reason = "goodbye"
                    break
                if self._intake.is_full:
                    await self._intake.room()
        except (CallError, Malformed) as error:
            # What came before it is carried out.
            self._intake.end(error)
        finally:
            self._intake.end()

    async def _take(self, envelope: Envelope) -> None:
        """Note the RM's acknowledgement, and queue its request."""
        session, now = self._session, self._engine.now()
        session.check_acknowledged(envelope.acknowledged)
        self._rm.outbox.acknowledge(envelope.acknowledged)
        number, message, payload = envelope.number, envelope.message, envelope.payload
        if message and message not in KNOWN:
            raise invalid_argument(f"an UpdateRequest has no message {message}", "message")
        if message in NUMBERED and not number:
            raise invalid_argument("a request must have a number", "number")
        if not session.note_read(number):
            return
        if session.awaits_replay and number:
            self._replay_noted = self._loop.time()
        size = len(payload)
        if message in REQUESTS:
            kind = REQUESTS[message]
            request = await self._split(kind, payload)
            self._intake.put(Entry(kind, number, request, size=size, time=now))
        elif message in ANSWERS:
            await self._answer(ANSWERS[message], payload)
            self._intake.put(Entry(Kind.SESSION, number))
        elif message == UpdateRequest.STATE_DUMP_FIELD_NUMBER:
            self._rm.state.answered(parse(StateDump, payload))
            self._intake.put(Entry(Kind.SESSION, number))
        elif message == UpdateRequest.HELLO_FIELD_NUMBER:
            raise invalid_argument("a stream has one Hello only", "hello")
        elif number:
            self._intake.put(Entry(Kind.SESSION, number, field=message, payload=payload, size=size))

    async def _answer(self, read: ReadAnswers, payload: bytes) -> None:
        """Hand over the RM's answers, all of them or none, part by part."""
        now = self._engine.now()
        parts = await read(self._rm.rm_id, payload, self._reading)
        for index, answers in enumerate(parts):
            if index:
                await asyncio.sleep(0)
            self._rm.measures.answered((answer.check for answer in answers.answers), now)
            if self._rms.tracing is not None:
                checks = [answer.check for answer in answers.answers]
                self._rms.tracing.answered(self._rm.rm_id, checks)
            self._engine.post(answers, is_current=self._is_current)

    async def _split(self, kind: Kind, payload: bytes) -> Split:
        request = await split(payload, LAYOUTS[kind], self._reading)
        if request.rm_id not in ("", self._rm.rm_id):
            raise invalid_argument(
                f"rmID is {shown(request.rm_id)} on a stream of RM {self._rm.rm_id}", "rmID"
            )
        return request

    async def carry_out(self) -> None:
        """Carry out the read requests, until there is nothing more or the stream has ended."""
        session = self._session
        while not self._stream.over and (entry := await self._intake.take()) is not None:
            if entry.kind in LAYOUTS:
                await self._rm.outbox.room.wait()
                self._rm.check()
            # An RM that resumes gets the number of the last handled request, and sends the next one
            # again. So a request is handled and counted, or neither.
            with self._stream.to_completion():
                if entry.request is not None:
                    refused = await handle_request(
                        self._engine,
                        self._rms,
                        self._rm,
                        entry.kind,
                        entry.request,
                        self._is_current,
                        entry.time,
                        self._carrying_out,
                    )
                    if refused:
                        session.refuse(entry.kind, refused)
                elif entry.kind is Kind.SESSION:
                    await self._speak(entry)
                session.handled(entry.number)
            self._rm.outbox.wake()

    async def _speak(self, entry: Entry) -> None:
        """Carry out what only a session can say."""
        match entry.field:
            case UpdateRequest.REPLAY_BEGIN_FIELD_NUMBER:
                self._session.begin_replay()
                await self._submit(BeginReplay(rm_id=self._rm.rm_id), "ReplayBegin")
            case UpdateRequest.REPLAY_END_FIELD_NUMBER:
                await self._end_replay(parse(ReplayEnd, entry.payload))
            case UpdateRequest.GOODBYE_FIELD_NUMBER:
                if parse(Goodbye, entry.payload).unregister:
                    await self._unregister()

    async def _submit(self, command: Command, message: str) -> None:
        """Have a command of this registration handled; `message` is the RM's request.

        Raises:
            CallError: the RM is not registered any more.
        """
        effects = await self._engine.submit(command, is_current=self._is_current)
        check_registered(effects, message)

    async def _unregister(self) -> None:
        """Forget the RM, unless it was registered anew meanwhile: the later request counts."""
        command = RemoveRm(rm_id=self._rm.rm_id)
        await self._engine.submit(command, is_current=self._is_current)
        if self._is_current():
            self._rms.forget(self._rm.rm_id)

    async def _end_replay(self, end: ReplayEnd) -> None:
        """End the replay. The core gets the counts less the items that it never saw.

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
        session.awaits_replay = False

    async def write(self, sealer: Sealer, welcome: bytes, resend: list[Sent]) -> None:
        """Send the welcome, then `resend` under its old numbers, then what comes."""
        outbox = self._rm.outbox
        await self._send(sealer, Kind.SESSION, welcome)
        for sent in resend:
            await self._send(sealer, sent.kind, sent.data, sent.number)
            if sent.last_check:
                # The stream before this one may have broken while they were written.
                self._note_sent(sent.last_check)
        while not self._stream.over:
            self._rm.check()
            batch = outbox.peek(ALL_KINDS)
            if batch is not None:
                if await self._stream.more_may_come(batch.items, busy=self._engine.busy):
                    continue
                number = self._session.next_number()
                outbox.sending(batch, number)
                await self._send(sealer, batch.kind, batch.data, number)
                self._stream.wrote_items = batch.items
                if batch.last_check:
                    self._note_sent(batch.last_check)
            elif self._stream.finishing.is_set():
                return
            else:
                await self._idle(sealer)

    def _note_sent(self, check: int) -> None:
        """The RM's time for the checks up to this one begins now, if it has not begun already."""
        self._rm.measures.checks.written(check, self._engine.now())
        command = NotePredicatesSent(rm_id=self._rm.rm_id, check=check)
        self._engine.post(command, is_current=self._is_current)

    async def _idle(self, sealer: Sealer) -> None:
        """Acknowledge, send heartbeats and notice silence while there is nothing to send.

        An RM that owes its replay and was silent for a heartbeat's time is reminded.
        """
        owes = self._session.received > self._acknowledged
        due = self._stream.wrote_at + (ACK_SECONDS if owes else self._heartbeat)
        missing = self._replay_noted + self._heartbeat if self._session.awaits_replay else inf
        due = min(due, missing)
        now = self._loop.time()
        if now < due:
            timer = self._loop.call_at(due, self._rm.outbox.wake)
            try:
                await self._rm.outbox.wait(ALL_KINDS)
            finally:
                timer.cancel()
            return
        if self._stream.silence() > SILENT_HEARTBEATS * self._heartbeat:
            raise unavailable(f"nothing was heard for {self._stream.silence():.0f} s", 0.0)
        if now >= missing:
            self._replay_noted = now
            await self._send(sealer, Kind.SESSION, REPLAY_MISSING)
        else:
            await self._send(sealer, Kind.SESSION, ACK if owes else HEARTBEAT)

    async def _send(self, sealer: Sealer, kind: Kind, data: bytes, number: int = 0) -> None:
        received = self._session.received
        self._acknowledged = received
        await self._stream.write(sealer.seal(kind, data, number=number, acknowledged=received))
