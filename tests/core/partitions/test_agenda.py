"""Turns and deadlines of partitions; idle partitions cost nothing."""

from functools import partial

import pytest

from licorne_core import scheduler
from licorne_core.handlers.turn import fire_timers
from licorne_core.messages.commands import (
    AnswerPredicates,
    BeginReplay,
    Command,
    Hold,
    NodeAction,
    PredicateAnswer,
    RemoveRm,
    SetHold,
    Tick,
)
from licorne_core.messages.effects import AllocationsMade, ApplicationsUpdated, Effect, TickFailed
from licorne_core.partitions import agenda
from licorne_core.partitions.jobs import Slice
from licorne_core.partitions.partition import Partition
from licorne_core.values.ids import RmId
from support.core.builders import app, apps, ask, asks, config, node, nodes, register, release, releases
from support.core.calls import calls
from support.core.driver import Driver, placed

BUSY = "busy"
LEAF = config("[{name: a}]")
TWO_PARTITIONS = LEAF + config("[{name: a}]", name="gpu").removeprefix("partitions:\n")


def crowd(idle: int) -> Driver:
    """A busy RM with room, and this number of idle RMs, whose next deadline is the end of an application.

    Each idle RM has a node and an ended application.
    """
    driver = Driver(sweep=10_000)
    for rm in (BUSY, *(f"idle{number}" for number in range(idle))):
        driver.do(register(TWO_PARTITIONS, rm=rm), nodes(node("n", vcore=9), rm=rm))
        driver.do(apps(app("ended", "root.a"), app("job", "root.a"), rm=rm))
        driver.do(asks(ask("ended", "k", vcore=1), rm=rm), releases(release("ended"), rm=rm))
    driver.wait(60.0)
    return driver


ROUND: dict[str, Command] = {
    "asks": asks(ask("job", "k1", vcore=1), ask("job", "large", vcore=8), rm=BUSY),
    "turn": Tick(),
    "tick without work": Tick(),
    "release": releases(release("job", "k1"), rm=BUSY),
    "application": apps(app("next", "root.a"), rm=BUSY),
    "node": nodes(node("n", NodeAction.UPDATE, vcore=8), rm=BUSY),
    "second turn": Tick(),
    "answer": AnswerPredicates(rm_id=RmId(BUSY), answers=[PredicateAnswer(1)]),
    "hold": SetHold(rm_id=RmId(BUSY), hold=Hold.OUTBOX_FULL, on=True),
    "replay": BeginReplay(rm_id=RmId(BUSY)),
    "registration": register(TWO_PARTITIONS, rm=BUSY),
    "farewell": RemoveRm(rm_id=RmId(BUSY)),
    "unknown RM": asks(ask("job", "k1", vcore=1), rm=BUSY),
}


def costs(idle: int) -> dict[str, tuple[int, int]]:
    """Python calls by each command of the round, and by the following query of the next deadline."""
    driver = crowd(idle)
    core = driver.scheduler
    found = {}
    for name, command in ROUND.items():
        driver.now += 0.1
        handling = calls(partial(core.handle, command, driver.now))
        found[name] = (handling, calls(core.next_deadline))
    return found


@pytest.mark.slow
def test_idle_rms_cost_nothing() -> None:
    """Each command, tick and query makes the same number of calls with 300 idle RMs as with two."""
    few, many = costs(2), costs(300)
    assert few == many
    assert few["turn"] > few["tick without work"], "a turn decides something"


def test_a_command_examines_only_its_partitions() -> None:
    """An ask makes as many calls in an RM of 100 partitions as in an RM of two."""

    def cost(partitions: int) -> int:
        driver = Driver()
        more = [config("[{name: a}]", name=f"p{number}") for number in range(partitions - 1)]
        text = LEAF + "".join(part.removeprefix("partitions:\n") for part in more)
        driver.do(register(text), nodes(node("n", vcore=9)), apps(app("job", "root.a")))
        command = asks(ask("job", "k", vcore=1))
        return calls(partial(driver.scheduler.handle, command, driver.now))

    assert cost(2) == cost(100)


