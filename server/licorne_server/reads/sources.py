"""Sources of the answers over HTTP and gRPC: functions and state of the other packages, and state dumps."""

from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from aiohttp import web

from licorne.v1 import state_pb2 as pb
from licorne_core.config.extra import ExtraConfig
from licorne_core.values.errors import NotFound
from licorne_core.values.ids import PartitionName, RmId
from licorne_core.views import Views
from licorne_server.engine.audits import Audits
from licorne_server.engine.journal.records import JournalState
from licorne_server.process.fair import TimeSlices
from licorne_server.process.loop import SlowSteps
from licorne_server.reads.history.recorder import Recorder, Sample
from licorne_server.reads.members import Members
from licorne_server.reads.reasons import ReasonRows, ReasonsOf
from licorne_server.reads.resource_hours import Hours
from licorne_server.reads.verdict import SERVER, Verdicts
from licorne_server.rms.budgets.members import BudgetState
from licorne_server.rms.event_log import EventLogs
from licorne_server.rms.rm import Rm
from licorne_server.security.access import Access, Caller
from licorne_server.store.configurations.revisions import Revisions
from licorne_server.store.configurations.thread import ConfigThread
from licorne_server.store.coordination.ownership import Alone, Ownership
from licorne_server.telemetry.measures import Calls, RmMeasures
from licorne_server.telemetry.tracing.starting import TraceCounts
from licorne_server.wire.errors import unavailable


@dataclass(slots=True)
class Status:
    """The state of the server, for the probes."""

    started: bool = False
    draining: bool = False
    failure: str = ""
    """Reason why all scheduling has ended; empty if it has not."""
    failed: str = SERVER
    """What has failed: the server, or a listener. It is the `concern` of the finding."""
    stall: str = ""
    """Reason why scheduling stalls; empty if it does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFigures:
    """The events of one registration of an RM."""

    noted: int = 0
    kept: int = 0
    told: int = 0
    """Number of events sent to the RM itself."""
    memory: int = 0
    """Estimated bytes of the events in the log."""
    watchers: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RmFigures:
    """Connection of one RM; `resyncs` counts replays after an overflow of its outbox."""

    rm_id: RmId
    connected: bool
    since: float = 0.0
    """Time since which it is connected, or disconnected, in unix seconds."""
    outbox_messages: int = 0
    outbox_bytes: int = 0
    outbox_age: float = 0.0
    """Age of the oldest unwritten message, in seconds."""
    resyncs: int = 0
    events: EventFigures = EventFigures()
    measures: RmMeasures = field(default_factory=RmMeasures)


def rm_figures(rm: Rm, logs: EventLogs) -> RmFigures:
    """Connection, outbox, events and measures of an RM."""
    return RmFigures(
        rm_id=rm.rm_id,
        connected=rm.connected,
        since=rm.since,
        outbox_messages=rm.outbox.messages,
        outbox_bytes=rm.outbox.size,
        outbox_age=rm.outbox.age,
        resyncs=rm.resyncs,
        events=_events(rm, logs),
        measures=rm.measures,
    )


def _events(rm: Rm, logs: EventLogs) -> EventFigures:
    try:
        log = logs.get(rm.rm_id)
    except NotFound:  # the RM is being registered just now
        return EventFigures()
    return EventFigures(
        noted=log.next_id,
        kept=log.next_id - log.lowest_id,
        told=rm.session.next_event,
        memory=log.memory,
        watchers=log.watchers,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The server in numbers, counted from its start unless noted otherwise."""

    rms: tuple[RmFigures, ...] = ()
    rms_forgotten: int = 0
    outbox_max: int = 0
    """Number of bytes of messages for an RM above which they are dropped, and the RM has to replay."""
    calls: Calls = field(default_factory=Calls)
    """Counts of gRPC calls."""
    certificate_end: float = 0.0
    """End of the server certificate's validity, in unix seconds; 0 without TLS."""
    audits: int = 0
    audit_findings: int = 0
    """Disagreements of the books at the last audit."""
    collections: int = 0
    """Full passes of the garbage collector that were made in idle moments."""
    collection_seconds: float = 0.0
    """Seconds spent in these passes."""
    slow: SlowSteps = field(default_factory=SlowSteps)
    """Steps that blocked the loop."""
    memory: int = 0
    """Current bytes of resident memory."""
    memory_limit: int = 0
    """Memory limit in bytes; 0 if there is none."""
    shortage: int = 0
    """Work refused for lack of memory: 0 is none, 1 new work, 2 all work."""
    inbox: int = 0
    """Number of waiting commands."""
    commands: int = 0
    turns: int = 0
    turn_seconds: float = 0.0
    defects: int = 0
    log_lines_dropped: Mapping[str, int] = field(default_factory=dict)
    """Dropped log lines of the process, by reason."""
    traces: TraceCounts = field(default_factory=TraceCounts)


