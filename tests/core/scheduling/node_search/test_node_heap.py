"""Heaps of nodes in node order, and the index of items by wanted amounts (spec § 7.6)."""

from collections.abc import Mapping
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from licorne_core.model.nodes.node import Node
from licorne_core.scheduling.node_search.node_heap import FittingIndex, NodeHeap
from licorne_core.values.ids import NodeId

TYPES = ["vcore", "memory", "gpu"]


class Lacking(NamedTuple):
    """An item that requests amounts; items of equal numbers are equal."""

    number: int
    items: tuple[tuple[str, int], ...]


wanted = st.dictionaries(st.sampled_from(TYPES), st.integers(0, 6), max_size=3)
rooms = st.dictionaries(st.sampled_from(TYPES), st.integers(-2, 8), max_size=3)


def fits(items: tuple[tuple[str, int], ...], room: Mapping[str, int], *, strict: bool) -> bool:
    """True if the amounts fit; a type without an entry is unlimited, or with `strict` zero."""
    return all(amount <= room.get(name, 0) for name, amount in items if strict or name in room)


@given(
    history=st.lists(st.one_of(wanted, st.integers(0, 10)), max_size=25),
    room=rooms,
    strict=st.booleans(),
)
def test_the_index_finds_every_fitting_item(
    history: list[dict[str, int] | int], room: dict[str, int], *, strict: bool
) -> None:
    """After any additions and removals, the index returns every item that fits, and no removed item."""
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


def test_only_fitting_sizes_are_examined() -> None:
    """A search among 300 sizes returns only the sizes that fit in the freed amounts."""
    index = FittingIndex()
    sizes = [Lacking(size, (("memory", 1), ("vcore", size))) for size in range(1, 301)]
    for one in reversed(sizes):
        index.add(one)
    assert list(index.that_may_fit({"vcore": 3, "memory": 50})) == sizes[:3]
    assert list(index.that_may_fit({"vcore": 0})) == []
    assert list(index.that_may_fit({"vcore": 300}, strict=True)) == []


def test_items_are_found_by_the_scarcest_resource_type() -> None:
    """Items that exceed the scarce type are not returned for the plentiful type."""
    index = FittingIndex()
    sizes = [Lacking(size, (("memory", 100 - size), ("vcore", size))) for size in range(1, 100)]
    for one in sizes:
        index.add(one)
    assert list(index.that_may_fit({"vcore": 1000, "memory": 2})) == sizes[:-3:-1]


def test_successive_nodes_of_one_id_are_distinguished() -> None:
    """Entries of equal score and id are ordered by birth, without a comparison of node objects."""
    heap = NodeHeap()
    old, new = (Node(NodeId("n"), {"vcore": 1}, {}, schedulable=True) for _ in range(2))
    for birth, node in enumerate((old, new)):
        node.birth, node.score = birth, 0.0
        heap.offer(node)
    assert heap.best() is old
    old.set_schedulable(schedulable=False)
    old.version += 1
    assert heap.best() is new


def test_reading_the_first_nodes_leaves_the_heap_unchanged() -> None:
    """`first` does not change the heap."""
    nodes = [Node(NodeId(f"n{number}"), {"vcore": 1}, {}, schedulable=True) for number in range(6)]
    for number, node in enumerate(nodes):
        node.score = number
    heap = NodeHeap()
    heap.fill(nodes)
    assert heap.first(3) == nodes[:3]
    assert heap.first(9) == nodes
    assert heap.best() is nodes[0]
