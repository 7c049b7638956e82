"""The engine, which owns the core, and its reaction to failures of the core."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import grpc
import pytest
from structlog.testing import capture_logs

from licorne.si.v1 import si_pb2 as si
from licorne_core import scheduler
from licorne_core.handlers.turn import decide, fire_timers
from licorne_core.messages.commands import (
    AnswerPredicates,
    AnswerPreemptions,
    Command,
    Hold,
    NotePredicatesSent,
    OfNoRm,
    PredicateAnswer,
    PredicatePolicy,
    PreemptionAnswer,
    RegisterRm,
    SetHold,
    UpdateNodes,
)
from licorne_core.messages.effects import AllocationsMade, Effect, PredicatesAsked, Registered
from licorne_core.messages.reports import Turn
from licorne_core.partitions.partition import Partition
from licorne_core.scheduler import Scheduler
from licorne_core.values.ids import RmId
from licorne_server.engine.engine import Engine
from licorne_server.process.clock import SystemClock
from licorne_server.testing.serving import VirtualClock
from licorne_server.wire.errors import Defect, Stopped
from support.core import builders
from support.core.driver import shown
from support.patience import PATIENCE
from support.peers.shim import RawSession, Shim, ask, connected, eventually, new_allocations, node, serving
from support.server.reports import warned

BAD = RmId("bad")
GOOD = RmId("good")


class Fragile(Scheduler):
    """The real core with a planted fault: it fails on chosen commands."""

    fails_on: type[Command] | None = None
    only_for: RmId | None = None

    def handle(self, command: Command, now: float) -> list[Effect]:
        """Like the core, but for the fault."""
        rm_id = None if isinstance(command, OfNoRm) else command.rm_id
        if self.fails_on is type(command) and rm_id == self.only_for:
            raise RuntimeError("planted")
        return super().handle(command, now)


class Ledger:
    """A sink that records effects."""

    def __init__(self) -> None:
        """Start without effects."""
        self.effects: list[Effect] = []
        self.halted: list[RmId] = []

    def route(self, effects: Sequence[Effect]) -> None:
        """Record the effects."""
        self.effects += effects

    def registered(self) -> list[RmId]:
        """The RMs whose registration was handled, in order."""
        return [effect.rm_id for effect in self.effects if isinstance(effect, Registered)]

    def asked(self) -> list[int]:
        """The numbers of all requested predicate checks, in order."""
        asked = [effect for effect in self.effects if isinstance(effect, PredicatesAsked)]
        return [check.check for effect in asked for check in effect.checks]

    def halt(self, rm_id: RmId, correlation_id: str) -> None:
        """Record the RM."""
        assert correlation_id
        self.halted.append(rm_id)


def failing_for(rm_id: RmId, real: Callable[..., list[Effect]]) -> Callable[..., list[Effect]]:
    """The core's handling of a partition, with a fault for the partitions of one RM."""

    def fragile(partition: Partition, *args: object) -> list[Effect]:
        if partition.rm_id == rm_id:
            raise RuntimeError("planted")
        return real(partition, *args)

    return fragile


@asynccontextmanager
async def serving_core(core: Scheduler) -> AsyncIterator[tuple[Shim, Shim]]:
    """A server over the core, and two RMs: the bad one and the good one."""
    async with (
        serving(scheduler=core) as server,
        connected(server) as one,
        connected(server) as two,
    ):
        yield Shim(one, BAD), Shim(two, GOOD)


def node_request(shim: Shim | None) -> si.NodeRequest:
    """A request with one node."""
    return si.NodeRequest(rmID=shim.rm_id if shim else "", nodes=[node("n1", vcore=1)])


@pytest.fixture
def ledger() -> Ledger:
    """An empty ledger."""
    return Ledger()


@pytest.fixture
async def engine(ledger: Ledger) -> AsyncIterator[Engine]:
    """A running engine over a core that can fail."""
    engine = Engine(Fragile(), SystemClock())
    engine.start(ledger)
    yield engine
    await engine.stop()


async def test_submit_returns_what_was_routed(engine: Engine, ledger: Ledger) -> None:
    """The answer to a command has reached the sink when its sender gets it."""
    effects = await engine.submit(RegisterRm(rm_id=GOOD))
    assert effects == ledger.effects
    assert effects[0] == Registered(rm_id=GOOD, session=1)


