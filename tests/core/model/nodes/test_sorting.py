"""Node orders: scores, and the nodes whose scores a change makes void (spec § 7.5)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from licorne_core.config.schema import NodeSortPolicy, NodeSortType
from licorne_core.model.books import book_foreign, book_on_node, unbook_on_node
from licorne_core.model.nodes.book import NodeBook, utilization
from licorne_core.model.nodes.node import Node
from licorne_core.values.ids import NodeId

FAIR = NodeSortPolicy()
PACKING = NodeSortPolicy(type=NodeSortType.BINPACKING)
SPREAD = NodeSortPolicy(type=NodeSortType.SPREAD, attribute="zone")


def nodes_of(policy: NodeSortPolicy, *zones: str, vcore: int = 10) -> tuple[NodeBook, list[Node]]:
    """A node of these cores and 10 bytes of memory in each zone; an empty name is no zone."""
    book = NodeBook(policy)
    for number, zone in enumerate(zones):
        capacity = {"vcore": vcore, "memory": 10}
        where = {"zone": zone} if zone else {}
        book.add(Node(NodeId(f"n{number}"), capacity, where, schedulable=True))
    return book, list(book.by_id.values())


def fill(book: NodeBook, node: Node, **amounts: int) -> list[Node]:
    """Book amounts on a node; return the nodes whose scores are void."""
    book_on_node(tuple(amounts.items()), node)
    return list(book.order.voids(node))


def by_score(book: NodeBook) -> list[str]:
    """The ids of the nodes in node order."""
    for node in book.by_id.values():
        list(book.order.voids(node))
    every = book.by_id.values()
    return [n.node_id for n in sorted(every, key=lambda n: (book.order.score(n), n.node_id))]


def test_utilization_is_the_weighted_mean_of_taken_shares() -> None:
    """Utilization is the weighted mean of the used shares of the types that a node has."""
    _, (node,) = nodes_of(FAIR, "")
    book_on_node((("vcore", 5), ("gpu", 3)), node)
    assert utilization(node, FAIR) == 0.25
    assert utilization(node, NodeSortPolicy(weights={"vcore": 3.0, "memory": 1.0})) == 0.375
    assert utilization(node, NodeSortPolicy(weights={"vcore": 1.0, "memory": 0.0})) == 0.5
    assert utilization(node, NodeSortPolicy(weights={"gpu": 1.0})) == 0.0
    assert utilization(node, NodeSortPolicy(weights={})) == 0.0


def test_foreign_allocations_count_as_taken() -> None:
    """A foreign allocation makes a node as full as an own allocation (spec § 7.3)."""
    _, (node,) = nodes_of(FAIR, "")
    book_foreign((), (("memory", 10),), node)
    assert utilization(node, FAIR) == 0.5


def test_fair_takes_the_emptiest_node_first() -> None:
    """The order `fair` takes the emptiest node first, and equally empty nodes by their ids."""
    book, (n0, n1, _) = nodes_of(FAIR, "", "", "")
    fill(book, n0, vcore=4)
    assert by_score(book) == ["n1", "n2", "n0"]
    fill(book, n1, memory=5)
    assert by_score(book) == ["n2", "n0", "n1"]


def test_bin_packing_takes_the_fullest_node_first() -> None:
    """The order `binpacking` takes the fullest node first, and equally full nodes by their ids."""
    book, (_, n1, n2) = nodes_of(PACKING, "", "", "")
    fill(book, n2, vcore=4)
    assert by_score(book) == ["n2", "n0", "n1"]
    fill(book, n1, vcore=5)
    assert by_score(book) == ["n1", "n2", "n0"]


@pytest.mark.parametrize("policy", [FAIR, PACKING])
def test_in_orders_without_zones_a_change_voids_one_score(policy: NodeSortPolicy) -> None:
    """Under `fair` and `binpacking` a change makes the score of its own node void."""
    book, (n0, _) = nodes_of(policy, "east", "east")
    assert fill(book, n0, vcore=1) == [n0]


def test_spread_takes_the_emptiest_zone_first() -> None:
    """Zones are ordered by the mean utilization of their nodes; nodes without the attribute form a zone."""
    book, (e0, _, w2, _, none4) = nodes_of(SPREAD, "east", "east", "west", "west", "", vcore=8)
    fill(book, e0, vcore=4)
    fill(book, w2, vcore=1)
    fill(book, none4, vcore=1)
    assert book.order.score(e0) == (0.125, 0.25)
    assert book.order.score(w2) == (0.03125, 0.0625)
    assert book.order.score(none4) == (0.0625, 0.0625)
    assert by_score(book) == ["n3", "n2", "n4", "n1", "n0"]


def test_a_change_in_a_zone_voids_the_scores_of_the_zone() -> None:
    """An unchanged node moves back in the order when its zone becomes fuller."""
    book, (e0, e1, w2) = nodes_of(SPREAD, "east", "east", "west")
    fill(book, w2, vcore=1)
    assert by_score(book) == ["n0", "n1", "n2"]
    untouched = book.order.score(e1)
    assert fill(book, e0, vcore=8) == [e0, e1]
    assert book.order.score(e1) > untouched
    assert by_score(book) == ["n2", "n1", "n0"]


def test_added_and_removed_nodes_change_the_mean_of_a_zone() -> None:
    """An added or removed node changes the mean of its zone; a zone without nodes has none."""
    book, (e0, e1, _) = nodes_of(SPREAD, "east", "east", "west")
    fill(book, e0, vcore=10)
    assert book.order.score(e1) == (0.25, 0.0)
    book.remove(e1)
    assert list(book.order.voids(e1)) == [e0]
    assert book.order.score(e0) == (0.5, 0.5)
    book.remove(e0)
    assert list(book.order.voids(e0)) == []
    again = Node(NodeId("n9"), {"vcore": 10, "memory": 10}, {"zone": "east"}, schedulable=True)
    book.add(again)
    assert list(book.order.voids(again)) == [again]
    assert book.order.score(again) == (0.0, 0.0)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(-9, 9)), max_size=40))
def test_cached_scores_equal_new_ones(steps: list[tuple[int, int]]) -> None:
    """All scores are right if only void scores are computed again after each change."""
    zones = ("east", "east", "west", "west", "")
    book, nodes = nodes_of(SPREAD, *zones, vcore=1000)
    kept = {}
    for node in nodes:
        for void in book.order.voids(node):
            kept[void] = book.order.score(void)
    booked = dict.fromkeys(nodes, 0)
    for number, change in steps:
        node = nodes[number]
        if change < 0 and booked[node] >= -change:
            unbook_on_node((("vcore", -change),), node)
            booked[node] += change
        elif change > 0:
            book_on_node((("vcore", change),), node)
            booked[node] += change
        for void in book.order.voids(node):
            kept[void] = book.order.score(void)
        fresh, same = nodes_of(SPREAD, *zones, vcore=1000)
        for node, copy in zip(nodes, same, strict=True):
            fill(fresh, copy, vcore=booked[node])
        for node, copy in zip(nodes, same, strict=True):
            assert kept[node] == fresh.order.score(copy)
