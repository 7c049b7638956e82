"""Supplies of nodes for classes of asks, which are short while no node fits (spec §§ 8.4-8.8)."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from licorne_core.config.schema import NodeSortPolicy
from licorne_core.model.books import book_on_node, unbook_on_node
from licorne_core.model.nodes.book import NodeBook
from licorne_core.model.nodes.node import NO_ANSWER, Node
from licorne_core.scheduling.node_search.index import NodeIndex
from licorne_core.scheduling.waiting.supply import NodePool, ReservableSupply, Supply, fit_score
from licorne_core.values.asks import AskClass, Reservation, Shape
from licorne_core.values.ids import AllocationKey, AppId, NodeId
from licorne_core.values.resources import Items
from licorne_core.values.slices import Tuning

CLASSES = [
    AskClass.of({"vcore": 3}),
    AskClass.of({"vcore": 1, "gpu": 1}),
    AskClass.of({"vcore": 2}, predicate="p"),
    AskClass.of({"vcore": 9}),
    AskClass.of({"vcore": 2}, NodeId("n1")),
]


def node_of(number: int = 0, **capacity: int) -> Node:
    """An empty node with this number and capacity."""
    return Node(NodeId(f"n{number}"), capacity, {}, schedulable=True)


def run_short(ask_class: AskClass = CLASSES[0]) -> Supply:
    """A supply after a failed search of all nodes."""
    supply = Supply(ask_class.shape, NodePool(Supply.amounts))
    assert not supply.is_short
    supply.run_short()
    return supply


def test_a_short_supply_lets_no_ask_through() -> None:
    """A short supply lets no ask through, however often it runs short."""
    supply = run_short()
    supply.run_short()
    assert supply.is_short
    assert not supply.lets_through()


def test_a_node_that_could_help_opens_the_node_pool() -> None:
    """A changed node opens a short pool only if the node is large enough for a waiting ask."""
    supply = run_short()
    pool = supply.nodes
    roomy, other, full = node_of(0, vcore=5), node_of(1, vcore=5), node_of(2, vcore=2)
    assert pool.improved(full) == []
    assert pool.improved(roomy) == [pool]
    assert pool.improved(other) == [pool]
    assert list(pool.rooms) == [roomy, other]
    assert supply.lets_through()


def test_no_node_is_recorded_while_no_supply_is_short() -> None:
    """Changes of nodes have no effect while no supply is short."""
    pool = NodePool(Supply.amounts)
    assert pool.improved(node_of(0, vcore=5)) == []
    assert not pool.rooms


def test_a_changed_node_without_room_lets_no_ask_through() -> None:
    """Changed nodes let asks through only as long as one of the nodes has enough room."""
    supply = run_short()
    pool = supply.nodes
    first, second = node_of(0, vcore=5), node_of(1, vcore=5)
    pool.improved(first)
    pool.improved(second)
    first.set_schedulable(schedulable=False)
    assert supply.lets_through()
    assert pool.lets_through()
    book_on_node((("vcore", 4),), second)
    pool.took(second)
    assert list(pool.rooms) == [first]
    assert not supply.lets_through()
    assert not pool.lets_through()
    unbook_on_node((("vcore", 4),), second)
    assert pool.improved(second) == [pool]
    assert supply.lets_through()


def test_a_node_large_enough_for_the_smallest_waiting_ask_is_recorded() -> None:
    """A node opens a pool if the node is large enough for the smallest of the short supplies."""
    large = run_short()
    pool = large.nodes
    small = Supply(AskClass.of({"vcore": 2}).shape, pool)
    small.run_short()
    node = node_of(0, vcore=2)
    assert pool.improved(node) == [pool]
    assert (small.lets_through(), large.lets_through()) == (True, False)


def test_a_refusal_by_the_rm_rules_out_no_other_class() -> None:
    """Refusals of all nodes by the RM for one class rule out no class with larger requests."""
    pool = NodePool(Supply.amounts)
    Supply(CLASSES[2], pool).run_short()
    assert not pool.rules_out(Shape({"vcore": 3}))
    Supply(CLASSES[2].shape, pool).run_short()
    assert pool.rules_out(Shape({"vcore": 3}))


def test_a_search_for_longer_asks_rules_out_no_shorter_ones() -> None:
    """A failed search for asks of a runtime rules out larger asks only if their runtime is not shorter."""
    pool = NodePool(Supply.amounts)
    Supply(Shape({"vcore": 2}, runtime=60.0), pool).run_short()
    assert pool.rules_out(Shape({"vcore": 3}, runtime=60.0))
    assert pool.rules_out(Shape({"vcore": 3}))
    assert not pool.rules_out(Shape({"vcore": 3}, runtime=59.0))


def test_after_a_failed_try_only_a_change_lets_an_ask_through() -> None:
    """A supply that was shut lets asks through only after a change."""
    supply = run_short()
    pool = supply.nodes
    pool.improved(node_of(0, vcore=5))
    supply.shut()
    assert not supply.lets_through()
    pool.open()
    assert supply.lets_through()


def test_a_supply_without_waiting_asks_is_not_short_after_the_pass() -> None:
    """After the pass a supply without waiting asks is not short, and its changed nodes are dropped."""
    supply = run_short()
    supply.nodes.end_pass()
    assert supply.is_short
    supply.nodes.improved(node_of(0, vcore=5))
    supply.nodes.end_pass()
    assert not supply.nodes.rooms
    assert not supply.is_short


def test_a_supply_with_waiting_asks_remains_short() -> None:
    """After the pass a supply whose waiting asks could not use the changed nodes is still short."""
    supply = run_short()
    supply.waiting = 1
    supply.nodes.improved(node_of(0, vcore=5))
    supply.nodes.end_pass()
    assert supply.is_short
    supply.waiting = 0
    supply.retire()
    assert supply.is_short
    supply.run_short()
    supply.nodes.improved(node_of(0, vcore=5))
    supply.nodes.end_pass()
    assert not supply.is_short


def test_a_drained_node_opens_only_the_pool_of_asks_that_require_it() -> None:
    """A drained node opens only the pool of asks that require the node (spec § 7.4)."""
    drained = node_of(1, vcore=5)
    drained.set_schedulable(schedulable=False)
    for ask_class in (CLASSES[0], CLASSES[4]):
        required = ask_class.required_node is not None
        pool = NodePool(Supply.amounts, required=required)
        supply = Supply(ask_class.shape, pool)
        supply.run_short()
        assert pool.improved(drained) == [pool] * required
        assert supply.lets_through() is required


def test_a_full_node_may_be_reserved() -> None:
    """A node may be reserved unless it is drained, reserved, too small or refused by the RM (spec § 8.5)."""
    supply = ReservableSupply(CLASSES[0], NodePool(ReservableSupply.amounts))
    node = node_of(0, vcore=5)
    book_on_node((("vcore", 5),), node)
    assert supply.takes(node)
    assert not supply.takes(node_of(1, vcore=2))
    reservation = Reservation(AppId("app"), AllocationKey("k"), node.node_id, 0.0, required=False, items=())
    node.add_reservation(reservation)
    assert not supply.takes(node)
    node.drop_reservation(reservation)
    node.results[CLASSES[0], False] = "never"
    assert not supply.takes(node)
    node.results = {(CLASSES[0], True): "taint"}
    assert not supply.takes(node)
    node.results = {(CLASSES[0], True): NO_ANSWER}
    assert supply.takes(node)
    node.set_schedulable(schedulable=False)
    assert not supply.takes(node)


def test_a_required_node_may_be_reserved_whatever_its_amounts() -> None:
    """For an ask that requires a node only this node may be reserved, whatever its amounts (spec § 8.7)."""
    supply = ReservableSupply(CLASSES[4], NodePool(ReservableSupply.amounts))
    node = node_of(1, vcore=1)
    node.set_schedulable(schedulable=False)
    assert (supply.items, supply.takes(node), supply.takes(node_of(2, vcore=9))) == (
        (),
        True,
        False,
    )


@pytest.mark.parametrize(
    ("left", "score"),
    [
        ({"vcore": 4, "memory": 8}, 0.0),
        ({"vcore": 4}, 1.0),
        ({"vcore": 3, "memory": 8}, 0.25),
        ({"vcore": -1, "memory": 2}, 1.75),
        ({}, 2.0),
    ],
)
def test_the_shortage_is_the_sum_over_types(left: Mapping[str, int], score: float) -> None:
    """A type that fits adds zero to the shortage, and a type without any room adds one (spec § 8.5)."""
    node = node_of(0, **left)
    assert fit_score(node, (("memory", 8), ("vcore", 4))) == score


def test_the_node_with_the_least_shortage_is_reserved() -> None:
    """The node with the least shortage is reserved, whatever the scores of the nodes."""
    supply = ReservableSupply(CLASSES[0], NodePool(ReservableSupply.amounts))
    empty_small, full = node_of(0, vcore=3), node_of(1, vcore=30)
    book_on_node((("vcore", 1),), empty_small)
    book_on_node((("vcore", 29),), full)
    empty_small.score, full.score = 0.9, 0.3
    assert supply.rank(empty_small) < supply.rank(full)
    book_on_node((("vcore", 1),), empty_small)
    assert supply.rank(full) < supply.rank(empty_small)


def test_an_ask_without_a_reservable_node_waits_for_a_large_enough_one() -> None:
    """An ask may reserve a full node that has grown enough, but is not placed there yet (spec § 8.5)."""
    book = NodeBook(NodeSortPolicy())
    node = node_of(0, vcore=4)
    book.add(node)
    index = NodeIndex(book, Tuning())
    to_go, to_reserve = index.best(CLASSES[3]), index.to_reserve(CLASSES[3], 0.0)
    assert isinstance(to_go, Supply)
    assert isinstance(to_reserve, ReservableSupply)
    book_on_node((("vcore", 4),), node)
    book.resize(node, {"vcore": 9})
    assert index.improved(node) == [to_reserve.owner]
    assert index.to_reserve(CLASSES[3], 0.0) is node
    assert index.best(CLASSES[3]) is to_go


steps = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "ask",
                "ask",
                "reserve",
                "place",
                "release",
                "drain",
                "open",
                "resize",
                "refuse",
                "end",
            ]
        ),
        st.integers(0, len(CLASSES) - 1),
        st.integers(0, 3),
    ),
    max_size=50,
)


class Cluster:
    """Four nodes, an index over them, and their short supplies."""

    def __init__(self) -> None:
        """Nodes of 1 to 4 vcore, the last one with a gpu."""
        self.book = NodeBook(NodeSortPolicy())
        for number in range(4):
            self.book.add(node_of(number, vcore=1 + number, gpu=number // 3))
        self.nodes = list(self.book.by_id.values())
        self.index = NodeIndex(self.book, Tuning())
        self.seen: dict[Supply, None] = {}
        self.booked: dict[Node, list[Items]] = {node: [] for node in self.nodes}

    def look(self, what: str, ask_class: AskClass) -> None:
        """Search for a node to reserve, or for a node on which an ask is placed."""
        to_reserve = what == "reserve"
        found = self.index.to_reserve(ask_class, 0.0) if to_reserve else self.index.best(ask_class)
        if isinstance(found, Supply):
            self.seen[found] = None
        elif what == "place":
            book_on_node(ask_class.items, found)
            self.booked[found].append(ask_class.items)
            self.index.took(found)

    def change(self, what: str, size: int, node: Node) -> None:
        """Improve the node, and void the RM's refusals."""
        node.results.clear()
        if what == "release" and self.booked[node]:
            unbook_on_node(self.booked[node].pop(), node)
        elif what in ("drain", "open"):
            node.set_schedulable(schedulable=what == "open")
        elif what == "resize":
            self.book.resize(node, {"vcore": 3 * size, "gpu": size % 2})
        self.index.improved(node)

    def check(self) -> None:
        """Check the invariants of every supply."""
        for supply in self.seen:
            if supply.is_short:
                taking = {node for node in self.nodes if supply.takes(node)}
                assert supply.wanted.required_node is not None or taking <= {*supply.nodes.rooms}
                assert supply.lets_through() == bool(taking)


@given(steps)
def test_waiting_asks_miss_no_changed_node(
    history: list[tuple[str, int, int]],
) -> None:
    """After any history of nodes and searches, an ask that waits for a short supply misses no node."""
    cluster = Cluster()
    for what, which, number in history:
        ask_class, node = CLASSES[which], cluster.nodes[number]
        if what in ("ask", "reserve", "place"):
            cluster.look(what, ask_class)
        elif what == "end":
            cluster.index.supplies.end_pass()
        elif what == "refuse":
            node.results[ask_class, bool(number % 2)] = "no"
        else:
            cluster.change(what, which, node)
        cluster.check()
