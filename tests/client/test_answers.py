"""Ambiguous answers: repetitions, and applications of the same id.

A rejection of an accepted item concerns a repetition (clients/contract.md, 7). Namesakes are applications of
one id in several partitions; no answer names the partition.
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


def test_what_was_accepted_outlives_a_rejection(cache: Cache) -> None:
    """An accepted node or application remains, and the caller gets no rejection."""
    answers = Answers(cache)
    answers.nodes(NODE_ACCEPTED)
    answers.applications(ACCEPTED)
    assert answers.nodes(NODE_REJECTED) == []
    assert answers.applications(REJECTED) == []
    assert list(cache.nodes) == ["n"]
    assert list(cache.applications) == [("default", "a")]


def test_a_replay_can_refuse_what_was_accepted(cache: Cache) -> None:
    """The books are new in a replay: an item that is refused now is removed, with an event."""
    answers = Answers(cache)
    answers.nodes(NODE_ACCEPTED)
    answers.applications(ACCEPTED)
    answers.begin_replay()
    assert answers.nodes(NODE_REJECTED) == [NodeRejected("n", "is there")]
    assert answers.applications(REJECTED) == [ApplicationRejected("a", "is there")]
    assert not cache.nodes
    assert not cache.applications


def test_the_same_id_in_another_partition_can_be_refused(cache: Cache) -> None:
    """Of two applications of one id the one not accepted yet is the one that was refused."""
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


def test_the_end_of_an_application_spares_its_namesakes(namesakes: Cache) -> None:
    """It is unknown which of two accepted namesakes has ended: both remain, with their asks."""
    answers = Answers(namesakes)
    answers.applications(ACCEPTED)
    answers.applications(ACCEPTED)
    ended = ApplicationStateChanged("a", "Completed", 0.0, "done")
    assert answers.applications(ENDED) == [ended]
    assert list(namesakes.applications) == [HERE, THERE]
    assert list(namesakes.asks) == ["here", "there"]


def test_the_last_namesake_can_end(namesakes: Cache) -> None:
    """Once the caller has removed one namesake, an end is of the other, which is forgotten."""
    answers = Answers(namesakes)
    answers.applications(ACCEPTED)
    answers.applications(ACCEPTED)
    namesakes.remove_application(HERE)
    answers.applications(ENDED)
    assert not namesakes.applications
    assert not namesakes.asks


def test_one_rejection_is_of_one_namesake(namesakes: Cache) -> None:
    """The server answers in the order of submission, so a rejection concerns the older namesake."""
    answers = Answers(namesakes)
    assert answers.applications(REJECTED) == [ApplicationRejected("a", "is there")]
    assert list(namesakes.applications) == [THERE]
    assert answers.applications(ACCEPTED) == [ApplicationAccepted("a")]
    assert list(namesakes.asks) == ["there"]


def test_the_older_of_two_namesakes_is_the_one_submitted_first(cache: Cache) -> None:
    """The order of submission counts, whatever partition was heard of first."""
    cache.submit([Application(application_id="b", partition=name) for name in ("gpu", "default")])
    response = si.ApplicationResponse(rejected=[si.RejectedApplication(applicationID="b")])
    Answers(cache).applications(response)
    assert list(cache.applications) == [HERE, ("default", "b")]


def test_namesakes_that_one_answer_takes_and_refuses_stay(namesakes: Cache) -> None:
    """It is unknown which one the server has: the rejection is reported, and no ask is removed."""
    answers = Answers(namesakes)
    assert answers.applications(BOTH) == [
        ApplicationAccepted("a"),
        ApplicationRejected("a", "is there"),
    ]
    assert list(namesakes.applications) == [HERE, THERE]
    assert list(namesakes.asks) == ["here", "there"]


@pytest.mark.parametrize("running", [HERE, THERE], ids=["older", "younger"])
@pytest.mark.parametrize("response", [BOTH, REJECTED], ids=["both", "rejected"])
def test_a_replay_does_not_lose_the_namesake_that_runs(
    namesakes: Cache, response: si.ApplicationResponse, running: tuple[str, str]
) -> None:
    """A rejection in a replay is of the namesake without allocations: the other one is forced."""
    runs = Ask(key="runs", application_id="a", resources={}, partition=running[0])
    namesakes.report([Allocation(ask=runs, node_id="n")], 1)
    answers = Answers(namesakes)
    answers.applications(ACCEPTED)
    answers.applications(ACCEPTED)
    answers.begin_replay()
    assert answers.applications(response) == [ApplicationRejected("a", "is there")]
    assert list(namesakes.applications) == [running]
    assert "runs" in namesakes.asks


def test_what_a_replay_accepted_it_does_not_reject(cache: Cache) -> None:
    """After its acceptance in a replay an application is treated as at other times."""
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


def test_what_was_echoed_outlives_a_rejection(cache: Cache) -> None:
    """A reported allocation that the server has confirmed is not ended by a refused repetition."""
    answers = Answers(cache)
    cache.report([Allocation(ask=ASK, node_id="n")], 0)
    assert answers.allocations(ECHO) == []
    assert answers.allocations(ASK_REJECTED) == REFUSED
    assert cache.asks["k"].node_id == "n"


def test_what_was_not_echoed_does_not_outlive_a_rejection(cache: Cache) -> None:
    """A report that the server has refused is removed."""
    cache.report([Allocation(ask=ASK, node_id="n")], 0)
    assert Answers(cache).allocations(ASK_REJECTED) == REFUSED
    assert not cache.asks


def test_a_refused_placement_leaves_no_trace_of_the_node(cache: Cache) -> None:
    """An ask whose placement by the caller was refused waits again, and is on no node."""
    cache.ask([ASK], 0)
    cache.report([Allocation(ask=ASK, node_id="n")], 0)
    assert Answers(cache).allocations(ASK_REJECTED) == REFUSED
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
