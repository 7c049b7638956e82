"""Nodes for a class of asks, and who waits while there are none (spec §§ 8.4-8.8)."""

from collections.abc import Mapping
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from licorne_core.asks import AskClass
from licorne_core.books import book_on_node, unbook_on_node
from licorne_core.config.schema import NodeSortPolicy
from licorne_core.ids import AllocationKey, AppId, NodeId
from licorne_core.nodes.book import NodeBook
from licorne_core.nodes.node import Node
from licorne_core.reservations import Reservation
from licorne_core.resources import Items
from licorne_core.scheduling.candidates import NodeIndex
from licorne_core.scheduling.fitting import FittingIndex
from licorne_core.scheduling.supply import MAX_HOPEFUL, ReservableSupply, Supply, fit_score
from licorne_core.tuning import Tuning

CLASSES = [
    AskClass.of({"vcore": 3}),
    AskClass.of({"vcore": 1, "gpu": 1}),
    AskClass.of({"vcore": 2}, predicate="p"),
    AskClass.of({"vcore": 9}),
    AskClass.of({"vcore": 2}, NodeId("n1")),
]


def node_of(number: int = 0, **capacity: int) -> Node:
    """A node without anything on it."""
    return Node(NodeId(f"n{number}"), capacity, {}, schedulable=True)


class Short(NamedTuple):
    """A supply that has run short, and the index that knows so."""

    supply: Supply
    all_short: FittingIndex

    @property
    def is_known(self) -> bool:
        """Whether the index has it."""
        return self.supply in list(self.all_short)


def run_short(ask_class: AskClass = CLASSES[0]) -> Short:
    """A supply after a look at all nodes in vain."""
    index = FittingIndex()
    supply = Supply(ask_class.shape, index)
    assert supply.lets_through()
    assert not len(index)
    supply.run_short()
    return Short(supply, index)


def test_a_short_supply_lets_nobody_through() -> None:
    """And it is among those that lack room, once, however often it runs short."""
    short = run_short()
    short.supply.run_short()
    assert (short.supply.is_short, short.is_known, len(short.all_short)) == (True, True, 1)
    assert not short.supply.lets_through()


def test_only_the_first_hope_is_told() -> None:
    """Who waits is woken by the first node; the following ones are noted without a word."""
    supply = run_short().supply
    roomy, other, full = node_of(0, vcore=5), node_of(1, vcore=5), node_of(2, vcore=2)
    assert not supply.offer(full)
    assert supply.offer(roomy)
    assert not supply.offer(other)
    assert list(supply.hopeful) == [roomy, other]
    assert supply.lets_through()


def test_hopes_that_are_gone_let_nobody_through() -> None:
    """A look is worth it as long as one hopeful node would do; otherwise all are forgotten."""
    short = run_short()
    first, second = node_of(0, vcore=5), node_of(1, vcore=5)
    short.supply.offer(first)
    short.supply.offer(second)
    first.set_schedulable(schedulable=False)
    assert short.supply.lets_through()
    book_on_node((("vcore", 4),), second)
    assert not short.supply.lets_through()
    assert (short.supply.hopeful, short.is_known) == ({}, True)
    unbook_on_node((("vcore", 4),), second)
    assert short.supply.offer(second)


def test_with_many_hopes_a_supply_is_not_short() -> None:
    """Then a look at all nodes is worth it, and nothing more is noted."""
    short = run_short()
    for number in range(MAX_HOPEFUL):
        short.supply.offer(node_of(number, vcore=5))
    assert (short.supply.is_short, short.is_known) == (True, True)
    short.supply.offer(node_of(MAX_HOPEFUL, vcore=5))
    assert (short.supply.is_short, short.is_known) == (False, False)
    assert short.supply.hopeful == {}
    assert short.supply.lets_through()


def test_hopes_that_nobody_could_use_are_not_kept() -> None:
    """After a pass the supply with hopes counts as one that was not looked at yet."""
    short = run_short()
    short.supply.end_pass()
    assert short.supply.is_short
    short.supply.offer(node_of(0, vcore=5))
    short.supply.end_pass()
    assert (short.supply.is_short, short.is_known) == (False, False)


