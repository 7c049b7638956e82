"""Work is bounded, however many reserved nodes are released and asks wait for these (§ 9.2)."""

from itertools import count

import pytest

from licorne_core.model.apps.requests import Request
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.queue import Queue
from licorne_core.scheduling.waiting import shortages
from licorne_core.scheduling.waiting.shortages import NodesReserved, ReservedNodeWaits
from licorne_core.standard.preemption.laws import Law
from licorne_core.standard.preemption.search import SearchRefusal
from licorne_core.values.ids import NodeId, QueuePath
from support.core.builders import ask, config, register
from support.core.driver import Driver
from support.core.steps import lines_in

REFUSAL = SearchRefusal(Law.NODES_KEPT, QueuePath("root.a"), {}, {}, {})
NOW, LATER = 100.0, 115.0


@pytest.fixture
def leaf() -> Queue:
    """The only leaf of a core."""
    driver = Driver()
    driver.do(register(config("[{name: a}]")))
    partition = driver.partition
    return next(partition.tree.leaves())


def waits(known: ReservedNodeWaits, leaf: Queue, size: int) -> NodesReserved:
    """Let an ask of this size wait for reserved nodes."""
    kept = known.note(leaf, wanting(size), REFUSAL, NOW, LATER)
    kept.waiting += 1
    return kept


def wanting(size: int) -> Request:
    """A pending ask of this size."""
    return Request(ask("app", f"k{size}", vcore=size), NOW, 1)


def small(number: int) -> Node:
    """A node without room for any of the asks."""
    return Node(NodeId(f"n{number}"), {"vcore": 1}, {}, schedulable=True)


@pytest.mark.pure
@pytest.mark.parametrize("many", [1_000, 4_000])
def test_a_bounded_number_of_sizes_waits_for_a_node(leaf: Queue, many: int) -> None:
    """A released node is compared with a bounded number of sizes; further sizes search at an interval."""
    known = ReservedNodeWaits()
    for size in range(2, many):
        waits(known, leaf, size)
    node = small(0)
    known.give_up(node)
    lines = lines_in(lambda: known.that_may_use(node), shortages)
    assert lines.total() <= 10 * shortages.MOST_KEPT


@pytest.mark.pure
@pytest.mark.parametrize("many", [1_000, 4_000])
def test_a_waiting_ask_examines_a_bounded_number_of_released_nodes(leaf: Queue, many: int) -> None:
    """Of many released nodes only the latest are examined."""
    known = ReservedNodeWaits()
    waits(known, leaf, 2)
    for number in range(many):
        known.give_up(small(number))
    lines = lines_in(lambda: known.find(leaf, wanting(2), NOW), shortages)
    assert lines.total() <= 20 * shortages.MOST_GIVEN_UP


def test_an_ask_that_missed_a_released_node_searches_again(leaf: Queue) -> None:
    """An ask searches again if a released node was dropped before the ask examined it."""
    known = ReservedNodeWaits()
    first = waits(known, leaf, 2)
    numbers = count()
    for _ in range(shortages.MOST_GIVEN_UP):
        known.give_up(small(next(numbers)))
    assert known.find(leaf, wanting(2), NOW) is first
    known.give_up(small(next(numbers)))
    assert known.find(leaf, wanting(2), NOW) is None
    again = waits(known, leaf, 2)
    assert known.find(leaf, wanting(2), NOW) is again
