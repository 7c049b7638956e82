"""Changes of an ask that the server rejects: the ask keeps its previous values."""

import pytest

from licorne.answers import Answers
from licorne.cache import Cache
from licorne.events import Allocated, AskRejected, Event
from licorne.model import Allocation, Application, Ask, Node
from licorne.outgoing import Replay
from licorne.si.v1 import si_pb2 as si

NOW = 1_700_000_000


def ask(key: str, vcore: int = 1) -> Ask:
    """An ask of the application `app`."""
    return Ask(key=key, application_id="app", resources={"vcore": vcore})


@pytest.fixture
def cache() -> Cache:
    """A node n1, an application, an allocation `run` on n1 and a pending ask `wait`."""
    cache = Cache()
    cache.add_nodes([Node(node_id="n1", capacity={"vcore": 10})])
    cache.submit([Application(application_id="app", user="ann")])
    cache.ask([ask("run"), ask("wait")], NOW)
    placed(cache, "run")
    return cache


def placed(cache: Cache, key: str) -> list[Event]:
    """Let the server place an ask on n1."""
    new = si.Allocation(allocationKey=key, applicationID="app", nodeID="n1")
    return Answers(cache).allocations(si.AllocationResponse(new=[new]))


def refused(cache: Cache, key: str, answers: Answers | None = None) -> None:
    """Let the server reject a request about a key; the caller must get the event."""
    rejected = si.RejectedAllocation(allocationKey=key, applicationID="app", reason="no")
    response = si.AllocationResponse(rejectedAllocations=[rejected])
    heard = (answers or Answers(cache)).allocations(response)
    assert heard == [AskRejected(key, "app", "no")]


def told(cache: Cache) -> dict[str, tuple[str, int]]:
    """The node, empty for pending asks, and the size of every key in a replay."""
    return {
        item.allocationKey: (item.nodeID, item.resourcePerAlloc.resources["vcore"].value)
        for request in Replay(cache).requests(1000)
        for item in request.allocations.allocations
    }


@pytest.mark.row(111)
@pytest.mark.parametrize("key", ["run", "wait"])
def test_a_refused_resize_is_undone(cache: Cache, key: str) -> None:
    """An ask or allocation whose resize is rejected keeps its old size; each resize counts separately."""
    before = told(cache)
    cache.ask([ask(key, 7)], NOW)
    cache.ask([ask(key, 9)], NOW)
    refused(cache, key)
    assert told(cache) == {**before, key: (before[key][0], 7)}
    refused(cache, key)
    assert told(cache) == before


@pytest.mark.row(111)
def test_an_ask_is_placed_although_its_resize_was_rejected(cache: Cache) -> None:
    """A pending ask whose resize was rejected can still be placed."""
    cache.ask([ask("wait", 7)], NOW)
    refused(cache, "wait")
    assert placed(cache, "wait") == [Allocated("wait", "app", "n1", "default")]


def test_a_rejected_resize_keeps_the_node(cache: Cache) -> None:
    """A resize that is rejected after the allocation of the ask does not remove its node."""
    cache.ask([ask("wait", 7)], NOW)
    placed(cache, "wait")
    refused(cache, "wait")
    assert told(cache)["wait"] == ("n1", 1)


@pytest.mark.row(112)
def test_a_refused_placement_of_a_pending_ask_leaves_it_pending(cache: Cache) -> None:
    """An ask that the caller placed on a node, which the server rejects, remains pending."""
    before = told(cache)
    cache.report([Allocation(ask=ask("wait"), node_id="n7")], NOW)
    refused(cache, "wait")
    assert told(cache) == before
    assert placed(cache, "wait") == [Allocated("wait", "app", "n1", "default")]


def test_an_accepted_placement_survives_a_rejected_resize(cache: Cache) -> None:
    """A rejection after an accepted placement concerns the later resize."""
    cache.report([Allocation(ask=ask("wait"), node_id="n1")], NOW)
    cache.ask([ask("wait", 7)], NOW)
    placed(cache, "wait")
    refused(cache, "wait")
    assert told(cache)["wait"] == ("n1", 1)


def test_a_rejected_new_ask_is_forgotten(cache: Cache) -> None:
    """An ask that was rejected together with its resize is removed."""
    before = told(cache)
    cache.ask([ask("more", 1), ask("more", 2)], NOW)
    refused(cache, "more")
    refused(cache, "more")
    assert told(cache) == before


def test_an_ask_rejected_in_a_replay_is_forgotten(cache: Cache) -> None:
    """A replay has an ask only in its last size: if that is rejected, the ask is removed."""
    answers = Answers(cache)
    cache.ask([ask("wait", 7)], NOW)
    answers.begin_replay()
    refused(cache, "wait", answers)
    assert list(told(cache)) == ["run"]
