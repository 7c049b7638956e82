"""All RMs by id: the routing of effects to them, and the running registrations."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import grpc
import structlog

from licorne_core.messages.commands import AnswerPredicates, AnswerPreemptions, Command, Hold, SetHold
from licorne_core.messages.effects import (
    AllocationsMade,
    ConfigurationRefused,
    ConfigurationUpdated,
    Effect,
    Happened,
    NotRegistered,
    Registered,
    Unfinished,
)
from licorne_core.messages.reports import Turn
from licorne_core.values.errors import shown
from licorne_core.values.ids import RmId
from licorne_server.process.bounds import OutboxBounds
from licorne_server.process.fair import FairLock
from licorne_server.rms.event_log import EventLogs
from licorne_server.rms.outbox import Outbox
from licorne_server.rms.rm import Rm, problem
from licorne_server.rms.rm_log import log_rejections
from licorne_server.rms.streams import Stream
from licorne_server.store.configurations.applying import unmark
from licorne_server.store.configurations.history import Configurations
from licorne_server.store.coordination.ownership import Ownership
from licorne_server.store.coordination.store import Member
from licorne_server.telemetry.measures import RmMeasures
from licorne_server.wire.errors import CallError, failed_precondition, unavailable
from licorne_server.wire.features import table
from licorne_server.wire.framing import Pace
from licorne_server.wire.responses import Kind, made

if TYPE_CHECKING:
    from licorne_server.telemetry.tracing.tracing import Tracing

log = structlog.get_logger("core.rms")

DRAINING = "the server is about to stop"

MAX_WAITING = 16
"""Maximum number of registrations, updates and streams of one RM that wait until the RM's lock is free."""


