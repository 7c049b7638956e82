"""The core does what a plan on a copy of it has predicted (spec § 13).

Random worlds are played until the core is idle, and a plan is computed on a copy. The planned steps are then
carried out, with RMs that confirm all stops, and the result is compared with the plan.
"""

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import replace
from random import Random
from typing import NamedTuple

import pytest

from licorne_core.messages.commands import NewApplication, UpdateConfiguration
from licorne_core.messages.effects import (
    AllocationsMade,
    AllocationsReleased,
    ApplicationsAnswered,
    ConfigurationRefused,
    Effect,
)
from licorne_core.messages.plans import ConfigurationPlan, ConfigurationPlanRefused
from licorne_core.values.asks import Ask
from licorne_core.values.ids import AllocationKey, AppId, PartitionName, RmId
from licorne_core.views.queues import QueueUsage
from licorne_core.whatif.queues import MOST
from support.core.builders import apps, asks
from support.core.contents import digest_of
from support.core.driver import Driver, refused
from support.core.reports import queues_in
from support.core.steps import last
from support.seeds import lively
from support.worlds import World
from support.worlds.obeying import let_happen
from support.worlds.playing import Players
from support.worlds.rms import RmMaker

CLEANED = 21.0
"""Seconds after which the cleaner of queues has certainly run."""

Placement = tuple[str, str, str, str]
"""Partition, application, key and node."""


def played(world: World) -> Driver:
    """An idle core that has played the world."""
    players = Players(Driver(sweep=1_000))
    for step in world.steps:
        players.step(step)
    let_happen(players.driver)
    return players.driver


def waiting(driver: Driver, rm: str) -> set[tuple[str, str, str]]:
    """The partition, application and key of each waiting ask."""
    return {
        (partition.name, app.app_id, request.key)
        for partition in driver.scheduler.partitions.values()
        if partition.rm_id == rm
        for app in partition.applications.values()
        for request in app.pending()
    }


def made(effects: Iterable[Effect], rm: str) -> list[Placement]:
    """Allocations sent to one RM, with their nodes, in order."""
    return [
        (effect.partition, one.ask.app_id, one.key, one.node_id)
        for effect in effects
        if isinstance(effect, AllocationsMade) and effect.rm_id == rm
        for one in effect.allocations
    ]


def preempted(effects: Iterable[Effect], rm: str) -> list[tuple[str, str, str]]:
    """Preempted allocations of one RM, and its allocations of removed partitions, in order; no drained."""
    return [
        (effect.partition, one.app_id, one.key)
        for effect in effects
        if isinstance(effect, AllocationsReleased) and effect.rm_id == rm
        for one in effect.releases
        if (one.termination.name == "PREEMPTED_BY_SCHEDULER" and "to drain node" not in one.message)
        or one.message == "PartitionRemoved"
    ]


class Tree(NamedTuple):
    """The state of each queue by partition and path."""

    states: dict[tuple[str, str], str]

    @classmethod
    def of(cls, driver: Driver, rm: str) -> "Tree":
        """The present tree of all partitions of an RM."""
        found: dict[tuple[str, str], str] = {}
        for name in driver.views.partition_names(RmId(rm)):
            for queue in queues_in(driver.views, name):
                found[name, queue.path] = queue.state
        return cls(found)


def exceeded(driver: Driver, rm: str) -> set[tuple[str, str, str, str]]:
    """Partition, kind, name and queue of the limits that are exceeded, as the views report usage."""
    found = set()
    for partition in driver.views.partition_names(RmId(rm)):
        for kind in ("user", "group"):
            for name in filter(None, driver.views.usage_names_in_order(partition, kind)):
                inside: list[QueueUsage] = [last(driver.views.usage(partition, kind, name)).queues]
                while inside:
                    one = inside.pop()
                    inside += one.children
                    beyond = any(one.allocated.get(n, 0) > most for n, most in one.max.items())
                    if beyond or 0 < one.max_applications < len(one.applications):
                        found.add((str(partition), kind, name, str(one.path)))
    return found


