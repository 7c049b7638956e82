"""A server without gRPC: its services handle queues as calls, and every decision of its core is checked."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from copy import deepcopy
from typing import Any, NamedTuple, cast

import grpc
from google.protobuf.message import Message

from licorne_core.config.extra import ExtraConfig
from licorne_core.messages.commands import Command, RegisterRm, RemoveRm, Tick
from licorne_core.messages.effects import Effect
from licorne_core.scheduler import Scheduler
from licorne_core.values.ids import RmId
from licorne_core.views.audit.invariants import check_invariants
from licorne_server.assembly.grpc_server import AboutService
from licorne_server.engine.copies import Copies, Pauses, Question
from licorne_server.engine.engine import Engine
from licorne_server.http.dumps import StateDumps
from licorne_server.http.sums import Reasons
from licorne_server.process.bounds import OutboxBounds, PeerBounds, RmBounds
from licorne_server.process.build_info import BuildInfo
from licorne_server.process.fair import TimeSlices
from licorne_server.reads.history.recorder import Recorder
from licorne_server.reads.sources import Sources
from licorne_server.reads.sources import Status as HttpStatus
from licorne_server.rms.admission import Admission
from licorne_server.rms.budgets.members import MemberBudgets
from licorne_server.rms.event_log import EventLogs
from licorne_server.rms.eviction import Eviction
from licorne_server.rms.registry import Rms
from licorne_server.rms.reloading import Changes
from licorne_server.rms.rm_log import RmLogLevels
from licorne_server.security.access import Access
from licorne_server.security.connections import Connections
from licorne_server.services.admin import AdminService
from licorne_server.services.calls import CallGuard
from licorne_server.services.events import EventsService
from licorne_server.services.members.passing import Passing
from licorne_server.services.scheduler import SchedulerService
from licorne_server.services.session import SessionService
from licorne_server.services.state import StateService
from licorne_server.store.configurations.default_file import Default
from licorne_server.store.configurations.history import Configurations
from licorne_server.store.configurations.memories import Memories
from licorne_server.store.configurations.thread import ConfigThread
from licorne_server.store.coordination.ownership import Alone
from licorne_server.store.coordination.reach import Reach
from licorne_server.store.coordination.secret import Secret
from licorne_server.store.documents.kept import Kept
from licorne_server.wire.features import rows
from support.core.ledger import Ledger
from support.wire.still import StillClock, StillLoop

BOUNDS = OutboxBounds(high=8_000, low=3_000, cap=24_000)
"""Small bounds, so that an RM that does not read is put on hold, and has to start over in the end."""

HEARTBEAT = 1_000_000.0
BUILD = BuildInfo(version="0", form="pure", python="Python 3", optimized=True)
"""A fixed build, so that the server describes itself the same on every machine."""

PAUSE = 0.05
"""Seconds of the loop's time after which the server has sent the messages that it delayed to join them."""


class Aborted(Exception):
    """Raised to end a handler that has given its caller a status."""


class Status(NamedTuple):
    """The end of a call."""

    code: grpc.StatusCode
    text: str


OK = Status(grpc.StatusCode.OK, "")


class WatchedScheduler(Scheduler):
    """A core whose decisions are checked after every command, and its records after some."""

    def __init__(self, every: int) -> None:
        """Start without RMs. The records are checked once per this number of commands."""
        super().__init__()
        self._every = every
        self._handled = 0
        self.failure: Exception | None = None
        self._ledger = Ledger()

    def handle(self, command: Command, now: float) -> list[Effect]:
        """Handle a command, and record the first failure, because the engine would only log it."""
        try:
            effects = super().handle(command, now)
            self._handled += 1
            if self._handled % self._every == 0:
                check_invariants(self)
            if isinstance(command, RegisterRm | RemoveRm):
                self._ledger.forget(command.rm_id, effects)
            self._ledger.watch(self, effects, decided=isinstance(command, Tick))
        except Exception as error:
            self.failure = self.failure or error
            raise
        return effects


