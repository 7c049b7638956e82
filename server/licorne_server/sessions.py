"""The RMs as the server knows them: outbox, open streams and, where one is spoken, their session.

Losing a stream loses nothing here: books and outbox stay, until the RM registers anew.
"""

import asyncio
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

import grpc
import structlog

from licorne.v1.session_pb2 import Callbacks, Drain, UpdateResponse
from licorne_core.commands import Command, Hold, SetHold
from licorne_core.effects import (
    ConfigurationRefused,
    ConfigurationUpdated,
    ContainerStatesChanged,
    Effect,
    Happened,
    NotRegistered,
    Registered,
)
from licorne_core.ids import RmId
from licorne_server.convert_asks import AskingReader, AskReader
from licorne_server.convert_out import AllocationEncoder, Kind, Payload, payloads
from licorne_server.errors import (
    CallError,
    aborted,
    exhausted,
    failed_precondition,
    unavailable,
)
from licorne_server.event_log import EventLogs
from licorne_server.outbox import Bounds, Outbox
from licorne_server.streams import Stream
from licorne_server.wire import delimited

log = structlog.get_logger(__name__)

DRAINING = "the server is about to stop"
STREAM_KINDS = (Kind.NODES, Kind.APPLICATIONS, Kind.ALLOCATIONS)


@dataclass(slots=True)
class Session:
    """What a `Session.Update` stream and its successors have in common."""

    instance: int
    callbacks: Callbacks = field(default_factory=Callbacks)
    token: str = field(default_factory=lambda: secrets.token_hex(16))
    received: int = 0
    """Number of the last request that was handled."""
    sent: int = 0
    """Number of the last response."""
    dropped: dict[Kind, int] = field(default_factory=dict)
    """Items refused before the core saw them, since the replay began."""
    next_event: int = 0
    """Id of the first event that the RM was not told yet, if it wants to be."""


class Rm:
    """One registered RM."""

    def __init__(self, rm_id: RmId, outbox: Outbox) -> None:
        """Newly registered."""
        self.rm_id = rm_id
        self.registration = 0
        self.outbox = outbox
        self.encoder = AllocationEncoder()
        self.reader = AskReader()
        self.session: Session | None = None
        self.streams: dict[Kind, Stream] = {}
        self.halted = ""
        self.resyncs = 0
        """Registrations that followed on an overflow of the outbox: replays it made necessary."""
        self.settled = asyncio.Event()
        """Not set while a session is about to replace the streams of `si.v1`."""
        self.settled.set()

    @property
    def connected(self) -> bool:
        """Whether a stream is open."""
        return bool(self.streams)

    def renew(self, registration: int) -> None:
        """The RM was registered anew: what waited for it is of no interest any more."""
        self.registration = registration
        self.resyncs += self.outbox.overflowed
        self.outbox.clear()
        self.encoder = AllocationEncoder()
        self.reader = AskReader()
        self.session = None
        self.halted = ""

    def open_session(self, session: Session) -> None:
        """The RM, registered just now, is served over a session."""
        self.session = session
        if session.callbacks.HasField("predicates"):
            self.reader = AskingReader()

    def wants(self, effect: Effect) -> bool:
        """Whether the RM is to hear of an effect: of container states only who asked for them."""
        if isinstance(effect, ContainerStatesChanged):
            return self.session is not None and self.session.callbacks.container_states
        return True

    def lasting(self) -> Callable[[], bool]:
        """Tells from now on whether the RM still is what it is now, not registered anew."""
        registration = self.registration
        return lambda: self.registration == registration

    async def displace(self, kind: Kind, reason: str) -> None:
        """End the open stream of a kind, and wait until it touches nothing any more."""
        older = self.streams.get(kind)
        if older is not None:
            older.end(aborted(reason, "STREAM_REPLACED"))
            await older.closed.wait()

    def attach(self, kind: Kind, stream: Stream) -> None:
        """The stream is the one of its kind from now on."""
        self.streams[kind] = stream
        log.info("stream opened", rm_id=self.rm_id, stream=kind.value)

    def detach(self, kind: Kind, stream: Stream) -> None:
        """The stream has ended."""
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
        """Refuse to go on with an RM whose books can no longer be told to it.

        Raises:
            CallError: it has to register again.
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
    """All RMs by id, and the sink of the engine's effects.

    An RM's `door` is held while it changes hands, so that no two streams take it at once;
    `registering` while RMs are counted and one is added.
    """

    def __init__(
        self,
        post: Callable[[Command], None],
        now: Callable[[], float],
        bounds: Bounds,
        max_rms: int,
        events: EventLogs,
    ) -> None:
        """`post` hands a command to the core without waiting; `now` is the core's time.

        What happens goes into `events`.
        """
        self.events = events
        self._post = post
        self._now = now
        self._bounds = bounds
        self._max_rms = max_rms
        self._draining = False
        self._rms: dict[RmId, Rm] = {}
        self._doors: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self.registering = asyncio.Lock()

    def all(self) -> list[Rm]:
        """Every RM in order of first registration."""
        return list(self._rms.values())

    def door(self, rm_id: str) -> asyncio.Lock:
        """The lock of that RM, registered or not; it lives while somebody holds or wants it."""
        lock = self._doors.get(rm_id)
        if lock is None:
            lock = self._doors[rm_id] = asyncio.Lock()
        return lock

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
        """The RM took its leave."""
        rm = self._rms.pop(rm_id, None)
        self.events.forget(rm_id)
        if rm is not None:
            rm.end_streams(not_registered(rm_id, "request"), STREAM_KINDS)

    def route(self, effects: Sequence[Effect]) -> None:
        """Put the answers into the outboxes of their RMs, and what happened into their logs."""
        now = self._now()
        for effect in effects:
            match effect:
                case Happened():
                    self.events.add(effect)
                case Registered():
                    self._admit(effect)
                case _:
                    self._answer(effect, now)

    def halt(self, rm_id: RmId, correlation_id: str) -> None:
        """The core failed on this RM: end its streams, and serve it again once it registers."""
        rm = self._rms.get(rm_id)
        if rm is not None:
            rm.halted = correlation_id
            message = f"internal error, correlation id {correlation_id}"
            rm.end_streams(CallError(grpc.StatusCode.INTERNAL, message))

    def drain(self, retry_after: float) -> list[Stream]:
        """Tell the RMs that the server is about to stop; the streams that will end for it.

        Those of `si.v1` end once what waits is sent; a session is told to say goodbye, and
        to come back after so many seconds.
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

    def _answer(self, effect: Effect, now: float) -> None:
        rm = self._rms.get(effect.rm_id)
        if rm is not None and rm.wants(effect):
            for payload in payloads(effect, rm.encoder, now):
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
        f'received {message}, but RmID="{rm_id[:128]}" not registered', "RM_NOT_REGISTERED"
    )


def check_registered(effects: Sequence[Effect], message: str) -> None:
    """Refuse to go on when the core does not know the RM.

    Raises:
        CallError: FAILED_PRECONDITION.
    """
    for effect in effects:
        if isinstance(effect, NotRegistered):
            raise not_registered(effect.rm_id, message)
