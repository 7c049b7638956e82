"""The worlds of `licorne bench growth`, at a tiny size: the growing objects exist, and all is placed."""

from collections.abc import Callable, Iterable
from typing import TypeVar

import pytest

from licorne_core.values.asks import Ask, AskClass
from licorne_core.values.ids import RmId
from licorne_tools.bench.driver import BenchError
from licorne_tools.bench.growth import of_cluster, of_queues
from licorne_tools.bench.growth.catalogue import DIMENSIONS
from licorne_tools.bench.growth.measure import built
from licorne_tools.bench.growth.world import CLASSES, World, application, ask, leaf, place
from licorne_tools.bench.workload import config
from support.core.reports import applications_in
from support.core.steps import last, listed

SIZE, WORK = 3, 30
PARTITION = "[bench]default"
T = TypeVar("T")


def played(build: Callable[[int, int], World], act: Callable[[World], None] = place) -> World:
    """The world of this size after all that is measured."""
    world = build(SIZE, WORK)
    world.begin()
    act(world)
    return world


def of_placed(world: World, what: Callable[[Ask], T]) -> set[T]:
    """Something of each ask that was placed."""
    return {what(allocation.ask) for allocation in world.placed}


def queues(world: World) -> set[str]:
    """The paths of the leaves in which something was placed."""
    views = world.scheduler.views
    found = applications_in(views, views.resolve(PARTITION))
    placed = of_placed(world, lambda each: each.app_id)
    return {app.queue for app in found if app.app_id in placed}


def names(world: World, kind: str) -> list[str]:
    """The users or groups that have something."""
    views = world.scheduler.views
    return list(filter(None, views.usage_names_in_order(views.resolve(PARTITION), kind)))


def reserved(world: World) -> int:
    """The number of reserved nodes."""
    views = world.scheduler.views
    found: Iterable[object] = listed(views.reservations(views.resolve(PARTITION)))
    return len(list(found))


def waiting(world: World) -> int:
    """The number of asks that wait for nodes."""
    views = world.scheduler.views
    return sum(app.pending_count for app in applications_in(views, views.resolve(PARTITION)))


@pytest.mark.parametrize("name", DIMENSIONS)
def test_every_dimension_places_what_it_says(name: str) -> None:
    """A round ends with all allocations made, of which each was measured, as was each ask."""
    dimension = DIMENSIONS[name]
    cost = dimension.measure(SIZE, WORK)
    assert cost.allocations > 0
    assert cost.deciding > 0.0
    assert (cost.asks > 0) == (cost.taking > 0.0)


@pytest.mark.parametrize("name", DIMENSIONS)
def test_sizes_rise(name: str) -> None:
    """Each size is larger than the one before."""
    sizes = DIMENSIONS[name].sizes
    assert list(sizes) == sorted(set(sizes))


def test_asks_of_one_application() -> None:
    """As many asks as the size says."""
    world = played(of_queues.asks)
    assert len(world.placed) == SIZE
    assert of_placed(world, lambda each: each.app_id) == {"app-000000"}


@pytest.mark.parametrize("sort", ["fifo", "fair"])
def test_applications_in_one_leaf(sort: str) -> None:
    """As many applications as the size says, which share the asks."""
    world = played(of_queues.applications(sort))
    assert len(world.placed) == WORK
    assert len(of_placed(world, lambda each: each.app_id)) == SIZE
    assert queues(world) == {"root.leaf"}


@pytest.mark.parametrize(
    ("build", "parent"),
    [
        (of_queues.flat, "root"),
        (of_queues.dynamic, "root.dynamic"),
        (of_queues.namespaces, "root"),
    ],
)
def test_leaves_beside_one_another(build: Callable[[int, int], World], parent: str) -> None:
    """As many leaves as the size says, all below one queue."""
    found = queues(played(build))
    assert len(found) == SIZE
    assert {path.rpartition(".")[0] for path in found} == {parent}


def test_namespaces_have_a_quota() -> None:
    """The tags of the applications have given their queues a maximum."""
    world = played(of_queues.namespaces)
    views = world.scheduler.views
    for path in queues(world):
        assert views.queue(views.resolve(PARTITION), path).max


@pytest.mark.parametrize(("build", "leaves"), [(of_queues.chain, 1), (of_queues.tree, 2**SIZE)])
def test_levels_of_queues(build: Callable[[int, int], World], leaves: int) -> None:
    """Each leaf is as many levels below root as the size says."""
    found = queues(played(build))
    assert len(found) == leaves
    assert {path.count(".") for path in found} == {SIZE}


@pytest.mark.parametrize(("build", "kind"), [(of_queues.users, "user"), (of_queues.groups, "group")])
def test_users_and_groups(build: Callable[[int, int], World], kind: str) -> None:
    """As many of them as the size says have something, and their limits count it."""
    world = played(build)
    found = names(world, kind)
    assert len(found) == SIZE
    views = world.scheduler.views
    usages = [last(views.usage(views.resolve(PARTITION), kind, name)) for name in found]
    assert all(usage.queues.max for usage in usages)


