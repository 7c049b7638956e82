"""A domain for a gang is found exactly when one exists: every place of every member is tried."""

from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple

import pytest

from support.core.builders import app, apps, ask, asks, node, nodes, register
from support.core.driver import Driver, placed
from support.oracle.books import Amounts

LEVELS = ("zone", "rack")

CONFIG = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        properties: {topology.levels: "zone, rack"}
        queues: [{name: a}]
"""


class Cluster(NamedTuple):
    """Room and attributes of the nodes, and the members of one gang by task group."""

    room: dict[str, Amounts]
    attributes: dict[str, dict[str, str]]
    groups: list[tuple[Amounts, int]]
    level: str
    required: bool
    slice_size: int
    slice_level: str


def drawn(seed: int) -> Cluster:
    """A small cluster that is mostly just too small or just large enough."""
    rng = Random(seed)
    names = [f"n{number}" for number in range(rng.randint(3, 8))]
    room = {name: {"gpu": rng.randint(0, 3), "memory": rng.randint(0, 6)} for name in names}
    attributes = {name: {level: rng.choice(["", "1", "1", "2", "2"]) for level in LEVELS} for name in names}
    sizes = [{"gpu": 1}, {"gpu": 1, "memory": 1}, {"gpu": 1, "memory": 2}, {"gpu": 2}, {"memory": 2}]
    groups = [(rng.choice(sizes), rng.choice([1, 2, 2, 3, 4])) for _ in range(rng.choice([1, 1, 2]))]
    size = rng.choice([0, 0, 2, 2, 3])
    level = rng.choice(["zone", "rack", "rack"])
    return Cluster(
        room, attributes, groups, level, rng.random() < 0.7, size, rng.choice(LEVELS) if size else ""
    )


def domains(cluster: Cluster, within: Sequence[str], level: str) -> list[list[str]]:
    """Nodes of each domain of a level among some nodes; all of them for no level."""
    if not level:
        return [list(within)]
    names = LEVELS[: LEVELS.index(level) + 1]
    found: dict[tuple[str, ...], list[str]] = {}
    for name in within:
        path = tuple(cluster.attributes[name][one] for one in names)
        if path[-1]:
            found.setdefault(path, []).append(name)
    return list(found.values())


def fits(cluster: Cluster, inside: Sequence[str]) -> bool:
    """True if all members have a place on these nodes, slices whole."""
    slices: list[tuple[Amounts, int]] = []
    for size, count in cluster.groups:
        whole = cluster.slice_size or 1
        slices += [(size, min(whole, count - start)) for start in range(0, count, whole)]
    rooms = domains(cluster, inside, cluster.slice_level) if cluster.slice_size else [list(inside)]
    return any(_placed(dict(cluster.room), slices, rooms))


def _placed(
    room: dict[str, Amounts], slices: Sequence[tuple[Amounts, int]], rooms: list[list[str]]
) -> Iterator[bool]:
    """True for each way to place all slices, by trying each domain and each node."""
    if not slices:
        yield True
        return
    (size, members), *rest = slices
    for inside in rooms:
        for after in _members(room, size, members, inside):
            yield from _placed(after, rest, rooms)


def _members(
    room: dict[str, Amounts], size: Amounts, members: int, inside: Sequence[str]
) -> Iterator[dict[str, Amounts]]:
    """The room that is left, for each way to place so many alike members on some nodes."""
    if not members:
        yield room
        return
    for number, name in enumerate(inside):
        left = {what: value - size.get(what, 0) for what, value in room[name].items()}
        if min(left.values()) >= 0:
            # Alike members need not be told apart: the next one goes to this node or a later one.
            yield from _members({**room, name: left}, size, members - 1, inside[number:])


def played(cluster: Cluster) -> dict[str, str]:
    """The nodes of the members that the core has placed, by their keys."""
    driver = Driver(sweep=100)
    driver.do(register(CONFIG))
    there = [
        node(name, attributes=cluster.attributes[name], size=room) for name, room in cluster.room.items()
    ]
    total: Amounts = {}
    members = []
    for number, (size, count) in enumerate(cluster.groups):
        for what, value in size.items():
            total[what] = total.get(what, 0) + value * count
        group = f"g{number}"
        members += [
            ask("job", f"{group}-{index}", placeholder=True, group=group, size=size) for index in range(count)
        ]
    tags = {"licorne/topology": f"{'required' if cluster.required else 'preferred'}={cluster.level}"}
    if cluster.slice_size:
        tags["licorne/slice"] = f"size={cluster.slice_size},level={cluster.slice_level}"
    effects = driver.do(nodes(*there), apps(app("job", "root.a", gang=total, tags=tags)), asks(*members))
    return {key: node_id for _, key, node_id in placed(effects)}


@pytest.mark.worlds(first=7_000_000, one_in=2)
def test_a_domain_is_found_exactly_when_there_is_one(part: range) -> None:
    """A gang is placed whole in one domain of the narrowest level with a place for all, and else waits."""
    for seed in part:
        cluster = drawn(seed)
        everything = list(cluster.room)
        levels = [cluster.level] if cluster.required else [*dict.fromkeys((cluster.level, "zone", ""))]
        fitting = [
            [inside for inside in domains(cluster, everything, level) if fits(cluster, inside)]
            for level in levels
        ]
        possible = next((some for some in fitting if some), [])
        found = played(cluster)
        members = sum(count for _, count in cluster.groups)
        assert len(found) == (members if possible else 0), f"world {seed}: {cluster} {found}"
        if found:
            assert any({*found.values()} <= {*inside} for inside in possible), f"world {seed}: {found}"
            check(seed, cluster, found)


def check(seed: int, cluster: Cluster, found: dict[str, str]) -> None:
    """No node has more members than it has room for, and no slice is divided."""
    for name, room in cluster.room.items():
        there = [cluster.groups[int(key[1])][0] for key, node_id in found.items() if node_id == name]
        for what, value in room.items():
            assert sum(size.get(what, 0) for size in there) <= value, f"world {seed}: {name} {found}"
    rooms = domains(cluster, list(cluster.room), cluster.slice_level) if cluster.slice_size else []
    for number, (_, count) in enumerate(cluster.groups if rooms else ()):
        group = [node_id for key, node_id in found.items() if key.startswith(f"g{number}-")]
        inside = [sum(node_id in room for node_id in group) for room in rooms]
        whole = sum(members // cluster.slice_size for members in inside)
        assert (sum(inside), whole) == (count, count // cluster.slice_size), f"world {seed}: {found}"
