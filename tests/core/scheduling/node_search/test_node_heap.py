"""Nodes in the order of choice, and items that lack room by the room that they want (spec § 7.6)."""

from collections.abc import Mapping
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from licorne_core.model.nodes.node import Node
from licorne_core.scheduling.node_search.node_heap import FittingIndex, NodeHeap
from licorne_core.values.ids import NodeId

TYPES = ["vcore", "memory", "gpu"]


class Lacking(NamedTuple):
    """Somebody who wants amounts; two of the same number are one."""

    number: int
    items: tuple[tuple[str, int], ...]


wanted = st.dictionaries(st.sampled_from(TYPES), st.integers(0, 6), max_size=3)
rooms = st.dictionaries(st.sampled_from(TYPES), st.integers(-2, 8), max_size=3)


def fits(items: tuple[tuple[str, int], ...], room: Mapping[str, int], *, strict: bool) -> bool:
    """Whether amounts fit; a type that is not named is unlimited, or with `strict` zero."""
    return all(amount <= room.get(name, 0) for name, amount in items if strict or name in room)


@given(
    history=st.lists(st.one_of(wanted, st.integers(0, 10)), max_size=25),
    room=rooms,
    strict=st.booleans(),
)
def test_nobody_who_fits_is_left_out(
    history: list[dict[str, int] | int], room: dict[str, int], *, strict: bool
) -> None:
    """A look at all of them finds nobody else, after any coming and going (a number goes)."""
    index = FittingIndex()
    known: list[Lacking] = []
    for number, step in enumerate(history):
        if isinstance(step, dict):
            known.append(Lacking(number, tuple(sorted(step.items()))))
            index.add(known[-1])
        elif known:
            index.remove(known.pop(step % len(known)))
        assert len(index) == len(known)
        assert list(index) == known
        found = list(index.that_may_fit(room, strict=strict))
        assert len(set(found)) == len(found)
        assert set(found) <= set(known)
        assert {one for one in known if fits(one.items, room, strict=strict)} <= set(found)


def test_of_many_sizes_only_those_that_fit_are_looked_at() -> None:
    """What is freed is compared with the sizes, not with each of them in turn."""
    index = FittingIndex()
    sizes = [Lacking(size, (("memory", 1), ("vcore", size))) for size in range(1, 301)]
    for one in reversed(sizes):
        index.add(one)
    assert list(index.that_may_fit({"vcore": 3, "memory": 50})) == sizes[:3]
    assert list(index.that_may_fit({"vcore": 0})) == []
    assert list(index.that_may_fit({"vcore": 300}, strict=True)) == []


def test_the_type_that_lets_fewest_through_decides() -> None:
    """Plenty of one type does not bring those who lack another one."""
    index = FittingIndex()
    sizes = [Lacking(size, (("memory", 100 - size), ("vcore", size))) for size in range(1, 100)]
    for one in sizes:
        index.add(one)
    assert list(index.that_may_fit({"vcore": 1000, "memory": 2})) == sizes[:-3:-1]


def test_nodes_of_one_id_one_after_the_other_are_told_apart() -> None:
    """Of two entries that are equal in rank and id the birth decides, never the nodes."""
    heap = NodeHeap()
    old, new = (Node(NodeId("n"), {"vcore": 1}, {}, schedulable=True) for _ in range(2))
    for birth, node in enumerate((old, new)):
        node.birth, node.score = birth, 0.0
        heap.offer(node)
    assert heap.best() is old
    old.set_schedulable(schedulable=False)
    old.version += 1
    assert heap.best() is new


def test_a_heap_gives_its_first_nodes_without_losing_them() -> None:
    """A look ahead leaves the heap as it was."""
    nodes = [Node(NodeId(f"n{number}"), {"vcore": 1}, {}, schedulable=True) for number in range(6)]
    for number, node in enumerate(nodes):
        node.score = number
    heap = NodeHeap()
    heap.fill(nodes)
    assert heap.first(3) == nodes[:3]
    assert heap.first(9) == nodes
    assert heap.best() is nodes[0]
