"""Removed objects are freed without the garbage collector."""

import gc
from collections import Counter

import pytest

from licorne_core.messages.commands import Command, RemoveRm, Tick
from licorne_core.model.apps.application import IDLE_GROUPS, Application
from licorne_core.model.apps.groups import AskGroup
from licorne_core.model.apps.requests import Request
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.queue import Queue
from licorne_core.partitions.partition import Partition
from licorne_core.partitions.registry import MOST
from licorne_core.scheduler import Scheduler
from licorne_core.scheduling.cycle import Cycle
from licorne_core.scheduling.waiting.supply import Supply
from licorne_core.values.asks import Allocation, Ask
from licorne_core.values.ids import RmId
from support.core.builders import RM, app, apps, ask, asks, config, node, nodes, register, reload
from support.core.driver import Driver

KINDS = (Application, AskGroup, Request, Ask, Allocation, Node, Partition, Queue, Cycle, Supply)
LEAF = config("[{name: a}]")
BOTH = LEAF + config("[{name: a}]", name="gpu").removeprefix("partitions:\n")
MANY = MOST + MOST // 2


pytestmark = pytest.mark.usefixtures("collector_off")


class Core:
    """A scheduler with a clock, whose effects are dropped."""

    def __init__(self) -> None:
        """Start without RMs."""
        self.scheduler = Scheduler()
        self.now = 1_000_000.0

    def do(self, *commands: Command) -> None:
        """Process commands, and all work that becomes due."""
        for command in commands:
            self.scheduler.handle(command, self.now)
            while self.is_due():
                self.scheduler.handle(Tick(), self.now)

    def is_due(self) -> bool:
        """Whether the core requests a turn now."""
        deadline = self.scheduler.next_deadline()
        return deadline is not None and deadline <= self.now


def alive() -> Counter[str]:
    """The number of live objects of the core, by class; other tests of the process may have left some."""
    kinds = Counter(type(thing) for thing in gc.get_objects())
    return Counter({kind.__name__: kinds[kind] for kind in KINDS if kinds[kind]})


def fill(core: Core, count: int = 100, rm: str = RM, partition: str = "") -> None:
    """Submit this number of asks, about half of which are placed, and an ask that is too large."""
    wanted = [ask("job", f"k{n}", partition=partition, vcore=1 + n % 3) for n in range(count)]
    large = ask("job", "large", partition=partition, vcore=count)
    core.do(
        nodes(node("n1", partition=partition, vcore=count), rm=rm),
        nodes(node("n2", partition=partition, vcore=1), rm=rm),
        apps(app("job", "root.a", partition=partition), rm=rm),
        apps(app("idle", "root.a", partition=partition), rm=rm),
        asks(*wanted, large, rm=rm),
    )
    core.now += 3.0
    core.do()


@pytest.mark.parametrize("again", [False, True])
def test_the_objects_of_an_rm_are_freed_with_it(again: bool) -> None:
    """After an RM leaves or registers again none of its former objects is alive; other RMs keep theirs."""
    core = Core()
    core.do(register(LEAF, rm="other"))
    fill(core, 10, rm="other")
    before = alive()
    core.do(register(LEAF))
    registered = alive()
    fill(core)
    core.do(register(LEAF) if again else RemoveRm(rm_id=RmId(RM)))
    assert alive() == (registered if again else before)


def test_many_objects_are_freed_in_several_turns() -> None:
    """A turn frees some of the removed objects, and the core requests turns until all are freed."""
    before = alive()["Request"]
    core = Core()
    core.do(register(LEAF))
    fill(core, MANY)
    core.scheduler.handle(RemoveRm(rm_id=RmId(RM)), core.now)
    left = []
    while core.is_due():
        core.scheduler.handle(Tick(), core.now)
        left.append(alive()["Request"] - before)
    assert MANY - MOST <= left[0] < MANY
    assert left[-1] == 0


def test_the_foreign_allocations_of_a_node_are_freed_in_several_turns() -> None:
    """The foreign allocations of a removed node are freed over several turns, a bounded number in each."""
    before = alive()["Allocation"]
    core = Core()
    core.do(register(LEAF), nodes(node("n1", vcore=MANY)))
    foreign = {"foreign": "true"}
    core.do(asks(*[ask("", f"f{n}", on_node="n1", tags=foreign, vcore=1) for n in range(MANY)]))
    core.scheduler.handle(RemoveRm(rm_id=RmId(RM)), core.now)
    left = []
    while core.is_due():
        core.scheduler.handle(Tick(), core.now)
        left.append(alive()["Allocation"] - before)
    assert MANY - MOST <= left[0] < MANY
    assert left[-1] == 0


def test_many_queues_are_freed_in_several_turns() -> None:
    """A turn frees a bounded number of queues, even if they are empty."""
    queues = ", ".join(f"{{name: q{number}}}" for number in range(MANY))
    before = alive()["Queue"]
    driver = Driver()
    driver.do(register(config(f"[{queues}]")))
    driver.scheduler.handle(RemoveRm(rm_id=RmId(RM)), driver.now)
    left = []
    while driver.scheduler.next_deadline() is not None:
        driver.scheduler.handle(Tick(), driver.now)
        left.append(alive()["Queue"] - before)
    assert len(left) == 1 + MANY // MOST
    assert MANY - MOST <= left[0] < MANY
    assert left[-1] == 0


def test_a_removed_partition_leaves_no_objects() -> None:
    """After the removal of a partition by a reload none of its objects is alive."""
    core = Core()
    core.do(register(LEAF))
    before = alive()
    core.do(reload(BOTH))
    fill(core, partition="gpu")
    core.do(reload(LEAF))
    assert alive() == before


def test_a_cancelled_placeholder_is_freed_with_its_rm() -> None:
    """A placeholder whose stop is unconfirmed and whose task group was dropped is freed with its RM."""
    core = Core()
    before = alive()
    core.do(register(LEAF), nodes(node("n1", vcore=10)), apps(app("job", "root.a", gang={})))
    core.do(asks(*(ask("job", f"w{n}", vcore=20 + n) for n in range(IDLE_GROUPS + 1))))
    core.do(asks(ask("job", "p1", vcore=1, group="g", placeholder=True)))
    core.do(asks(ask("job", "k1", vcore=2, group="g")))
    [partition] = core.scheduler.partitions.values()
    [job] = partition.applications.values()
    assert job.gang.groups["g"].cancelled
    del partition, job
    core.do(RemoveRm(rm_id=RmId(RM)))
    assert alive() == before
