"""The node index gives the node that a look at all nodes gives (spec §§ 7.4, 7.5)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from licorne_core.asks import Allocation, Ask, AskClass
from licorne_core.config.schema import NodeSortPolicy, NodeSortType
from licorne_core.ids import AllocationKey, AppId, NodeId
from licorne_core.nodes.book import NodeBook
from licorne_core.nodes.node import Node
from licorne_core.scheduling import candidates
from licorne_core.scheduling.candidates import NodeIndex

SHAPES = [
    AskClass({"vcore": 1}),
    AskClass({"vcore": 3, "memory": 1}),
    AskClass({"memory": 4}),
    AskClass({"gpu": 1}),
    AskClass({"vcore": 1}, NodeId("n2")),
]


def book_of(policy: NodeSortType, *capacities: dict[str, int]) -> NodeBook:
    """Nodes n0, n1, … of these capacities."""
    book = NodeBook(NodeSortPolicy(type=policy))
    for number, capacity in enumerate(capacities):
        book.add(Node(NodeId(f"n{number}"), capacity, {}, schedulable=True))
    return book


def put_on(book: NodeBook, node: Node, ask_class: AskClass, key: str) -> None:
    """Allocate on the node."""
    ask = Ask(AllocationKey(key), AppId("a"), ask_class)
    node.add_allocation(Allocation(ask, node.node_id, 0.0, 0.0))
    node.score = book.order.score(node)


steps = st.lists(
    st.tuples(
        st.sampled_from(["ask", "ask", "ask", "release", "drain", "undrain", "resize", "remove"]),
        st.integers(0, len(SHAPES) - 1),
        st.integers(0, 5),
    ),
    max_size=60,
)


@given(st.sampled_from(NodeSortType), steps)
def test_index_and_scan_agree(policy: NodeSortType, history: list[tuple[str, int, int]]) -> None:
    """After any history of nodes both find the same node for every class."""
    book = book_of(policy, *({"vcore": 4, "memory": 4 + n, "gpu": n // 4} for n in range(5)))
    index = NodeIndex(book, indexed=True)
    scan = NodeIndex(book, indexed=False)
    made = 0
    for what, shape, number in history:
        node = book.by_id.get(NodeId(f"n{number}"))
        if what == "ask":
            found = index.best(SHAPES[shape])
            assert found is scan.best(SHAPES[shape])
            if found is not None:
                made += 1
                put_on(book, found, SHAPES[shape], f"k{made}")
                if book.order.fullest_first:
                    index.changed(found)
            continue
        if node is None:
            continue
        if what == "release" and node.allocations:
            node.drop_allocation(next(iter(node.allocations)))
        elif what == "drain":
            node.schedulable = False
        elif what == "undrain":
            node.schedulable = True
        elif what == "resize":
            book.resize(node, {"vcore": 1 + shape * 2, "memory": 5})
        elif what == "remove":
            book.remove(node)
            continue
        node.score = book.order.score(node)
        index.changed(node)


def test_a_starved_class_is_fed_by_the_node_that_fits() -> None:
    """A class that found no node is reported by the first change that would give it one."""
    book = book_of(NodeSortType.FAIR, {"vcore": 2})
    index = NodeIndex(book, indexed=True)
    big = AskClass({"vcore": 3})
    assert index.best(big) is None
    node = book.by_id[NodeId("n0")]
    assert index.changed(node) == []
    book.resize(node, {"vcore": 3})
    assert index.changed(node) == [big]
    assert index.changed(node) == []
    assert index.best(big) is node


def test_a_change_is_not_lost_with_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that feeds a class when the log is full is found later, whoever waits meanwhile."""
    monkeypatch.setattr(candidates, "LOG_SLACK", -1000)
    book = book_of(NodeSortType.FAIR, {"vcore": 2})
    index = NodeIndex(book, indexed=True)
    big = AskClass({"vcore": 3})
    assert index.best(big) is None
    node = book.by_id[NodeId("n0")]
    book.resize(node, {"vcore": 3})
    assert index.changed(node) == [big]
    index.starved.leave(big)
    assert index.best(big) is node


@pytest.mark.parametrize("cap", ["MAX_HEAPS", "MAX_FILL"])
def test_more_classes_than_heaps(cap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any number of classes is served, though only so many have an index of their own."""
    monkeypatch.setattr(candidates, cap, 3)
    small = [{"vcore": 1}] * (2 * candidates.PROBES)
    book = book_of(NodeSortType.FAIR, *small, {"vcore": 100})
    index = NodeIndex(book, indexed=True)
    large = book.by_id[NodeId(f"n{len(small)}")]
    for _ in range(2):
        for size in range(2, 40):
            assert index.best(AskClass({"vcore": size})) is large