@pytest.mark.pure
@pytest.mark.worlds(first=13_000_000, one_in=2)
@pytest.mark.row(120)
def test_plans_of_configurations_equal_the_real_update(part: range) -> None:
    """The plan of an update names the same asks, nodes, victims, queues and limits as the real update."""
    things = 0
    for seed in part:
        world = World(seed)
        maker = world.rng.choice(world.rms)
        driver = played(world)
        command = maker.settings.reload()
        assert isinstance(command, UpdateConfiguration)
        if maker.rm not in {rm.rm_id for rm in driver.views.rms()}:
            continue
        things += check_configuration(driver, maker, command, f"world {seed}")
    assert things >= lively(len(part)), "hardly anything happened"


def check_configuration(driver: Driver, maker: RmMaker, command: UpdateConfiguration, world: str) -> int:
    """Plan an update, carry it out, and compare; return the number of compared objects."""
    rm, before = maker.rm, waiting(driver, maker.rm)
    trees = [Tree.of(driver, rm)]
    plan = deepcopy(driver.scheduler).plan_configuration(command, driver.now)
    first = driver.send(command)
    if isinstance(plan, ConfigurationPlanRefused):
        refusals = [effect for effect in first if isinstance(effect, ConfigurationRefused)]
        assert [effect.reason for effect in refusals] == [plan.reason], world
        return 0
    trees.append(Tree.of(driver, rm))
    limits = {(str(one.partition), one.kind, one.name, str(one.queue)) for one in plan.exceeded_limits}
    assert limits == (exceeded(driver, rm) if plan.changed else set()), world
    effects = [*first, *let_happen(driver, seconds=plan.horizon)]
    if not plan.changed:
        return 0
    assert plan.complete is (not plan.holds), world
    named = [(one.partition, one.app_id, one.key, one.node_id) for one in plan.placed]
    seen: set[tuple[str, str, str]] = set()
    expected = []
    for where in made(effects, rm):
        if where[:3] in before and where[:3] not in seen:
            seen.add(where[:3])
            expected.append(where)
    assert named == expected[:MOST], world
    victims = [(one.partition, one.app_id, one.key) for one in plan.victims]
    assert sorted(victims) == sorted(preempted(effects, rm)), world
    for ask in plan.blocked:
        if ask.code != "PARTITION_REMOVED":
            assert (ask.partition, ask.app_id, ask.key) in waiting(driver, rm), world
    return len(named) + len(victims) + len(limits) + check_queues(driver, rm, plan, trees, world)


def check_queues(driver: Driver, rm: str, plan: ConfigurationPlan, trees: list[Tree], world: str) -> int:
    """Check that the added, draining and removed queues are those of the plan."""
    before, after = (tree.states for tree in trees)
    changes = {(one.partition, one.path): one.change for one in plan.queues}
    added = {place for place, c in changes.items() if c == "added"}
    assert added == after.keys() - before.keys(), world
    fresh = {p for p in after if after[p] == "Draining" and before.get(p) not in (None, "Draining")}
    drains = {place for place, c in changes.items() if c == "draining"}
    goes = {place for place, c in changes.items() if c == "removed"}
    assert drains | goes == fresh | (before.keys() - after.keys()), world
    let_happen(driver, seconds=CLEANED)
    later = Tree.of(driver, rm).states
    assert not goes & later.keys(), world
    return len(changes)


NEW = AppId("what-if")
"""The application that a plan submits."""


