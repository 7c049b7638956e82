"""One registered RM: its outbox, its open streams, its session and its state dump.

No state is lost with a stream: books and outbox are retained until the RM registers again or is removed. A
session of `Session.Update` outlives each of its streams.
"""

import asyncio
import json
import secrets
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict
from functools import partial

import grpc
import structlog

from licorne.v1.session_pb2 import Callbacks, Drain, OtherMembers, StateDump, StateDumpWanted, UpdateResponse
from licorne_core.messages.effects import Effect, ExtensionEffect, PredicatesAsked, PreemptionsAsked
from licorne_core.values.ids import RmId
from licorne_server.rms.event_log import EventLog
from licorne_server.rms.outbox import Outbox
from licorne_server.rms.streams import Stream
from licorne_server.telemetry.measures import RmMeasures
from licorne_server.wire.asks import AskingReader, AskReader
from licorne_server.wire.caps import MAX_STATE_DUMP, MAX_STATE_VALUES, size_problem
from licorne_server.wire.checks import CheckEncoder, victim_payloads
from licorne_server.wire.errors import CallError, exhausted, invalid_argument, unavailable
from licorne_server.wire.features import telling_of
from licorne_server.wire.framing import delimited
from licorne_server.wire.responses import AllocationEncoder, Kind, Payload, payloads

DEADLINE = 5.0
"""Seconds within which an RM has to answer."""


class RmState:
    """The request for an RM's state during one registration, shared by concurrent callers."""

    def __init__(self) -> None:
        """Start without a request."""
        self._last = 0
        self._open: asyncio.Future[str] | None = None

    async def wanted(self, outbox: Outbox, deadline: float = DEADLINE) -> str:
        """Request the state through the outbox; returns the RM's JSON document, or one with the problem."""
        if self._open is None:
            self._open = asyncio.get_running_loop().create_future()
            self._last += 1
            outbox.put(_question(self._last, deadline))
        answer = self._open
        try:
            async with asyncio.timeout(deadline):
                return await asyncio.shield(answer)
        except TimeoutError:
            if self._open is answer:
                self._open = None
            return problem(f"no answer within {deadline:g} s")

    def answered(self, answer: StateDump) -> None:
        """Accept the RM's answer; an answer for which no caller waits is dropped."""
        if answer.id == self._last:
            self._settle(_document(answer))

    def void(self) -> None:
        """Fail the request: the RM has registered again, and will not answer."""
        self._settle(problem("the RM has registered anew"))

    def _settle(self, document: str) -> None:
        if self._open is not None:
            self._open.set_result(document)
            self._open = None


def problem(text: str) -> str:
    """A JSON document that reports a problem in place of the RM's state."""
    return json.dumps({"error": text})


def _question(number: int, deadline: float) -> Payload:
    wanted = StateDumpWanted(id=number, deadline_milliseconds=round(deadline * 1000))
    field = UpdateResponse.STATE_DUMP_WANTED_FIELD_NUMBER
    return Payload(Kind.SESSION, "dump", delimited(field, wanted.SerializeToString()), 1)


