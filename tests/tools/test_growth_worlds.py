"""The worlds of `licorne bench growth` at a tiny size have the growing objects, and all asks are placed."""

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
    """The world of this size, after all measured commands."""
    world = build(SIZE, WORK)
    world.begin()
    act(world)
    return world


def of_placed(world: World, what: Callable[[Ask], T]) -> set[T]:
    """A property of each placed ask."""
    return {what(allocation.ask) for allocation in world.placed}


def queues(world: World) -> set[str]:
    """The paths of the leaves in which an ask was placed."""
    views = world.scheduler.views
    found = applications_in(views, views.resolve(PARTITION))
    placed = of_placed(world, lambda each: each.app_id)
    return {app.queue for app in found if app.app_id in placed}


def names(world: World, kind: str) -> list[str]:
    """The names of the users or groups with usage."""
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
def test_every_dimension_places_its_asks(name: str) -> None:
    """In a round all allocations are made; each of them was measured, and so was each ask."""
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


def test_the_dimension_asks() -> None:
    """The application has as many asks as the size."""
    world = played(of_queues.asks)
    assert len(world.placed) == SIZE
    assert of_placed(world, lambda each: each.app_id) == {"app-000000"}


@pytest.mark.parametrize("sort", ["fifo", "fair"])
def test_the_dimension_applications(sort: str) -> None:
    """The leaf has as many applications as the size, which share the asks."""
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
def test_the_dimension_leaves(build: Callable[[int, int], World], parent: str) -> None:
    """There are as many leaves as the size, all below one queue."""
    found = queues(played(build))
    assert len(found) == SIZE
    assert {path.rpartition(".")[0] for path in found} == {parent}


def test_the_dimension_namespaces() -> None:
    """The tags of the applications set a maximum of each of their queues."""
    world = played(of_queues.namespaces)
    views = world.scheduler.views
    for path in queues(world):
        assert views.queue(views.resolve(PARTITION), path).max


@pytest.mark.parametrize(("build", "leaves"), [(of_queues.chain, 1), (of_queues.tree, 2**SIZE)])
def test_the_dimension_levels(build: Callable[[int, int], World], leaves: int) -> None:
    """Each leaf is as many levels below root as the size."""
    found = queues(played(build))
    assert len(found) == leaves
    assert {path.count(".") for path in found} == {SIZE}


@pytest.mark.parametrize(("build", "kind"), [(of_queues.users, "user"), (of_queues.groups, "group")])
def test_the_dimensions_users_and_groups(build: Callable[[int, int], World], kind: str) -> None:
    """As many users or groups as the size have usage, and their limits count it."""
    world = played(build)
    found = names(world, kind)
    assert len(found) == SIZE
    views = world.scheduler.views
    usages = [last(views.usage(views.resolve(PARTITION), kind, name)) for name in found]
    assert all(usage.queues.max for usage in usages)


def test_the_dimension_resource_types() -> None:
    """Each ask requests as many types as the size."""
    world = played(of_queues.resource_types)
    assert of_placed(world, lambda each: len(each.ask_class.resources)) == {SIZE}


def test_the_dimension_distinct_sizes() -> None:
    """There are as many classes of asks as the size."""
    assert len(of_placed(played(of_queues.distinct_sizes), lambda each: each.ask_class)) == SIZE


def test_the_dimension_priorities() -> None:
    """There are as many priorities as the size, and the highest is tried first."""
    placed = played(of_queues.priorities).placed
    ranks = [allocation.ask.priority for allocation in placed]
    assert ranks == sorted(ranks, reverse=True)
    assert len(set(ranks)) == SIZE


def test_the_dimension_nodes() -> None:
    """There are as many nodes as the size, and an ask is placed on each."""
    placed = played(of_cluster.nodes).placed
    assert len({allocation.node_id for allocation in placed}) == SIZE


