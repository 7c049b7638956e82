"""The node index finds the same node as a scan of all nodes (spec §§ 7.4, 7.5)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from licorne_core.config.schema import NodeSortPolicy, NodeSortType
from licorne_core.model.books import book_on_node, unbook_on_node
from licorne_core.model.nodes import book as book_of_nodes
from licorne_core.model.nodes.book import MOST_MATES, NodeBook, Packing
from licorne_core.model.nodes.node import Node
from licorne_core.scheduling.node_search import index as node_index
from licorne_core.scheduling.node_search.index import WORK_OF_A_TRY, NodeIndex
from licorne_core.scheduling.waiting import supply as supply_module
from licorne_core.scheduling.waiting.supply import Supply, fit_score
from licorne_core.values.asks import AskClass
from licorne_core.values.ids import NodeId
from licorne_core.values.resources import Items
from licorne_core.values.slices import PART, Tuning

SHAPES = [
    AskClass.of({"vcore": 1}),
    AskClass.of({"vcore": 3, "memory": 1}),
    AskClass.of({"memory": 4}),
    AskClass.of({"gpu": 1}),
    AskClass.of({"vcore": 1}, NodeId("n2")),
]


ZONES = Packing((("zone",), ("zone", "rack")), ("gpu", "vcore"))
ORDERS = [(kind, None) for kind in NodeSortType] + [(NodeSortType.AUTO, ZONES)]
"""Types of node orders, and for `auto` how nodes are packed (None: not at all)."""


def policy_of(kind: NodeSortType) -> NodeSortPolicy:
    """A node order of this type; `spread` has the attribute `zone`."""
    return NodeSortPolicy(type=kind, attribute="zone" if kind is NodeSortType.SPREAD else "")


def book_of(kind: NodeSortType, *capacities: dict[str, int], packs: Packing | None = None) -> NodeBook:
    """Nodes n0, n1, … of these capacities, in two alternating zones; the first nodes are in racks."""
    book = NodeBook(policy_of(kind))
    book.reorder(book.order.policy, packs)
    for number, capacity in enumerate(capacities):
        book.add(node_of(number, capacity))
    return book


def node_of(number: int, capacity: dict[str, int]) -> Node:
    """The node of this number and capacity, in its zone and rack."""
    where = {"zone": f"z{number % 2}", "rack": f"r{number // 4}" if number < 20 else ""}
    return Node(NodeId(f"n{number}"), capacity, where, schedulable=True)


def index_of(book: NodeBook) -> NodeIndex:
    """A node index over the nodes of the book."""
    index = NodeIndex(book, Tuning())
    for node in book.by_id.values():
        index.improved(node)
    return index


def node_for(index: NodeIndex, ask_class: AskClass) -> Node | None:
    """The node that the index returns for an ask of the class; None without one."""
    found = index.best(ask_class)
    return found if isinstance(found, Node) else None


def by_scan(book: NodeBook, ask_class: AskClass) -> Node | None:
    """The first node in node order that takes an ask of the class, by a scan; None without one."""
    fitting = [node for node in book.by_id.values() if node.takes(ask_class)]
    return min(fitting, key=lambda node: (book.order.score(node), node.node_id), default=None)


steps = st.lists(
    st.tuples(
        st.sampled_from(["ask", "ask", "ask", "release", "drain", "undrain", "resize", "remove"]),
        st.integers(0, len(SHAPES) - 1),
        st.integers(0, 5),
    ),
    max_size=60,
)


@pytest.mark.pure
@given(st.sampled_from(ORDERS), st.sampled_from([2, MOST_MATES]), steps)
def test_index_and_scan_find_the_same_node(
    order: tuple[NodeSortType, Packing | None], mates: int, history: list[tuple[str, int, int]]
) -> None:
    """After any history, index and scan find the same node for every class in every node order.

    The same holds while groups become too large to be compared, and small enough again.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(book_of_nodes, "MOST_MATES", mates)
        agree(order, history)


