"""Worlds in which asks, applications, users and groups grow."""

from collections.abc import Callable

from licorne_core.values.asks import AskClass
from licorne_tools.bench.growth.world import (
    CAPACITY,
    OPEN,
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

KINDS = 16
"""Resource types at the most."""

EACH = 10
"""Asks of each application or size, at the least: the first of them costs more than the others."""

STRIDE = 7919
"""A prime, by whose multiples numbers come in no order."""


def in_one_leaf(count: int = 1, sort: str = "fifo") -> tuple[World, list[str]]:
    """A world with one leaf and so many applications that run."""
    world = World(config([leaf(sort=sort)]))
    world.add_nodes()
    return world, running(world, [application(name) for name in numbered("app", count)])


def asks(size: int, _: int) -> World:
    """So many asks of one application."""
    world, apps = in_one_leaf()
    world.waiting = asks_of(apps, size)
    return world


def applications(sort: str) -> Callable[[int, int], World]:
    """So many applications in one leaf, in this order."""

    def build(size: int, work: int) -> World:
        world, apps = in_one_leaf(size, sort)
        world.waiting = asks_of(apps, max(EACH * size, work))
        return world

    return build


def users(size: int, work: int) -> World:
    """So many users, each with a limit and an application."""
    world = World(config([leaf()], limits=[{"limit": "each", "users": ["*"], **OPEN}]))
    world.add_nodes()
    new = [application(f"app-{user}", user=user) for user in numbered("user", size)]
    world.waiting = asks_of(running(world, new), max(EACH * size, work))
    return world


def groups(size: int, work: int) -> World:
    """So many groups, each with a limit, a user and an application."""
    names = numbered("group", size)
    world = World(config([leaf()], limits=[{"limit": "each", "groups": names, **OPEN}]))
    world.add_nodes()
    new = [application(f"app-{name}", user=f"user-{name}", groups=[name]) for name in names]
    world.waiting = asks_of(running(world, new), max(EACH * size, work))
    return world


def resource_types(size: int, work: int) -> World:
    """Asks and nodes have so many types of resources."""
    names = ["vcore", "memory", *(f"example.com/type-{kind:02}" for kind in range(2, KINDS))]
    world = World(config([leaf()]))
    world.add_nodes(capacity={**dict.fromkeys(names[:size], 10**9), "memory": CAPACITY["memory"]})
    classes = [AskClass.of(dict.fromkeys(names[:size], amount)) for amount in (1, 2)]
    world.waiting = asks_of(running(world, [application("app")]), work, classes)
    return world


def distinct_sizes(size: int, work: int) -> World:
    """Asks of one application in so many sizes, all of which fit."""
    world, apps = in_one_leaf()
    classes = [AskClass.of({"vcore": 100 + number, "memory": MI}) for number in range(size)]
    world.waiting = asks_of(apps, max(EACH * size, work), classes)
    return world


def priorities(size: int, work: int) -> World:
    """Asks of one application in so many priorities, in no order."""
    world, [app] = in_one_leaf()
    sized = asks_of([app], max(size, work))
    world.waiting = [
        ask(app, f"ranked-{number:06}", each.ask_class, priority=number * STRIDE % size)
        for number, each in enumerate(sized)
    ]
    return world