async def test_posted_commands_are_handled_in_order(engine: Engine, ledger: Ledger) -> None:
    """A command without a waiting caller is handled before later commands."""
    for rm_id in ("a", "b"):
        engine.post(RegisterRm(rm_id=RmId(rm_id)))
    await engine.submit(RegisterRm(rm_id=RmId("c")))
    assert ledger.registered() == ["a", "b", "c"]


async def test_stale_commands_are_dropped(engine: Engine, ledger: Ledger) -> None:
    """A command that is stale when its turn comes is dropped."""
    wanted = True
    engine.post(RegisterRm(rm_id=BAD), is_current=lambda: wanted)
    wanted = False
    await engine.submit(RegisterRm(rm_id=GOOD))
    assert ledger.registered() == [GOOD]


class Watched(Scheduler):
    """The real core, and its commands in order."""

    def __init__(self) -> None:
        """Start without commands."""
        super().__init__()
        self.told: list[str] = []

    def handle(self, command: Command, now: float) -> list[Effect]:
        """Handle the command like the core."""
        self.told.append(type(command).__name__)
        return super().handle(command, now)


async def asked_engine(core: Scheduler, clock: VirtualClock, ledger: Ledger) -> tuple[Engine, int]:
    """An engine whose RM has two seconds to answer a check about an ask, and the check's number."""
    engine = Engine(core, clock)
    engine.start(ledger)
    for command in (
        builders.register(builders.config("[{name: a}]"), predicates=PredicatePolicy()),
        builders.nodes(builders.node("n", vcore=1)),
        builders.apps(builders.app("job", "root.a")),
        builders.asks(builders.ask("job", "k", vcore=1, predicate="p")),
    ):
        await engine.submit(command)
    await eventually(ledger.asked)
    [check] = ledger.asked()
    await engine.submit(NotePredicatesSent(rm_id=RmId(builders.RM), check=check))
    return engine, check


async def test_answers_are_handled_before_earlier_commands(ledger: Ledger) -> None:
    """No earlier command, with a waiting caller or without, precedes an answer, which has a deadline."""
    core, clock = Watched(), VirtualClock()
    engine, check = await asked_engine(core, clock, ledger)
    core.told.clear()
    # The first round has no work, and ends at once.
    waiting = [
        asyncio.create_task(engine.submit(builders.nodes(builders.node(name, vcore=1))))
        for name in ("n2", "n3")
    ]
    await asyncio.sleep(0)
    assert core.told == ["UpdateNodes"]
    engine.post(builders.nodes(builders.node("n4", vcore=1)))
    engine.post(AnswerPredicates(rm_id=RmId(builders.RM), answers=[PredicateAnswer(check)]))
    assert engine.inbox == 3
    await asyncio.wait(waiting)
    assert core.told[1:4] == ["AnswerPredicates", "UpdateNodes", "UpdateNodes"]
    await engine.stop()


async def test_answers_about_victims_are_handled_first_as_well(ledger: Ledger) -> None:
    """Answers about victims have a deadline like those about nodes, and the order of both is kept."""
    core, clock, rm_id = Watched(), VirtualClock(), RmId(builders.RM)
    engine, check = await asked_engine(core, clock, ledger)
    core.told.clear()
    engine.post(builders.nodes(builders.node("n2", vcore=1)))
    engine.post(AnswerPreemptions(rm_id=rm_id, answers=[PreemptionAnswer(check + 1)]))
    engine.post(AnswerPredicates(rm_id=rm_id, answers=[PredicateAnswer(check)]))
    await engine.submit(RegisterRm(rm_id=GOOD))
    assert core.told[:3] == ["AnswerPreemptions", "AnswerPredicates", "UpdateNodes"]
    await engine.stop()


async def test_an_answer_queued_in_time_counts(ledger: Ledger) -> None:
    """An answer that was queued before the deadline is in time, however late the engine handles it."""
    core, clock = Watched(), VirtualClock()
    engine, check = await asked_engine(core, clock, ledger)
    core.told.clear()
    engine.post(AnswerPredicates(rm_id=RmId(builders.RM), answers=[PredicateAnswer(check)]))
    await clock.advance(30.0)
    await eventually(lambda: core.told)
    assert core.told[0] == "AnswerPredicates"
    [made] = [effect for effect in ledger.effects if isinstance(effect, AllocationsMade)]
    assert [allocation.key for allocation in made.allocations] == ["k"]
    assert ledger.asked() == [check]
    await engine.stop()