def drawn(rng: Random, maker: RmMaker, driver: Driver) -> tuple[NewApplication, list[Ask]]:
    """A random application, sometimes a gang, and its asks, with keys that no other ask has."""
    new = replace(maker.new_apps(driver.now).new[0], app_id=NEW, placeholder_ask={})
    count = rng.choice([1, 4, 12])
    wanted = [maker.draw(new.partition, driver.now, NEW) for _ in range(count)]
    wanted = [replace(one, key=AllocationKey(f"w{i}")) for i, one in enumerate(wanted)]
    wanted = [replace(one, app_id=NEW, node_id=None, create_time=None) for one in wanted]
    if rng.random() < 0.3:
        shape = wanted[0].ask_class
        gang = [
            replace(wanted[0], key=AllocationKey(f"p{i}"), placeholder=True, task_group="g")
            for i in range(count)
        ]
        wanted = gang + [replace(one, ask_class=shape, task_group="g") for one in wanted]
        taken = {name: value * count for name, value in shape.resources.items() if value > 0}
        new = replace(new, placeholder_ask=taken)
    return new, wanted


@pytest.mark.pure
@pytest.mark.worlds(first=14_000_000, one_in=2)
@pytest.mark.row(120)
def test_plans_of_submissions_equal_the_real_submission(part: range) -> None:
    """The plan of a submission names the same placements and victims as the real submission."""
    things = 0
    for seed in part:
        rng = Random(seed)
        world = World(seed, preempting=rng.choice([None, 0.9]))
        maker = rng.choice(world.rms)
        driver = played(world)
        if maker.rm in {rm.rm_id for rm in driver.views.rms()}:
            let_happen(driver, *(maker.new_nodes() for _ in range(rng.choice([0, 1, 2]))))
            things += check_submission(driver, maker, rng, f"world {seed}")
    assert things >= lively(len(part)), "hardly anything was submitted"


def check_submission(driver: Driver, maker: RmMaker, rng: Random, world: str) -> int:
    """Plan a submission, carry it out, and compare; return the number of compared objects."""
    new, wanted = drawn(rng, maker, driver)
    rm_id, copy = RmId(maker.rm), deepcopy(driver.scheduler)
    plan = copy.plan_submission(rm_id, new, wanted, driver.now)
    first = driver.send(apps(new, rm=maker.rm))
    answers = [effect for effect in first if isinstance(effect, ApplicationsAnswered)]
    if not plan.accepted:
        assert [one.reason for one in answers[0].rejected] == [plan.rejection], world
        return 0
    assert [*answers[0].accepted] == [NEW], world
    submitted = asks(*wanted, rm=maker.rm)
    effects = [*first, *let_happen(driver, submitted, seconds=plan.horizon)]
    partition = driver.scheduler.partitions[PartitionName(plan.partition)]
    nodes = {key: node for name, app, key, node in made(effects, maker.rm) if app == NEW}
    assert {one.key: one.node_id for one in plan.asks if one.node_id} == nodes, world
    assert [one.key for one in plan.asks] == [one.key for one in wanted], world
    for one in plan.asks:
        if one.code == "REJECTED":
            assert {one.key: one.message}.items() <= refused(effects).items(), world
    victims = {(one.app_id, one.key) for one in plan.victims}
    records = [
        partition.ledger.find(AppId(app), AllocationKey(key)) for _, app, key in preempted(effects, maker.rm)
    ]
    caused = {(r.app_id, r.key) for r in records if r and r.beneficiary_app_id == NEW}
    assert victims == caused, world
    if NEW in partition.applications:
        assert partition.applications[NEW].queue_path == plan.queue, world
    return len(plan.asks) + len(victims)


@pytest.mark.pure
@pytest.mark.slow
def test_a_plan_does_not_change_the_copied_core() -> None:
    """A plan of either kind leaves all state of the live core unchanged."""
    for seed in range(20):
        world = World(seed)
        maker = world.rms[0]
        driver = played(world)
        if maker.rm not in {rm.rm_id for rm in driver.views.rms()}:
            continue
        before = digest_of(driver.scheduler)
        command = maker.settings.reload()
        assert isinstance(command, UpdateConfiguration)
        deepcopy(driver.scheduler).plan_configuration(command, driver.now)
        new, wanted = drawn(Random(seed), maker, driver)
        deepcopy(driver.scheduler).plan_submission(command.rm_id, new, wanted, driver.now)
        assert digest_of(driver.scheduler) == before, f"world {seed}"