def test_each_release_places_one_ask() -> None:
    """Before a release nothing is placed, and after it as many asks as fit."""
    world = of_cluster.waiting_sizes(SIZE, WORK)
    world.begin()
    assert not world.placed
    of_cluster.release_each(world)
    assert len(world.placed) == WORK
    assert len(of_placed(world, lambda each: each.ask_class)) == SIZE


def test_asks_that_fit_nowhere_wait_before_others() -> None:
    """As many classes as the size wait all the time, before all others."""
    world = played(of_cluster.untried)
    assert len(world.placed) == WORK
    ahead = world.waiting[:SIZE]
    assert len({each.ask_class for each in ahead}) == SIZE
    assert not of_placed(world, lambda each: each.key) & {each.key for each in ahead}
    assert min(each.priority for each in ahead) > max(of_placed(world, lambda each: each.priority))


def test_waiting_asks_are_submitted_before_the_measurement() -> None:
    """The asks wait when the measurement begins, and still wait after it."""
    world = of_cluster.unplaceable(SIZE, WORK)
    world.begin()
    before = waiting(world)
    place(world)
    assert (before, waiting(world), len(world.placed)) == (SIZE, SIZE, WORK)


def test_each_ask_that_fits_nowhere_is_reported() -> None:
    """The deadline of the report is part of the measurement, and nothing else is counted."""
    cost = of_cluster.reports(SIZE, WORK)
    assert (cost.asks, cost.allocations) == (SIZE, SIZE)


def test_the_dimension_reservations() -> None:
    """As many nodes as the size are reserved before and after the others are placed."""
    world = of_cluster.reservations(SIZE, WORK)
    assert reserved(world) == SIZE
    world.begin()
    place(world)
    assert reserved(world) == SIZE
    assert len(world.placed) == WORK


def test_the_dimension_predicate_classes() -> None:
    """The RM is asked about as many predicate classes as the size."""
    world = played(of_cluster.predicate_classes)
    assert len(of_placed(world, lambda each: each.ask_class.predicate)) == SIZE


@pytest.mark.parametrize(
    ("build", "gangs", "members"),
    [(of_cluster.gangs, SIZE, of_cluster.MEMBERS), (of_cluster.members, of_cluster.MEMBERS, SIZE)],
)
def test_the_dimension_gangs(build: Callable[[int, int], World], gangs: int, members: int) -> None:
    """Each member of a gang has its placeholder replaced."""
    placed = played(build, of_cluster.come_together).placed
    assert len(placed) == 2 * gangs * members
    real = [each for each in placed if not each.ask.placeholder]
    assert len(real) == gangs * members
    assert all(each.placeholder_used for each in real)


def test_the_dimension_idle_rms() -> None:
    """As many RMs as the size have nodes, and nothing else."""
    world = played(of_cluster.idle_rms)
    idle = [rm for rm in world.scheduler.views.rms() if rm.rm_id != world.rm_id]
    assert len(idle) == SIZE
    for rm in idle:
        [partition] = world.scheduler.views.partitions(RmId(rm.rm_id))
        assert partition.nodes == of_cluster.FEW_NODES
        assert not partition.allocations


def test_a_world_with_missing_allocations_fails() -> None:
    """The error says that the number of allocations is wrong."""

    def too_large(_: int, __: int) -> World:
        world = World(config([leaf()]))
        world.add_nodes(1, {"vcore": 1})
        world.add_applications([application("app")])
        world.waiting = [ask("app", "large", AskClass.of({"vcore": 2}))]
        return world

    with pytest.raises(BenchError, match="0 of 1 allocations were made"):
        built(too_large)(SIZE, WORK)


def test_a_rejected_ask_fails_the_measurement() -> None:
    """An ask of an unknown application is not dropped silently."""
    world = World(config([leaf()]))
    world.waiting = [ask("stranger", "one", CLASSES[0])]
    with pytest.raises(BenchError, match=r"ask stranger-one: .*stranger"):
        place(world)