class CopiesInHere(Copies):
    """Copies without processes: a stopped loop cannot wait for a process."""

    async def ask(self, peer: str, rm_id: RmId, question: Question, check: Callable[[], object]) -> bytes:
        """Answer from a copy of the core that has processed the RM's commands so far."""
        check()
        return question(deepcopy(self.scheduler), self._engine.now(), lambda: 0.0)


class Line:
    """One call: messages in flight to the server, delivered ones, and its answers."""

    def __init__(self) -> None:
        """Start open, without messages."""
        self.under_way: deque[bytes] = deque()
        self.answers: deque[bytes] = deque()
        self.status: Status | None = None
        self.task: asyncio.Task[None] | None = None
        self._arrived: deque[bytes] = deque()
        self._news = asyncio.Event()

    @property
    def is_open(self) -> bool:
        """True if the call has not ended."""
        return self.status is None

    def arrive(self, count: int = 1) -> None:
        """Deliver this number of the messages in flight."""
        for _ in range(min(count, len(self.under_way))):
            self._arrived.append(self.under_way.popleft())
        self._news.set()

    # The interface of a `grpc.aio` servicer context, for the handler

    def peer(self) -> str:
        """The address of the caller, the same for all calls."""
        return "ipv4:127.0.0.1:5000"

    async def send_initial_metadata(self, _: object) -> None:
        """Ignore it."""

    async def read(self) -> bytes:
        """The next message that has arrived."""
        while not self._arrived:
            self._news.clear()
            await self._news.wait()
        return self._arrived.popleft()

    async def write(self, raw: bytes) -> None:
        """Add an answer, unless the writer is cancelled first."""
        await asyncio.sleep(0)
        self.answers.append(raw)

    async def abort_with_status(self, status: grpc.Status) -> None:
        """End the call with a status."""
        self.status = Status(status.code, status.details)
        raise Aborted(status.details)


class _Details(NamedTuple):
    method: str
    invocation_metadata: tuple[()] = ()