def _document(answer: StateDump) -> str:
    """The RM's document, or a document that reports the problem with it."""
    if answer.error:
        return problem(answer.error[:MAX_STATE_DUMP])
    wrong = size_problem("json", len(answer.json.encode()), MAX_STATE_DUMP)
    if wrong:
        return problem(wrong)
    count = sum(map(answer.json.count, ",[{"))
    if count > MAX_STATE_VALUES:
        text = f"json has {count} commas and brackets, at most {MAX_STATE_VALUES} are allowed"
        return problem(text)
    try:
        json.loads(answer.json, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        return problem(f"json is no JSON document: {error}")
    return answer.json


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no number")


class Session:
    """Identity and progress of both sides of a session. A resumed stream continues from here.

    Requests and responses are numbered from 1, each side on its own. The session of the three streams of
    `si.v1` has neither numbers nor callbacks, and is not resumed.
    """

    instance: int
    """Number of the RM's process: a higher one replaces a lower one. 0 over `si.v1`."""
    callbacks: Callbacks
    """Callbacks that the RM opted into in its hello."""
    token: str
    """Secret that entitles its bearer to resume the session."""
    awaits_replay: bool
    """True until the RM's replay ends; until then nothing is scheduled for the RM."""
    received: int
    """Number of the last request that was handled."""
    sent: int
    """Number of the last response that was sent."""
    refused: Counter[Kind]
    """Number of items by kind that were refused since the replay began, before the core received them."""
    next_event: int
    """Id of the next event to send to the RM, if it wants events."""
    others: tuple[str, ...]
    """Addresses of the other members, as last sent to the RM."""

    def __init__(self, instance: int = 0, callbacks: Callbacks | None = None) -> None:
        """Start without messages; a session without an instance is one of `si.v1`."""
        self.instance = instance
        self.callbacks = Callbacks() if callbacks is None else callbacks
        self.token = secrets.token_hex(16)
        self.awaits_replay = bool(instance)
        self.next_event = 0
        self.others = ()
        # Number of the last request that was read from the open stream, and number of the last handled
        # request; requests in between are waiting.
        self._read = 0
        self.received = 0
        self.sent = 0
        self.refused = Counter()

    @property
    def over_si(self) -> bool:
        """True for a session over the streams of `si.v1`."""
        return not self.instance

    def begin_stream(self) -> None:
        """Begin a new stream: the RM continues after the last request that was handled."""
        self._read = self.received

    def note_read(self, number: int) -> bool:
        """Record that a request was read, by its number; returns True if it is new.

        A request without a number is always new.

        Raises:
            CallError: INVALID_ARGUMENT, a request before it is missing.
        """
        if number > self._read + 1:
            raise invalid_argument(f"request {number} where {self._read + 1} was expected", "number")
        if 0 < number <= self._read:
            return False
        self._read = number or self._read
        return True


class Registration:
    """A registration of an RM, until the RM registers again."""

    number: int
    """Number of the registration, from 1."""
    ended: bool

    def __init__(self, number: int) -> None:
        """Make this the current registration."""
        self.number = number
        self.ended = False

    def is_current(self) -> bool:
        """True while this is the RM's current registration; checked by commands that were sent under it."""
        return not self.ended


log = structlog.get_logger("core.rm")


class Rm:
    """A registered RM. The object is retained when the RM registers again."""

    registration: Registration
    """The current registration."""
    epoch: int
    """Epoch of the current registration, from its owner's record."""
    outbox: Outbox
    """Messages to the RM that are not sent or not acknowledged yet."""
    events: EventLog
    """Events of the current registration."""
    measures: RmMeasures
    """Metrics of the RM."""
    encoder: AllocationEncoder
    """Encodes the allocations of the current registration."""
    check_encoder: CheckEncoder
    """Encodes the predicate checks of the current registration."""
    reader: AskReader
    """Reads the asks of the current registration."""
    session: Session
    """The session over which the RM is served."""
    state: RmState
    """The request for the RM's part of a state dump."""
    streams: dict[Kind, Stream]
    """The open streams."""
    halted: str
    """Correlation id of the failure after which the RM is not served; empty while it is served."""
    resyncs: int
    """Number of registrations after an overflow of the outbox, each with a replay."""
    settled: asyncio.Event
    """Cleared while the RM registers again; requests on its streams wait until it is set."""
    peer: str
    """The peer that registered the RM; the RM counts in its quota (`RmBounds`)."""
    since: float
    """Time of the last connection or disconnection, in unix seconds; the time of the registration if there
    was none."""

    def __init__(
        self,
        rm_id: RmId,
        outbox: Outbox,
        now: Callable[[], float],
        measures: RmMeasures | None = None,
    ) -> None:
        """Create the RM; `renew` then sets its registration.

        `now` returns the time in unix seconds.
        """
        self.measures = measures or RmMeasures()
        self._now = now
        self.rm_id = rm_id
        self.peer = ""
        self.since = now()
        self.outbox = outbox
        self.state = RmState()
        self.streams = {}
        self.resyncs = 0
        self.settled = asyncio.Event()
        self.settled.set()
        self.registration = Registration(0)
        self.renew(0, 0)

    @property
    def connected(self) -> bool:
        """True if a stream is open."""
        return bool(self.streams)

    def renew(self, registration: int, epoch: int) -> None:
        """Begin a new registration: drop queued messages and the state of the session."""
        self.registration.ended = True
        self.registration = Registration(registration)
        self.epoch = epoch
        if not self.connected:
            self.since = self._now()
        self.resyncs += self.outbox.overflowed
        self.outbox.clear()
        self.encoder = AllocationEncoder()
        self.check_encoder = CheckEncoder()
        self.reader = AskReader(self.rm_id)
        self.session = Session()
        self.state.void()
        self.state = RmState()
        self.halted = ""
        self.measures.renew()

    def open_session(self, session: Session) -> None:
        """Serve the RM, registered just now, over this session instead of `si.v1`."""
        self.session = session
        if session.callbacks.HasField("predicates"):
            self.reader = AskingReader(self.rm_id, session.callbacks.predicates.class_by)

    def wants(self, effect: Effect) -> bool:
        """True if the RM receives an effect; effects of extensions are opt-in."""
        told = telling_of(effect) if isinstance(effect, ExtensionEffect) else None
        if told is None:
            return True
        return bool(getattr(self.session.callbacks, told.opt_in))

    def payloads(self, effect: Effect) -> Iterable[Payload]:
        """The responses for an effect."""
        if isinstance(effect, PredicatesAsked):
            return self.check_encoder.payloads(effect)
        if isinstance(effect, PreemptionsAsked):
            return victim_payloads(effect)
        return payloads(effect, self.encoder)

    async def displace(self, kind: Kind, farewell: CallError) -> None:
        """End the open stream of this kind with an error, and wait until all its tasks have ended."""
        older = self.streams.get(kind)
        if older is not None:
            older.end(farewell)
            await older.closed.wait()

    def attach(self, kind: Kind, stream: Stream) -> None:
        """Make the stream the open one of its kind."""
        if not self.connected:
            self.since = self._now()
            self.measures.connections += 1
        self.streams[kind] = stream
        stream.when_leaving(partial(self._leave, kind, stream))
        log.info("stream opened", rm_id=self.rm_id, stream=kind.value, peer=stream.peer)

    def detach(self, kind: Kind, stream: Stream) -> None:
        """Record that the stream has ended; a newer stream of its kind is retained."""
        if self.streams.get(kind) is stream:
            del self.streams[kind]
            if not self.connected:
                self.since = self._now()
        log.info(
            "stream closed",
            rm_id=self.rm_id,
            stream=kind.value,
            peer=stream.peer,
            reason=stream.reason,
            **asdict(stream.traffic),
        )

    def end_streams(self, error: CallError | None, kinds: Iterable[Kind] = tuple(Kind)) -> None:
        """End the open streams of these kinds."""
        for kind in kinds:
            stream = self.streams.get(kind)
            if stream is not None:
                stream.end(error)

    def drain(self, reason: str, retry_after: float) -> list[Stream]:
        """Ask the RM to disconnect and to reconnect after `retry_after` seconds; return the ending streams.

        A stream of `si.v1` ends once its queue is sent. A session is asked to say goodbye.
        """
        for kind, stream in self.streams.items():
            self._leave(kind, stream, reason, retry_after)
        return list(self.streams.values())

    def _leave(self, kind: Kind, stream: Stream, reason: str, retry_after: float) -> None:
        """End one open stream normally. If owner and forwarding member both ask, the first request counts."""
        if self.streams.get(kind) is not stream or stream.is_leaving:
            return
        stream.is_leaving = True
        if kind is not Kind.SESSION:
            stream.finish(unavailable(reason))
            return
        notice = Drain(reason=reason, retry_after_milliseconds=int(retry_after * 1000))
        data = delimited(UpdateResponse.DRAIN_FIELD_NUMBER, notice.SerializeToString())
        self.outbox.put(Payload(Kind.SESSION, "drain", data, 1))

    def tell_others(self, addresses: tuple[str, ...]) -> None:
        """Send the RM the addresses of the other members, if they differ from the last ones that it was sent.

        A session without a stream receives them when it is resumed.
        """
        session = self.session
        if Kind.SESSION not in self.streams or set(session.others) == set(addresses):
            return
        session.others = addresses
        data = OtherMembers(addresses=addresses).SerializeToString()
        field = UpdateResponse.OTHER_MEMBERS_FIELD_NUMBER
        self.outbox.put(Payload(Kind.SESSION, "members", delimited(field, data), 1))

    def check(self) -> None:
        """Raise an error if the RM has to register again first.

        Raises:
            CallError: the core has failed for the RM, or its outbox overflowed.
        """
        if self.halted:
            raise CallError(
                grpc.StatusCode.INTERNAL,
                f"internal error, correlation id {self.halted}; register again",
            )
        if self.outbox.overflowed:
            raise exhausted(
                f"RM {self.rm_id} did not take what waited for it and it was dropped: "
                "register again and replay",
                "OUTBOX_OVERFLOW",
            )
