"""Elastic gangs under random pressure have their minimum and whole steps, or nothing."""

from collections import Counter
from random import Random

import pytest

from licorne_core.extensions.elastic.sizes import Elastic
from licorne_core.messages.effects import Effect
from licorne_core.model.apps.members import units_of
from licorne_core.values.ids import AppId, PartitionName
from support.core.builders import app, apps, ask, asks, config, node, nodes, register, release, releases
from support.core.driver import Driver, released

QUEUES = """[
  {name: a, resources: {guaranteed: {memory: 8}}, properties: {preemption.delay: 1s}},
  {name: b}, {name: c, resources: {guaranteed: {memory: 2}}}]"""


class World:
    """Nodes, some elastic gangs, and claims of a queue with a guarantee that come and go."""

    def __init__(self, seed: int) -> None:
        """Draw nodes and gangs; all of a gang is asked for at once."""
        self.rng = rng = Random(seed)
        self.driver = Driver()
        self.driver.do(register(config(QUEUES)), apps(app("claims", "root.a")))
        self.sizes = {f"n{number}": rng.randint(1, 4) for number in range(rng.randint(2, 5))}
        self.driver.do(nodes(*(node(name, memory=size) for name, size in self.sizes.items())))
        self.gangs: dict[str, tuple[int, int, int]] = {}
        self.asked = 0
        self.claims: list[str] = []
        for number in range(rng.randint(1, 3)):
            least, step = rng.randint(1, 4), rng.randint(1, 3)
            terms = (least, least + step * rng.randint(0, 3), step)
            names = ("licorne/gang-min", "licorne/gang-max", "licorne/gang-step")
            tags = dict(zip(names, map(str, terms), strict=True))
            self.gangs[f"g{number}"] = terms
            self.driver.do(apps(app(f"g{number}", rng.choice(["root.b", "root.b", "root.c"]), tags=tags)))
            self.ask_for(f"g{number}", terms[1])

    def ask_for(self, name: str, count: int) -> None:
        """More members are asked for."""
        keys = [f"{name}-{number}" for number in range(self.asked, self.asked + count)]
        self.asked += count
        self.check(self.driver.do(asks(*(ask(name, k, group="w", policy="s", memory=1) for k in keys))))

    def step(self) -> None:
        """A claim comes or goes, or time passes."""
        rng = self.rng
        if self.claims and rng.random() < 0.4:
            key = self.claims.pop(rng.randrange(len(self.claims)))
            self.check(self.driver.do(releases(release("claims", key))))
        elif rng.random() < 0.7:
            self.asked += 1
            self.claims.append(f"k{self.asked}")
            size = rng.randint(1, 3)
            self.check(self.driver.do(asks(ask("claims", self.claims[-1], policy="o", memory=size))))
        self.check(self.driver.wait(rng.choice([1.0, 5.0, 20.0])))

    def check(self, effects: list[Effect]) -> None:
        """All gangs are whole; the RM stops what it is told to, and asks for as many again."""
        self.whole()
        gone = Counter[str]()
        for app_id, key, *_ in released(effects):
            gone[app_id] += 1
            self.check(self.driver.do(releases(release(app_id, key))))
        for name, count in gone.items():
            self.ask_for(name, count)

    def whole(self) -> None:
        """Each gang has its minimum and whole steps, or nobody."""
        partition = self.driver.scheduler.partitions[PartitionName("[rm1]default")]
        for name, (least, most, step) in self.gangs.items():
            gang = partition.applications.get(AppId(name))
            size = 0 if gang is None else sum(len(unit) for unit in units_of(gang))
            assert size == 0 or (least <= size <= most and not (size - least) % step), (name, size)


@pytest.mark.parametrize("seed", range(10))
def test_gangs_are_whole_under_random_pressure(seed: int) -> None:
    """Whatever claims come and go, no gang ever has a part of a step, or of its minimum."""
    world = World(seed)
    for _ in range(12):
        world.step()


@pytest.mark.parametrize("seed", range(12))
def test_a_shrink_is_no_more_than_the_ask_lacks(seed: int) -> None:
    """One ask has at most one step stopped for each member that its node lacks; the newest goes first."""
    rng = Random(seed)
    step, size, lack = rng.randint(1, 3), rng.randint(3, 5), rng.randint(1, 3)
    driver = Driver()
    driver.do(register(config(QUEUES)), apps(app("claims", "root.a")))
    terms = {"licorne/gang-min": "2", "licorne/gang-step": str(step)}
    driver.do(
        nodes(*(node(f"n{number}", memory=size) for number in range(3))), apps(app("g", "root.b", tags=terms))
    )
    driver.do(asks(*(ask("g", f"m{n:02}", group="w", policy="s", memory=1) for n in range(3 * size))))
    gang = driver.scheduler.partitions[PartitionName("[rm1]default")].applications[AppId("g")]
    assert isinstance(gang.gang.units, Elastic)
    before = gang.gang.units.size
    driver.do(asks(ask("claims", "k", policy="o", memory=lack)))
    gone = [key for _, key, *_ in released(driver.wait(5))]
    free = 3 * size - before
    assert len(gone) <= lack * step
    assert (len(gone) + free >= lack) or not gone
    if lack == 1 and gone:
        newest = [f"m{n:02}" for n in range(before - step, before)]
        assert sorted(gone) == newest
