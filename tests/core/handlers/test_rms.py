"""Several RMs in one core: each has its own, and comes, goes and replays on its own."""

import pytest

from licorne_core.messages.commands import BeginReplay, EndReplay, Hold, RemoveRm, SetHold, Tick
from licorne_core.messages.effects import (
    AllocationsMade,
    NotRegistered,
    RegistrationFailed,
    ReplayEnded,
)
from licorne_core.values.errors import NotFound
from licorne_core.values.ids import AppId, PartitionName, RmId
from support.core.builders import (
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
)
from support.core.driver import Driver, keys, placed, refused_apps, released, states

ONE = PartitionName("[one]default")
TWO = PartitionName("[two]default")
LEAF = config("[{name: a, resources: {max: {memory: 4}}}]")


@pytest.fixture
def driver() -> Driver:
    """RMs `one` and `two` with a node, an application and an allocation of the same names each."""
    driver = Driver()
    for rm in ("one", "two"):
        driver.do(register(LEAF, rm=rm), nodes(node("n", memory=8), rm=rm))
        driver.do(apps(app("app", "root.a"), rm=rm), asks(ask("app", "k", memory=1), rm=rm))
    return driver


@pytest.mark.row(5)
def test_registering_again_cleans_everything_of_that_rm(driver: Driver) -> None:
    """After a second registration nodes, applications and usage are gone, and ids are free."""
    driver.do(register(LEAF, rm="one"))
    assert driver.views.node_ids(ONE) == []
    assert driver.views.applications(ONE) == []
    root = driver.views.queues(ONE)
    assert (root.allocated, root.pending, root.max) == ({}, {}, {})
    assert refused_apps(driver.do(apps(app("app", "root.a"), rm="one"))) == {}
    effects = driver.do(
        nodes(node("n", memory=8), rm="one"), asks(ask("app", "k", memory=1), rm="one")
    )
    assert keys(effects) == ["k"]
    assert driver.views.rms()[0].session == 2


@pytest.mark.row(5)
def test_a_refused_registration_leaves_everything_as_it_was(driver: Driver) -> None:
    """A registration with a bad configuration is refused, and the one before stays in force."""
    (failure,) = driver.do(register("partitions: nonsense", rm="one"))
    assert isinstance(failure, RegistrationFailed)
    assert failure.reason.startswith("registration of RM failed: ")
    assert driver.views.queues(ONE).allocated == {"memory": 1}


@pytest.mark.row(6)
def test_two_rms_do_not_see_each_other(driver: Driver) -> None:
    """Equal names of nodes, applications, queues and keys are different things in each RM."""
    driver.do(asks(*(ask("app", f"more{i}", memory=1) for i in range(9)), rm="one"))
    assert driver.views.queues(ONE).allocated == {"memory": 4}
    assert driver.views.queues(TWO).allocated == {"memory": 1}
    assert driver.views.queues(TWO).pending == {}
    effects = driver.do(releases(release("app", "k"), rm="two"))
    assert {effect.rm_id for effect in effects} == {"two"}
    assert driver.views.queues(ONE).allocated == {"memory": 4}


@pytest.mark.row(6)
def test_another_rms_partition_cannot_be_named(driver: Driver) -> None:
    """The bracketed name of another RM's partition is refused, and reaches nothing of it."""
    effects = driver.do(apps(app("intruder", "root.a", partition="[two]default"), rm="one"))
    assert refused_apps(effects).keys() == {"intruder"}
    assert driver.do(releases(release("app", partition="[two]default"), rm="one")) == []
    assert driver.views.queues(TWO).allocated == {"memory": 1}


@pytest.mark.row(7)
def test_registering_again_leaves_the_other_rm_alone(driver: Driver) -> None:
    """The other RM's allocations are still listed, and its asks are still served."""
    assert [effect.rm_id for effect in driver.do(register(LEAF, rm="one"))] == ["one"]
    assert driver.views.application(TWO, AppId("app")).allocation_count == 1
    assert keys(driver.do(asks(ask("app", "next", memory=1), rm="two"))) == ["next"]


@pytest.mark.row(7)
def test_an_rm_that_leaves_leaves_alone(driver: Driver) -> None:
    """A removed RM's partitions are gone and its messages are refused; the other goes on."""
    driver.do(RemoveRm(rm_id=RmId("one")))
    (answer,) = driver.do(nodes(node("n2", memory=1), rm="one"))
    assert answer == NotRegistered(
        rm_id=RmId("one"), reason='received NodeRequest, but RmID="one" not registered'
    )
    with pytest.raises(NotFound):
        driver.views.queues(ONE)
    assert keys(driver.do(asks(ask("app", "next", memory=1), rm="two"))) == ["next"]


