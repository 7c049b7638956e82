"""The composition root: puts the parts of a server together, and starts and stops them in order."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial

import grpc
import structlog

from licorne_core.config import built_in
from licorne_core.config.extra import ExtraConfig, read_extra
from licorne_core.messages.commands import Hold, SetHold
from licorne_core.messages.effects import Effect
from licorne_core.partitions.partition import Partition
from licorne_core.scheduler import Scheduler
from licorne_core.values.ids import RmId
from licorne_server.configurations.history import Configurations, Keeper
from licorne_server.configurations.reloading import Changes, Default
from licorne_server.configurations.shared import SharedKeeper
from licorne_server.configurations.thread import ConfigThread
from licorne_server.coordination.budgets import MemberBudgets
from licorne_server.coordination.handover import Handover
from licorne_server.coordination.joining import http_url, join
from licorne_server.coordination.ownership import Alone, Ownership
from licorne_server.coordination.packing import SERVICE as MEMBERS
from licorne_server.coordination.reach import Reach
from licorne_server.engine.audits import Audits
from licorne_server.engine.copies import Copies, Pauses
from licorne_server.engine.engine import Engine
from licorne_server.http import Figures, HttpServer, Sources, Status
from licorne_server.http.dumps import StateDumps
from licorne_server.http.members import Members
from licorne_server.http.sources import rm_figures
from licorne_server.process.build_info import build_info
from licorne_server.process.clock import Clock, SystemClock
from licorne_server.process.fair import TimeSlices
from licorne_server.process.loop import Collector
from licorne_server.process.memory import Memory
from licorne_server.process.settings import Settings
from licorne_server.rms.admission import Admission
from licorne_server.rms.event_log import EventLogs
from licorne_server.rms.eviction import Eviction
from licorne_server.rms.registry import DRAINING, Rms, any_connected
from licorne_server.rms.rm_log import RmLogLevels
from licorne_server.security.access import Access
from licorne_server.security.connections import Connections
from licorne_server.security.tls import CertificateEnd, member_credentials
from licorne_server.security.tokens import tokens_in
from licorne_server.services.admin import AdminService
from licorne_server.services.calls import CallGuard
from licorne_server.services.events import EventsService
from licorne_server.services.grpc_server import (
    AboutService,
    StandardHealth,
    add_reflection,
    bind,
    bind_socket,
    grpc_server,
)
from licorne_server.services.history import History
from licorne_server.services.members import MemberCalls
from licorne_server.services.scheduler import SchedulerService
from licorne_server.services.session import SessionService
from licorne_server.services.state import StateService
from licorne_server.telemetry.logs import dropped, levels
from licorne_server.telemetry.measures import Calls
from licorne_server.telemetry.scheduler_log import SchedulerLog
from licorne_server.telemetry.tracing.starting import TraceCounts, tracing_of
from licorne_server.wire.errors import Stopped

log = structlog.get_logger("core.app")

GRACE_SECONDS = 1.0


class Server:
    """A whole server; `running` starts and stops one."""

    settings: Settings
    clock: Clock
    """The only source of the time that the server works by."""
    scheduler: Scheduler
    """The core. Only the engine changes it; its views may be read between two rounds."""
    engine: Engine
    ownership: Ownership
    """RMs that this server serves; all of them unless it is one of several members."""
    members: Members | None
    """The other members, over HTTP. They are not asked before their secret is known."""
    events: EventLogs
    rms: Rms
    eviction: Eviction
    memory: Memory
    config_thread: ConfigThread
    copies: Copies
    """Copies of the core, for questions about what would happen."""
    changes: Changes
    budgets: MemberBudgets
    grpc_address: str
    """``HOST:PORT`` that gRPC listens on; empty before the start."""
    http_address: str
    """``HOST:PORT`` that HTTP listens on; empty before the start, and if it is off."""
    metrics_address: str
    """The same for the address of metrics and probes alone."""
    failed: asyncio.Event
    """Set when the engine has ended by itself: the server should be stopped."""

    def __init__(
        self,
        settings: Settings,
        scheduler: Scheduler | None = None,
        clock: Clock | None = None,
        ownership: Ownership | None = None,
    ) -> None:
        """Put the parts together; nothing listens yet.

        Raises:
            SettingsError: the settings are not safe.
        """
        settings.check()
        self.settings = settings
        self.clock = clock or SystemClock()
        caps = settings.rms.each
        self.scheduler = scheduler or Scheduler(
            reservations=settings.reservations, ask_backoff=settings.ask_backoff, rm_caps=caps
        )
        engine = self.engine = Engine(self.scheduler, self.clock)
        self.events = EventLogs(self._extra, settings.rms.events)
        default = Default(settings.default_config or built_in(), settings.config_file)
        self._build = build_info()
        self.ownership = ownership or self._ownership()
        known = Configurations(default, self._keeper(), self.clock)
        self._time_slices = TimeSlices(lambda: engine.busy, lambda: engine.budget.turn, engine.slow)
        views = self.scheduler.views
        self.tracing = tracing_of(settings.traces, self._build, self.clock, self._time_slices, views)
        self.rms = Rms(
            engine.post, engine.now, settings.bounds, self.events, known, self.ownership, self.tracing
        )
        self._follow_ownership()
        self.members = Members.beside(self.ownership, settings.tls, settings.member_ca)
        # The RM of another member may have a partition of the same name.
        views.bare_names = self.members is None
        self._log_levels = RmLogLevels(lambda rm_id: self.scheduler.views.rm(rm_id).extra_config)
        self.rms.on_extra = self._followed
        self.rms.on_forgotten = self._forgotten
        self.memory = Memory(settings.rms.memory, self.engine.post)
        self.eviction = Eviction(engine, self.rms, views, self.clock, settings.rms.forget_after)
        self.grpc_address = self.http_address = self.metrics_address = ""
        self.failed = asyncio.Event()
        self._status = Status()
        self._calls = Calls()
        self._collector = Collector(partial(any_connected, self.rms), self.scheduler.count_gone, engine.slow)
        self._certificate_end = CertificateEnd(settings.tls)
        self.config_thread = ConfigThread()
        self._admission = Admission(
            self.engine,
            self.rms,
            self.config_thread,
            self.eviction,
            known,
            settings.rms,
            shortage=lambda: self.memory.shortage,
        )
        refusal_of = self.scheduler.refusal_of
        self.changes = Changes(engine, self.rms, known, self.config_thread, self.clock, refusal_of)
        self.budgets = MemberBudgets(
            engine,
            self.rms,
            views,
            known.keeper,
            self.config_thread,
            self.clock,
            settings.budgets_file,
            self.ownership,
            self.ownership.store,
        )
        self.copies = self._copies()
        self._history = History(self.scheduler.views, self.clock, self._time_slices)
        self._audits = Audits(self.scheduler.views, self.clock, self._time_slices)
        self.engine.on_failure = self._failed
        self._access = Access(
            enforced=settings.tls is not None and settings.tls.client_ca is not None,
            identities=settings.rm_identities,
            operators=settings.operators,
            tokens=tokens_in(settings.rm_tokens, settings.operator_tokens),
        )
        credentials = partial(member_credentials, settings.tls, settings.member_ca)
        self._member_calls = MemberCalls(self.ownership, self._access, self.rms, views, credentials)
        self._sources = self._made_of()
        self._dumps = StateDumps(self._sources)
        self._http: HttpServer | None = None
        self._grpc: grpc.aio.Server | None = None
        self._connections = Connections(settings.peers)
        self._health: StandardHealth | None = None
        self._stopped = False

    def _follow_ownership(self) -> None:
        """Have RMs end here as `ownership` wants it, and decide only while decisions count."""
        handover = Handover(self.engine, self.rms, self.settings.drain, self.settings.retry_after)
        self.ownership.on_lost, self.ownership.on_handover = handover.lost, handover.hand_over
        if self.ownership.store is not None:
            self.engine.may_decide = self.ownership.may_decide

    async def start(self) -> None:
        """Listen, and be ready when this returns.

        Raises:
            SettingsError: the server cannot listen on an address, or use its state directory.
        """
        self.changes.configurations.start()
        if self.settings.manage_gc:
            self._collector.start()
            self.engine.on_idle = self._collector.idle
        self.engine.on_turn = self._turned
        views = self.scheduler.views
        self.engine.witness = SchedulerLog(views, lambda: self.scheduler.last_turn, self.clock.now)
        self.engine.start(self.rms)
        await self.budgets.begin(watch=self.settings.watch_config)
        self.eviction.start()
        self.memory.start()
        if self.settings.watch_config:
            self.changes.reloader.watch()
        self._audits.start()
        if self.tracing is not None:
            self.tracing.start()
        await self._start_grpc()
        await self._start_http()
        await self.ownership.start(self.grpc_address, http_url(self.settings, self.http_address))
        assert self._health is not None
        await self._health.serving()
        self._status.started = True
        addresses = {"grpc": self.grpc_address, "http": self.http_address}
        if self.metrics_address:
            addresses["metrics"] = self.metrics_address
        build = self._build
        log.info("started", version=build.version, form=build.form, **addresses)
        if self.settings.exposed:
            log.warning("insecure: served without TLS where others can reach it", **addresses)

    def reload(self) -> None:
        """Read the files with tokens, the default configuration and the budgets again."""
        self._access.reload()
        self.changes.reloader.reload_soon()
        self.budgets.definition.reload_soon()

    async def stop(self, *, at_once: bool = False) -> None:
        """Drain, then stop (reliability: everything that was decided is sent).

        `at_once` is for tests: streams break off without a word, as if the process was killed.
        """
        if self._stopped:
            return
        self._stopped = True
        self._status.draining = True
        if self._health is not None:
            await self._health.draining()
        await self.copies.stop()
        if self.engine.running and not at_once:
            await self._drain()
        await self._member_calls.stop()
        await self.ownership.stop()
        self.events.close()
        await self._connections.stop()
        if self._grpc is not None:
            await self._grpc.stop(None if at_once else GRACE_SECONDS)
        if self._http is not None:
            await self._http.stop()
        if self.members is not None:
            await self.members.close()
        await self._history.stop()
        await self._audits.stop()
        self.memory.stop()
        await self.eviction.stop()
        await self.changes.stop()
        await self.budgets.stop()
        await self._admission.stop()
        await self.engine.stop()
        await self.changes.configurations.stop()
        if self.ownership.store is not None:
            # The last writes of configurations needed it.
            await self.ownership.store.close()
        self.config_thread.stop()
        self._log_levels.forget_all()
        if self.tracing is not None:
            await self.tracing.stop()
        if self._status.started:
            log.info("stopped")

    async def _drain(self) -> None:
        """Stop scheduling, send all decisions, and wait until the streams have ended."""
        with suppress(Stopped):  # the engine may end in the middle
            for rm in self.rms.all():
                await self.engine.submit(SetHold(rm_id=rm.rm_id, hold=Hold.DRAINING, on=True))
        streams = [*self.rms.drain(self.settings.retry_after), *self._member_calls.passing.drain(DRAINING)]
        try:
            async with asyncio.timeout(self.settings.drain):
                for stream in streams:
                    await stream.closed.wait()
        except TimeoutError:
            log.warning("drain not finished", seconds=self.settings.drain)
        self.rms.close()

    async def _start_grpc(self) -> None:
        settings = self.settings
        access = self._access
        own = frozenset({SchedulerService.name, SessionService.name, MEMBERS})
        guard = CallGuard(access, self._connections, settings.peers, own, self._calls, self.tracing)
        interceptors = [guard, self._member_calls.forwarding]
        server = grpc_server(interceptors, self._connections.options(), shares=settings.shares_ports)
        views, passing = self.scheduler.views, self._member_calls.passing
        thread = self.config_thread
        admission = self._admission
        started_time = self.clock.now()
        services = (
            SchedulerService(self.engine, self.rms, access, guard, admission, passing),
            SessionService(
                self.engine,
                self.rms,
                access,
                guard,
                admission,
                self._time_slices,
                settings.heartbeat,
                self._build.version,
                passing if settings.shares_ports else self._reach(),
            ),
            AboutService(self._build, started_time, access),
            AdminService(
                self.engine,
                self.rms,
                views,
                access,
                thread,
                self.eviction,
                self._dumps,
                self.changes,
                self.copies,
                self._time_slices,
                self._log_levels,
                self.budgets,
            ),
            StateService(views, self.rms, access, self._time_slices, self.engine.now, self.budgets.states),
            EventsService(self.events, access, self._time_slices),
        )
        names = list(dict.fromkeys(service.name for service in services))
        handlers = [service.handler() for service in services]
        server.add_generic_rpc_handlers(handlers)
        secret = await self._member_calls.start(guard, handlers, server)
        if self.members is not None:
            self.members.secret = secret
        self._health = StandardHealth(names)
        self._health.add_to(server)
        if settings.reflects:
            add_reflection(names, server)
        self._grpc = server
        self.grpc_address = bind(server, settings.listen, settings.tls, shares=settings.shares_ports)
        if settings.coordination is not None and settings.shares_ports:
            bind_socket(server, settings.coordination.advertise)
        await server.start()
        self._connections.start(int(self.grpc_address.rpartition(":")[2]))

    async def _start_http(self) -> None:
        self._http = HttpServer(self._sources, self.settings.peers, self._dumps)
        self.http_address, self.metrics_address = await self._http.open(self.settings)
        if self.http_address:
            self._history.start()

    def _followed(self, rm_id: RmId) -> None:
        """The RM was registered, or its extra configuration may be another one."""
        self._log_levels.follow(rm_id)
        self.budgets.registered(rm_id)

    def _forgotten(self, rm_id: RmId) -> None:
        """The RM is not in the core any more."""
        self._log_levels.forget(rm_id)
        self.budgets.forget(rm_id)

    def _ownership(self) -> Ownership:
        options = self.settings.coordination
        if options is None:
            # In microseconds it is below 2^53 until 2255, as JavaScript needs it.
            return Alone(int(self.clock.now() * 1e6))
        return join(self.settings, options, self._build.version, lambda: self.engine.worked)

    def _reach(self) -> Reach:
        options = self.settings.coordination
        return Reach(0.0 if options is None else options.lease, time.monotonic)

    def _keeper(self) -> Keeper:
        store = self.ownership.store
        options, folder = self.settings.coordination, self.settings.state_dir
        if store is None:
            return Keeper(folder)
        # Workers have the same files, and a supervisor that owns the state directory.
        shared = options is None or not options.on_one_host
        return SharedKeeper(
            store, self.ownership.epoch, persistent=shared or folder is not None, shared=shared
        )

    def _copies(self) -> Copies:
        shortage = self.memory.shortage_for_copy
        pauses = Pauses(self.settings.rms.plan_pause, lambda: self.memory.resident)
        return Copies(self.engine, self.scheduler, self._time_slices, shortage, pauses)

    def _made_of(self) -> Sources:
        """Sources of HTTP and of state dumps."""
        return Sources(
            views=self.scheduler.views,
            status=self._status,
            started_time=self.clock.now(),
            now=self.clock.now,
            rm_state=self.rms.state_of,
            access=self._access,
            cors_origins=self.settings.cors_origins,
            hosts=self.settings.http_hosts,
            log_level=levels().of_others,
            figures=self._figures,
            config_thread=self.config_thread,
            history=self._history.samples,
            queue_names=self.settings.queue_names,
            events=self.events,
            time_slices=self._time_slices,
            budgets=self.budgets.states,
            ownership=self.ownership,
            members=self.members,
            worker=self.settings.worker,
        )

    def _extra(self, rm_id: RmId) -> ExtraConfig:
        return read_extra(self.scheduler.views.rm(rm_id).extra_config)

    def stalled(self, reason: str) -> None:
        """Report a stall of the engine to the supervisor through the probes; empty: its end."""
        self._status.stall = reason
        if self._health is not None:
            if reason:
                self._health.stalled()
            else:
                self._health.well()

    def _failed(self, reason: str) -> None:
        """Report to the supervisor, through the probes, that only a restart will help."""
        self._status.failure = reason
        self.failed.set()
        if self._health is not None:
            self._health.failed()

    def _turned(self, partition: Partition, seconds: float, effects: Sequence[Effect]) -> None:
        """The engine gave the partition a turn."""
        if self.tracing is not None:
            self.tracing.turned(partition.name, seconds, effects)
        rm = self.rms.find(partition.rm_id)
        if rm is not None:
            rm.measures.turned(partition.name, partition.counters, seconds)

    def _figures(self) -> Figures:
        engine = self.engine
        return Figures(
            rms=tuple(rm_figures(rm, self.events) for rm in self.rms.all()),
            rms_forgotten=self.eviction.forgotten,
            outbox_max=self.settings.bounds.cap,
            certificate_end=self._certificate_end.time(),
            calls=self._calls,
            audits=self._audits.count,
            audit_findings=self._audits.findings,
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
    """A server that is ready inside the block and has stopped behind it.

    Raises:
        SettingsError: it cannot start.
    """
    server = Server(settings, scheduler, clock, ownership)
    try:
        await server.start()
        yield server
    finally:
        await server.stop()
