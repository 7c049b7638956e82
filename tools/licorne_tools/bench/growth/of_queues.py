"""Worlds in which the tree of queues grows, in breadth and in depth."""

import json
from typing import Any

from licorne_tools.bench.growth.world import World, application, asks_of, config, leaf, numbered, running


def flat(size: int, work: int) -> World:
    """So many leaves below root, with an application in each."""
    leaves = numbered("queue", size)
    world = World(config([leaf(name) for name in leaves]))
    return _one_in_each(world, [f"root.{name}" for name in leaves], work)


def dynamic(size: int, work: int) -> World:
    """The same below a parent, and made by placement."""
    parent = {"name": "dynamic", "parent": True}
    world = World(config([parent], rules=[{"name": "provided", "create": True}]))
    return _one_in_each(world, [f"root.dynamic.{name}" for name in numbered("queue", size)], work)


def namespaces(size: int, work: int) -> World:
    """So many namespaces, each with a queue that placement makes and a quota that tags bring."""
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
    """One leaf so many levels below root."""
    queue = leaf()
    path = "leaf"
    for level in range(size - 1):
        queue = {"name": f"level-{level}", "queues": [queue]}
        path = f"level-{level}.{path}"
    return _one_in_each(World(config([queue])), [f"root.{path}"], work)


def tree(size: int, work: int) -> World:
    """So many levels below root, where each queue has two children, and applications in all leaves.

    There are two leaves with one level, and 1,024 with ten.
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
    """Add nodes, and an application in each leaf."""
    world.add_nodes()
    new = [application(f"app-{number:06}", queue) for number, queue in enumerate(leaves)]
    world.waiting = asks_of(running(world, new), work)
    return world
