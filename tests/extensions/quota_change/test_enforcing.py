"""Enforcement of a maximum in steps, between which other changes may arrive (spec § 9.6)."""

import pytest

from licorne_core.extensions.quota_change.extension import TIMER, QuotaChange
from licorne_core.messages.commands import BeginReplay, Command, EndReplay, RemoveRm, TerminationType, Tick
from licorne_core.values.errors import InvariantBroken
from licorne_core.values.ids import AllocationKey, AppId, PartitionName, QueuePath, RmId
from licorne_core.values.slices import Tuning
from support.core.builders import (
    RM,
    app,
    apps,
    ask,
    asks,
    config,
    node,
    nodes,
    register,
    release,
    releases,
    reload,
    remove_apps,
)
from support.core.driver import Driver, keys, stopped

DEFAULT = PartitionName("[rm1]default")
PREEMPTED = TerminationType.PREEMPTED_BY_SCHEDULER
DELAY = 5.0
ENFORCED = "preemption: {quotapreemptionenabled: %s}"
ONLY_Q = config("[{name: q}]", rest=ENFORCED % "true")


def queues(most: int, *, on: bool = True, delay: str = "5s", name: str = "default") -> str:
    """A configuration with a parent root.p of this maximum, and a leaf root.q without one."""
    properties = f"properties: {{quota.preemption.delay: {delay}}}, " if delay else ""
    p = (
        f"{{name: p, resources: {{max: {{memory: {most}}}}}, {properties}"
        "queues: [{name: a, resources: {guaranteed: {memory: 3}}}, {name: b}, {name: c}]}"
    )
    switch = "true" if on else "false"
    return config(f"[{p}, {{name: q}}]", rest=ENFORCED % switch, name=name)


def crowded(size: int = 1) -> Driver:
    """Eighteen allocations in the leaves of root.p, whose maximum of four is due for enforcement.

    `size` is the number of steps in one turn.
    """
    driver = Driver(tuning=Tuning(timeout_size=size))
    driver.do(register(queues(18)), nodes(node("n1", memory=18)))
    for leaf, count in (("a", 8), ("b", 6), ("c", 4)):
        driver.do(apps(app(f"in-{leaf}", f"root.p.{leaf}")))
        driver.do(asks(*(ask(f"in-{leaf}", f"{leaf}{n}", memory=1) for n in range(count))))
    driver.do(reload(queues(4)))
    driver.wait(DELAY - 1)
    driver.now += 1
    return driver


def begun(driver: Driver, victims: int = 3) -> list[str]:
    """Continue until at least this number of stops is requested; return the victims."""
    told: list[str] = []
    for _ in range(100):
        if len(told) >= victims:
            return told
        told += stopped(driver.send(Tick()))
    raise AssertionError(f"only {told} were asked to stop")


def ended(driver: Driver) -> list[str]:
    """Continue until the enforcement has ended; return the further victims."""
    told = stopped(driver.run())
    if DEFAULT in driver.scheduler.partitions:
        assert driver.partition.job is None
    return told


@pytest.mark.parametrize("size", [1, 2, 7])
def test_enforcement_in_steps_has_the_same_victims_as_in_one_turn(size: int) -> None:
    """Without other changes, several turns choose the same victims in the same order as one turn."""
    whole, pieces = crowded(500), crowded(size)
    at_once = stopped(whole.send(Tick()))
    assert len(at_once) > 10
    told = begun(pieces, 1)
    assert len(told) < len(at_once)
    assert told + ended(pieces) == at_once
    for path in ("root.p", "root.p.a", "root.p.b"):
        ours, theirs = (d.partition.tree.get(QueuePath(path)) for d in (pieces, whole))
        assert ours is not None
        assert theirs is not None
        assert ours.preempting == theirs.preempting


def test_a_record_has_the_usage_at_the_choice_of_victims() -> None:
    """The record of a victim has the usage of its leaf before any victim of the leaf was chosen."""
    driver = crowded()
    first, *_, last = begun(driver, 1) + ended(driver)
    assert (first[0], last[0]) == ("a", "c")
    for key, allocated in ((first, 8), (last, 4)):
        ledger = driver.partition.ledger
        record = ledger.find(AppId(f"in-{key[0]}"), AllocationKey(key))
        assert record is not None
        assert record.victim_queue.allocated == {"memory": allocated}
        assert record.victim_queue.preempting == {}


