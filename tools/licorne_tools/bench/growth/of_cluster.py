"""Worlds in which the nodes grow, and what waits for them."""

from collections.abc import Iterable
from dataclasses import replace

from licorne_core.messages.commands import Command, ReleaseRequest, UpdateAllocations
from licorne_core.messages.effects import ContainerStatesChanged, Effect
from licorne_core.values.asks import Ask, AskClass
from licorne_tools.bench.driver import BenchError
from licorne_tools.bench.growth.world import (
    CAPACITY,
    Cost,
    World,
    application,
    ask,
    asks_of,
    config,
    leaf,
    numbered,
    running,
)
from licorne_tools.bench.workload import MI

ROOM = 100_000
"""Milli-cores of a node that is about to be full."""

HIGH = 10
"""The priority of those who come first."""

AHEAD = 10
"""Applications that the asks ahead are spread over."""

RELEASES = 100
OLD_ENOUGH = 5.0
"""Seconds after which an ask that fits nowhere has a node reserved (spec § 8.5), and some more."""


def nodes(size: int, work: int) -> World:
    """So many nodes, all of which have room."""
    world = World(config([leaf()]))
    world.add_nodes(size)
    world.waiting = asks_of(running(world, [application("app")]), work)
    return world


def waiting_sizes(size: int, work: int) -> World:
    """A full cluster, and asks in so many sizes each of which fits where something is released.

    `release_each` lets them in one by one.
    """
    count = min(RELEASES, work)
    world = World(config([leaf()]))
    # Half an ask's room is left, so that the nodes are in the way and not the maximum of root.
    world.add_nodes(count, {"vcore": ROOM * 3 // 2, "memory": ROOM * MI})
    world.add_applications([application("app")])
    world.take(asks_of(["app"], count, [AskClass.of({"vcore": ROOM, "memory": MI})]))
    world.settle()
    sizes = [AskClass.of({"vcore": ROOM - number, "memory": MI}) for number in range(size)]
    world.take(asks_of(["app"], max(size, count), sizes, key="waiting"))
    world.wanted = count
    return world


def release_each(world: World) -> None:
    """Release what fills the cluster one by one, and see each time what comes in."""
    for full in asks_of(["app"], world.wanted):
        one = ReleaseRequest(app_id=full.app_id, key=full.key)
        world.handle(UpdateAllocations(rm_id=world.rm_id, releases=[one]))
        world.settle()


def reports(size: int, work: int) -> Cost:
    """Asks of one size that fit nowhere, and the time at which the RM is told so of each.

    What is counted as made are the reports.
    """
    world = World(config([leaf()]))
    world.add_nodes()
    (app,) = running(world, [application("app")])
    world.begin()
    told = 0

    def hear(effect: Effect) -> Iterable[Command]:
        nonlocal told
        if isinstance(effect, ContainerStatesChanged):
            told += len(effect.states)
        return ()

    world.hear = hear
    world.take(asks_of([app], size, [AskClass.of({"vcore": 2 * CAPACITY["vcore"]})]))
    world.wait(OLD_ENOUGH)
    if told != size:
        raise BenchError(f"{told} of {size} asks were reported")
    return replace(world.cost(), allocations=told)


def unplaceable(size: int, work: int) -> World:
    """Asks that fit nowhere, each of another size, stand before all others.

    Half of them are in the application of those that fit, and half in applications before it.
    """
    world = World(config([leaf()]))
    world.add_nodes()
    *ahead, app = running(world, [application(name) for name in numbered("app", AHEAD + 1)])
    world.take(_too_large(ahead, app, size))
    world.waiting = asks_of([app], work)
    return world


def untried(size: int, work: int) -> World:
    """The same, and the asks that fit nowhere come together with the others."""
    world = World(config([leaf()]))
    world.add_nodes()
    *ahead, app = running(world, [application(name) for name in numbered("app", AHEAD + 1)])
    fit = asks_of([app], work)
    world.wanted = len(fit)
    world.waiting = [*_too_large(ahead, app, size), *fit]
    return world


def _too_large(ahead: list[str], app: str, count: int) -> list[Ask]:
    vcore = 2 * CAPACITY["vcore"]
    return [
        ask(
            app if number % 2 else ahead[number // 2 % len(ahead)],
            f"large-{number:06}",
            AskClass.of({"vcore": vcore + number}),
            priority=HIGH,
        )
        for number in range(count)
    ]


def reservations(size: int, work: int) -> World:
    """Asks for which so many nodes are reserved, while others are placed on the rest."""
    world = World(config([leaf()]))
    # A node is half full: there is no room for a large ask, and for very many small ones.
    world.add_nodes(max(size, work) * 6 // 5, {"vcore": ROOM, "memory": ROOM * MI})
    *ahead, app = running(world, [application(name) for name in numbered("app", AHEAD + 1)])
    half = AskClass.of({"vcore": ROOM * 3 // 5, "memory": MI})
    world.take(asks_of([app], max(size, work) * 6 // 5, [half], key="half"))
    world.settle()
    world.take(
        ask(ahead[number % AHEAD], f"large-{number:06}", half, priority=HIGH) for number in range(size)
    )
    world.wait(OLD_ENOUGH)
    world.waiting = asks_of([app], work)
    return world
