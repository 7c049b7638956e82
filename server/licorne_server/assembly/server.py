"""The composition root: assembles the parts of a server, and starts and stops them in order."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

import structlog

from licorne_core.config import built_in
from licorne_core.config.extra import ExtraConfig, read_extra
from licorne_core.scheduler import Scheduler
from licorne_core.values.ids import RmId
from licorne_server.assembly.grpc_server import AboutService, GrpcDoor, Probes, Service
from licorne_server.assembly.periodics import Periodics
from licorne_server.engine.copies import Copies, Pauses
from licorne_server.engine.engine import Engine, Witness
from licorne_server.engine.journal.serving import Journal
from licorne_server.http import HttpServer
from licorne_server.http.dumps import StateDumps
from licorne_server.http.sums import Reasons
from licorne_server.process.build_info import build_info
from licorne_server.process.clock import Clock, SystemClock
from licorne_server.process.fair import TimeSlices
from licorne_server.process.loop import Collector
from licorne_server.process.memory import Memory
from licorne_server.process.settings import Settings
from licorne_server.reads.findings import Examinations
from licorne_server.reads.members import Members
from licorne_server.reads.sources import Figures, Sources, rm_figures
from licorne_server.reads.verdict import SERVER
from licorne_server.rms.admission import Admission
from licorne_server.rms.budgets.members import MemberBudgets
from licorne_server.rms.event_log import EventLogs
from licorne_server.rms.eviction import Eviction
from licorne_server.rms.handover import Handover
from licorne_server.rms.registry import Rms, any_connected
from licorne_server.rms.reloading import Changes
from licorne_server.rms.rm_log import RmLogLevels
from licorne_server.security.access import Access
from licorne_server.security.tls import CertificateEnd
from licorne_server.services.admin import AdminService
from licorne_server.services.events import EventsService
from licorne_server.services.members.member_calls import MemberCalls
from licorne_server.services.scheduler import SchedulerService
from licorne_server.services.session import SessionService
from licorne_server.services.state import StateService
from licorne_server.store.configurations.default_file import Default
from licorne_server.store.configurations.history import Configurations
from licorne_server.store.configurations.memories import Memories
from licorne_server.store.configurations.thread import ConfigThread
from licorne_server.store.coordination.joining import documents_of, http_url, ownership_of
from licorne_server.store.coordination.ownership import Ownership
from licorne_server.telemetry.logs import dropped, levels
from licorne_server.telemetry.measures import Calls
from licorne_server.telemetry.scheduler_log import SchedulerLog, is_on
from licorne_server.telemetry.tracing.starting import TraceCounts, tracing_of

log = structlog.get_logger("core.app")

GRACE_SECONDS = 1.0


class Server:
    """A complete server; `running` starts and stops one."""

    settings: Settings
    clock: Clock
    """The server's only source of time."""
    scheduler: Scheduler
    """The core. Only the engine changes it; its views may be read between two rounds."""
    engine: Engine
    ownership: Ownership
    """The RMs that this server owns; all of them unless it is one of several members."""
    members: Members | None
    """Sends reads of REST and the page to the other members; None until the shared secret is known."""
    events: EventLogs
    rms: Rms
    eviction: Eviction
    memory: Memory
    config_thread: ConfigThread
    copies: Copies
    """Copies of the core, for what-if questions."""
    changes: Changes
    budgets: MemberBudgets
    periodics: Periodics
    """Audits, accounting, and samples for readers."""
    grpc_address: str
    """``HOST:PORT`` that gRPC listens on; empty before the start."""
    http_address: str
    """``HOST:PORT`` that HTTP listens on; empty before the start, or if HTTP is off."""
    metrics_address: str
    """``HOST:PORT`` for metrics and probes only; empty before the start, or if there is none."""
    failed: asyncio.Event
    """Set when only a restart will help: the server should be stopped."""

    def __init__(
        self,
        settings: Settings,
        scheduler: Scheduler | None = None,
        clock: Clock | None = None,
        ownership: Ownership | None = None,
    ) -> None:
        """Assemble the parts, without listening yet.

        Raises:
            SettingsError: the settings are unsafe.
        """
        settings.check()
        self.settings = settings
        self.clock = clock or SystemClock()
        self.scheduler = scheduler or Scheduler(
            reservations=settings.reservations, ask_backoff=settings.ask_backoff, rm_caps=settings.rms.each
        )
        self._build = build_info()
        self.journal = Journal(settings, self.scheduler, self._build.version, self.clock.now)
        engine = self.engine = Engine(self.journal.core, self.clock)
        self.events = EventLogs(self._extra, settings.rms.events)
        default = Default(settings.default_config or built_in(), settings.config_file)
        self.ownership = ownership or ownership_of(
            settings, self._build.version, self.clock.now, lambda: engine.worked
        )
        documents = self._documents = documents_of(self.ownership, settings)
        known = Configurations(default, documents, self.clock, self.ownership.epoch)
        self._time_slices = TimeSlices(lambda: engine.busy, lambda: engine.budget.turn, engine.slow)
        views = self.scheduler.views
        self.tracing = tracing_of(settings.traces, self._build, self.clock, self._time_slices, views)
        self.rms = Rms(
            engine.post, engine.now, settings.bounds, self.events, known, self.ownership, self.tracing
        )
        self._handover = Handover(engine, self.rms, settings.drain, settings.retry_after)
        self._handover.follow(self.ownership)
        engine.on_failure = self.ownership.on_failure = self.fail
        self._access = Access.by(settings)
        self._member_calls = MemberCalls(settings, self.ownership, self._access, self.rms, views)
        self.members = self._member_calls.members
        # A partition of another member's RM may have the same name.
        views.bare_names = self.members is None
        self._log_levels = RmLogLevels(lambda rm_id: self.scheduler.views.rm(rm_id).extra_config)
        self.rms.on_extra = self._followed
        self.rms.on_forgotten = self._forgotten
        self.memory = Memory(settings.rms.memory, self.engine.post)

        def shortage() -> str:
            return self.memory.shortage

        self.eviction = Eviction(engine, self.rms, views, self.clock, settings.rms.forget_after)
        self.grpc_address = self.http_address = self.metrics_address = ""
        self.failed = asyncio.Event()
        self._probes = Probes()
        self._calls = Calls()
        self._collector = Collector(partial(any_connected, self.rms), engine.slow)
        self._certificate_end = CertificateEnd(settings.tls)
        thread = self.config_thread = ConfigThread()
        self._memories = Memories(views, known, self.clock, self._time_slices, self.ownership.epoch)
        self._admission = Admission(
            engine, self.rms, thread, self.eviction, known, self._memories, settings.rms, shortage
        )
        self.changes = Changes(engine, self.rms, known, thread, self.clock, self.scheduler.refusal_of)
        self.budgets = MemberBudgets(
            engine, self.rms, views, documents, thread, self.clock, settings.budgets_file, self.ownership
        )
        self.copies = self._copies()
        self.periodics = Periodics(settings, documents, views, known.find, self.clock, self._time_slices)
        slices = self._time_slices
        self._grpc = GrpcDoor(settings, self._access, self._calls, self.tracing, slices, shortage)
        self._sources = self._made_of()
        self._examinations = Examinations(self._sources, self.clock)
        self._dumps = StateDumps(self._sources)
        self._http = HttpServer(self._sources, settings.peers, self._dumps)
        self._stopped = False

    async def start(self) -> None:
        """Start to listen; the server is ready when this returns.

        Raises:
            SettingsError: the server cannot listen on an address, or use its state directory.
        """
        self._documents.open()
        self.changes.configurations.start()
        if self.settings.manage_gc:
            self._collector.start(asyncio.get_running_loop())
            self.engine.on_idle = self._collector.idle
        levels().followers.add(self._record)
        self._record()
        self.journal.start()
        self.engine.start(self.rms)
        await self.changes.configurations.log_levels.start()
        await self.budgets.begin(watch=self.settings.watch_config)
        self.eviction.start()
        self.memory.start()
        if self.settings.watch_config:
            self.changes.reloader.watch()
        await self.periodics.start()
        self.scheduler.views.now = self.clock.now
        self._memories.start()
        if self.tracing is not None:
            self.tracing.start()
        self._member_calls.answer = self._http.answer
        self.grpc_address = await self._grpc.open(self._services(), self._member_calls, self._probes)
        await self._start_http()
        await self.ownership.start(self.grpc_address, http_url(self.settings, self.http_address))
        await self.ownership.joined()
        await self._probes.serving()
        self._examinations.start()
        addresses = {"grpc": self.grpc_address, "http": self.http_address}
        if self.metrics_address:
            addresses["metrics"] = self.metrics_address
        about = {"version": self._build.version, "form": self._build.form, "transport": self._grpc.transport}
        log.info("started", **about, **addresses)
        self._grpc.tell_of_transport()
        if exposed := {what: addresses[what] for what in self.settings.exposed}:
            log.warning("insecure: served without TLS where others can reach it", **exposed)

    def reload(self) -> None:
        """Read the files with tokens, the default configuration and the budgets again."""
        self._access.reload()
        self.changes.reloader.reload_soon()
        self.budgets.definition.reload_soon()

    async def stop(self, *, at_once: bool = False) -> None:
        """Drain, so that all pending decisions are sent, then stop.

        `at_once` is for tests: streams end without a status, as if the process was killed.
        """
        if self._stopped:
            return
        self._stopped = True
        await self._probes.draining()
        await self._examinations.stop()
        await self.copies.stop()
        await (self._memories.stop() if at_once else self._memories.end())
        if self.engine.running and not at_once:
            await self._handover.stop_all(self._member_calls.passing.drain)
        grace = None if at_once else GRACE_SECONDS
        await self._member_calls.stop(grace)
        await self.ownership.stop()
        self.events.close()
        await self._grpc.stop(grace)
        await self._http.stop()
        await self.periodics.stop()
        self.memory.stop()
        for part in (self.eviction, self.changes, self.budgets, self._admission, self.engine, self.journal):
            await part.stop()
        await self.changes.configurations.stop()
        await self._documents.close()
        self.config_thread.stop()
        self._log_levels.forget_all()
        levels().followers.discard(self._record)
        if self.tracing is not None:
            await self.tracing.stop()
        if self._probes.status.started:
            log.info("stopped")

    def _services(self) -> Sequence[Service]:
        access, guard = self._access, self._grpc.guard
        admission, passing = self._admission, self._member_calls.passing
        return (
            SchedulerService(self.engine, self.rms, access, guard, admission, passing),
            SessionService(
                self.engine,
                self.rms,
                access,
                guard,
                admission,
                self._time_slices,
                self.settings.heartbeat,
                self._build.version,
                self._member_calls.elsewhere,
            ),
            AboutService(self._build, self.clock.now(), access),
            AdminService(
                self.engine,
                self.rms,
                self.scheduler.views,
                access,
                self.config_thread,
                self.eviction,
                self._dumps,
                self.changes,
                self.copies,
                self._time_slices,
                self._log_levels,
                self.budgets,
            ),
            StateService(self._sources, self.rms, self.engine.now),
            EventsService(self.events, access, self._time_slices),
        )

    async def _start_http(self) -> None:
        self.http_address, self.metrics_address = await self._http.open(self.settings)
        if self.http_address:
            self.periodics.record()

    def _followed(self, rm_id: RmId) -> None:
        """Apply an RM's extra configuration, after a registration or a change."""
        self._log_levels.follow(rm_id)
        self.budgets.registered(rm_id)

    def _forgotten(self, rm_id: RmId) -> None:
        """Drop the state of an RM that the core has removed."""
        self._log_levels.forget(rm_id)
        self.budgets.forget(rm_id)

    def _copies(self) -> Copies:
        pauses = Pauses(self.settings.rms.plan_pause, lambda: self.memory.resident)
        return Copies(self.engine, self.scheduler, self._time_slices, self.memory.shortage_for_copy, pauses)

    def _made_of(self) -> Sources:
        """Make the sources of HTTP and of state dumps."""
        return Sources(
            views=self.scheduler.views,
            status=self._probes.status,
            started_time=self.clock.now(),
            now=self.clock.now,
            rm_state=self.rms.state_of,
            access=self._access,
            cors_origins=self.settings.cors_origins,
            hosts=self.settings.http_hosts,
            log_level=levels().of_others,
            figures=self._figures,
            config_thread=self.config_thread,
            history=self.periodics.history.samples,
            recorder=self.periodics.recording.recorder,
            revisions=self.changes.configurations.find,
            queue_names=self.settings.queue_names,
            events=self.events,
            time_slices=self._time_slices,
            budgets=self.budgets.states,
            hours=self.periodics.accounting.present,
            reasons=Reasons(self.scheduler.views, self._time_slices, self.clock.now).of,
            ownership=self.ownership,
            members=self.members,
            first_rm=self._member_calls.first_rm,
            worker=self.settings.worker,
            call=self._grpc.inner.call,
            journal=self.journal.state,
            audits=self.periodics.audits,
            explained=[one.explain for one in self.periodics.explained],
            lists={name: read for one in self.periodics.explained for name, read in one.lists.items()},
            troubles=self._troubles,
        )

    def _extra(self, rm_id: RmId) -> ExtraConfig:
        return read_extra(self.scheduler.views.rm(rm_id).extra_config)

    def stalled(self, reason: str) -> None:
        """Report a stall of the engine through the probes; an empty reason reports its end."""
        self._probes.stalled(reason)

    def fail(self, reason: str, concern: str = SERVER) -> None:
        """Report through the probes that only a restart will help; `concern` is that of the finding."""
        self._probes.failed(reason, concern)
        self.failed.set()

    def _troubles(self) -> Iterator[tuple[str, str]]:
        """Concern and text of files that could not be read or written."""
        disk = self._documents.trouble if self.ownership.store is None else ""
        for concern, text in (
            ("configuration", self.changes.reloader.problem),
            ("budgets", self.budgets.definition.problem),
            ("disk", disk),
        ):
            if text:
                yield concern, " ".join(text.split())

    def _record(self) -> None:
        """Update the engine's witnesses; the log levels decide whether the scheduler's log is one of them."""
        witnesses: list[Witness] = [self.rms]
        if self.tracing is not None:
            witnesses.append(self.tracing)
        if is_on():
            witnesses.append(SchedulerLog(self.scheduler.views, self.clock.now))
        self.engine.witnesses = tuple(witnesses)

    def _figures(self) -> Figures:
        engine = self.engine
        return Figures(
            rms=tuple(rm_figures(rm, self.events) for rm in self.rms.all()),
            rms_forgotten=self.eviction.forgotten,
            outbox_max=self.settings.bounds.cap,
            certificate_end=self._certificate_end.time(),
            calls=self._calls,
            audits=self.periodics.audits.count,
            audit_findings=self.periodics.audits.findings,
            collections=self._collector.passes,
            collection_seconds=self._collector.seconds,
            slow=engine.slow,
            memory=self.memory.resident,
            memory_limit=self.memory.limit,
            shortage=self.memory.level.value,
            inbox=engine.inbox,
            commands=engine.commands,
            turns=engine.turns,
            turn_seconds=engine.turn_seconds,
            defects=engine.defects,
            log_lines_dropped=dropped(),
            traces=TraceCounts() if self.tracing is None else self.tracing.counts,
        )


@asynccontextmanager
async def running(
    settings: Settings,
    *,
    scheduler: Scheduler | None = None,
    clock: Clock | None = None,
    ownership: Ownership | None = None,
) -> AsyncIterator[Server]:
    """Run a server: it is ready inside the block, and stopped after it.

    Raises:
        SettingsError: the server cannot start.
    """
    server = Server(settings, scheduler, clock, ownership)
    try:
        await server.start()
        yield server
    finally:
        await server.stop()