class Site:
    """Engine, RMs and services on a loop that the test drives."""

    def __init__(self, *, every: int = 1, scheduler: Scheduler | None = None) -> None:
        """Start a server without RMs; `every` is that of `WatchedScheduler`.

        Another scheduler replaces the watched one in tests without checks.
        """
        self.loop = StillLoop()
        self.clock = StillClock()
        self.scheduler = scheduler or WatchedScheduler(every)
        self.engine = Engine(self.scheduler, self.clock)
        events = EventLogs(lambda rm_id: ExtraConfig())
        documents = Kept()
        alone = Alone(1)
        configurations = Configurations(Default(), documents, self.clock, alone.epoch)
        self.rms = Rms(self.engine.post, self.engine.now, BOUNDS, events, configurations, alone)
        self.engine.witnesses = (self.rms,)
        time_slices = TimeSlices(lambda: self.engine.busy)
        self._thread = thread = ConfigThread()
        access = Access()
        views = self.scheduler.views
        bounds = PeerBounds(first_message=HEARTBEAT)
        call_guard = CallGuard(access, Connections(bounds), bounds, frozenset())
        engine, rms = self.engine, self.rms
        eviction = Eviction(engine, rms, views, self.clock, 0.0)
        places = RmBounds(number=16)
        memories = Memories(views, configurations, self.clock, time_slices, alone.epoch)
        admission = Admission(engine, rms, thread, eviction, configurations, memories, places, lambda: "")
        changes = Changes(engine, rms, configurations, thread, self.clock, self.scheduler.refusal_of)
        self.admission = admission
        budgets = MemberBudgets(engine, rms, views, documents, thread, self.clock, None, alone)
        sources = Sources(
            views=views,
            status=HttpStatus(),
            started_time=self.clock.now(),
            now=self.clock.now,
            rm_state=rms.state_of,
            recorder=Recorder(views, configurations.find, self.clock.now()),
            config_thread=thread,
            events=events,
            time_slices=time_slices,
            access=access,
            budgets=budgets.states,
            reasons=Reasons(views, time_slices, self.clock.now).of,
            explained=[one(views, self.clock, time_slices).explain for one in rows("EXPLAINED")],
        )
        self._dumps = StateDumps(sources)
        reach = Reach(0.0, lambda: 0.0)
        self._handlers = [
            SchedulerService(
                engine, rms, access, call_guard, admission, Passing(alone, access, lambda: None, Secret())
            ).handler(),
            SessionService(
                engine, rms, access, call_guard, admission, time_slices, HEARTBEAT, "0", reach
            ).handler(),
            AdminService(
                engine,
                rms,
                views,
                access,
                thread,
                eviction,
                self._dumps,
                changes,
                CopiesInHere(engine, self.scheduler, time_slices, lambda _: "", Pauses(0.0, lambda: 0)),
                time_slices,
                RmLogLevels(lambda rm_id: views.rm(rm_id).extra_config),
                budgets,
            ).handler(),
            AboutService(BUILD, self.clock.now(), access).handler(),
            StateService(sources, rms, self.engine.now).handler(),
            EventsService(events, access, time_slices).handler(),
        ]
        self._lines: list[Line] = []
        self._do(self._start())

    async def _start(self) -> None:
        self.engine.start(self.rms)

    def close(self) -> None:
        """End everything cleanly."""
        for line in self._lines:
            self.hang_up(line)
        self.loop.rest()
        self._do(self.engine.stop())
        self._thread.stop()
        self.loop.close()

    def check(self) -> None:
        """Raise an internal failure, even if the server has continued after it."""
        if isinstance(self.scheduler, WatchedScheduler) and self.scheduler.failure is not None:
            raise self.scheduler.failure
        assert not self.engine.defects, "the server had an internal error, see the log"

    def open(self, method: str) -> Line:
        """Begin a bidirectional call."""
        return self._begin(self._handler(method).stream_stream, None)

    def watch(self, method: str, raw: bytes) -> Line:
        """Begin a call with one request, as bytes, and many responses."""
        return self._begin(self._handler(method).unary_stream, raw)

    def ask(self, method: str, request: Message) -> Line:
        """Begin a unary call; its answer is dropped."""
        return self._begin(self._handler(method).unary_unary, request.SerializeToString())

    def _begin(self, serve: Callable[[Any, Line], Awaitable[Any]], request: bytes | None) -> Line:
        line = Line()
        self._lines.append(line)
        line.task = self.loop.create_task(self._serve(serve, request, line))
        return line

    @staticmethod
    async def _serve(serve: Callable[[Any, Line], Awaitable[Any]], request: bytes | None, line: Line) -> None:
        try:
            await serve(request, line)
            line.status = OK
        except Aborted:
            pass

    def call(self, method: str, request: Message | bytes) -> tuple[Status, bytes]:
        """Make a unary call with a message or bytes; return its status and answer."""
        line = Line()
        answer = b""

        async def serve() -> None:
            nonlocal answer
            try:
                raw = request if isinstance(request, bytes) else request.SerializeToString()
                answer = await self._handler(method).unary_unary(raw, line)
            except Aborted:
                pass

        self._do(serve())
        return line.status or OK, answer

    def hang_up(self, line: Line) -> None:
        """Lose the connection of a call; its handler is notified in the next rounds."""
        if line.task is not None:
            line.task.cancel()
        line.status = line.status or Status(grpc.StatusCode.CANCELLED, "connection lost")

    def rest(self) -> None:
        """Run the server until it is idle, and has sent the messages that it delayed to join them."""
        self.loop.rest()
        self._lines = [line for line in self._lines if line.task and not line.task.done()]
        told = -1
        while told != (told := sum(len(line.answers) for line in self._lines)):
            self.loop.later(PAUSE)

    def advance(self, seconds: float, *, late: bool) -> None:
        """Let time pass: from deadline to deadline, or in one step that is too late for every deadline."""
        end = self.clock.now() + seconds
        while not late and (deadline := self.clock.deadline()) <= end:
            self.clock.move(deadline)
            self.rest()
        self.clock.move(end)
        self.rest()

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(work)
        self.loop.rest()
        if not task.done():
            self.loop.later(PAUSE)
        assert task.done(), "a call never ends"
        task.result()

    def _handler(self, method: str) -> Any:
        for handlers in self._handlers:
            found = handlers.service(cast(grpc.HandlerCallDetails, _Details(method)))
            if found is not None:
                return found
        raise AssertionError(f"no method {method}")