def test_nothing_is_decided_during_an_enforcement() -> None:
    """Asks that arrive during an enforcement are served after its last step."""
    driver = crowded()
    begun(driver)
    driver.send(nodes(node("n2", memory=1)))
    driver.send(apps(app("other", "root.q")))
    driver.send(asks(ask("other", "o", memory=1)))
    decided: list[str] = []
    while driver.partition.job is not None:
        assert (decided, driver.partition.is_runnable) == ([], False)
        decided = keys(driver.send(Tick()))
    assert decided + keys(driver.run()) == ["o"]


def test_a_raised_maximum_shortens_the_enforcement() -> None:
    """If the maximum is raised during its enforcement, only the remaining excess is stopped."""
    driver = crowded()
    told = begun(driver)
    driver.begin(reload(queues(14)))
    assert len(told + ended(driver)) == 4


@pytest.mark.parametrize(
    "follows", [queues(4, on=False), queues(4, delay=""), queues(100)], ids=["off", "no", "high"]
)
def test_a_change_of_settings_ends_the_enforcement(follows: str) -> None:
    """No victim is stopped for a maximum that is no longer enforced or no longer exceeded."""
    driver = crowded()
    begun(driver)
    driver.begin(reload(follows))
    assert ended(driver) == []


def test_allocations_that_the_rm_ends_reduce_the_enforcement() -> None:
    """For each allocation that the RM ends during the enforcement, one fewer is stopped."""
    driver = crowded()
    told = begun(driver)
    gone = [f"c{number}" for number in range(4)]
    driver.send(releases(*(release("in-c", key) for key in gone)))
    more = ended(driver)
    assert not {*more} & {*gone}
    queue = driver.partition.tree.get(QueuePath("root.p"))
    assert queue is not None
    assert queue.allocated["memory"] - queue.preempting["memory"] >= 4
    assert len(told + more) <= 10


@pytest.mark.parametrize(
    "commands",
    [
        (remove_apps("in-a", "in-b", "in-c"),),
        (reload(ONLY_Q),),
        (remove_apps("in-a", "in-b", "in-c"), reload(ONLY_Q)),
        (reload(queues(4, name="another")),),
        (register(queues(4)),),
        (RemoveRm(rm_id=RmId(RM)),),
    ],
    ids=["applications", "queue", "both", "partition", "registration", "RM"],
)
def test_an_enforcement_ends_after_removals(commands: tuple[Command, ...]) -> None:
    """The enforcement ends if its applications, queue, partition or RM are removed."""
    driver = crowded()
    told = begun(driver)
    for command in commands:
        driver.send(command)
    assert not {*told} & {*ended(driver)}
    driver.wait(60)
    assert ended(driver) == []


def test_no_enforcement_begins_during_a_replay() -> None:
    """During a replay usage is incomplete, so no enforcement begins; a begun enforcement is completed."""
    driver = crowded()
    driver.send(BeginReplay(rm_id=RmId(RM)))
    assert stopped(driver.run()) == []
    driver.send(EndReplay(rm_id=RmId(RM), nodes=0, applications=0, allocations=0))
    driver.now += 1
    told = begun(driver, 1)
    driver.send(BeginReplay(rm_id=RmId(RM)))
    assert len(told + ended(driver)) > 10


def test_the_recount_detects_wrong_start_times() -> None:
    """The recount detects a start time of a queue without a delay, and start times without a timer."""
    partition = crowded().partition
    own, queue = partition.points.named("quota_change"), partition.tree.get(QueuePath("root.q"))
    assert isinstance(own, QuotaChange)
    assert queue is not None
    own.recount(partition.applications, settled=True)
    own.clock.starts[queue] = 1.0
    with pytest.raises(InvariantBroken, match=r"root\.q is enforced at"):
        own.recount(partition.applications, settled=True)
    del own.clock.starts[queue]
    partition.timers.cancel(TIMER)
    with pytest.raises(InvariantBroken, match="enforced at no time"):
        own.recount(partition.applications, settled=True)
