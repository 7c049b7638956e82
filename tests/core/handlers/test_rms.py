"""Several RMs in one core register, leave and replay independently."""

import pytest

from licorne_core.messages.commands import Hold, RemoveRm, SetHold, Tick
from licorne_core.messages.effects import AllocationsMade, NotRegistered
from licorne_core.values.errors import NotFound
from licorne_core.values.ids import PartitionName, RmId
from support.core.builders import app, apps, ask, asks, config, node, nodes, register, reload
from support.core.driver import Driver, keys, placed

ONE = PartitionName("[one]default")
LEAF = config("[{name: a, resources: {max: {memory: 4}}}]")


@pytest.fixture
def driver() -> Driver:
    """RMs `one` and `two`, each with a node, an application and an allocation under the same names."""
    driver = Driver()
    for rm in ("one", "two"):
        driver.do(register(LEAF, rm=rm), nodes(node("n", memory=8), rm=rm))
        driver.do(apps(app("app", "root.a"), rm=rm), asks(ask("app", "k", memory=1), rm=rm))
    return driver


@pytest.mark.row(7)
def test_the_removal_of_an_rm_does_not_affect_others(driver: Driver) -> None:
    """The partitions of a removed RM are removed, its messages are refused, and the other RM continues."""
    driver.do(RemoveRm(rm_id=RmId("one")))
    (answer,) = driver.do(nodes(node("n2", memory=1), rm="one"))
    assert answer == NotRegistered(
        rm_id=RmId("one"), reason='received NodeRequest, but RmID="one" not registered'
    )
    with pytest.raises(NotFound):
        driver.views.queue(ONE, "root")
    assert keys(driver.do(asks(ask("app", "next", memory=1), rm="two"))) == ["next"]


def test_rms_take_turns(driver: Driver) -> None:
    """The ask of an RM is served after at most one turn of another RM with very many asks."""
    for rm in ("one", "two"):
        driver.do(reload(config("[{name: a}]"), rm=rm), nodes(node("big", memory=10_000), rm=rm))
    driver.send(asks(*(ask("app", f"flood{i}", memory=1) for i in range(5000)), rm="one"))
    driver.send(Tick(decisions=100))
    driver.send(asks(ask("app", "lone", memory=1), rm="two"))
    turns = [driver.send(Tick(decisions=100)) for _ in range(2)]
    served = [effect.rm_id for turn in turns for effect in turn if isinstance(effect, AllocationsMade)]
    assert sorted(served) == ["one", "two"]


def test_a_hold_stops_its_own_rm_only(driver: Driver) -> None:
    """During a hold the RM's asks wait, and those of the other RM are served."""
    driver.do(SetHold(rm_id=RmId("one"), hold=Hold.OUTBOX_FULL, on=True))
    waiting = driver.do(*(asks(ask("app", "next", memory=1), rm=rm) for rm in ("one", "two")))
    assert [effect.rm_id for effect in waiting if isinstance(effect, AllocationsMade)] == ["two"]
    assert driver.scheduler.next_deadline() is None
    freed = driver.do(SetHold(rm_id=RmId("one"), hold=Hold.OUTBOX_FULL, on=False))
    assert placed(freed) == [("app", "next", "n")]
