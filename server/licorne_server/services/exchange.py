"""One open stream of an RM: its requests are read, carried out in order, and answered.

Both protocols use the same exchange, with a different `Framing`. A session has envelopes, with numbers and
acknowledgements. Each stream of `si.v1` has the bare requests and responses of one kind; nothing is
acknowledged, and a written message counts as received.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from math import inf
from typing import Any, NoReturn

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
    ExtensionAnswer,
    NotePredicatesSent,
    RemoveRm,
    UpdateAllocations,
)
from licorne_core.messages.effects import Effect
from licorne_core.values.errors import shown
from licorne_core.values.ids import RmId
from licorne_server.engine.engine import Engine
from licorne_server.rms.outbox import Batch, Sent
from licorne_server.rms.registry import Rms, check_registered
from licorne_server.rms.rm import Rm
from licorne_server.rms.streams import Entry, Intake, Stream
from licorne_server.wire.checks import predicate_answers, preemption_answers
from licorne_server.wire.errors import CallError, Malformed, invalid_argument, unavailable
from licorne_server.wire.features import table
from licorne_server.wire.framing import Pace, delimited, split
from licorne_server.wire.items import parse
from licorne_server.wire.requests import REQUESTS
from licorne_server.wire.responses import Framing, Kind

ACK_SECONDS = 0.02
"""Seconds that an acknowledgement waits for a response in which it can be sent."""

SILENT_HEARTBEATS = 3
"""Heartbeat intervals without a message after which an RM counts as lost."""

UPDATES = {
    UpdateRequest.NODES_FIELD_NUMBER: Kind.NODES,
    UpdateRequest.APPLICATIONS_FIELD_NUMBER: Kind.APPLICATIONS,
    UpdateRequest.ALLOCATIONS_FIELD_NUMBER: Kind.ALLOCATIONS,
}
ReadAnswers = Callable[
    [RmId, bytes, Pace],
    Coroutine[Any, Any, Sequence[AnswerPredicates | AnswerPreemptions | ExtensionAnswer]],
]
ANSWERS: dict[int, ReadAnswers] = {
    UpdateRequest.PREDICATE_ANSWERS_FIELD_NUMBER: predicate_answers,
    UpdateRequest.PREEMPTION_ANSWERS_FIELD_NUMBER: preemption_answers,
    **table("ANSWERS"),
}
"""Functions that read the RM's answers to checks, and messages for extensions, by field number."""

