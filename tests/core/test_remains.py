"""What is gone takes no memory, without any help of the garbage collector."""

import gc
from collections import Counter
from collections.abc import Iterator

import pytest

from licorne_core.apps.application import Application
from licorne_core.apps.groups import AskGroup
from licorne_core.apps.requests import Request
from licorne_core.asks import Allocation, Ask
from licorne_core.commands import Command, RemoveRm, Tick
from licorne_core.ids import RmId
from licorne_core.nodes.node import Node
from licorne_core.remains import MOST
from support.builders import RM, app, apps, ask, asks, config, node, nodes, register, reload
from support.driver import Driver

KINDS = (Application, AskGroup, Request, Ask, Allocation, Node)
LEAF = config("[{name: a}]")
MANY = MOST + MOST // 2


@pytest.fixture(autouse=True)
def collector_off() -> Iterator[None]:
    """Nothing is freed but what nobody knows any more."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def alive() -> dict[str, int]:
    """How many things of the core there are, by kind."""
    kinds = Counter(type(thing) for thing in gc.get_objects())
    return {kind.__name__: kinds[kind] for kind in KINDS if kinds[kind]}


def full(count: int = 100, rm: str = RM) -> list[Command]:
    """An RM with so many asks, of which half run, with a reservation for one that fits nowhere."""
    wanted = [ask("job", f"k{number}", vcore=1) for number in range(count)]
    return [
        register(LEAF, rm=rm),
        nodes(node("n1", vcore=count // 2), node("n2", vcore=1), rm=rm),
        apps(app("job", "root.a"), app("idle", "root.a"), rm=rm),
        asks(*wanted, ask("job", "large", vcore=count // 2), rm=rm),
    ]


@pytest.mark.parametrize("again", [False, True])
def test_what_an_rm_had_is_gone_with_it(again: bool) -> None:
    """An RM that leaves, or registers anew, leaves nothing; another one's things stay."""
    driver = Driver(sweep=1000)
    driver.do(*full(10, rm="other"))
    before = alive()
    driver.do(*full())
    driver.wait(3.0)
    assert alive() != before
    driver.do(register(LEAF) if again else RemoveRm(rm_id=RmId(RM)))
    assert alive() == before


def test_very_many_things_go_in_slices() -> None:
    """A turn lets some of them go. The core wants the next turn at once until all are gone."""
    driver = Driver(sweep=1000)
    driver.do(*full(MANY))
    driver.send(RemoveRm(rm_id=RmId(RM)))
    left = []
    while driver.scheduler.next_deadline() is not None:
        driver.send(Tick())
        left.append(alive().get("Request", 0))
    assert left == [MANY + 1 - MOST, 0]


def test_a_partition_that_left_the_configuration_leaves_nothing() -> None:
    """What was in it is released, and then gone."""
    driver = Driver(sweep=1000)
    both = LEAF + config("[{name: a}]", name="gpu").removeprefix("partitions:\n")
    driver.do(register(both))
    before = alive()
    driver.do(nodes(node("g", partition="gpu", vcore=9)))
    driver.do(apps(app("job", "root.a", partition="gpu")))
    driver.do(asks(*(ask("job", f"k{i}", partition="gpu", vcore=1) for i in range(12))))
    driver.send(reload(LEAF))
    driver.run()
    assert alive() == before
