"""Scheduling of partitions: idle ones cost nothing."""

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
    """One RM with room, and a number of others with nothing to do except to expire, one day.

    Each of the others has a node and an ended application.
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
    """Calls that each command of the round takes, and the question for the deadline after it."""
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
    """Each command, tick and query takes as many calls beside 300 idle RMs as beside two."""
    few, many = costs(2), costs(300)
    assert few == many
    assert few["turn"] > few["tick without work"], "a turn decides something"


def test_a_command_examines_only_its_partitions() -> None:
    """An ask takes as many calls in an RM of 100 partitions as in one of two."""

    def cost(partitions: int) -> int:
        driver = Driver()
        more = [config("[{name: a}]", name=f"p{number}") for number in range(partitions - 1)]
        text = LEAF + "".join(part.removeprefix("partitions:\n") for part in more)
        driver.do(register(text), nodes(node("n", vcore=9)), apps(app("job", "root.a")))
        command = asks(ask("job", "k", vcore=1))
        return calls(partial(driver.scheduler.handle, command, driver.now))

    assert cost(2) == cost(100)


def test_a_node_is_found_without_its_partition() -> None:
    """An opened node gives its partition a turn, also if the request names none."""
    driver = Driver()
    driver.do(register(TWO_PARTITIONS))
    driver.do(nodes(node("n", NodeAction.CREATE_DRAIN, partition="gpu", vcore=1)))
    driver.do(apps(app("job", "root.a", partition="gpu")))
    driver.do(asks(ask("job", "k", partition="gpu", vcore=1)))
    opened = driver.do(nodes(node("n", NodeAction.DRAIN_TO_SCHEDULABLE)))
    assert placed(opened) == [("job", "k", "n")]


def served(driver: Driver, turns: int) -> list[str]:
    """The RMs of the served asks, in this number of turns with one decision each."""
    made: list[Effect] = []
    for _ in range(turns):
        made += driver.send(Tick(decisions=1))
    return [str(effect.rm_id) for effect in made if isinstance(effect, AllocationsMade)]


def want(driver: Driver, rm: str, count: int = 9) -> None:
    """Let an RM that has just registered wait for this number of allocations, without any turn."""
    driver.send(nodes(node("n", vcore=100), rm=rm))
    driver.send(apps(app("job", "root.a"), rm=rm))
    driver.send(asks(*(ask("job", f"k{number}", vcore=1) for number in range(count)), rm=rm))


def waiting(*rms: str) -> Driver:
    """These RMs registered in this order, and then submitted asks in the opposite order."""
    driver = Driver()
    for rm in rms:
        driver.send(register(LEAF, rm=rm))
    for rm in reversed(rms):
        want(driver, rm)
    return driver


def test_turns_go_round_in_order_of_registration() -> None:
    """Among RMs without a turn the first registered is first; then each in its turn."""
    assert served(waiting("one", "two", "three"), 7) == ["one", "two", "three"] * 2 + ["one"]


def test_the_longest_wait_since_the_last_turn_is_first() -> None:
    """An RM that was idle for a while precedes those that were served meanwhile."""
    driver = waiting("one", "two", "three")
    served(driver, 3)
    hold = SetHold(rm_id=RmId("one"), hold=Hold.OUTBOX_FULL, on=True)
    driver.send(hold)
    assert served(driver, 3) == ["two", "three", "two"]
    driver.send(SetHold(rm_id=hold.rm_id, hold=hold.hold, on=False))
    assert served(driver, 4) == ["one", "three", "two", "one"]


def test_an_rm_has_as_many_turns_as_any_however_many_partitions_it_has() -> None:
    """Turns alternate between RMs; those of an RM with two partitions alternate between these."""
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


def test_a_newcomer_is_first() -> None:
    """A partition without a turn precedes those with one."""
    driver = waiting("one", "two")
    served(driver, 1)
    driver.send(register(LEAF, rm="three"))
    want(driver, "three")
    assert served(driver, 3) == ["two", "three", "one"]


@pytest.mark.parametrize("leaves", [False, True])
def test_registering_anew_gives_no_advantage(leaves: bool) -> None:
    """An RM that registers again keeps its last turn, whether it left or not."""
    driver = waiting("one", "two", "three")
    served(driver, 4)
    if leaves:
        driver.send(RemoveRm(rm_id=RmId("one")))
    driver.send(register(LEAF, rm="one"))
    want(driver, "one")
    assert served(driver, 3) == ["two", "three", "one"]


def test_last_turns_of_removed_partitions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of removed partitions only the last ones keep their last turn."""
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
    """Let the only allocation of an RM's application end, so that a deadline completes it."""
    driver.do(register(LEAF, rm=rm), nodes(node("n", vcore=1), rm=rm))
    driver.do(apps(app("job", "root.a"), rm=rm), asks(ask("job", "k", vcore=1), rm=rm))


def completed(effects: list[Effect]) -> list[str]:
    """The RMs with applications reported as completed, in order."""
    return [
        str(effect.rm_id)
        for effect in effects
        if isinstance(effect, ApplicationsUpdated) and effect.updates[-1].state == "Completed"
    ]


def both_ending() -> Driver:
    """RMs one and two, whose applications complete in 30 seconds; two's a second earlier."""
    driver = Driver()
    for rm in ("one", "two"):
        ending(driver, rm)
    driver.do(releases(release("job"), rm="two"))
    driver.now += 1.0
    driver.do(releases(release("job"), rm="one"))
    return driver


def test_the_earliest_deadline_is_the_next_one() -> None:
    """The core's next deadline is that of the partition that is due first."""
    driver = both_ending()
    assert driver.scheduler.next_deadline() == driver.now + 29.0
    assert completed(driver.wait(29.5)) == ["two"]
    assert driver.scheduler.next_deadline() == driver.now + 0.5


def test_what_is_due_together_fires_in_order_of_registration() -> None:
    """If several deadlines are due, partitions are served in the order of registration."""
    driver = both_ending()
    driver.now += 31.0
    assert completed(driver.send(Tick())) == ["one", "two"]


def test_a_failing_partition_takes_no_deadline_from_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Deadlines of other partitions remain due; the failed partition is never due again."""

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