NUMBERED = frozenset(
    {
        *UPDATES,
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
    """A message of the session itself, encoded as a field of UpdateResponse."""
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


class Exchange:
    """Reads and writes one stream after its first message."""

    def __init__(
        self,
        engine: Engine,
        rms: Rms,
        rm: Rm,
        stream: Stream,
        framing: Framing,
        heartbeat: float = inf,
        first: Sequence[Sent] = (),
        check_rm: Callable[[str], None] | None = None,
    ) -> None:
        """Serve an open stream of the RM's session; `heartbeat` is in seconds.

        The `first` messages, which are numbered already, are written before all others. `check_rm` refuses
        the RMs of other callers.
        """
        self._engine = engine
        self._rms = rms
        self._rm = rm
        self._session = rm.session
        self._stream = stream
        self._framing = framing
        self._kinds = framing.kinds
        self._heartbeat = heartbeat
        self._first = first
        self._check_rm = check_rm
        self._intake = Intake()
        self._loop = asyncio.get_running_loop()
        # Reading requests and carrying them out have separate paces.
        self._reading, self._carrying_out = rms.pace(), rms.pace()
        # True while the RM's current registration is the one in which the stream was opened.
        self._is_current = rm.registration.is_current
        # Number of the last request that was acknowledged on this stream.
        self._acknowledged = 0
        # The time at which the current wait for a missing replay began, in the loop's time.
        self._replay_noted = self._loop.time()
        self._session.begin_stream()

    def put(self, entry: Entry) -> None:
        """Queue a request that was read before the exchange began."""
        self._intake.put(entry)

    async def run(self) -> None:
        """Read and write until the stream has ended.

        Raises:
            CallError: the stream was ended from outside, or its RM has to register again.
            Malformed: a message cannot be parsed. The requests before that message were carried out.
        """
        await self._stream.run(self._read(), self._carry_out(), self._write(), self._rm.outbox.wake)

    async def _read(self) -> None:
        """Read requests until the RM's side ends or a message is malformed."""
        intake = self._intake
        try:
            while messages := await self._stream.read_all():
                for raw in messages:
                    if self._stream.over or not await self._take(raw):
                        return
                    if intake.is_full:
                        await intake.room()
        except (CallError, Malformed) as error:
            # The requests before the error are still carried out.
            intake.end(error)
        finally:
            intake.end()

    async def _take(self, raw: bytes) -> bool:
        """Process the RM's acknowledgement, and queue its request; returns False after the RM's last message.

        The RM's answers are passed to the engine immediately, ahead of queued requests, because they have a
        deadline. While the intake is full no message is read.
        """
        session = self._session
        number, acknowledged, message, payload = self._framing.open(raw)
        if acknowledged:
            if acknowledged > session.sent:
                text = f"response {acknowledged} is acknowledged, but {session.sent} were sent"
                raise invalid_argument(text, "acknowledged")
            self._rm.outbox.acknowledge(acknowledged)
        if message and message not in KNOWN:
            raise invalid_argument(f"an UpdateRequest has no message {message}", "message")
        if not number and self._framing.numbered and message in NUMBERED:
            raise invalid_argument("a request must have a number", "number")
        is_last = message == UpdateRequest.GOODBYE_FIELD_NUMBER
        if not number or session.note_read(number):
            if session.awaits_replay and number:
                self._replay_noted = self._loop.time()
            if message in UPDATES:
                await self._queue(UPDATES[message], payload, number)
            elif message in ANSWERS:
                await self._answer(ANSWERS[message], payload)
                self._intake.put(Entry(Kind.SESSION, number))
            else:
                self._take_own(number, message, payload)
        if is_last:
            self._stream.reason = "goodbye"
        return not is_last

    def _take_own(self, number: int, message: int, payload: bytes) -> None:
        """Process a message of the session itself, which has no items."""
        if message == UpdateRequest.HELLO_FIELD_NUMBER:
            raise invalid_argument("a stream has one Hello only", "hello")
        if message == UpdateRequest.STATE_DUMP_FIELD_NUMBER:
            self._rm.state.answered(parse(StateDump, payload))
            self._intake.put(Entry(Kind.SESSION, number))
        elif number:
            size = len(payload)
            self._intake.put(Entry(Kind.SESSION, number, field=message, payload=payload, size=size))

    async def _queue(self, kind: Kind, payload: bytes, number: int = 0) -> None:
        """Add a request with items to the intake."""
        now = self._engine.now()
        request = await split(payload, REQUESTS[kind].layout, self._reading)
        if request.rm_id and request.rm_id != self._rm.rm_id:
            self._refuse_foreign(kind, request.rm_id)
        self._intake.put(Entry(kind, number, request, size=len(payload), time=now))

    def _refuse_foreign(self, kind: Kind, rm_id: str) -> NoReturn:
        """Refuse a request that names another RM, first for lack of a right to the named RM, if checked."""
        if self._check_rm is not None:
            self._check_rm(rm_id)
            self._rms.get(rm_id, REQUESTS[kind].layout.message)
        raise invalid_argument(f"rmID is {shown(rm_id)} on a stream of RM {self._rm.rm_id}", "rmID")

    async def _answer(self, read: ReadAnswers, payload: bytes) -> None:
        """Submit the RM's answers in parts; a malformed message is refused as a whole."""
        parts = await read(self._rm.rm_id, payload, self._reading)
        for index, answers in enumerate(parts):
            if index:
                await asyncio.sleep(0)
            self._engine.post(answers, is_current=self._is_current)

    async def _carry_out(self) -> None:
        """Carry out the queued requests, until the intake or the stream has ended.

        A resuming RM gets the number of the last handled request, and repeats the later ones. So every
        handled request has to be counted.
        """
        rm, stream, session = self._rm, self._stream, self._session
        while not self._stream.over and (entry := await self._intake.take()) is not None:
            if entry.request is not None:
                await rm.outbox.room.wait()
                await rm.settled.wait()
                rm.check()
                if stream.over:
                    return
            # The core cannot undo half of a request, so a request that has begun is completed.
            stream.is_handling = True
            try:
                if entry.request is None:
                    await self._speak(entry)
                else:
                    refused = await self.handle(entry)
                    session.refused[entry.kind] += refused
                if entry.number:
                    session.received = entry.number
                    rm.outbox.wake()
            finally:
                stream.is_handling = False

    async def handle(self, entry: Entry) -> int:
        """Carry out a request with items; return the number of items refused before they reached the core.

        If the RM registers again meanwhile, the remaining items are dropped.

        Raises:
            CallError: the RM is no longer registered.
        """
        assert entry.request is not None, "all other entries are the session's own"
        engine, rm, tracing = self._engine, self._rm, self._rms.tracing
        is_current, reader = rm.registration.is_current, rm.reader
        reader.time = entry.time
        layout, steps_of = REQUESTS[entry.kind]
        taken = await steps_of(reader, entry.request, engine.budget.items, self._carrying_out)
        for step in taken.steps:
            if not isinstance(step, Effect):
                if tracing is not None and isinstance(step, UpdateAllocations):
                    tracing.asked(rm.rm_id, step)
                effects = await engine.submit(step, is_current=is_current)
                check_registered(effects, layout.message)
            elif is_current():
                engine.answer([step])
                await asyncio.sleep(0)
        return taken.refused

    async def _speak(self, entry: Entry) -> None:
        """Carry out a request of the session itself."""
        match entry.field:
            case UpdateRequest.REPLAY_BEGIN_FIELD_NUMBER:
                self._session.refused.clear()
                await self._submit(BeginReplay(rm_id=self._rm.rm_id), "ReplayBegin")
            case UpdateRequest.REPLAY_END_FIELD_NUMBER:
                await self._end_replay(parse(ReplayEnd, entry.payload))
            case UpdateRequest.GOODBYE_FIELD_NUMBER:
                if parse(Goodbye, entry.payload).unregister:
                    await self._engine.submit(RemoveRm(rm_id=self._rm.rm_id), is_current=self._is_current)
                    # A registration in the meantime makes this request void.
                    if self._is_current():
                        self._rms.forget(self._rm.rm_id)

    async def _submit(self, command: Command, message: str) -> None:
        """Let the core handle a command of this registration; `message` is the RM's request.

        Raises:
            CallError: the RM is no longer registered.
        """
        effects = await self._engine.submit(command, is_current=self._is_current)
        check_registered(effects, message)

    async def _end_replay(self, end: ReplayEnd) -> None:
        """End the replay. The core gets the counts without the items that never reached it.

        Such items were refused with a reason, so they are not missing.
        """
        refused = self._session.refused
        command = EndReplay(
            rm_id=self._rm.rm_id,
            nodes=end.nodes - refused[Kind.NODES],
            applications=end.applications - refused[Kind.APPLICATIONS],
            allocations=end.allocations - refused[Kind.ALLOCATIONS],
        )
        await self._submit(command, "ReplayEnd")
        self._session.awaits_replay = False

    async def _write(self) -> None:
        """Write the outbox's messages for the stream, until the stream is finished."""
        rm, stream, outbox = self._rm, self._stream, self._rm.outbox
        may_decide = self._engine.may_decide
        if may_decide is None or may_decide():
            await self._begin()
        while not stream.over:
            rm.check()
            if may_decide is not None and not may_decide():
                raise unavailable("another member may serve the RM by now")
            batch = outbox.peek(self._kinds)
            if batch is not None:
                if await stream.more_may_come(batch.items, busy=self._engine.busy):
                    continue
                await self._send(batch)
                stream.wrote_items = batch.items
            elif stream.finishing.is_set():
                return
            elif self._framing.numbered:
                await self._idle()
            else:
                await outbox.wait(self._kinds)

    async def _begin(self) -> None:
        """Write the first messages of a session's stream: the welcome, and the messages that are repeated."""
        for sent in self._first:
            await self._sealed(sent.kind, sent.data, sent.number)
            if sent.last_check:
                # The previous stream may have broken while these messages were written.
                self._note_sent(sent.last_check)

    async def _send(self, batch: Batch) -> None:
        """Write a batch; with a number the outbox retains it until it is acknowledged."""
        outbox, session, number = self._rm.outbox, self._session, 0
        if self._framing.numbered:
            number = session.sent = session.sent + 1
            outbox.sending(batch, number)
        received = self._acknowledged = session.received
        message = self._framing.seal(batch.kind, batch.data, number=number, acknowledged=received)
        await self._stream.write(message)
        if not number:
            outbox.sent(batch)
        if batch.last_check:
            self._note_sent(batch.last_check)

    def _note_sent(self, check: int) -> None:
        """Start the RM's deadline for the checks up to this number, unless it has started already."""
        self._rm.measures.checks.written(check, self._engine.now())
        command = NotePredicatesSent(rm_id=self._rm.rm_id, check=check)
        self._engine.post(command, is_current=self._is_current)

    async def _idle(self) -> None:
        """Acknowledge, send heartbeats, and detect silence, while there is nothing to send.

        An RM that was silent for a heartbeat interval during its replay is reminded of it.
        """
        owes = self._session.received > self._acknowledged
        due = self._stream.wrote_at + (ACK_SECONDS if owes else self._heartbeat)
        missing = self._replay_noted + self._heartbeat if self._session.awaits_replay else inf
        due = min(due, missing)
        now = self._loop.time()
        if now < due:
            timer = self._loop.call_at(due, self._rm.outbox.wake)
            try:
                await self._rm.outbox.wait(self._kinds)
            finally:
                timer.cancel()
            return
        if self._stream.silence() > SILENT_HEARTBEATS * self._heartbeat:
            raise unavailable(f"nothing was heard for {self._stream.silence():.0f} s", 0.0)
        if now >= missing:
            self._replay_noted = now
            await self._sealed(Kind.SESSION, REPLAY_MISSING)
        else:
            await self._sealed(Kind.SESSION, ACK if owes else HEARTBEAT)

    async def _sealed(self, kind: Kind, data: bytes, number: int = 0) -> None:
        """Write a message together with an acknowledgement of all handled requests."""
        received = self._acknowledged = self._session.received
        message = self._framing.seal(kind, data, number=number, acknowledged=received)
        await self._stream.write(message)
