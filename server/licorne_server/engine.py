"""The one task that owns the core (DESIGN § 4): commands in, effects out, one turn at a time.

A turn takes what waits in the inbox, then lets the core decide for one partition, and then
gives way to the rest of the loop. Nothing is awaited between handling a command and routing its
effects, so that whoever reads the core between turns sees it whole.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from math import inf
from time import perf_counter
from typing import NamedTuple, Protocol

import structlog

from licorne_core.commands import Command, Hold, RegisterRm, SetHold, Tick
from licorne_core.effects import Effect, TickFailed
from licorne_core.ids import RmId
from licorne_core.scheduler import Scheduler
from licorne_server.clock import Clock
from licorne_server.errors import Defect, new_correlation_id
from licorne_server.pace import Pacer

log = structlog.get_logger(__name__)

MIN_DECISIONS = 16
MAX_DECISIONS = 512


class Sink(Protocol):
    """Who gets what the core answers."""

    def route(self, effects: Sequence[Effect]) -> None:
        """Put the effects where their RMs will find them, without waiting."""
        ...

    def halt(self, rm_id: RmId, correlation_id: str) -> None:
        """End all streams of an RM whose command or turn failed inside the core."""
        ...


class _Entry(NamedTuple):
    """A command that waits, who waits for it, and whether it is still wanted."""

    command: Command
    future: asyncio.Future[list[Effect]] | None = None
    still: Callable[[], bool] | None = None


class Engine:
    """Sole owner of the core. `submit` from any number of tasks of the same loop."""

    def __init__(self, scheduler: Scheduler, clock: Clock) -> None:
        """Own the scheduler from now on; `start` begins to work."""
        self._scheduler = scheduler
        self._clock = clock
        self._inbox: deque[_Entry] = deque()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._decisions = MAX_DECISIONS // 4
        self._halted: set[RmId] = set()
        self._sink: Sink
        self.on_idle: Callable[[int], None] | None = None
        self.on_failure: Callable[[str], None] | None = None
        self._pacer = Pacer()
        self.pace = self._pacer.pace()
        self.busy = False
        self._stopped = False
        self.turns = 0
        self.turn_seconds = 0.0
        self.commands = 0
        self.defects = 0

    def now(self) -> float:
        """The clock's unix seconds: the time that the core is told."""
        return self._clock.now()

    @property
    def inbox(self) -> int:
        """How many commands wait."""
        return len(self._inbox)

    @property
    def running(self) -> bool:
        """Whether commands are being handled."""
        return self._task is not None and not self._task.done()

    def start(self, sink: Sink) -> None:
        """Begin to handle commands, handing all effects to the sink."""
        self._sink = sink
        self._task = asyncio.get_running_loop().create_task(self._run(), name="engine")
        self._task.add_done_callback(self._ended)

    async def stop(self) -> None:
        """Stop at the end of the turn; whoever still waits for an answer is cancelled."""
        self._stopped = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        for entry in self._inbox:
            if entry.future is not None:
                entry.future.cancel()
        self._inbox.clear()

    async def submit(
        self, command: Command, *, still: Callable[[], bool] | None = None
    ) -> list[Effect]:
        """Have a command handled; its effects were routed when this returns.

        `still` is asked when its turn has come: nothing is done when it says no.

        Raises:
            Defect: the core failed on it; the RM is on hold and the error is in the log.
        """
        future = asyncio.get_running_loop().create_future()
        if self._stopped:
            future.cancel()
        self._inbox.append(_Entry(command, future, still))
        self._wake.set()
        effects: list[Effect] = await future
        return effects

    def post(self, command: Command, *, still: Callable[[], bool] | None = None) -> None:
        """Have a command handled in the next turn, its effects routed and nobody told."""
        self._inbox.append(_Entry(command, still=still))
        self._wake.set()

    async def _run(self) -> None:
        while True:
            self.pace = self._pacer.pace()
            self._handle_inbox()
            if self._deadline() <= self._clock.now():
                self._turn()
            deadline = self._deadline()
            self.busy = bool(self._inbox) or deadline <= self._clock.now()
            if self.busy:
                for _ in range(self.pace.rounds):
                    await asyncio.sleep(0)
            else:
                await self._wait(deadline)

    def _deadline(self) -> float:
        """When the core wants its next turn; infinite for never."""
        deadline = self._scheduler.next_deadline()
        return inf if deadline is None else deadline

    async def _wait(self, deadline: float) -> None:
        if self.on_idle is not None:
            self.on_idle(self.commands + self.turns)
        self._wake.clear()
        await self._clock.wait(None if deadline == inf else deadline, self._wake)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("engine stopped", exc_info=error)
            if self.on_failure is not None:
                self.on_failure(f"engine stopped: {type(error).__name__}")

    def _handle_inbox(self) -> None:
        inbox = self._inbox
        if not inbox:
            return
        stop = perf_counter() + self.pace.inbox
        while inbox:
            self._handle(inbox.popleft())
            if perf_counter() > stop:
                return

    def _handle(self, entry: "_Entry") -> None:
        command, future, still = entry
        effects: list[Effect] = []
        if still is None or still():
            self.commands += 1
            if not isinstance(command, Tick):
                self._pacer.note(command.rm_id)
            try:
                effects = self._scheduler.handle(command, self._clock.now())
            except Exception:
                defect = self._blame(command)
                if future is not None and not future.done():
                    future.set_exception(defect)
                return
            if isinstance(command, RegisterRm):
                self._halted.discard(command.rm_id)
            self._route(effects)
        if future is not None and not future.done():
            future.set_result(effects)

    def _turn(self) -> None:
        begin = perf_counter()
        now = self._clock.now()
        try:
            effects = self._scheduler.handle(Tick(decisions=self._decisions), now)
        except TickFailed as failure:
            correlation_id = self._log_defect("turn failed", rm_id=failure.rm_id)
            self._route(failure.effects)
            self._halt(failure.rm_id, correlation_id)
            return
        self._route(effects)
        self.turns += 1
        spent = perf_counter() - begin
        self.turn_seconds += spent
        if spent > self.pace.turn:
            self._decisions = max(MIN_DECISIONS, self._decisions // 2)
        elif spent < self.pace.turn / 2:
            self._decisions = min(MAX_DECISIONS, self._decisions * 2)

    def _route(self, effects: Sequence[Effect]) -> None:
        try:
            self._sink.route(effects)
        except Exception:
            correlation_id = self._log_defect("routing failed")
            for rm_id in dict.fromkeys(effect.rm_id for effect in effects):
                self._halt(rm_id, correlation_id)

    def _blame(self, command: Command) -> Defect:
        """The core failed on a command: put its RM on hold, let the others go on."""
        correlation_id = self._log_defect("command failed", command=type(command).__name__)
        if not isinstance(command, Tick):
            self._halt(command.rm_id, correlation_id)
        return Defect(correlation_id)

    def _log_defect(self, what: str, **about: str) -> str:
        """Count and log the exception that is being handled; the id under which the log has it."""
        correlation_id = new_correlation_id()
        self.defects += 1
        log.exception(what, correlation_id=correlation_id, **about)
        return correlation_id

    def _halt(self, rm_id: RmId, correlation_id: str) -> None:
        try:
            self._scheduler.handle(
                SetHold(rm_id=rm_id, hold=Hold.DEFECT, on=True), self._clock.now()
            )
        except Exception:
            log.exception("hold failed", rm_id=rm_id, correlation_id=correlation_id)
        self._halted.add(rm_id)
        self._sink.halt(rm_id, correlation_id)