async def _no_reasons(_: PartitionName) -> ReasonRows:
    return ReasonRows(0.0, ())


async def _no_hours() -> Hours:
    return Hours()


Call = Callable[[str, bytes, Caller, str], Awaitable[bytes]]
"""Returns the response to a method and a request, for a caller with an address in gRPC's form.

Raises CallError if the call fails."""


async def _no_rm(_: str) -> str:
    return ""


async def _no_call(method: str, request: bytes, caller: Caller, address: str) -> bytes:
    raise unavailable(f"{method} is not served here")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Sources of the answers. Times are in unix seconds."""

    views: Views
    status: Status
    started_time: float
    now: Callable[[], float]
    rm_state: Callable[[RmId], Awaitable[str]]
    """Requests an RM's part of a state dump: a JSON document, which may be an error."""
    access: Access = field(default_factory=Access)
    """Rights of callers; by default everything is open to all."""
    cors_origins: frozenset[str] = frozenset()
    """Origins whose pages may read answers; ``*`` for all."""
    hosts: frozenset[str] = frozenset()
    """Names under which the server answers on loopback; ``*`` for all."""
    log_level: Callable[[], str] = lambda: "info"
    """Level of all loggers without a level of their own."""
    figures: Callable[[], Figures] = Figures
    budgets: Callable[[], Iterable[BudgetState]] = tuple
    """The state of all budgets over RMs."""
    hours: Callable[[], Awaitable[Hours]] = _no_hours
    """Returns the resource-hours of all partitions."""
    reasons: ReasonsOf = _no_reasons
    """Returns the waiting asks of a partition, for the sums by reason."""
    queue_names: bool = True
    """True to publish metrics of queues also under names that contain the queue."""
    config_thread: ConfigThread = field(default_factory=ConfigThread)
    history: deque[Sample] = field(default_factory=deque)
    recorder: Recorder
    """The history of queues, nodes and RMs."""
    revisions: Callable[[RmId], Revisions | None] = lambda _: None
    """Returns the configurations of an RM, and the acts of operators."""
    events: EventLogs = field(default_factory=lambda: EventLogs(lambda _: ExtraConfig()))
    time_slices: TimeSlices = field(default_factory=lambda: TimeSlices(lambda: False))
    ownership: Ownership = field(default_factory=lambda: Alone(0))
    members: Members | None = None
    """The other members of the deployment; None for a server without others."""
    first_rm: Callable[[str], Awaitable[str]] = _no_rm
    """Returns the id of the first RM, of all members, that has a partition of this bare name; an empty name
    means any partition. Empty if there is none. Raises CallError while a member does not answer.
    """
    worker: int = 0
    """Number of this worker; 0 for a server that is no worker."""
    call: Call = _no_call
    """Carries out a gRPC call for a caller of HTTP."""
    journal: JournalState | None = None
    """The journal of commands; None if there is none."""
    audits: Audits | None = None
    """The audits of the books; None for a server without them."""
    explained: Sequence[Callable[[PartitionName, pb.ExplainResponse, float], Iterator[None]]] = ()
    """Complete the explanation of an ask, as of a time; the reader may pause at each step."""
    lists: Mapping[str, Callable[[PartitionName, str], Iterator[Any]]] = field(default_factory=dict)
    """Lists of extensions that replace those of the core, by name."""
    troubles: Callable[[], Iterable[tuple[str, str]]] = tuple
    """Returns concern and text of each failure to read or store, unless a later attempt has succeeded."""
    verdicts: Verdicts = field(default_factory=Verdicts)

    def listed(self, name: str, partition: PartitionName, queue: str) -> Iterator[Any]:
        """A list of an extension: of a partition, or of a queue and its descendants."""
        own = self.lists.get(name)
        return self.views.listed(name, partition, queue) if own is None else own(partition, queue)


SOURCES = web.AppKey("sources", Sources)
"""Key of the sources in an aiohttp application."""


class DumpInProgress(Exception):
    """Another caller is receiving a dump."""

    def __init__(self) -> None:
        """Make the error with its fixed reason."""
        super().__init__("a state dump is being sent already")


class Dumps(Protocol):
    """Makes dumps, one at a time."""

    def dump(
        self, rm_id: str, peer: str, *, alone: bool = False
    ) -> AbstractAsyncContextManager[AsyncGenerator[bytes, None]]:
        """The dump of all RMs, or of one, in chunks of UTF-8 that are made while they are read.

        The dump of all RMs includes those of all other members, unless `alone` is set.

        Raises:
            DumpInProgress: another caller is receiving a dump.
            NotFound: the RM is not registered.
        """
        ...
