"""Rejections of what was accepted before: they are about a repetition (clients/README.md, 7)."""

import pytest

from licorne import Application, ApplicationRejected, Node, NodeRejected
from licorne.answers import Answers
from licorne.cache import Cache
from licorne.si.v1 import si_pb2 as si

NODE = Node(node_id="n", capacity={"vcore": 1000})
NODE_ACCEPTED = si.NodeResponse(accepted=[si.AcceptedNode(nodeID="n")])
NODE_REJECTED = si.NodeResponse(rejected=[si.RejectedNode(nodeID="n", reason="is there")])
ACCEPTED = si.ApplicationResponse(accepted=[si.AcceptedApplication(applicationID="a")])
REJECTED = si.ApplicationResponse(
    rejected=[si.RejectedApplication(applicationID="a", reason="is there")]
)


@pytest.fixture
def cache() -> Cache:
    """A node and an application."""
    cache = Cache()
    cache.add_nodes([NODE])
    cache.submit([Application(application_id="a", user="ann")])
    return cache


def test_what_was_accepted_outlives_a_rejection(cache: Cache) -> None:
    """A node or application that the server has stays, and nobody is told that it was refused."""
    answers = Answers(cache)
    answers.nodes(NODE_ACCEPTED)
    answers.applications(ACCEPTED)
    assert answers.nodes(NODE_REJECTED) == []
    assert answers.applications(REJECTED) == []
    assert list(cache.nodes) == ["n"]
    assert list(cache.applications) == [("default", "a")]


def test_a_replay_can_refuse_what_was_accepted(cache: Cache) -> None:
    """The books are new in a replay: what is refused now is gone, and told."""
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