@pytest.mark.row(10)
def test_one_application_id_in_two_partitions() -> None:
    """The same id is accepted and scheduled in each partition of an RM."""
    driver = Driver()
    second = config("[{name: a}]", name="second").removeprefix("partitions:\n")
    driver.do(register(config("[{name: a}]") + second))
    for name in ("default", "second"):
        driver.do(nodes(node(f"node-{name}", partition=name, memory=1)))
        assert refused_apps(driver.do(apps(app("app", "root.a", partition=name)))) == {}
        effects = driver.do(asks(ask("app", "k", partition=name, memory=1)))
        assert placed(effects) == [("app", "k", f"node-{name}")]


def test_rms_take_turns(driver: Driver) -> None:
    """However much one RM asks for, another's ask is served after one turn at the most."""
    for rm in ("one", "two"):
        driver.do(reload(config("[{name: a}]"), rm=rm), nodes(node("big", memory=10_000), rm=rm))
    driver.send(asks(*(ask("app", f"flood{i}", memory=1) for i in range(5000)), rm="one"))
    driver.send(Tick(decisions=100))
    driver.send(asks(ask("app", "lone", memory=1), rm="two"))
    turns = [driver.send(Tick(decisions=100)) for _ in range(2)]
    served = [
        effect.rm_id for turn in turns for effect in turn if isinstance(effect, AllocationsMade)
    ]
    assert sorted(served) == ["one", "two"]


def test_a_hold_stops_one_rm_only(driver: Driver) -> None:
    """On hold an RM's asks wait, and the other's do not; afterwards they are served."""
    driver.do(SetHold(rm_id=RmId("one"), hold=Hold.OUTBOX_FULL, on=True))
    waiting = driver.do(*(asks(ask("app", "next", memory=1), rm=rm) for rm in ("one", "two")))
    assert [effect.rm_id for effect in waiting if isinstance(effect, AllocationsMade)] == ["two"]
    assert driver.scheduler.next_deadline() is None
    freed = driver.do(SetHold(rm_id=RmId("one"), hold=Hold.OUTBOX_FULL, on=False))
    assert placed(freed) == [("app", "next", "n")]


@pytest.mark.row(161)
def test_a_replay_restores_usage_and_then_schedules(driver: Driver) -> None:
    """Replayed allocations are taken beyond limits and echoed; decisions wait for the end."""
    rm = RmId("one")
    driver.do(register(LEAF, rm="one"), BeginReplay(rm_id=rm))
    driver.do(nodes(node("n", memory=8), rm="one"), apps(app("app", "root.a"), rm="one"))
    held = [ask("app", f"k{i}", on_node="n", memory=2) for i in range(5)]
    effects = driver.do(asks(*held, ask("app", "waiting", memory=1), rm="one"))
    assert keys(effects) == ["k0", "k1", "k2", "k3", "k4"]
    assert states(effects, "app") == ["Accepted", "Running"]
    assert driver.views.queue(ONE, "root.a").allocated == {"memory": 10}
    (ended,) = driver.do(EndReplay(rm_id=rm, nodes=1, applications=1, allocations=6))
    assert ended == ReplayEnded(rm_id=rm)
    freed = driver.do(releases(*(release("app", f"k{i}") for i in range(4)), rm="one"))
    assert len(released(freed)) == 4
    assert keys(freed) == ["waiting"]


@pytest.mark.row(161)
def test_a_replay_with_something_missing_is_wanted_again(driver: Driver) -> None:
    """When fewer arrived than were sent, the RM is told so and stays on hold until all has come."""
    rm = RmId("one")
    driver.do(BeginReplay(rm_id=rm), asks(ask("app", "next", memory=1), rm="one"))
    (ended,) = driver.do(EndReplay(rm_id=rm, nodes=0, applications=0, allocations=2))
    assert isinstance(ended, ReplayEnded)
    assert "1 of 2 allocations" in ended.missing
    driver.do(BeginReplay(rm_id=rm))
    effects = driver.do(EndReplay(rm_id=rm, nodes=0, applications=0, allocations=0))
    assert keys(effects) == ["next"]