async def test_stale_answers_are_dropped(ledger: Ledger) -> None:
    """An answer is dropped if the RM has registered again before the answer is handled."""
    core, clock = Watched(), VirtualClock()
    engine, check = await asked_engine(core, clock, ledger)
    core.told.clear()
    answer = AnswerPredicates(rm_id=RmId(builders.RM), answers=[PredicateAnswer(check)])
    engine.post(answer, is_current=lambda: False)
    await engine.submit(RegisterRm(rm_id=GOOD))
    assert core.told == ["RegisterRm"]
    await engine.stop()
    engine.post(answer)
    assert engine.inbox == 0


async def test_no_caller_waits_for_a_stopped_engine(ledger: Ledger) -> None:
    """A caller that waits when the engine stops, or calls later, gets an error."""
    engine = Engine(Scheduler(), SystemClock())
    waiting = asyncio.create_task(engine.submit(RegisterRm(rm_id=GOOD)))
    await asyncio.sleep(0)
    await engine.stop()
    with pytest.raises(Stopped, match="the server is about to stop"):
        await waiting
    with pytest.raises(Stopped):
        await engine.submit(RegisterRm(rm_id=GOOD))


async def test_a_stopped_engine_drops_commands(ledger: Ledger) -> None:
    """A command that is posted to a stopped engine is dropped."""
    engine = Engine(Scheduler(), SystemClock())
    engine.start(ledger)
    await engine.stop()
    engine.post(RegisterRm(rm_id=GOOD))
    assert engine.inbox == 0


