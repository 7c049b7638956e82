"""Heaps of nodes for supplies, which are kept in order without sorting (spec § 7.6)."""

from collections.abc import ValuesView
from contextlib import suppress
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from licorne_core.config.schema import NodeSortPolicy
from licorne_core.model.books import book_on_node
from licorne_core.model.nodes.book import NodeBook
from licorne_core.model.nodes.node import Node
from licorne_core.scheduling.node_search import index as node_index
from licorne_core.scheduling.node_search.index import NodeHeaps, StillLooking
from licorne_core.scheduling.waiting import supply as supply_module
from licorne_core.scheduling.waiting.supply import NodePool, ReservableSupply, Supply
from licorne_core.values.asks import Shape
from licorne_core.values.ids import NodeId

steps = st.lists(
    st.tuples(
        st.sampled_from(["worse", "better", "close", "open", "look", "ahead", "lack", "drop"]),
        st.integers(0, 9),
        st.integers(0, 12),
    ),
    max_size=60,
)


class Nodes:
    """Nodes with scores set by the test, in place of the node index."""

    def __init__(self, count: int, vcore: int = 8, part: int = 1_000_000) -> None:
        """All nodes are open, empty and in order; a step of filling examines `part` nodes."""
        self.book = NodeBook(NodeSortPolicy())
        for number in range(count):
            node = Node(NodeId(f"n{number:03}"), {"vcore": vcore}, {}, schedulable=True)
            node.score = number
            self.book.add(node)
        self.all = list(self.book.by_id.values())
        self.heaps = NodeHeaps(self.book, part)

    def set_score(self, node: Node, score: int) -> None:
        """Set the score of a node; only a better score is logged."""
        before, node.score = node.score, score
        node.version += 1
        if score < before:
            self.heaps.write(node)

    def set_open(self, node: Node, *, is_open: bool) -> None:
        """Drain or open a node."""
        node.set_schedulable(schedulable=is_open)
        node.version += 1
        if is_open:
            self.heaps.write(node)

    def in_order(self, supply: Supply) -> list[Node]:
        """The nodes of the supply in node order, found by a scan of all nodes."""
        taken = [node for node in self.all if supply.takes(node)]
        return sorted(taken, key=lambda node: (supply.rank(node), node.node_id))


class CountedWalks(dict[NodeId, Node]):
    """Nodes by id, with a count of the iterations over all nodes."""

    walks = 0

    def values(self) -> "ValuesView[Node]":  # type: ignore[override]
        """All nodes."""
        self.walks += 1
        return cast("ValuesView[Node]", super().values())


def supply_of(vcore: int, kind: type[Supply] = Supply) -> Supply:
    """A supply of nodes with this number of cores, which is not short."""
    return kind(Shape({"vcore": vcore}), NodePool(kind.amounts))


def has_heap(supply: Supply) -> bool:
    """Whether the supply has a heap of its own."""
    return supply.heap is not None


@given(steps, st.integers(1, 6), st.sampled_from([1, 2, 1_000_000]))
def test_a_supply_and_a_sorted_list_have_the_same_first_node(
    history: list[tuple[str, int, int]], vcore: int, part: int
) -> None:
    """A supply, with or without a heap, has the first node of a sorted list after any history."""
    nodes = Nodes(10, part=part)
    few, every, kept = supply_of(vcore), supply_of(1), supply_of(vcore, ReservableSupply)
    for what, number, value in history:
        node = nodes.all[number]
        if what == "worse":
            nodes.set_score(node, max(node.score, value))
        elif what == "better":
            nodes.set_score(node, min(node.score, value))
        elif what in ("close", "open"):
            nodes.set_open(node, is_open=what == "open")
        elif what == "lack" and node.available["vcore"] >= value:
            book_on_node((("vcore", value),), node)
            node.version += 1
        elif what == "drop":
            nodes.heaps.drop(few)
        elif what == "ahead" and few.heap is not None:
            assert nodes.heaps.ahead(few, value) == nodes.in_order(few)[:value]
        for supply in (few, every, kept):
            expected = nodes.in_order(supply)
            with suppress(StillLooking):
                assert nodes.heaps.first(supply) is (expected[0] if expected else None)


def test_a_supply_that_fits_on_one_of_the_first_nodes_has_no_heap() -> None:
    """A search that succeeds on one of the first nodes creates no heap."""
    nodes = Nodes(node_index.PROBES + 2)
    for node in nodes.all[: node_index.PROBES]:
        book_on_node((("vcore", 4),), node)
    small, large = supply_of(4), supply_of(5)
    assert nodes.heaps.first(small) is nodes.all[0]
    assert (has_heap(small), nodes.heaps.work) == (False, 0)
    assert nodes.heaps.first(large) is nodes.all[node_index.PROBES]
    assert not has_heap(large)
    book_on_node((("vcore", 4),), nodes.all[node_index.PROBES])
    nodes.all[node_index.PROBES].version += 1
    assert nodes.heaps.first(large) is nodes.all[node_index.PROBES + 1]
    assert has_heap(large)
    assert nodes.heaps.work > 0