class Rms:
    """All RMs by id, and the sink of the engine's effects."""

    on_extra: Callable[[RmId], None]
    """Called when the extra configuration of an RM may have changed."""
    on_forgotten: Callable[[RmId], None]
    """Called when an RM was removed."""

    def __init__(
        self,
        post: Callable[[Command], None],
        now: Callable[[], float],
        bounds: OutboxBounds,
        events: EventLogs,
        configurations: Configurations,
        ownership: Ownership,
        tracing: "Tracing | None" = None,
    ) -> None:
        """Start without RMs.

        `post` queues a command for the engine without waiting; `now` gives the time in unix seconds. An RM's
        outbox has these `bounds`. `events` has the logs for subscribers. `configurations` is notified of the
        registered RMs and their configurations. `tracing` is notified of the messages from RMs; None for no
        traces. `ownership` has the RMs that this server owns.
        """
        self.events = events
        self.ownership = ownership
        self.tracing = tracing
        self._configurations = configurations
        self._unmarks = table("UNMARKS")
        self._post = post
        self._bounds = bounds
        self._now = now
        self._draining = False
        self._rms: dict[RmId, Rm] = {}
        # The peers of the running registrations, by RM.
        self._arriving: dict[RmId, str] = {}
        self.claims: Counter[RmId] = Counter()
        """By RM: number of running calls that need its claim; the claim is kept until they end."""
        # By RM: the last message for a session that a registration is replacing.
        self._farewells: dict[str, CallError] = {}
        self._locks: WeakValueDictionary[str, FairLock] = WeakValueDictionary()
        # Large messages wait for their turn here.
        self._gate = asyncio.Lock()
        self.on_extra = self.on_forgotten = _ignore

    def pace(self) -> Pace:
        """The rate control for reading one message; large messages take turns."""
        return Pace(self._gate)

    def all(self) -> list[Rm]:
        """Every RM in order of first registration."""
        return list(self._rms.values())

    def lock(self, rm_id: str) -> FairLock:
        """The lock of that RM, registered or not.

        It is held while the RM is registered or configured, or a stream takes over, so that these steps are
        carried out one after the other, in the order of the requests.
        """
        lock = self._locks.get(rm_id)
        if lock is None:
            what = f"registrations, updates and new streams of RM {rm_id}"
            lock = self._locks[rm_id] = FairLock(what, "TOO_MANY_FOR_ONE_RM", MAX_WAITING)
        return lock

    def is_locked(self, rm_id: str) -> bool:
        """True if the RM's lock is held or awaited."""
        return rm_id in self._locks

    @contextmanager
    def unsettled(self, rm_id: str, farewell: CallError) -> Iterator[None]:
        """Suspend requests on the RM's streams of `si.v1` while it is registered again.

        These streams outlive a registration. Requests that arrive meanwhile count for the new registration;
        if that is refused, they count for the old registration, and nothing is lost. The stream of a session
        ends with `farewell` when the new registration comes into force.
        """
        rm = self.find(rm_id)
        if rm is not None:
            rm.settled.clear()
        self._farewells[rm_id] = farewell
        try:
            yield
        finally:
            del self._farewells[rm_id]
            if rm is not None:
                rm.settled.set()

    @contextmanager
    def arriving(self, rm_id: RmId, peer: str) -> Iterator[None]:
        """Record inside the block that the peer registers the RM, whose lock the caller holds."""
        self._arriving[rm_id] = peer
        try:
            yield
        finally:
            del self._arriving[rm_id]

    def peers(self) -> dict[RmId, str]:
        """The peer of each RM that is registered or registering."""
        return {rm.rm_id: rm.peer for rm in self._rms.values()} | self._arriving

    def find(self, rm_id: str) -> Rm | None:
        """The RM with this id; None if it is not registered."""
        return self._rms.get(RmId(rm_id))

    def get(self, rm_id: str, message: str) -> Rm:
        """The RM with this id.

        Raises:
            CallError: FAILED_PRECONDITION in the words of spec § 1.6.1.
        """
        rm = self.find(rm_id)
        if rm is None:
            raise not_registered(rm_id, message)
        return rm

    async def state_of(self, rm_id: str) -> str:
        """The RM's part of a state dump: a JSON document, or the reason for its absence."""
        rm = self.find(rm_id)
        if rm is None:
            return problem("the RM is not registered any more")
        if rm.session.over_si:
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

    def forget(self, rm_id: RmId) -> None:
        """Drop an RM that has unregistered or was evicted."""
        self._rms.pop(rm_id, None)
        self.events.forget(rm_id)
        if rm_id not in self.claims:
            self.ownership.forget(rm_id)
        self._configurations.gone(rm_id)
        self.on_forgotten(rm_id)
        if self.tracing is not None:
            self.tracing.forget(rm_id)

    def route(self, effects: Sequence[Effect]) -> None:
        """Put the messages for effects into the outboxes of their RMs."""
        for effect in effects:
            if isinstance(effect, AllocationsMade):
                # Allocations are handled first, because most effects are allocations.
                rm = self._rms.get(effect.rm_id)
                if rm is not None:
                    for payload in made(effect, rm.encoder):
                        rm.outbox.put(payload)
            elif isinstance(effect, Registered):
                self._admit(effect)
            elif not isinstance(effect, Happened | Unfinished):
                self._answer(effect)

    def saw(
        self, command: Command | None, effects: Sequence[Effect], seconds: float, turn: Turn | None
    ) -> None:
        """Record a command or a tick in the events and metrics of RMs, and log rejected items (`Witness`)."""
        for effect in effects:
            rm = self._rms.get(effect.rm_id)
            if rm is None:
                pass
            elif isinstance(effect, Happened):
                rm.events.append(effect.facts, effect.footprint)
            elif isinstance(effect, AllocationsMade):
                rm.measures.allocated(effect.allocations, self._now())
            else:
                rm.measures.told(effect)
                log_rejections(effect)
        if turn is not None:
            if (rm := self._rms.get(turn.rm_id)) is not None:
                rm.measures.turned(turn.partition, turn.counters, seconds)
        elif (
            isinstance(command, AnswerPredicates | AnswerPreemptions)
            and (rm := self._rms.get(command.rm_id)) is not None
        ):
            rm.measures.answered((answer.check for answer in command.answers), self._now())

    def halt(self, rm_id: RmId, correlation_id: str) -> None:
        """End the streams of an RM for which the core failed; it must register again."""
        rm = self._rms.get(rm_id)
        if rm is not None:
            rm.halted = correlation_id
            message = f"internal error, correlation id {correlation_id}"
            rm.end_streams(CallError(grpc.StatusCode.INTERNAL, message))

    def drain(self, retry_after: float) -> list[Stream]:
        """Notify the RMs that the server is about to stop; returns the streams that will end."""
        self._draining = True
        return [stream for rm in self._rms.values() for stream in rm.drain(DRAINING, retry_after)]

    def close(self) -> None:
        """End all streams."""
        for rm in self._rms.values():
            rm.end_streams(unavailable(DRAINING))

    def _answer(self, effect: Effect) -> None:
        rm = self._rms.get(effect.rm_id)
        if rm is not None and rm.wants(effect):
            for payload in rm.payloads(effect):
                rm.outbox.put(payload)
        over = self._unmarks.get(type(effect))
        if over is not None:
            unmark(self._configurations, effect.rm_id, over(effect))
        # The extra configuration comes into force even if the queues are refused (spec § 13.1).
        if isinstance(effect, ConfigurationUpdated | ConfigurationRefused):
            self.events.follow(effect.rm_id)
            self.on_extra(effect.rm_id)
        if isinstance(effect, ConfigurationUpdated) and effect.changed:
            self._configurations.in_force(effect.rm_id)

    def _admit(self, effect: Registered) -> None:
        rm_id = effect.rm_id
        rm = self._rms.get(rm_id)
        if rm is None:
            measures = RmMeasures()
            outbox = Outbox(partial(_hold, rm_id, self._post), self._bounds, self._now, measures.sending)
            rm = self._rms[rm_id] = Rm(rm_id, outbox, self._now, measures)
        # A session ends with the registration in which it was opened.
        rm.end_streams(self._farewells.get(rm_id), [Kind.SESSION])
        rm.renew(effect.session, self.ownership.epoch(rm_id))
        rm.peer = self._arriving.get(rm_id, rm.peer)
        self._configurations.in_force(rm_id)
        rm.events = self.events.begin(rm_id)
        log.info("registered", rm_id=rm_id, session=effect.session)
        self.on_extra(rm_id)


