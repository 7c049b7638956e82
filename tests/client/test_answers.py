"""Ambiguous answers: repetitions, and applications of the same id.

A rejection of an accepted item concerns a repetition (clients/contract.md, 7). Namesakes are applications of
one id in several partitions; no answer has the partition.
"""

import pytest

from licorne import (
    Allocation,
    Application,
    ApplicationAccepted,
    ApplicationRejected,
    ApplicationStateChanged,
    Ask,
    AskRejected,
    Node,
    NodeRejected,
)
from licorne.answers import Answers
from licorne.cache import Cache
from licorne.model import Termination
from licorne.si.v1 import si_pb2 as si
from licorne.wire import FOREIGN_TAG

NODE = Node(node_id="n", capacity={"vcore": 1000})
NODE_ACCEPTED = si.NodeResponse(accepted=[si.AcceptedNode(nodeID="n")])
NODE_REJECTED = si.NodeResponse(rejected=[si.RejectedNode(nodeID="n", reason="is there")])
ACCEPTED = si.ApplicationResponse(accepted=[si.AcceptedApplication(applicationID="a")])
REJECTED = si.ApplicationResponse(rejected=[si.RejectedApplication(applicationID="a", reason="is there")])
BOTH = si.ApplicationResponse(accepted=ACCEPTED.accepted, rejected=REJECTED.rejected)
ENDED = si.ApplicationResponse(
    updated=[si.UpdatedApplication(applicationID="a", state="Completed", message="done")]
)
HERE, THERE = ("default", "a"), ("gpu", "a")


@pytest.fixture
def cache() -> Cache:
    """A node and an application."""
    cache = Cache()
    cache.add_nodes([NODE])
    cache.submit([Application(application_id="a", user="ann")])
    return cache


def test_accepted_items_survive_a_rejection(cache: Cache) -> None:
    """An accepted node or application remains, and the caller gets no rejection."""
    answers = Answers(cache)
    answers.nodes(NODE_ACCEPTED)
    answers.applications(ACCEPTED)
    assert answers.nodes(NODE_REJECTED) == []
    assert answers.applications(REJECTED) == []
    assert list(cache.nodes) == ["n"]
    assert list(cache.applications) == [("default", "a")]


def test_a_replay_can_reject_accepted_items(cache: Cache) -> None:
    """The server's state is new in a replay: an item that is rejected then is removed, with an event."""
    answers = Answers(cache)
    answers.nodes(NODE_ACCEPTED)
    answers.applications(ACCEPTED)
    answers.begin_replay()
    assert answers.nodes(NODE_REJECTED) == [NodeRejected("n", "is there")]
    assert answers.applications(REJECTED) == [ApplicationRejected("a", "is there")]
    assert not cache.nodes
    assert not cache.applications


def test_a_namesake_can_be_rejected(cache: Cache) -> None:
    """Of two applications of one id the one that is not accepted yet was rejected."""
    answers = Answers(cache)
    answers.applications(ACCEPTED)
    cache.submit([Application(application_id="a", user="ann", partition="gpu")])
    assert answers.applications(REJECTED) == [ApplicationRejected("a", "is there")]
    assert list(cache.applications) == [("default", "a")]


@pytest.fixture
def namesakes(cache: Cache) -> Cache:
    """The application and its namesake in another partition, each with an ask."""
    cache.submit([Application(application_id="a", user="ann", partition="gpu")])
    for partition, key in (HERE, "here"), (THERE, "there"):
        cache.ask([Ask(key=key, application_id="a", resources={}, partition=partition[0])], 1)
    return cache


def test_the_end_of_an_application_keeps_its_namesakes(namesakes: Cache) -> None:
    """It is unknown which of two accepted namesakes has ended, so both remain, with their asks."""
    answers = Answers(namesakes)
    answers.applications(ACCEPTED)
    answers.applications(ACCEPTED)
    ended = ApplicationStateChanged("a", "Completed", 0.0, "done")
    assert answers.applications(ENDED) == [ended]
    assert list(namesakes.applications) == [HERE, THERE]
    assert list(namesakes.asks) == ["here", "there"]


def test_the_last_namesake_can_end(namesakes: Cache) -> None:
    """Once the caller has removed one namesake, an end concerns the other, which is forgotten."""
    answers = Answers(namesakes)
    answers.applications(ACCEPTED)
    answers.applications(ACCEPTED)
    namesakes.remove_application(HERE)
    answers.applications(ENDED)
    assert not namesakes.applications
    assert not namesakes.asks


def test_a_rejection_concerns_one_namesake(namesakes: Cache) -> None:
    """The server answers in the order of submission, so a rejection concerns the older namesake."""
    answers = Answers(namesakes)
    assert answers.applications(REJECTED) == [ApplicationRejected("a", "is there")]
    assert list(namesakes.applications) == [THERE]
    assert answers.applications(ACCEPTED) == [ApplicationAccepted("a")]
    assert list(namesakes.asks) == ["there"]