@pytest.mark.parametrize("kind", [Supply, ReservableSupply])
def test_sizes_above_the_largest_node_are_refused_without_a_search(kind: type[Supply]) -> None:
    """A size above the greatest amounts of all nodes is refused without a search."""
    nodes = Nodes(2 * node_index.PROBES)
    supplies = [supply_of(vcore, kind) for vcore in range(9, 40)]
    assert [nodes.heaps.first(supply) for supply in supplies] == [None] * len(supplies)
    assert nodes.heaps.work == 0
    assert not any(map(has_heap, supplies))


def test_a_failed_search_lowers_the_greatest_amounts() -> None:
    """After all nodes are filled, only the first size that fails costs a search."""
    nodes = Nodes(2 * node_index.PROBES)
    for node in nodes.all:
        book_on_node((("vcore", 5),), node)
        node.version += 1
        nodes.book.changed.note(node)
    assert nodes.heaps.first(supply_of(6)) is None
    worked = nodes.heaps.work
    assert worked > 0
    assert nodes.heaps.first(supply_of(5)) is None
    assert nodes.heaps.work == worked
    assert nodes.heaps.first(supply_of(3)) is nodes.all[0]


def test_a_failed_search_rules_out_larger_requests() -> None:
    """A failed search rules out larger requests, even if for each single type some node has enough."""
    nodes = Nodes(2 * node_index.PROBES)
    for number, node in enumerate(nodes.all):
        nodes.book.resize(node, {"vcore": 8 * (number % 2), "memory": 8 * (1 - number % 2)})
        nodes.set_score(node, -1 - number)
    pool = NodePool(Supply.amounts)

    def look(vcore: int, memory: int) -> int:
        supply = Supply(Shape({"vcore": vcore, "memory": memory}), pool)
        before = nodes.heaps.work
        assert nodes.heaps.first(supply) is None
        supply.run_short()
        nodes.heaps.drop(supply)
        return nodes.heaps.work - before

    assert look(2, 2) > 0
    assert [look(2, 3), look(3, 2), look(2, 2), look(8, 8)] == [0, 0, 0, 0]
    assert look(1, 3) > 0
    assert look(1, 4) == 0
    grown = nodes.all[0]
    nodes.book.resize(grown, {"vcore": 4, "memory": 4})
    nodes.set_score(grown, -100)
    pool.improved(grown)
    fits, large = (Supply(Shape({"vcore": n, "memory": n}), pool) for n in (4, 5))
    assert nodes.heaps.first(fits) is grown
    assert nodes.heaps.first(large) is None
    pool.end_pass()
    assert not pool.rules_out(fits.wanted)


def test_a_grown_node_accepts_sizes_that_were_ruled_out() -> None:
    """A size that was too large for all nodes is found on a node that has grown."""
    nodes = Nodes(2 * node_index.PROBES)
    assert nodes.heaps.first(supply_of(9)) is None
    grown = nodes.all[-1]
    nodes.book.resize(grown, {"vcore": 10})
    nodes.set_score(grown, grown.score - 1)
    assert nodes.heaps.first(supply_of(1)) is nodes.all[0]
    assert nodes.heaps.first(supply_of(9)) is grown
    assert nodes.heaps.first(supply_of(11)) is None


def test_a_heap_is_filled_in_steps() -> None:
    """Each search fills a part of a heap, and the last search finds the node."""
    nodes = Nodes(40, part=8)
    supply = supply_of(1, ReservableSupply)
    asked = 0
    found = None
    while found is None:
        before = nodes.heaps.work
        asked += 1
        with suppress(StillLooking):
            found = nodes.heaps.first(supply)
        assert nodes.heaps.work - before <= 3 * 8
    assert found is nodes.all[0]
    assert asked >= 4


def test_a_look_ahead_fills_a_heap_at_once() -> None:
    """`ahead` fills the whole heap in one call."""
    nodes = Nodes(40, part=1)
    for node in nodes.all[:20]:
        book_on_node((("vcore", 4),), node)
    assert nodes.heaps.ahead(supply_of(5), 3) == nodes.all[20:23]