def test_what_may_be_reserved_goes_by_capacity() -> None:
    """The node may be full, but neither drained, reserved already nor too small (spec § 8.5)."""
    supply = ReservableSupply(CLASSES[0], FittingIndex())
    node = node_of(0, vcore=5)
    book_on_node((("vcore", 5),), node)
    assert supply.takes(node)
    assert not supply.takes(node_of(1, vcore=2))
    reservation = Reservation(AppId("app"), AllocationKey("k"), node.node_id, 0.0, required=False)
    node.add_reservation(reservation)
    assert not supply.takes(node)
    node.drop_reservation(reservation)
    node.results[CLASSES[0], False] = "never"
    assert not supply.takes(node)
    node.results = {(CLASSES[0], True): "taint"}
    assert supply.takes(node)
    node.set_schedulable(schedulable=False)
    assert not supply.takes(node)


def test_a_required_node_may_be_reserved_whatever_it_holds() -> None:
    """Its amounts do not count, and no other node does (spec § 8.7)."""
    supply = ReservableSupply(CLASSES[4], FittingIndex())
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
def test_how_short_a_node_is_adds_up_over_the_types(left: Mapping[str, int], score: float) -> None:
    """Nothing for a type that fits, one for a type of which there is nothing (spec § 8.5)."""
    node = node_of(0, **left)
    assert fit_score(node, (("memory", 8), ("vcore", 4))) == score


def test_the_least_short_node_is_reserved_and_of_equals_the_first_in_node_order() -> None:
    """How much is missing comes before how full the node is."""
    supply = ReservableSupply(CLASSES[0], FittingIndex())
    empty_small, full = node_of(0, vcore=3), node_of(1, vcore=30)
    book_on_node((("vcore", 1),), empty_small)
    book_on_node((("vcore", 29),), full)
    empty_small.score, full.score = 0.9, 0.3
    assert supply.rank(empty_small) < supply.rank(full)
    book_on_node((("vcore", 1),), empty_small)
    assert supply.rank(full) < supply.rank(empty_small)


def test_who_finds_no_node_to_reserve_hears_of_one_that_could_hold_the_ask() -> None:
    """It may be full: those who look for a node to reserve wait for another supply (spec § 8.5)."""
    book = NodeBook(NodeSortPolicy())
    node = node_of(0, vcore=4)
    book.add(node)
    index = NodeIndex(book, Tuning())
    to_go, to_reserve = index.best(CLASSES[3]), index.to_reserve(CLASSES[3])
    assert isinstance(to_go, Supply)
    assert isinstance(to_reserve, ReservableSupply)
    book_on_node((("vcore", 4),), node)
    book.resize(node, {"vcore": 9})
    assert index.improved(node) == [to_reserve]
    assert index.to_reserve(CLASSES[3]) is node
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
    """Four nodes, an index over them, and the supplies that were found short of something."""

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
        """Look for a node to reserve or to go to, and go there in order to place an ask."""
        look = self.index.to_reserve if what == "reserve" else self.index.best
        found = look(ask_class)
        if isinstance(found, Supply):
            self.seen[found] = None
        elif what == "place":
            book_on_node(ask_class.items, found)
            self.booked[found].append(ask_class.items)
            self.index.took(found)

    def change(self, what: str, size: int, node: Node) -> None:
        """Something about the node may be better now, and the RM's refusals are void."""
        node.results.clear()
        if what == "release" and self.booked[node]:
            unbook_on_node(self.booked[node].pop(), node)
        elif what in ("drain", "open"):
            node.set_schedulable(schedulable=what == "open")
        elif what == "resize":
            self.book.resize(node, {"vcore": 3 * size, "gpu": size % 2})
        self.index.improved(node)

    def check(self) -> None:
        """What holds of every supply at any time."""
        for supply in self.seen:
            if supply.is_short:
                assert {n for n in self.nodes if supply.takes(n)} <= set(supply.hopeful)
            else:
                assert not supply.hopeful
                assert supply.lets_through()


@given(steps)
def test_every_node_that_a_short_supply_would_take_is_hopeful(
    history: list[tuple[str, int, int]],
) -> None:
    """So whoever waits for the supply cannot miss a node, after any history of nodes and looks."""
    cluster = Cluster()
    for what, which, number in history:
        ask_class, node = CLASSES[which], cluster.nodes[number]
        if what in ("ask", "reserve", "place"):
            cluster.look(what, ask_class)
        elif what == "end":
            for supply in cluster.seen:
                supply.end_pass()
        elif what == "refuse":
            node.results[ask_class, bool(number % 2)] = "no"
        else:
            cluster.change(what, which, node)
        cluster.check()
