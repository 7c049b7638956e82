"""The engine: the one task that owns the core (DESIGN § 4).

It works in rounds. A round handles the commands in the inbox, lets the core decide for one partition after
the other until its time is spent, and then yields to the other tasks of the event loop. A command that
arrives while the engine is idle starts a round: it is handled immediately, and the commands after it queue in
the inbox. Nothing is awaited between handling a command and routing its effects. A reader of the core between
rounds therefore never sees half of a change.
"""

import asyncio
from collections.abc import Callable, Sequence
from math import inf
from time import perf_counter
from typing import NamedTuple, Protocol

import structlog

from licorne_core.messages.commands import Command, Hold, OfNoRm, RemoveRm, SetHold, Tick
from licorne_core.messages.effects import Effect, Registered, TickFailed, Unfinished
from licorne_core.messages.reports import Turn
from licorne_core.values.ids import RmId
from licorne_server.engine.inbox import Entry, Inbox
from licorne_server.process.clock import Clock
from licorne_server.process.loop import SLOW_SECONDS, SlowSteps, stop_task
from licorne_server.wire.errors import Defect, Stopped, new_correlation_id

log = structlog.get_logger("core.engine")

MIN_DECISIONS = 16
MAX_DECISIONS = 512

MOST_SECONDS = 0.005
"""Maximum seconds of a round for commands, and as many for turns, in which every RM is to be served once."""

FENCED_SECONDS = 0.25
"""Seconds between two checks by a fenced member whether its decisions count again."""

TOGETHER_SECONDS = 1.0
"""Seconds for which several RMs count as active after a command of one has followed a command of another."""


class WorkBudget(NamedTuple):
    """Limits of work done before other tasks of the loop get their turn.

    A large budget has less overhead in total. A small one delays other RMs less, so it applies while several
    RMs are active.
    """

    items: int
    """Maximum number of items of one request in one command."""
    inbox: float
    """Seconds for which queued commands are handled."""
    turn: float
    """Target seconds for one turn of the core, and for the sum of all turns of a round."""
    rounds: int
    """Rounds of the event loop between two rounds of the engine.

    A message takes a few rounds of the loop to be read or written, and should not wait for turns in each.
    """


ALONE = WorkBudget(items=500, inbox=0.002, turn=0.003, rounds=1)
TOGETHER = WorkBudget(items=40, inbox=0.0002, turn=0.0003, rounds=4)


class BudgetChooser:
    """Chooses the budget: a large one if only one RM sends commands, a small one if several do."""

    def __init__(self, now: Callable[[], float]) -> None:
        """`now` gives the time in seconds."""
        self._now = now
        self._last: RmId | None = None
        self._together_until = 0.0

    def note(self, rm_id: RmId) -> None:
        """Record a command of the RM."""
        if rm_id != self._last:
            if self._last is not None:
                self._together_until = self._now() + TOGETHER_SECONDS
            self._last = rm_id

    def choose(self) -> WorkBudget:
        """The current budget."""
        until = self._together_until
        return TOGETHER if until and self._now() < until else ALONE


class Core(Protocol):
    """The scheduler, or a wrapper of it."""

    @property
    def last_turn(self) -> Turn | None:
        """See `Scheduler`."""
        ...

    @property
    def waiting(self) -> int:
        """See `Scheduler`."""
        ...

    def handle(self, command: Command, now: float) -> list[Effect]:
        """See `Scheduler`."""
        ...

    def next_deadline(self) -> float | None:
        """See `Scheduler`."""
        ...


class Sink(Protocol):
    """Receiver of the core's effects."""

    def route(self, effects: Sequence[Effect]) -> None:
        """Queue the effects for their RMs, without waiting."""
        ...

    def halt(self, rm_id: RmId, correlation_id: str) -> None:
        """End all streams of an RM whose command or turn failed inside the core."""
        ...