def test_the_least_recently_used_heaps_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Above `MAX_HEAPS` the least recently used half of the heaps is dropped, but not the newest heap."""
    monkeypatch.setattr(supply_module, "MAX_HEAPS", 4)
    nodes = Nodes(4)
    supplies = [supply_of(vcore, ReservableSupply) for vcore in range(1, 6)]
    for supply in supplies[:4]:
        nodes.heaps.first(supply)
    nodes.heaps.first(supplies[0])
    assert all(map(has_heap, supplies[:4]))
    nodes.heaps.first(supplies[4])
    assert [has_heap(supply) for supply in supplies] == [True, False, False, True, True]


def test_few_heaps_are_filled_at_the_same_time() -> None:
    """Of unfinished heaps only the latest are kept, and all share one list of nodes."""
    nodes = Nodes(40, part=8)
    counted = nodes.book.by_id = CountedWalks(nodes.book.by_id)
    supplies = [supply_of(1 + number % 8, ReservableSupply) for number in range(30)]
    for supply in supplies:
        with suppress(StillLooking):
            nodes.heaps.first(supply)
    assert [has_heap(supply) for supply in supplies] == [False] * 26 + [True] * 4
    assert counted.walks == 1


def test_a_heap_includes_nodes_added_during_its_filling() -> None:
    """A node that is added while a heap is filled is in that heap, and in one that is started later."""
    nodes = Nodes(40, part=8)
    early, late = supply_of(1, ReservableSupply), supply_of(2, ReservableSupply)
    with suppress(StillLooking):
        nodes.heaps.first(early)
    new = Node(NodeId("new"), {"vcore": 8}, {}, schedulable=True)
    new.score = -1
    nodes.book.add(new)
    nodes.heaps.write(new)
    found: list[Node | None] = []
    for supply in (early, late):
        while not found or found[-1] is not None:
            try:
                found.append(nodes.heaps.first(supply))
                break
            except StillLooking:
                continue
    assert found == [new, new]


def test_unfinished_heaps_count_against_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unfinished heap counts against `MAX_HEAPS`."""
    monkeypatch.setattr(supply_module, "MAX_HEAPS", 2)
    nodes = Nodes(40, part=8)
    supplies = [supply_of(vcore, ReservableSupply) for vcore in (1, 2, 3)]
    for supply in supplies:
        with suppress(StillLooking):
            nodes.heaps.first(supply)
    assert [has_heap(supply) for supply in supplies] == [False, True, True]


@pytest.mark.parametrize(("bound", "most"), [("MAX_FILL", 3), ("MAX_ENTRIES", 63)])
def test_the_entries_of_all_heaps_are_bounded(bound: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the bound on entries the least recently used half of the other heaps is dropped."""
    monkeypatch.setattr(supply_module, bound, most)
    nodes = Nodes(20)
    supplies = [supply_of(vcore, ReservableSupply) for vcore in (1, 2, 3, 4)]
    for supply in supplies[:3]:
        nodes.heaps.first(supply)
    assert all(map(has_heap, supplies[:3]))
    nodes.heaps.first(supplies[3])
    assert [has_heap(supply) for supply in supplies] == [False, False, True, True]


def test_entries_added_from_the_log_count_against_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries that a heap adds from the log of changes count against the bound on entries."""
    monkeypatch.setattr(supply_module, "MAX_ENTRIES", 63)
    nodes = Nodes(20)
    old, asked = supply_of(1, ReservableSupply), supply_of(2, ReservableSupply)
    kept = []
    for change in range(3):
        nodes.heaps.first(asked)
        if not change:
            nodes.heaps.first(old)
        kept.append(has_heap(old))
        for node in nodes.all:
            nodes.set_score(node, node.score - 100)
    nodes.heaps.first(asked)
    assert (kept, has_heap(old)) == ([True, True, False], False)


def test_a_new_node_order_voids_every_heap() -> None:
    """After a change of the node order every search follows the new order."""
    nodes = Nodes(4)
    supply = supply_of(1, ReservableSupply)
    assert nodes.heaps.first(supply) is nodes.all[0]
    steps_taken = sum(nodes.heaps.close())
    for node in nodes.all:
        node.score = -node.score
    assert steps_taken + sum(nodes.heaps.reopen()) >= 3
    assert not has_heap(supply)
    assert nodes.heaps.first(supply) is nodes.all[3]
    assert nodes.heaps.first(supply_of(1)) is nodes.all[3]


def test_the_heap_of_a_short_supply_has_only_changed_nodes() -> None:
    """The heap of a short supply is filled only from nodes that changed since the supply became short."""
    nodes = Nodes(20)
    supply = supply_of(9)
    assert nodes.heaps.first(supply) is None
    supply.run_short()
    hope = nodes.all[7]
    for node in nodes.all:
        if node is hope:
            nodes.book.resize(hope, {"vcore": 9})
        nodes.set_score(node, node.score - 100)
        supply.nodes.improved(node)
    worked = nodes.heaps.work
    assert nodes.heaps.first(supply) is hope
    assert nodes.heaps.work - worked <= 3


def test_a_full_log_is_read_by_all_heaps_before_it_is_emptied(monkeypatch: pytest.MonkeyPatch) -> None:
    """All heaps read the log of changes to its end before it is emptied."""
    monkeypatch.setattr(node_index, "LOG_SLACK", 0)
    nodes = Nodes(12)
    supply = supply_of(2, ReservableSupply)
    nodes.heaps.first(supply)
    for score in range(-1, -500, -1):
        nodes.set_score(nodes.all[-score % 12], score)
        if score % 50 == 0:
            assert nodes.heaps.first(supply) is nodes.all[-score % 12]
            assert nodes.heaps.first(supply_of(1)) is nodes.all[-score % 12]
