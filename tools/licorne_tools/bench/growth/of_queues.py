"""Worlds with growing numbers of queues, asks, applications, users and groups."""

import json
from collections.abc import Callable
from typing import Any

from licorne_core.values.asks import AskClass
from licorne_tools.bench.growth.world import (
    CAPACITY,
    OPEN,
    World,
    application,
    ask,
    asks_of,
    leaf,
    numbered,
    running,
)
from licorne_tools.bench.workload import MI, config


def flat(size: int, work: int) -> World:
    """Leaves below root, with an application in each."""
    leaves = numbered("queue", size)
    world = World(config([leaf(name) for name in leaves]))
    return _one_in_each(world, [f"root.{name}" for name in leaves], work)


def dynamic(size: int, work: int) -> World:
    """Leaves below a parent, created by placement."""
    parent = {"name": "dynamic", "parent": True}
    world = World(config([parent], rules=[{"name": "provided", "create": True}]))
    return _one_in_each(world, [f"root.dynamic.{name}" for name in numbered("queue", size)], work)


def namespaces(size: int, work: int) -> World:
    """Namespaces, each with a queue created by placement and a quota from tags."""
    rule = {"name": "tag", "value": "namespace", "create": True}
    quota = json.dumps({"resources": {"vcore": {"value": 10**12}, "memory": {"value": 10**18}}})
    world = World(config([{"name": "other"}], rules=[rule]))
    world.add_nodes()
    new = [
        application(f"app-{name}", queue="", tags={"namespace": name, "namespace.resourcequota": quota})
        for name in numbered("namespace", size)
    ]
    world.waiting = asks_of(running(world, new), work)
    return world


def chain(size: int, work: int) -> World:
    """A leaf `size` levels below root."""
    queue = leaf()
    path = "leaf"
    for level in range(size - 1):
        queue = {"name": f"level-{level}", "queues": [queue]}
        path = f"level-{level}.{path}"
    return _one_in_each(World(config([queue])), [f"root.{path}"], work)


def tree(size: int, work: int) -> World:
    """A binary tree of `size` levels below root, with an application in each leaf.

    One level has two leaves, ten levels have 1,024.
    """

    def children(level: int) -> list[dict[str, Any]]:
        if level == 1:
            return [leaf("left"), leaf("right")]
        return [{"name": name, "queues": children(level - 1)} for name in ("left", "right")]

    paths = ["root"]
    for _ in range(size):
        paths = [f"{path}.{name}" for path in paths for name in ("left", "right")]
    return _one_in_each(World(config(children(size))), paths, work)


def _one_in_each(world: World, leaves: list[str], work: int) -> World:
    """Add nodes, and an application to each leaf."""
    world.add_nodes()
    new = [application(f"app-{number:06}", queue) for number, queue in enumerate(leaves)]
    world.waiting = asks_of(running(world, new), work)
    return world


KINDS = 16
"""Maximum number of resource types."""

EACH = 10
"""Minimum number of asks of each application or size, because the first ask costs more than the others."""

STRIDE = 7919
"""A prime whose multiples modulo the size are unordered."""


def in_one_leaf(count: int = 1, sort: str = "fifo") -> tuple[World, list[str]]:
    """A world with one leaf and running applications."""
    world = World(config([leaf(sort=sort)]))
    world.add_nodes()
    return world, running(world, [application(name) for name in numbered("app", count)])


def asks(size: int, _: int) -> World:
    """Asks of one application."""
    world, apps = in_one_leaf()
    world.waiting = asks_of(apps, size)
    return world


def applications(sort: str) -> Callable[[int, int], World]:
    """Applications in one leaf with this order."""

    def build(size: int, work: int) -> World:
        world, apps = in_one_leaf(size, sort)
        world.waiting = asks_of(apps, max(EACH * size, work))
        return world

    return build


def users(size: int, work: int) -> World:
    """Users, each with a limit and an application."""
    world = World(config([leaf()], limits=[{"limit": "each", "users": ["*"], **OPEN}]))
    world.add_nodes()
    new = [application(f"app-{user}", user=user) for user in numbered("user", size)]
    world.waiting = asks_of(running(world, new), max(EACH * size, work))
    return world


def groups(size: int, work: int) -> World:
    """Groups, each with a limit, a user and an application."""
    names = numbered("group", size)
    world = World(config([leaf()], limits=[{"limit": "each", "groups": names, **OPEN}]))
    world.add_nodes()
    new = [application(f"app-{name}", user=f"user-{name}", groups=[name]) for name in names]
    world.waiting = asks_of(running(world, new), max(EACH * size, work))
    return world


def resource_types(size: int, work: int) -> World:
    """Asks and nodes with many types of resources."""
    names = ["vcore", "memory", *(f"example.com/type-{kind:02}" for kind in range(2, KINDS))]
    world = World(config([leaf()]))
    world.add_nodes(capacity={**dict.fromkeys(names[:size], 10**9), "memory": CAPACITY["memory"]})
    classes = [AskClass.of(dict.fromkeys(names[:size], amount)) for amount in (1, 2)]
    world.waiting = asks_of(running(world, [application("app")]), work, classes)
    return world


def distinct_sizes(size: int, work: int) -> World:
    """Asks of one application of many sizes, all of which fit."""
    world, apps = in_one_leaf()
    classes = [AskClass.of({"vcore": 100 + number, "memory": MI}) for number in range(size)]
    world.waiting = asks_of(apps, max(EACH * size, work), classes)
    return world


def priorities(size: int, work: int) -> World:
    """Asks of one application with many priorities, in no order."""
    world, [app] = in_one_leaf()
    sized = asks_of([app], max(size, work))
    world.waiting = [
        ask(app, f"ranked-{number:06}", each.ask_class, priority=number * STRIDE % size)
        for number, each in enumerate(sized)
    ]
    return world