class Witness(Protocol):
    """A record of what the core does, such as events, measures or traces."""

    def saw(
        self, command: Command | None, effects: Sequence[Effect], seconds: float, turn: Turn | None
    ) -> None:
        """Record a command or a tick, which took `seconds`, the routing of its effects included.

        `turn` is the turn of a tick, if there was one. `command` is None for effects of items that the core
        never saw (`Engine.answer`). A failure is logged, and counts as a defect.
        """
        ...


class Engine:
    """Sole owner of the core. Any number of tasks of the same loop may submit commands."""

    on_idle: Callable[[int], None] | None
    """Called when the engine is idle, with the number of commands and turns so far."""
    on_failure: Callable[[str], None] | None
    """Called with the reason if the engine's task ends without `stop`: no command is handled any more."""
    may_decide: Callable[[], bool] | None
    """True while decisions count (`Ownership.may_decide`). None for a server without other members, whose
    decisions always count."""
    slow: SlowSteps
    """Log of slow turns and commands."""
    witnesses: tuple[Witness, ...]
    """The current witnesses; each sees every command and every tick once."""
    budget: WorkBudget
    """The work budget, chosen again in every round."""
    busy: bool
    """True if work was left at the end of the last round."""
    rounds: int
    """Number of rounds that have ended since the start. Any thread may read it."""
    turns: int
    """Turns of the core since the start."""
    turn_seconds: float
    """Seconds of all turns since the start."""
    worked: dict[RmId, float]
    """Seconds of the core's work for each RM since its first registration."""
    commands: int
    """Commands handled since the start."""
    defects: int
    """Failures of the core, of the sink and of witnesses, since the start."""

    def __init__(self, scheduler: Core, clock: Clock) -> None:
        """Own the scheduler from now on; `start` begins the work."""
        self._scheduler = scheduler
        self._clock = clock
        self.now: Callable[[], float] = clock.now
        """The clock's unix seconds: the time that the core is given."""
        self._sink: Sink
        self._inbox = Inbox()
        # Set when a command is queued.
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._stopped = False
        # Start time of the next round, in unix seconds; in the past during a round.
        self._due = -inf
        # True while the engine waits for its next round, and no command has been queued since.
        self._is_idle = False
        # Maximum number of allocations of the core's next turn.
        self._decisions = MAX_DECISIONS // 4
        self._chooser = BudgetChooser(clock.now)
        self.budget = self._chooser.choose()
        self.on_idle = None
        self.on_failure = None
        self.may_decide = None
        self.witnesses = ()
        self.slow = SlowSteps()
        self.busy = False
        self.rounds = 0
        self.turns = 0
        self.turn_seconds = 0.0
        self.worked = {}
        self.commands = 0
        self.defects = 0

    @property
    def inbox(self) -> int:
        """Number of queued commands."""
        return self._inbox.size

    @property
    def running(self) -> bool:
        """True if commands are being handled."""
        return self._task is not None and not self._task.done()

    @property
    def has_work(self) -> bool:
        """True during a round, or if one has to begin. Any thread may read it."""
        return self.running and (self._due <= self._clock.now() or self.inbox > 0)

    def start(self, sink: Sink) -> None:
        """Start to handle commands, and pass all effects to the sink."""
        self._sink = sink
        self._task = asyncio.get_running_loop().create_task(self._run(), name="engine")
        self._task.add_done_callback(self._ended)

    async def stop(self) -> None:
        """Stop at the end of the round; waiting callers get `Stopped`."""
        self._take_no_more()
        await stop_task(self._task)

    async def submit(self, command: Command, *, is_current: Callable[[], bool] | None = None) -> list[Effect]:
        """Let a command be handled; its effects have been routed when this returns.

        `is_current` is called when the command's turn has come. If it returns False, nothing is done and
        there are no effects.

        Raises:
            Defect: the core failed on the command; the RM is on hold and the error is in the log.
            Stopped: the engine handles no commands any more.
        """
        if self._stopped:
            raise Stopped
        future = asyncio.get_running_loop().create_future()
        entry = Entry(command, future, is_current)
        if self._is_idle:
            # The inbox is empty: the next round will have only the turn for this command.
            self._is_idle, self._due = False, -inf
            try:
                self._handle(entry)
            finally:
                self._wake.set()
        else:
            self._inbox.put(entry)
            self._wake.set()
        effects: list[Effect] = await future
        return effects

    def post(self, command: Command, *, is_current: Callable[[], bool] | None = None) -> None:
        """Queue a command without waiting for its effects. A stopped engine drops it."""
        if not self._stopped:
            self._is_idle = False
            self._inbox.put(Entry(command, is_current=is_current))
            self._wake.set()

    def answer(self, effects: Sequence[Effect]) -> None:
        """Route effects of items that never reached the core, such as refusals of malformed ones."""
        self._settle(None, effects, perf_counter())

    async def _run(self) -> None:
        left = perf_counter()
        while True:
            self.budget = self._chooser.choose()
            # Commands, and then turns, may each take as long as the pause since the last round, idle or not.
            share = min(perf_counter() - left, MOST_SECONDS)
            inbox = self._inbox
            if inbox.answers.size + inbox.commands.size:
                self._handle_inbox(share)
            deadline = self._take_turns(share)
            left = perf_counter()
            is_due = deadline is not None and deadline <= self.now()
            self.busy = is_due or inbox.answers.size + inbox.commands.size > 0
            self.rounds += 1
            if self.busy:
                for _ in range(self.budget.rounds):
                    await asyncio.sleep(0)
            else:
                await self._wait(deadline)

    def _take_turns(self, share: float) -> float | None:
        """Give turns until the time for them is spent; return the next deadline of the core.

        The RMs take turns. Each RM that still waits when the time is spent gets one more turn, if `share`
        seconds are enough for all.
        """
        begin = perf_counter()
        left: int | None = None
        deadline = self._scheduler.next_deadline()
        while deadline is not None and deadline <= self.now():
            if self.may_decide is not None and not self.may_decide():
                return self.now() + FENCED_SECONDS
            self._turn()
            deadline = self._scheduler.next_deadline()
            spent = perf_counter() - begin
            if spent >= self.budget.turn:
                # The RM that has just had its turn does not count, although it may wait again already.
                left = self._scheduler.waiting - 1 if left is None else left - 1
                if left <= 0 or spent >= share:
                    break
        return deadline

    async def _wait(self, deadline: float | None) -> None:
        """Wait for a command or the deadline, if there is one."""
        if self.on_idle is not None:
            self.on_idle(self.commands + self.turns)
        self._wake.clear()
        self._is_idle, self._due = True, inf if deadline is None else deadline
        await self._clock.wait(deadline, self._wake)
        self._is_idle, self._due = False, -inf

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Report an end of the task that `stop` did not cause, and fail all waiting callers."""
        if self._stopped:
            return
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        self._take_no_more()
        # Logging is last: the probes are notified even if it fails.
        if self.on_failure is not None:
            self.on_failure(f"engine stopped: {type(error).__name__}")
        log.error("engine stopped", exc_info=error)

    def _take_no_more(self) -> None:
        """Refuse all queued and all later commands."""
        self._stopped = True
        for entry in self._inbox.take_all():
            if entry.future is not None and not entry.future.done():
                entry.future.set_exception(Stopped())

    def _handle_inbox(self, share: float) -> None:
        """Handle queued commands until the time for them is spent.

        The RMs take turns. At least one command of each RM is handled, if `share` seconds are enough for all.
        """
        inbox = self._inbox
        if inbox.answers.size:
            for answers in inbox.take_answers():
                self._handle(answers)
        begin = perf_counter()
        left: int | None = None
        while inbox.commands.size:
            self._handle(inbox.commands.take())
            spent = perf_counter() - begin
            if spent > self.budget.inbox:
                left = inbox.commands.keys - 1 if left is None else left - 1
                if left <= 0 or spent > share:
                    return

    def _handle(self, entry: Entry) -> None:
        command, future, is_current, earlier = entry
        new: list[Effect] = []
        # Witnesses must not see a command of a former registration.
        handled: Command | None = None
        begin = perf_counter()
        try:
            if is_current is None or is_current():
                handled = command
                self.commands += 1
                if not isinstance(command, OfNoRm):
                    self._chooser.note(command.rm_id)
                new = self._scheduler.handle(command, self.now())
        except Exception:
            # The RM is on hold; other RMs are still served.
            defect = Defect(self._log_defect("command failed", command=type(command).__name__))
            if not isinstance(command, OfNoRm):
                self._halt(command.rm_id, defect.correlation_id)
            if future is not None and not future.done():
                future.set_exception(defect)
            return
        self._settle(handled, new, begin)
        last = new.pop() if new and isinstance(new[-1], Unfinished) else None
        effects = [*earlier, *new] if future is not None else []
        if isinstance(last, Unfinished):
            # The command has begun: it is completed even if its caller was cancelled.
            self._inbox.put_first(Entry(last.rest, future, effects=effects))
        elif future is not None and not future.done():
            future.set_result(effects)
        spent = perf_counter() - begin
        rm_id = None if isinstance(command, OfNoRm) else command.rm_id
        if isinstance(command, RemoveRm):
            self.worked.pop(command.rm_id, None)
        elif rm_id is not None and (rm_id in self.worked or any(isinstance(e, Registered) for e in new)):
            # A refused RM gets no entry.
            self.worked[rm_id] = self.worked.get(rm_id, 0.0) + spent
        if spent > SLOW_SECONDS:
            self.slow.note("command", spent, command=type(command).__name__, rm_id=rm_id)

    def _turn(self) -> None:
        """Let the core decide, and adapt the number of decisions to the time that this took."""
        begin = perf_counter()
        tick = Tick(decisions=self._decisions)
        try:
            effects = self._scheduler.handle(tick, self.now())
        except TickFailed as failure:
            correlation_id = self._log_defect("turn failed", rm_id=failure.rm_id)
            self._settle(tick, failure.effects, begin)
            self._halt(failure.rm_id, correlation_id)
            return
        turn = self._scheduler.last_turn
        spent = self._settle(tick, effects, begin, turn)
        self.turns += 1
        self.turn_seconds += spent
        if turn is not None:
            self.worked[turn.rm_id] = self.worked.get(turn.rm_id, 0.0) + spent
        if spent > SLOW_SECONDS:
            rm_ids = sorted({effect.rm_id for effect in effects})
            self.slow.note("turn", spent, rm_ids=rm_ids, effects=len(effects))
        if spent > self.budget.turn:
            self._decisions = max(MIN_DECISIONS, self._decisions // 2)
        elif spent < self.budget.turn / 2:
            self._decisions = min(MAX_DECISIONS, self._decisions * 2)

    def _settle(
        self, command: Command | None, effects: Sequence[Effect], begin: float, turn: Turn | None = None
    ) -> float:
        """Route effects, and record them; returns the seconds since `begin` up to the end of the routing.

        If the sink fails, the RMs that would have received the effects are halted. A witness that fails stops
        nothing.
        """
        try:
            self._sink.route(effects)
        except Exception:
            correlation_id = self._log_defect("routing failed")
            for rm_id in dict.fromkeys(effect.rm_id for effect in effects):
                self._halt(rm_id, correlation_id)
        seconds = perf_counter() - begin
        for witness in self.witnesses:
            try:
                witness.saw(command, effects, seconds, turn)
            except Exception:
                self._log_defect("recording failed", witness=type(witness).__name__)
        return seconds

    def _log_defect(self, what: str, **about: str) -> str:
        """Count and log the exception that is being handled; returns its correlation id in the log."""
        correlation_id = new_correlation_id()
        self.defects += 1
        log.exception(what, correlation_id=correlation_id, **about)
        return correlation_id

    def _halt(self, rm_id: RmId, correlation_id: str) -> None:
        """Stop scheduling for the RM until it registers again, and end its streams."""
        try:
            self._scheduler.handle(SetHold(rm_id=rm_id, hold=Hold.DEFECT, on=True), self._clock.now())
        except Exception:
            log.exception("hold failed", rm_id=rm_id, correlation_id=correlation_id)
        self._sink.halt(rm_id, correlation_id)