async def test_no_caller_waits_for_a_broken_engine(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error in the engine's own task is reported, and every command is refused."""
    engine = Engine(Scheduler(), SystemClock())
    failures: list[str] = []
    engine.on_failure = failures.append
    engine.start(ledger)
    monkeypatch.setattr(Scheduler, "next_deadline", lambda _: 1 / 0)
    engine.post(RegisterRm(rm_id=BAD))
    await eventually(lambda: failures)
    assert failures == ["engine stopped: ZeroDivisionError"]
    with pytest.raises(Stopped):
        await asyncio.wait_for(engine.submit(RegisterRm(rm_id=GOOD)), PATIENCE)


class Broken:
    """A witness that fails."""

    def saw(self, *_: object) -> None:
        """Fail."""
        raise RuntimeError("planted")


class Seen:
    """A witness that records the commands."""

    def __init__(self) -> None:
        """Start without commands."""
        self.commands: list[str] = []
        self.turns: list[str] = []

    def saw(
        self, command: Command | None, effects: Sequence[Effect], seconds: float, turn: Turn | None
    ) -> None:
        """Record the command, and the partition of a turn."""
        self.commands.append(type(command).__name__)
        if turn is not None:
            self.turns.append(turn.partition)


async def test_a_failing_witness_is_logged_and_stops_nothing(ledger: Ledger) -> None:
    """Scheduling and the other witnesses continue; each failure counts as a defect."""
    engine, seen = Engine(Scheduler(), SystemClock()), Seen()
    engine.witnesses = (Broken(), seen)
    with capture_logs() as lines:
        engine.start(ledger)
        await engine.submit(builders.register(builders.config("[{name: a}]")))
        await engine.submit(builders.nodes(builders.node("n", vcore=1)))
        await engine.submit(builders.apps(builders.app("app", "root.a")))
        await engine.submit(builders.asks(builders.ask("app", "k", vcore=1)))
        await eventually(lambda: seen.turns)
        await engine.stop()
    told = [name for name in seen.commands if name != "Tick"]
    assert told == ["RegisterRm", "UpdateNodes", "UpdateApplications", "UpdateAllocations"]
    assert set(seen.turns) == {f"[{builders.RM}]default"}
    assert ledger.halted == []
    assert {(line["event"], line["witness"]) for line in warned(lines)} == {("recording failed", "Broken")}
    assert engine.defects == len(warned(lines)) == len(seen.commands)


async def test_a_defect_halts_the_rm_of_its_command(ledger: Ledger) -> None:
    """A command on which the core fails is answered by a defect with an id; other RMs continue."""
    core = Fragile()
    core.fails_on, core.only_for = UpdateNodes, BAD
    engine = Engine(core, SystemClock())
    engine.start(ledger)
    for rm_id in (BAD, GOOD):
        await engine.submit(RegisterRm(rm_id=rm_id))
    with pytest.raises(Defect, match=r"internal error, correlation id [0-9a-f]{12}"):
        await engine.submit(UpdateNodes(rm_id=BAD, nodes=()))
    await engine.submit(UpdateNodes(rm_id=GOOD, nodes=()))
    assert ledger.halted == [BAD]
    holds = {report.rm_id: report.holds for report in core.views.partitions()}
    assert holds == {BAD: ("internal error",), GOOD: ()}
    await engine.stop()


async def test_a_guard_that_fails_halts_the_rm_of_its_command(engine: Engine, ledger: Ledger) -> None:
    """A failure of the check for staleness halts the RM of the command; the engine continues."""
    for rm_id in (BAD, GOOD):
        await engine.submit(RegisterRm(rm_id=rm_id))

    def fail() -> bool:
        raise RuntimeError("a defect of the guard")

    with pytest.raises(Defect):
        await engine.submit(UpdateNodes(rm_id=BAD, nodes=()), is_current=fail)
    await asyncio.wait_for(engine.submit(UpdateNodes(rm_id=GOOD, nodes=())), PATIENCE)
    assert engine.running
    assert ledger.halted == [BAD]


async def test_failing_turn_halts_only_the_rm_whose_turn_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The streams of the RM end with an internal error, and the other RM is still scheduled."""
    async with serving_core(Scheduler()) as (bad, good):
        bad_calls, good_calls = await bad.set_up(), await good.set_up()
        monkeypatch.setattr(scheduler, "decide", failing_for(BAD, decide))
        await bad.ask(bad_calls[0], ask("k"))
        code, text = await bad_calls[0].ending()
        assert code is grpc.StatusCode.INTERNAL
        assert text.startswith("internal error, correlation id ")
        await good.ask(good_calls[0], ask("k"))
        assert await new_allocations(good_calls[0], 1) == {"k": "n0"}
        monkeypatch.undo()
        again = bad.open("UpdateNode")
        await again.send(node_request(bad))
        assert (await again.ending())[1].endswith("; register again")
        calls = await bad.set_up()
        await bad.ask(calls[0], ask("k"))
        assert await new_allocations(calls[0], 1) == {"k": "n0"}


async def test_effects_of_a_failed_tick_are_not_lost(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failing deadline of one RM loses no effects of another one."""
    core, clock = Scheduler(), VirtualClock()
    engine = Engine(core, clock)
    engine.start(ledger)
    for rm_id in (GOOD, BAD):
        for command in (
            builders.register(builders.config("[{name: a}]"), rm=rm_id),
            builders.nodes(builders.node("n", vcore=1), rm=rm_id),
            builders.apps(builders.app("job", "root.a"), rm=rm_id),
            builders.asks(builders.ask("job", "k", vcore=1), rm=rm_id),
            builders.releases(builders.release("job", "k"), rm=rm_id),
        ):
            await engine.submit(command)
    monkeypatch.setattr(scheduler, "fire_timers", failing_for(BAD, fire_timers))
    await clock.advance(31.0)
    updates = [update for effect in ledger.effects for update in getattr(effect, "updates", ())]
    assert updates[-1].state == "Completed"
    facts = [fact for effect in ledger.effects for fact in getattr(effect, "facts", ())]
    (left,) = facts[-1].records()
    assert (shown(left), left.time) == ("APP job REMOVE DETAILS_NONE", clock.now() - 1.0)
    assert ledger.halted == [BAD]
    await engine.stop()


async def test_the_session_of_a_halted_rm_cannot_be_resumed() -> None:
    """After a defect a session cannot be resumed: the RM registers and replays again."""
    core = Fragile()
    async with serving(scheduler=core) as server, connected(server) as channel:
        session = RawSession(channel, BAD)
        call, welcome = await session.begin()
        await session.replay(call)
        core.fails_on, core.only_for = UpdateNodes, BAD
        await session.send(call, nodes=node_request(None))
        assert (await call.ending())[0] is grpc.StatusCode.INTERNAL
        core.fails_on = None
        again, response = await session.begin(token=welcome.welcome.resume_token)
        assert not response.welcome.resumed
        assert (await session.replay(again)).complete


async def test_hold_of_an_unknown_rm_is_harmless(engine: Engine, ledger: Ledger) -> None:
    """A hold that arrives after the removal of its RM changes nothing."""
    await engine.submit(SetHold(rm_id=BAD, hold=Hold.DRAINING, on=True))
    assert not ledger.halted