def test_the_older_of_two_namesakes_is_the_one_submitted_first(cache: Cache) -> None:
    """The order of submission counts, and not that of the first answers."""
    cache.submit([Application(application_id="b", partition=name) for name in ("gpu", "default")])
    response = si.ApplicationResponse(rejected=[si.RejectedApplication(applicationID="b")])
    Answers(cache).applications(response)
    assert list(cache.applications) == [HERE, ("default", "b")]


def test_namesakes_of_an_ambiguous_answer_remain(namesakes: Cache) -> None:
    """It is unknown which namesake the server has: the rejection is reported, and no ask is removed."""
    answers = Answers(namesakes)
    assert answers.applications(BOTH) == [
        ApplicationAccepted("a"),
        ApplicationRejected("a", "is there"),
    ]
    assert list(namesakes.applications) == [HERE, THERE]
    assert list(namesakes.asks) == ["here", "there"]


@pytest.mark.parametrize("running", [HERE, THERE], ids=["older", "younger"])
@pytest.mark.parametrize("response", [BOTH, REJECTED], ids=["both", "rejected"])
def test_a_replay_keeps_the_running_namesake(
    namesakes: Cache, response: si.ApplicationResponse, running: tuple[str, str]
) -> None:
    """A rejection in a replay concerns the namesake without allocations, because the other one is forced."""
    runs = Ask(key="runs", application_id="a", resources={}, partition=running[0])
    namesakes.report([Allocation(ask=runs, node_id="n")], 1)
    answers = Answers(namesakes)
    answers.applications(ACCEPTED)
    answers.applications(ACCEPTED)
    answers.begin_replay()
    assert answers.applications(response) == [ApplicationRejected("a", "is there")]
    assert list(namesakes.applications) == [running]
    assert "runs" in namesakes.asks


def test_an_application_accepted_in_a_replay_survives_a_rejection(cache: Cache) -> None:
    """An application that was accepted in a replay is then treated as usual."""
    answers = Answers(cache)
    answers.applications(ACCEPTED)
    answers.begin_replay()
    assert answers.applications(ACCEPTED) == []
    assert answers.applications(REJECTED) == []
    assert list(cache.applications) == [HERE]


ASK = Ask(key="k", application_id="a", resources={"vcore": 100})
ECHO = si.AllocationResponse(new=[si.Allocation(allocationKey="k", nodeID="n")])
ASK_REJECTED = si.AllocationResponse(
    rejectedAllocations=[si.RejectedAllocation(allocationKey="k", applicationID="a", reason="is there")]
)
REFUSED = [AskRejected("k", "a", "is there")]


def test_a_confirmed_allocation_survives_a_rejection(cache: Cache) -> None:
    """A reported allocation that the server has confirmed is not ended by a rejected repetition."""
    answers = Answers(cache)
    cache.report([Allocation(ask=ASK, node_id="n")], 0)
    assert answers.allocations(ECHO) == []
    assert answers.allocations(ASK_REJECTED) == REFUSED
    assert cache.asks["k"].node_id == "n"


def test_an_unconfirmed_allocation_does_not_survive_a_rejection(cache: Cache) -> None:
    """A reported allocation that the server has rejected is removed."""
    cache.report([Allocation(ask=ASK, node_id="n")], 0)
    assert Answers(cache).allocations(ASK_REJECTED) == REFUSED
    assert not cache.asks


def test_a_rejected_placement_leaves_no_node(cache: Cache) -> None:
    """An ask whose placement by the caller was rejected is pending again, without a node."""
    cache.ask([ASK], 0)
    cache.report([Allocation(ask=ASK, node_id="n")], 0)
    assert Answers(cache).allocations(ASK_REJECTED) == REFUSED
    assert cache.asks["k"].node_id == ""
    assert not cache.by_node
    assert not cache.unconfirmed


def test_only_resources_of_an_ask_can_change(cache: Cache) -> None:
    """A repeated ask with the same resources is no change, whatever other fields differ."""
    cache.ask([ASK], 0)
    again = Ask(key="k", application_id="a", resources={"vcore": 100}, priority=7)
    assert cache.ask([again], 1) == []
    assert cache.asks["k"].ask.priority == 0


def test_foreign_allocations_need_no_confirmation(cache: Cache) -> None:
    """A released foreign allocation is removed at once, without a confirmation."""
    foreign = Ask(key="k", application_id="", resources={"vcore": 1}, tags={FOREIGN_TAG: "static"})
    cache.report([Allocation(ask=foreign, node_id="n")], 0)
    assert len(cache.release(["k"], Termination.STOPPED)) == 1
    assert not cache.asks
    assert not cache.releasing
