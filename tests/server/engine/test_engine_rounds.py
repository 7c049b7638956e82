"""The work in one round of the engine, counted and not timed, and its distribution over RMs."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from structlog.testing import capture_logs

from licorne_core.messages.commands import Command, Hold, RegisterRm, RemoveRm, SetHold, Tick
from licorne_core.messages.effects import AllocationsMade, Effect
from licorne_core.scheduler import Scheduler
from licorne_core.values.ids import RmId
from licorne_server.engine import engine as engines
from licorne_server.engine.engine import TOGETHER, Engine
from licorne_server.process.loop import SLOW_SECONDS
from licorne_server.testing.serving import VirtualClock
from support.core import builders
from support.peers.shim import eventually


class Time:
    """A time that only passes during turns of the core."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, turn: float) -> None:
        """Let a turn take a fixed time, whatever is decided in it."""
        self.now, self.turn = 0.0, turn
        monkeypatch.setattr(engines, "perf_counter", lambda: self.now)


class Timed(Scheduler):
    """The real core, with turns of a given duration."""

    def __init__(self, time: Time) -> None:
        """Use this time."""
        super().__init__()
        self._time = time

    def handle(self, command: Command, now: float) -> list[Effect]:
        """Like the core."""
        if isinstance(command, Tick):
            self._time.now += self._time.turn
        return super().handle(command, now)


class Served:
    """A sink that records the RMs whose asks were placed."""

    def __init__(self) -> None:
        """Start without RMs."""
        self.rms: list[RmId] = []

    def route(self, effects: Sequence[Effect]) -> None:
        """Record the RMs."""
        self.rms += [effect.rm_id for effect in effects if isinstance(effect, AllocationsMade)]

    def halt(self, rm_id: RmId, correlation_id: str) -> None:
        """Ignore the halt."""
        raise AssertionError(f"{rm_id} was halted")


class Asked:
    """RMs that each submit one ask at the same time, and the order in which they are served."""

    def __init__(self, time: Time) -> None:
        """Start without registered RMs."""
        self.engine, self._served = Engine(Timed(time), VirtualClock()), Served()
        self.rounds = 0
        """The number of rounds until all were served."""

    @property
    def served(self) -> list[RmId]:
        """The RMs in the order in which they were served."""
        return self._served.rms

    async def ask(self, rms: int) -> None:
        """Register all of them, and submit their asks before the engine runs."""
        engine = self.engine
        engine.start(self._served)
        names = [f"rm{number}" for number in range(rms)]
        for rm_id in names:
            for command in (
                builders.register(builders.config("[{name: a}]"), rm=rm_id),
                builders.nodes(builders.node("n", vcore=1), rm=rm_id),
                builders.apps(builders.app("job", "root.a"), rm=rm_id),
            ):
                await engine.submit(command)
        await eventually(lambda: not engine.busy)
        for rm_id in names:
            engine.post(builders.asks(builders.ask("job", "k", vcore=1), rm=rm_id))
        before = engine.rounds
        await eventually(lambda: len(self.served) == rms)
        self.rounds = engine.rounds - before
        await engine.stop()


async def test_all_rms_have_a_turn_in_one_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """With short turns a hundred RMs are served in a few rounds of the loop."""
    asked = Asked(Time(monkeypatch, turn=TOGETHER.turn / 1000))
    await asked.ask(100)
    assert asked.rounds <= 3
    assert asked.served == [f"rm{number}" for number in range(100)]


async def test_a_round_ends_when_its_budget_is_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round takes its time budget, plus the excess of its last turn."""
    asked = Asked(Time(monkeypatch, turn=TOGETHER.turn / 2.5))
    await asked.ask(12)
    assert asked.engine.budget is TOGETHER
    assert asked.rounds >= 4
    assert asked.served == [f"rm{number}" for number in range(12)]


@asynccontextmanager
async def loaded(time: Time, seconds: float) -> AsyncIterator[None]:
    """Let other work take this time in each round of the loop inside the block."""

    async def work() -> None:
        while True:
            time.now += seconds
            await asyncio.sleep(0)

    working = asyncio.create_task(work())
    try:
        yield
    finally:
        working.cancel()


async def test_a_round_takes_as_long_as_the_rest_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """If other work in the loop takes long, all RMs have their turns in few rounds."""
    time = Time(monkeypatch, turn=TOGETHER.turn)
    asked = Asked(time)
    async with loaded(time, engines.MOST_SECONDS / 2):
        await asked.ask(12)
    assert asked.engine.budget is TOGETHER
    assert asked.rounds <= 3
    assert asked.served == [f"rm{number}" for number in range(12)]


async def test_a_long_round_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the other work of the loop takes, a round takes a few milliseconds."""
    time = Time(monkeypatch, turn=engines.MOST_SECONDS / 2.5)
    asked = Asked(time)
    async with loaded(time, 1.0):
        await asked.ask(12)
    assert asked.rounds >= 4


async def test_an_rm_has_one_turn_of_a_long_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy RM has one turn in a round, however long the other work of the loop takes."""
    time = Time(monkeypatch, turn=1.5 * TOGETHER.turn)
    engine = Engine(Timed(time), VirtualClock())
    engine.start(Served())
    for rm_id in ("other", "one"):
        for command in (
            builders.register(builders.config("[{name: a}]"), rm=rm_id),
            builders.nodes(builders.node("n", vcore=1000), rm=rm_id),
            builders.apps(builders.app("job", "root.a"), rm=rm_id),
        ):
            await engine.submit(command)
    await eventually(lambda: not engine.busy)
    turns, rounds = engine.turns, engine.rounds
    async with loaded(time, engines.MOST_SECONDS):
        engine.post(builders.asks(*(builders.ask("job", f"k{n}", vcore=1) for n in range(500)), rm="one"))
        await eventually(lambda: engine.turns >= turns + 10)
        await eventually(lambda: not engine.busy)
    assert engine.turns - turns <= engine.rounds - rounds
    await engine.stop()


async def test_slow_turns_are_counted_and_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each slow turn is logged once, with its RM, and counted."""
    asked = Asked(Time(monkeypatch, turn=2 * SLOW_SECONDS))
    with capture_logs() as lines:
        await asked.ask(1)
    told = [line for line in lines if line["event"] == "slow turn"]
    assert [line["rm_ids"] for line in told if line["effects"]] == [["rm0"]]
    slow, turns = asked.engine.slow, asked.engine.turns
    assert slow.count["turn"] == len(told) == turns
    assert slow.seconds["turn"] == pytest.approx(2 * SLOW_SECONDS * turns)


async def test_only_registered_rms_have_counters() -> None:
    """Commands of unknown RMs leave no counters behind, and neither do RMs that leave."""
    one, other = RmId("one"), RmId("other")
    engine = Engine(Scheduler(), VirtualClock())
    engine.start(Served())
    for rm_id in (one, other):
        await engine.submit(SetHold(rm_id=rm_id, hold=Hold.OUTBOX_FULL, on=True))
    assert not engine.worked
    await engine.submit(RegisterRm(rm_id=one))
    spent = engine.worked[one]
    await engine.submit(SetHold(rm_id=one, hold=Hold.OUTBOX_FULL, on=True))
    assert engine.worked[one] > spent > 0
    await engine.submit(RemoveRm(rm_id=one))
    assert not engine.worked
    await engine.stop()