def _hold(rm_id: RmId, post: Callable[[Command], None], on: bool) -> None:
    """Hold the RM while its outbox is full."""
    log.warning("outbox full" if on else "outbox drained", rm_id=rm_id)
    post(SetHold(rm_id=rm_id, hold=Hold.OUTBOX_FULL, on=on))


@asynccontextmanager
async def owned(rms: Rms, rm_id: RmId, named: int = 0) -> AsyncIterator[Member | None]:
    """A block in which this server owns the RM under an epoch above `named`, or the yielded member does.

    If the RM is not registered when the last such block ends, the claim is released.

    Raises:
        CallError: see `Ownership.take`.
    """
    rms.check_open()
    rms.claims[rm_id] += 1
    try:
        place = await rms.ownership.take(rm_id, named)
        if isinstance(place, Member):
            yield place
        else:
            yield None
            check_owned(rms, rm_id)
    finally:
        rms.claims[rm_id] -= 1
        if not rms.claims[rm_id]:
            del rms.claims[rm_id]
            if rms.find(rm_id) is None:
                rms.ownership.forget(rm_id)


def is_owned(rms: Rms, rm: Rm) -> bool:
    """True if the RM is registered under the epoch under which this server owns it."""
    return 0 < rm.epoch == rms.ownership.epoch(rm.rm_id)


def check_claimed(rms: Rms, rm_id: RmId) -> None:
    """Refuse to register an RM that another member has taken over since it was claimed.

    The caller holds the RM's lock: an RM that is lost from now on is dropped once the lock is free.

    Raises:
        CallError: UNAVAILABLE.
    """
    if not rms.ownership.epoch(rm_id):
        raise _lost(rm_id)


def check_owned(rms: Rms, rm_id: RmId) -> None:
    """Refuse to serve an RM that was registered under an earlier claim, or under none.

    Raises:
        CallError: UNAVAILABLE.
    """
    rm = rms.find(rm_id)
    if rm is not None and not is_owned(rms, rm):
        raise _lost(rm_id)


@asynccontextmanager
async def configuring(rms: Rms, rm_id: str, now: Callable[[], float]) -> AsyncIterator[None]:
    """Hold the RM's lock inside the block, in which its configuration changes, and record the duration.

    `now` returns unix seconds.
    """
    begin = now()
    spans = None if rms.tracing is None else rms.tracing.configurations
    try:
        async with rms.lock(rm_id):
            with nullcontext() if spans is None else spans.configuring(RmId(rm_id)):
                yield
    finally:
        rm = rms.find(rm_id)
        if rm is not None:
            rm.measures.configuring.observe(max(0.0, now() - begin))


def any_connected(rms: Rms) -> bool:
    """True if any RM has an open stream, or may be about to open one."""
    return any(rm.connected or rms.is_locked(rm.rm_id) for rm in rms.all())


def _lost(rm_id: RmId) -> CallError:
    return unavailable(f"RM {shown(rm_id)} is not served here any more")


def _ignore(_: RmId) -> None:
    """Default listener, which ignores RMs."""


def not_registered(rm_id: str, message: str) -> CallError:
    """The error for an RM that is not registered; clients depend on the text (spec § 1.6.1)."""
    return failed_precondition(
        f'received {message}, but RmID="{shown(rm_id)}" not registered', "RM_NOT_REGISTERED"
    )


def check_registered(effects: Sequence[Effect], message: str) -> None:
    """Raise an error if the core has no such RM.

    Raises:
        CallError: FAILED_PRECONDITION.
    """
    for effect in effects:
        if isinstance(effect, NotRegistered):
            raise not_registered(effect.rm_id, message)