def test_a_node_request_without_partition_gives_its_partition_a_turn() -> None:
    """A node that is opened gives its partition a turn, even if the request names no partition."""
    driver = Driver()
    driver.do(register(TWO_PARTITIONS))
    driver.do(nodes(node("n", NodeAction.CREATE_DRAIN, partition="gpu", vcore=1)))
    driver.do(apps(app("job", "root.a", partition="gpu")))
    driver.do(asks(ask("job", "k", partition="gpu", vcore=1)))
    opened = driver.do(nodes(node("n", NodeAction.DRAIN_TO_SCHEDULABLE)))
    assert placed(opened) == [("job", "k", "n")]


def served(driver: Driver, turns: int) -> list[str]:
    """The RMs whose asks are placed in this number of turns, each with one decision."""
    made: list[Effect] = []
    for _ in range(turns):
        made += driver.send(Tick(decisions=1))
    return [str(effect.rm_id) for effect in made if isinstance(effect, AllocationsMade)]


def want(driver: Driver, rm: str, count: int = 9) -> None:
    """Add a node, an application and this number of asks of an RM, without a turn."""
    driver.send(nodes(node("n", vcore=100), rm=rm))
    driver.send(apps(app("job", "root.a"), rm=rm))
    driver.send(asks(*(ask("job", f"k{number}", vcore=1) for number in range(count)), rm=rm))


def waiting(*rms: str) -> Driver:
    """Register these RMs in this order, and then submit their asks in the opposite order."""
    driver = Driver()
    for rm in rms:
        driver.send(register(LEAF, rm=rm))
    for rm in reversed(rms):
        want(driver, rm)
    return driver


def test_turns_follow_the_order_of_registration() -> None:
    """The first turns of RMs are in the order of registration, and later ones alternate."""
    assert served(waiting("one", "two", "three"), 7) == ["one", "two", "three"] * 2 + ["one"]


def test_the_rm_with_the_oldest_turn_is_next() -> None:
    """An RM that was idle precedes RMs that had turns meanwhile."""
    driver = waiting("one", "two", "three")
    served(driver, 3)
    hold = SetHold(rm_id=RmId("one"), hold=Hold.OUTBOX_FULL, on=True)
    driver.send(hold)
    assert served(driver, 3) == ["two", "three", "two"]
    driver.send(SetHold(rm_id=hold.rm_id, hold=hold.hold, on=False))
    assert served(driver, 4) == ["one", "three", "two", "one"]


def test_turns_alternate_between_rms_not_partitions() -> None:
    """Turns alternate between RMs, and those of one RM alternate between its partitions."""
    driver = Driver()
    driver.send(register(TWO_PARTITIONS, rm="many"))
    want(driver, "many")
    driver.send(nodes(node("g", partition="gpu", vcore=100), rm="many"))
    driver.send(apps(app("other", "root.a", partition="gpu"), rm="many"))
    driver.send(asks(*(ask("other", f"k{i}", partition="gpu", vcore=1) for i in "123"), rm="many"))
    driver.send(register(LEAF, rm="one"))
    want(driver, "one")
    turns = [driver.send(Tick(decisions=1)) for _ in range(6)]
    made = [effect for told in turns for effect in told if isinstance(effect, AllocationsMade)]
    assert [effect.partition for effect in made] == [
        "[many]default",
        "[one]default",
        "[many]gpu",
        "[one]default",
        "[many]default",
        "[one]default",
    ]


def test_a_new_partition_has_the_next_turn_before_used_ones() -> None:
    """A partition that had no turn yet precedes partitions that had one."""
    driver = waiting("one", "two")
    served(driver, 1)
    driver.send(register(LEAF, rm="three"))
    want(driver, "three")
    assert served(driver, 3) == ["two", "three", "one"]


