"""The RMs as the server knows them: their outboxes, open streams and sessions.

A lost stream loses nothing here. Books and outbox stay until the RM registers anew.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from weakref import WeakValueDictionary

import grpc
import structlog

from licorne.v1.session_pb2 import Drain, UpdateResponse
from licorne_core.commands import Command, Hold, SetHold
from licorne_core.effects import (
    ConfigurationRefused,
    ConfigurationUpdated,
    ContainerStatesChanged,
    Effect,
    Happened,
    NotRegistered,
    PredicatesAsked,
    PreemptionsAsked,
    Registered,
)
from licorne_core.errors import shown
from licorne_core.ids import RmId
from licorne_server.convert_asks import AskingReader, AskReader
from licorne_server.convert_checks import CheckEncoder
from licorne_server.convert_out import AllocationEncoder, Kind, Payload, payloads
from licorne_server.convert_victims import victim_payloads
from licorne_server.errors import (
    CallError,
    aborted,
    exhausted,
    failed_precondition,
    unavailable,
)
from licorne_server.event_log import EventLogs
from licorne_server.line import Line
from licorne_server.outbox import Bounds, Outbox
from licorne_server.pacing import Pace
from licorne_server.rm_state import RmState, problem
from licorne_server.sessions import Session
from licorne_server.streams import Stream
from licorne_server.wire import delimited

log = structlog.get_logger(__name__)

DRAINING = "the server is about to stop"

MAX_WAITING = 16
"""Registrations, updates and streams of one RM that may wait for the one that is under way."""


class Rm:
    """One registered RM. It stays the same object when the RM registers anew."""

    registration: int
    """Number of the registration, from 1."""
    outbox: Outbox
    """What waits to be sent to the RM."""
    encoder: AllocationEncoder
    """Writes this registration's allocations."""
    check_encoder: CheckEncoder
    """Writes this registration's predicate checks."""
    reader: AskReader
    """Reads this registration's asks."""
    session: Session | None
    """The session that the RM is served over; None while it is served over `si.v1`."""
    state: RmState
    """The question for what the RM adds to a state dump."""
    streams: dict[Kind, Stream]
    """The open streams."""
    halted: str
    """Correlation id of the failure after which the RM is not served; empty while it is."""
    resyncs: int
    """Registrations that followed on an overflow of the outbox: replays it made necessary."""
    settled: asyncio.Event
    """Not set while the RM is being registered anew: requests on its streams wait."""

    def __init__(self, rm_id: RmId, outbox: Outbox) -> None:
        """Newly registered; `renew` gives it the number of its registration."""
        self.rm_id = rm_id
        self.registration = 0
        self.outbox = outbox
        self.encoder = AllocationEncoder()
        self.check_encoder = CheckEncoder()
        self.reader = AskReader()
        self.session = None
        self.state = RmState()
        self.streams = {}
        self.halted = ""
        self.resyncs = 0
        self.settled = asyncio.Event()
        self.settled.set()

    @property
    def connected(self) -> bool:
        """Whether a stream is open."""
        return bool(self.streams)

    def renew(self, registration: int) -> None:
        """The RM was registered anew: drop what waited for it and what belongs to its session."""
        self.registration = registration
        self.resyncs += self.outbox.overflowed
        self.outbox.clear()
        self.encoder = AllocationEncoder()
        self.check_encoder = CheckEncoder()
        self.reader = AskReader()
        self.session = None
        self.state.void()
        self.state = RmState()
        self.halted = ""

    def open_session(self, session: Session) -> None:
        """Serve the RM, registered just now, over a session."""
        self.session = session
        if session.callbacks.HasField("predicates"):
            self.reader = AskingReader(session.callbacks.predicates.class_by)

    def wants(self, effect: Effect) -> bool:
        """Whether the RM is to hear of an effect; container states are for those who asked only."""
        if isinstance(effect, ContainerStatesChanged):
            return self.session is not None and self.session.callbacks.container_states
        return True

    def payloads(self, effect: Effect) -> Iterable[Payload]:
        """The responses that tell the RM of an effect."""
        if isinstance(effect, PredicatesAsked):
            return self.check_encoder.payloads(effect)
        if isinstance(effect, PreemptionsAsked):
            return victim_payloads(effect)
        return payloads(effect, self.encoder)

    def registration_guard(self) -> Callable[[], bool]:
        """A function that tells whether the present registration still is the RM's current one."""
        registration = self.registration
        return lambda: self.registration == registration

    async def displace(self, kind: Kind, reason: str) -> None:
        """End the open stream of a kind, and wait until nothing of it runs any more."""
        older = self.streams.get(kind)
        if older is not None:
            older.end(aborted(reason, "STREAM_REPLACED"))
            await older.closed.wait()

    def attach(self, kind: Kind, stream: Stream) -> None:
        """Make the stream the open one of its kind."""
        self.streams[kind] = stream
        log.info("stream opened", rm_id=self.rm_id, stream=kind.value)

    def detach(self, kind: Kind, stream: Stream) -> None:
        """Note that the stream has ended; a newer one of its kind stays."""
        if self.streams.get(kind) is stream:
            del self.streams[kind]
        log.info("stream closed", rm_id=self.rm_id, stream=kind.value)

    def end_streams(self, error: CallError | None, kinds: Iterable[Kind] = tuple(Kind)) -> None:
        """End the open streams of these kinds."""
        for kind in kinds:
            stream = self.streams.get(kind)
            if stream is not None:
                stream.end(error)

    def check(self) -> None:
        """Refuse to go on with an RM that has to register anew first.

        Raises:
            CallError: the core failed on it, or its outbox overflowed.
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


class Rms:
    """All RMs by id, and the sink of the engine's effects."""

    registering: asyncio.Lock
    """Held while the RMs are counted and one is added, so that there are never too many."""

    def __init__(
        self,
        post: Callable[[Command], None],
        bounds: Bounds,
        max_rms: int,
        events: EventLogs,
    ) -> None:
        """Know no RM yet.

        `post` hands a command to the engine without waiting. An RM's outbox has these `bounds`, and
        there are at most `max_rms`. What the core notes as events goes into `events`.
        """
        self.events = events
        self._post = post
        self._bounds = bounds
        self._max_rms = max_rms
        self._draining = False
        self._rms: dict[RmId, Rm] = {}
        self._lines: WeakValueDictionary[str, Line] = WeakValueDictionary()
        self.registering = asyncio.Lock()
        # Messages with much in them go through it one by one.
        self._gate = asyncio.Lock()

    def pace(self) -> Pace:
        """The pace at which one message is read: large ones take turns."""
        return Pace(self._gate)

    def all(self) -> list[Rm]:
        """Every RM in order of first registration."""
        return list(self._rms.values())

    def lock(self, rm_id: str) -> Line:
        """The lock of that RM, registered or not.

        It is held while the RM is registered, configured, or taken over by a stream: these come
        one after the other, in the order in which they were asked for.
        """
        line = self._lines.get(rm_id)
        if line is None:
            what = f"registrations, updates and new streams of RM {rm_id}"
            line = self._lines[rm_id] = Line(what, "TOO_MANY_FOR_ONE_RM", MAX_WAITING)
        return line

    @contextmanager
    def unsettled(self, rm_id: str) -> Iterator[None]:
        """Let requests on the RM's streams of `si.v1` wait while it is registered anew.

        These streams outlive a registration. What they bring meanwhile is for the new books; if
        the registration is refused it is for the old ones, and nothing is lost.
        """
        rm = self.find(rm_id)
        if rm is not None:
            rm.settled.clear()
        try:
            yield
        finally:
            if rm is not None:
                rm.settled.set()

    def find(self, rm_id: str) -> Rm | None:
        """The RM of that id."""
        return self._rms.get(RmId(rm_id))

    def get(self, rm_id: str, message: str) -> Rm:
        """The RM of that id.

        Raises:
            CallError: FAILED_PRECONDITION in the words of spec § 1.6.1.
        """
        rm = self.find(rm_id)
        if rm is None:
            raise not_registered(rm_id, message)
        return rm

    async def state_of(self, rm_id: str) -> str:
        """What an RM adds to a state dump: a JSON document, which may say why there is none."""
        rm = self.find(rm_id)
        if rm is None:
            return problem("the RM is not registered any more")
        if rm.session is None:
            return problem("the RM is served over si.v1, which cannot ask for its state")
        if not rm.session.callbacks.state_dump:
            return problem("the RM does not add its state")
        if Kind.SESSION not in rm.streams:
            return problem("the RM is not connected")
        return await rm.state.wanted(rm.outbox)

    def check_open(self) -> None:
        """Refuse new streams and registrations of a server that is about to stop.

        Raises:
            CallError: UNAVAILABLE.
        """
        if self._draining:
            raise unavailable(DRAINING)

    def check_room(self, rm_id: str) -> None:
        """Refuse one RM too many.

        Raises:
            CallError: RESOURCE_EXHAUSTED.
        """
        if self.find(rm_id) is None and len(self._rms) >= self._max_rms:
            raise exhausted(f"{self._max_rms} RMs are registered already", "TOO_MANY_RMS")

    def forget(self, rm_id: RmId) -> None:
        """The RM has unregistered."""
        self._rms.pop(rm_id, None)
        self.events.forget(rm_id)

    def route(self, effects: Sequence[Effect]) -> None:
        """Put answers into the outboxes of their RMs, and facts into the logs of their events."""
        for effect in effects:
            match effect:
                case Happened():
                    self.events.add(effect)
                case Registered():
                    self._admit(effect)
                case _:
                    self._answer(effect)

    def halt(self, rm_id: RmId, correlation_id: str) -> None:
        """The core failed on this RM: end its streams, and serve it no more until it registers."""
        rm = self._rms.get(rm_id)
        if rm is not None:
            rm.halted = correlation_id
            message = f"internal error, correlation id {correlation_id}"
            rm.end_streams(CallError(grpc.StatusCode.INTERNAL, message))

    def drain(self, retry_after: float) -> list[Stream]:
        """Tell the RMs that the server is about to stop; returns the streams that will end.

        A stream of `si.v1` ends once what waits for it is sent. A session is told to say goodbye,
        and to come back after `retry_after` seconds.
        """
        self._draining = True
        notice = Drain(reason=DRAINING, retry_after_milliseconds=int(retry_after * 1000))
        data = delimited(UpdateResponse.DRAIN_FIELD_NUMBER, notice.SerializeToString())
        streams: list[Stream] = []
        for rm in self._rms.values():
            streams += rm.streams.values()
            for kind, stream in rm.streams.items():
                if kind is not Kind.SESSION:
                    stream.finish(unavailable(DRAINING))
            if Kind.SESSION in rm.streams:
                rm.outbox.put(Payload(Kind.SESSION, "drain", data, 1))
        return streams

    def close(self) -> None:
        """End all streams."""
        for rm in self._rms.values():
            rm.end_streams(unavailable(DRAINING))

    def _answer(self, effect: Effect) -> None:
        rm = self._rms.get(effect.rm_id)
        if rm is not None and rm.wants(effect):
            for payload in rm.payloads(effect):
                rm.outbox.put(payload)
        # Where the queues are refused the extra configuration holds all the same (spec § 13.1).
        if isinstance(effect, ConfigurationUpdated | ConfigurationRefused):
            self.events.follow(effect.rm_id)

    def _admit(self, effect: Registered) -> None:
        rm_id = effect.rm_id
        rm = self._rms.get(rm_id)
        if rm is None:
            rm = self._rms[rm_id] = Rm(rm_id, Outbox(self._hold(rm_id), self._bounds))
        rm.renew(effect.session)
        self.events.begin(rm_id)
        log.info("registered", rm_id=rm_id, session=effect.session)

    def _hold(self, rm_id: RmId) -> Callable[[bool], None]:
        def hold(on: bool) -> None:
            log.warning("outbox full" if on else "outbox drained", rm_id=rm_id)
            self._post(SetHold(rm_id=rm_id, hold=Hold.OUTBOX_FULL, on=on))

        return hold


def not_registered(rm_id: str, message: str) -> CallError:
    """The text that callers know (spec § 1.6.1)."""
    return failed_precondition(
        f'received {message}, but RmID="{shown(rm_id)}" not registered', "RM_NOT_REGISTERED"
    )


def check_registered(effects: Sequence[Effect], message: str) -> None:
    """Refuse to go on when the core does not know the RM.

    Raises:
        CallError: FAILED_PRECONDITION.
    """
    for effect in effects:
        if isinstance(effect, NotRegistered):
            raise not_registered(effect.rm_id, message)