def test_types_of_resources() -> None:
    """Each ask wants as many types as the size says."""
    world = played(of_queues.resource_types)
    assert of_placed(world, lambda each: len(each.ask_class.resources)) == {SIZE}


def test_distinct_sizes() -> None:
    """As many classes of asks as the size says."""
    assert len(of_placed(played(of_queues.distinct_sizes), lambda each: each.ask_class)) == SIZE


def test_priorities() -> None:
    """As many priorities as the size says, the highest of which comes first."""
    placed = played(of_queues.priorities).placed
    ranks = [allocation.ask.priority for allocation in placed]
    assert ranks == sorted(ranks, reverse=True)
    assert len(set(ranks)) == SIZE


def test_nodes() -> None:
    """As many nodes as the size says, and something is placed on each."""
    placed = played(of_cluster.nodes).placed
    assert len({allocation.node_id for allocation in placed}) == SIZE


def test_each_release_lets_one_ask_in() -> None:
    """Nothing is placed before a release; then as much as fits."""
    world = of_cluster.waiting_sizes(SIZE, WORK)
    world.begin()
    assert not world.placed
    of_cluster.release_each(world)
    assert len(world.placed) == WORK
    assert len(of_placed(world, lambda each: each.ask_class)) == SIZE


def test_what_fits_nowhere_comes_first_and_is_not_placed() -> None:
    """As many classes as the size says wait all the time, before all others."""
    world = played(of_cluster.untried)
    assert len(world.placed) == WORK
    ahead = world.waiting[:SIZE]
    assert len({each.ask_class for each in ahead}) == SIZE
    assert not of_placed(world, lambda each: each.key) & {each.key for each in ahead}
    assert min(each.priority for each in ahead) > max(of_placed(world, lambda each: each.priority))


def test_what_stands_ahead_was_sent_before() -> None:
    """It waits when the measurement begins, and still does after it."""
    world = of_cluster.unplaceable(SIZE, WORK)
    world.begin()
    before = waiting(world)
    place(world)
    assert (before, waiting(world), len(world.placed)) == (SIZE, SIZE, WORK)


def test_each_ask_that_fits_nowhere_is_reported() -> None:
    """Its deadline is part of the measurement, and nothing else is counted."""
    cost = of_cluster.reports(SIZE, WORK)
    assert (cost.asks, cost.allocations) == (SIZE, SIZE)


def test_reservations_stay() -> None:
    """As many nodes as the size says are reserved before and after the others are placed."""
    world = of_cluster.reservations(SIZE, WORK)
    assert reserved(world) == SIZE
    world.begin()
    place(world)
    assert reserved(world) == SIZE
    assert len(world.placed) == WORK


def test_the_rm_is_asked_about_each_class() -> None:
    """As many predicate classes as the size says."""
    world = played(of_cluster.predicate_classes)
    assert len(of_placed(world, lambda each: each.ask_class.predicate)) == SIZE


@pytest.mark.parametrize(
    ("build", "gangs", "members"),
    [(of_cluster.gangs, SIZE, of_cluster.MEMBERS), (of_cluster.members, of_cluster.MEMBERS, SIZE)],
)
def test_gangs_come_together(build: Callable[[int, int], World], gangs: int, members: int) -> None:
    """Each member has its placeholder replaced."""
    placed = played(build, of_cluster.come_together).placed
    assert len(placed) == 2 * gangs * members
    real = [each for each in placed if not each.ask.placeholder]
    assert len(real) == gangs * members
    assert all(each.placeholder_used for each in real)


def test_idle_rms_are_there() -> None:
    """As many RMs as the size says have nodes, and nothing else."""
    world = played(of_cluster.idle_rms)
    idle = [rm for rm in world.scheduler.views.rms() if rm.rm_id != world.rm_id]
    assert len(idle) == SIZE
    for rm in idle:
        [partition] = world.scheduler.views.partitions(RmId(rm.rm_id))
        assert partition.nodes == of_cluster.FEW_NODES
        assert not partition.allocations


def test_a_world_that_places_less_than_it_should_is_no_measurement() -> None:
    """The number of allocations is wrong, and the text says so."""

    def too_large(_: int, __: int) -> World:
        world = World(config([leaf()]))
        world.add_nodes(1, {"vcore": 1})
        world.add_applications([application("app")])
        world.waiting = [ask("app", "large", AskClass.of({"vcore": 2}))]
        return world

    with pytest.raises(BenchError, match="0 of 1 allocations were made"):
        built(too_large)(SIZE, WORK)


def test_what_the_core_refuses_is_no_measurement() -> None:
    """An ask of an unknown application is not dropped silently."""
    world = World(config([leaf()]))
    world.waiting = [ask("stranger", "one", CLASSES[0])]
    with pytest.raises(BenchError, match=r"ask stranger-one: .*stranger"):
        place(world)
