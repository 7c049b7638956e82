"""A domain for a gang by brute force: all places of all members are tried.

It does not depend on the core.
"""

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import NamedTuple

from support.oracle.books import Amounts

LEVELS = ("zone", "rack")
"""The levels of the topology, the widest first."""


class Cluster(NamedTuple):
    """Free amounts and attributes of the nodes, and the members of one gang by task group."""

    room: dict[str, Amounts]
    attributes: dict[str, dict[str, str]]
    groups: list[tuple[Amounts, int]]
    level: str
    required: bool
    slice_size: int
    slice_level: str


def drawn(seed: int) -> Cluster:
    """A small random cluster that is mostly just too small or just large enough."""
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
    """The nodes of each domain of a level, among some nodes; an empty level has one domain of all nodes."""
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
    """True if all members fit on these nodes, with undivided slices."""
    slices: list[tuple[Amounts, int]] = []
    for size, count in cluster.groups:
        whole = cluster.slice_size or 1
        slices += [(size, min(whole, count - start)) for start in range(0, count, whole)]
    rooms = domains(cluster, inside, cluster.slice_level) if cluster.slice_size else [list(inside)]
    return any(_placed(dict(cluster.room), slices, rooms))


def _placed(
    room: dict[str, Amounts], slices: Sequence[tuple[Amounts, int]], rooms: list[list[str]]
) -> Iterator[bool]:
    """True for each way to place all slices, found by trying each domain and each node."""
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
    """The remaining amounts, for each way to place this number of equal members on some nodes."""
    if not members:
        yield room
        return
    for number, name in enumerate(inside):
        left = {what: value - size.get(what, 0) for what, value in room[name].items()}
        if min(left.values()) >= 0:
            # Equal members are interchangeable: the next one is placed on this node or a later one.
            yield from _members({**room, name: left}, size, members - 1, inside[number:])


def check(seed: int, cluster: Cluster, found: Mapping[str, str]) -> None:
    """Check that no node has more members than fit, and that no slice is divided."""
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