@pytest.mark.parametrize("leaves", [False, True])
def test_a_new_registration_keeps_the_last_turn(leaves: bool) -> None:
    """An RM that registers again, after it left or without leaving, keeps the time of its last turn."""
    driver = waiting("one", "two", "three")
    served(driver, 4)
    if leaves:
        driver.send(RemoveRm(rm_id=RmId("one")))
    driver.send(register(LEAF, rm="one"))
    want(driver, "one")
    assert served(driver, 3) == ["two", "three", "one"]


def test_last_turns_of_removed_partitions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last turn is kept for a bounded number of removed partitions."""
    monkeypatch.setattr(agenda, "MAX_DEPARTED", 2)
    driver = waiting("one", "two", "three", "four")
    served(driver, 4)
    for rm in ("three", "two", "one"):
        driver.send(RemoveRm(rm_id=RmId(rm)))
    for rm in ("one", "two", "three"):
        driver.send(register(LEAF, rm=rm))
        want(driver, rm)
    assert served(driver, 4) == ["three", "one", "two", "four"]


def ending(driver: Driver, rm: str) -> None:
    """Register an RM with an application that has one allocation."""
    driver.do(register(LEAF, rm=rm), nodes(node("n", vcore=1), rm=rm))
    driver.do(apps(app("job", "root.a"), rm=rm), asks(ask("job", "k", vcore=1), rm=rm))


def completed(effects: list[Effect]) -> list[str]:
    """The RMs whose applications are reported as completed, in order."""
    return [
        str(effect.rm_id)
        for effect in effects
        if isinstance(effect, ApplicationsUpdated) and effect.updates[-1].state == "Completed"
    ]


def both_ending() -> Driver:
    """RMs `one` and `two`, whose applications complete after 30 and 29 seconds."""
    driver = Driver()
    for rm in ("one", "two"):
        ending(driver, rm)
    driver.do(releases(release("job"), rm="two"))
    driver.now += 1.0
    driver.do(releases(release("job"), rm="one"))
    return driver


def test_the_next_deadline_is_the_earliest_of_all_partitions() -> None:
    """The next deadline of the core is that of the partition that is due first."""
    driver = both_ending()
    assert driver.scheduler.next_deadline() == driver.now + 29.0
    assert completed(driver.wait(29.5)) == ["two"]
    assert driver.scheduler.next_deadline() == driver.now + 0.5


def test_due_partitions_are_served_in_the_order_of_registration() -> None:
    """If several partitions are due, they are served in the order of registration."""
    driver = both_ending()
    driver.now += 31.0
    assert completed(driver.send(Tick())) == ["one", "two"]


def test_a_failed_partition_does_not_delay_other_deadlines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After a partition has failed, deadlines of others are handled, and the failed one is not due again."""

    def fragile(partition: Partition, now: float, part: Slice) -> list[Effect]:
        if partition.rm_id == "one":
            raise RuntimeError("planted")
        return fire_timers(partition, now, part)

    driver = both_ending()
    driver.now += 31.0
    monkeypatch.setattr(scheduler, "fire_timers", fragile)
    with pytest.raises(TickFailed):
        driver.send(Tick())
    driver.send(SetHold(rm_id=RmId("one"), hold=Hold.DEFECT, on=True))
    assert completed(driver.run()) == ["two"]
    driver.now += 1e9
    driver.run()
    assert driver.scheduler.next_deadline() is None


def test_a_partition_waits_for_a_turn_only_with_asks() -> None:
    """Releases and free room cause no turn without pending asks."""
    driver = crowd(0)
    core, now = driver.scheduler, driver.now
    assert core.waiting == 0
    core.handle(asks(ask("job", "k", vcore=1), rm=BUSY), now)
    assert core.waiting == 1
    core.handle(Tick(), now)
    core.handle(releases(release("job", "k"), rm=BUSY), now)
    core.handle(nodes(node("more", vcore=9), rm=BUSY), now)
    assert core.waiting == 0