def agree(order: tuple[NodeSortType, Packing | None], history: list[tuple[str, int, int]]) -> None:
    """Play a history of changes of nodes, and compare index and scan after each step."""
    sizes = [{"vcore": 4, "memory": 4 + n, "gpu": n // 4} for n in range(5)]
    book = book_of(order[0], *sizes, packs=order[1])
    index = index_of(book)
    booked: dict[Node, list[Items]] = {node: [] for node in book.by_id.values()}
    for what, shape, number in history:
        assert all(node.score == book.order.score(node) for node in book.by_id.values())
        node = book.by_id.get(NodeId(f"n{number}"))
        if what == "ask":
            found = node_for(index, SHAPES[shape])
            assert found is by_scan(book, SHAPES[shape])
            if found is not None:
                booked[found].append(SHAPES[shape].items)
                book_on_node(SHAPES[shape].items, found)
                index.took(found)
            continue
        if node is None:
            if what == "undrain" and number < len(sizes):
                node = node_of(number, sizes[number])
                booked[node] = []
                book.add(node)
                index.improved(node)
            continue
        if what == "release" and booked[node]:
            unbook_on_node(booked[node].pop(), node)
        elif what in ("drain", "undrain"):
            node.set_schedulable(schedulable=what == "undrain")
        elif what == "resize":
            book.resize(node, {"vcore": 1 + shape * 2, "memory": 5})
        elif what == "remove":
            book.remove(node)
            index.left(node)
            continue
        index.improved(node)


def test_a_change_to_spread_scores_each_node_once() -> None:
    """A change to the order `spread` computes one score for each node, however large the zones are."""
    count = 40 * WORK_OF_A_TRY
    book = book_of(NodeSortType.FAIR, *[{"vcore": 4}] * count)
    index = index_of(book)
    before = index.version
    for _ in index.reorder(NodeSortPolicy(type=NodeSortType.SPREAD, attribute="zone")):
        pass
    assert index.version == before + count
    assert index.heaps.work < count


@given(
    st.tuples(st.sampled_from(ORDERS), st.sampled_from(ORDERS)),
    st.lists(st.integers(0, 39), max_size=60),
)
def test_nodes_may_change_during_a_change_of_order(
    kinds: tuple[tuple[NodeSortType, Packing | None], tuple[NodeSortType, Packing | None]], changed: list[int]
) -> None:
    """After a change of order, during which nodes changed, the nodes are in the order of a new index.

    The nodes were booked, removed or added again.
    """
    former, latter = kinds
    book = book_of(former[0], *[{"vcore": 8}] * 40, packs=former[1])
    index = index_of(book)
    one = AskClass.of({"vcore": 1})
    assert len(index.ahead(one, 40)) == 40
    policy = policy_of(latter[0])
    waiting = list(changed)
    steps_taken = 0
    for _ in index.reorder(policy, latter[1]):
        steps_taken += 1
        for number in waiting[:4]:
            node = book.by_id.get(NodeId(f"n{number}"))
            if node is None:
                node = node_of(number, {"vcore": 8})
                book.add(node)
                index.improved(node)
            elif not number % 5:
                book.remove(node)
                index.left(node)
            elif node.available["vcore"]:
                book_on_node((("vcore", 1),), node)
                index.took(node)
            else:
                unbook_on_node((("vcore", 8),), node)
                index.improved(node)
        del waiting[:4]
    assert steps_taken >= 3 * 40 // PART
    fresh = NodeBook(policy)
    fresh.reorder(policy, latter[1])
    for node in book.by_id.values():
        twin = Node(node.node_id, node.capacity, node.attributes, schedulable=True)
        fresh.add(twin)
        book_on_node(tuple(node.allocated.items()), twin)
    expected = index_of(fresh).ahead(one, 40)
    assert [n.node_id for n in index.ahead(one, 40)] == [n.node_id for n in expected]


def test_voided_scores_count_as_work() -> None:
    """Scores that a change makes void count as work of the turn."""
    book = book_of(NodeSortType.SPREAD, *[{"vcore": 4}] * 40)
    index = index_of(book)
    before = index.heaps.work // WORK_OF_A_TRY
    for _ in range(WORK_OF_A_TRY):
        index.took(book.by_id[NodeId("n0")])
    assert index.heaps.work // WORK_OF_A_TRY == before + 19


BIG = AskClass.of({"vcore": 3})


def short_of_big() -> tuple[NodeBook, NodeIndex, Node, Supply]:
    """A node that is too small for the class `BIG`, and the supply that is short for this reason."""
    book = book_of(NodeSortType.FAIR, {"vcore": 2})
    index = index_of(book)
    supply = index.best(BIG)
    assert isinstance(supply, Supply)
    return book, index, book.by_id[NodeId("n0")], supply


def test_a_change_that_makes_a_node_fit_opens_a_short_supply() -> None:
    """The change that makes a node fit reports the supply that was short."""
    book, index, node, supply = short_of_big()
    assert index.improved(node) == []
    assert not supply.lets_through()
    book.resize(node, {"vcore": 3})
    assert index.improved(node) == [supply.owner]
    assert supply.lets_through()
    assert index.best(BIG) is node


def test_a_supply_is_shut_when_its_room_is_used() -> None:
    """A supply lets no ask through once its only suitable node is full again."""
    book, index, node, supply = short_of_big()
    book.resize(node, {"vcore": 3})
    index.improved(node)
    book_on_node((("vcore", 1),), node)
    index.took(node)
    assert not supply.lets_through()
    assert index.best(BIG) is supply


def test_a_change_is_found_after_the_log_is_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A changed node is found by a search after the log of changes was cleared."""
    monkeypatch.setattr(node_index, "LOG_SLACK", -1000)
    book, index, node, supply = short_of_big()
    book.resize(node, {"vcore": 3})
    assert index.improved(node) == [supply.owner]
    index.supplies.end_pass()
    assert index.best(BIG) is node


@pytest.mark.parametrize("cap", ["MAX_HEAPS", "MAX_FILL"])
def test_more_classes_than_heaps_are_served(cap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """More classes than the bound on heaps are all served."""
    monkeypatch.setattr(supply_module, cap, 3)
    small = [{"vcore": 1}] * (2 * node_index.PROBES)
    book = book_of(NodeSortType.FAIR, *small, {"vcore": 100})
    index = index_of(book)
    large = book.by_id[NodeId(f"n{len(small)}")]
    for _ in range(2):
        for size in range(2, 40):
            assert index.best(AskClass.of({"vcore": size})) is large


@pytest.mark.parametrize("policy", NodeSortType)
def test_a_removed_node_is_in_no_heap(policy: NodeSortType) -> None:
    """A removed node is in no heap, even if it was never the first node."""
    book = book_of(policy, {"vcore": 8}, {"vcore": 8})
    index = index_of(book)
    taken = (("vcore", -1 if policy is NodeSortType.BINPACKING else 1),)
    for number in range(10):
        node = Node(NodeId(f"x{number}"), {"vcore": 8}, {"zone": "z0"}, schedulable=True)
        book_on_node(taken, node)
        book.add(node)
        index.improved(node)
        assert node_for(index, SHAPES[0]) is not node
        book.remove(node)
        index.left(node)
    node_for(index, SHAPES[0])
    assert {*index.heaps._everything.keys} == {*book.by_id.values()}


@pytest.mark.parametrize(
    ("available", "wanted", "score"),
    [
        ({"a": 10}, {"a": 10}, 0.0),
        ({"a": 10}, {"a": 40}, 0.75),
        ({"a": 10, "b": 0}, {"a": 20, "b": 5}, 1.5),
        ({"a": -5}, {"a": 5}, 1.0),
        ({}, {"a": 5}, 1.0),
    ],
)
def test_the_shortage_of_a_node_is_summed_over_types(
    available: dict[str, int], wanted: dict[str, int], score: float
) -> None:
    """Each requested type adds its missing fraction, which is at most 1 (spec § 8.5)."""
    node = Node(NodeId("n"), available, {}, schedulable=True)
    assert fit_score(node, tuple(wanted.items())) == score


def test_a_new_node_is_found_while_the_log_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new node that changes the scores of its zone is found although the log is full."""
    monkeypatch.setattr(node_index, "LOG_SLACK", -1000)
    book = book_of(NodeSortType.SPREAD, {"vcore": 4}, {"vcore": 4}, {"vcore": 4})
    index = index_of(book)
    big = AskClass.of({"vcore": 5})
    assert isinstance(index.best(big), Supply)
    book_on_node((("vcore", 4),), book.by_id[NodeId("n0")])
    index.took(book.by_id[NodeId("n0")])
    late = Node(NodeId("n9"), {"vcore": 8}, {"zone": "z0"}, schedulable=True)
    book.add(late)
    index.improved(late)
    assert index.best(big) is late
