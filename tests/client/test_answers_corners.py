"""Answers that may concern something else: another partition, a repetition, a foreign allocation."""

import pytest

from licorne import Allocation, Application, Ask, AskRejected, Node
from licorne.answers import Answers
from licorne.cache import Cache
from licorne.model import Termination
from licorne.si.v1 import si_pb2 as si
from licorne.wire import FOREIGN_TAG

APP = Application(application_id="a", user="ann")
ASK = Ask(key="k", application_id="a", resources={"vcore": 100})
ECHO = si.AllocationResponse(new=[si.Allocation(allocationKey="k", nodeID="n")])
REJECTED = si.AllocationResponse(
    rejectedAllocations=[si.RejectedAllocation(allocationKey="k", applicationID="a", reason="is there")]
)
REFUSED = [AskRejected("k", "a", "is there")]


@pytest.fixture
def cache() -> Cache:
    """A node and an application."""
    cache = Cache()
    cache.add_nodes([Node(node_id="n", capacity={"vcore": 1000})])
    cache.submit([APP])
    return cache


def test_what_was_echoed_outlives_a_rejection(cache: Cache) -> None:
    """A reported allocation that the server has confirmed is not ended by a refused repetition."""
    answers = Answers(cache)
    cache.report([Allocation(ask=ASK, node_id="n")], 0)
    assert answers.allocations(ECHO) == []
    assert answers.allocations(REJECTED) == REFUSED
    assert cache.asks["k"].node_id == "n"


def test_what_was_not_echoed_does_not_outlive_a_rejection(cache: Cache) -> None:
    """A report that the server has refused is removed."""
    cache.report([Allocation(ask=ASK, node_id="n")], 0)
    assert Answers(cache).allocations(REJECTED) == REFUSED
    assert not cache.asks


def test_a_refused_placement_leaves_no_trace_of_the_node(cache: Cache) -> None:
    """An ask whose placement by the caller was refused waits again, and is on no node."""
    cache.ask([ASK], 0)
    cache.report([Allocation(ask=ASK, node_id="n")], 0)
    assert Answers(cache).allocations(REJECTED) == REFUSED
    assert cache.asks["k"].node_id == ""
    assert not cache.by_node
    assert not cache.unconfirmed


def test_only_resources_of_an_ask_can_change(cache: Cache) -> None:
    """A repeated ask with the same resources is no change, whatever else is different."""
    cache.ask([ASK], 0)
    again = Ask(key="k", application_id="a", resources={"vcore": 100}, priority=7)
    assert cache.ask([again], 1) == []
    assert cache.asks["k"].ask.priority == 0


def test_nobody_confirms_the_end_of_what_others_run(cache: Cache) -> None:
    """A released foreign allocation is removed at once, without a confirmation."""
    foreign = Ask(key="k", application_id="", resources={"vcore": 1}, tags={FOREIGN_TAG: "static"})
    cache.report([Allocation(ask=foreign, node_id="n")], 0)
    assert len(cache.release(["k"], Termination.STOPPED)) == 1
    assert not cache.asks
    assert not cache.releasing
