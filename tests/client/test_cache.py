"""The client's cache, and the requests that it causes."""

import pytest

from licorne.answers import Answers
from licorne.cache import Cache
from licorne.errors import Rejected
from licorne.events import (
    Allocated,
    ApplicationAccepted,
    ApplicationRejected,
    ApplicationStateChanged,
    AskRejected,
    Event,
    NodeAccepted,
    NodeRejected,
    Released,
    ReleaseRequested,
)
from licorne.model import Allocation, Application, Ask, Node, Termination
from licorne.outgoing import Replay
from licorne.si.v1 import si_pb2 as si
from licorne.v1.session_pb2 import UpdateRequest

NOW = 1_700_000_000
CORES = {"vcore": 1000}


def ask(key: str, *, vcore: int = 1000, application_id: str = "app") -> Ask:
    """An ask of the application `app`."""
    return Ask(key=key, application_id=application_id, resources={"vcore": vcore})


def filled() -> Cache:
    """Two nodes, an application, an allocation `run` on n1 and a pending ask `wait`."""
    cache = Cache()
    cache.add_nodes([Node(node_id="n1", capacity=CORES), Node(node_id="n2", capacity=CORES)])
    cache.submit([Application(application_id="app", user="ann")])
    cache.ask([ask("run"), ask("wait")], NOW)
    allocated(cache, "run", "n1")
    return cache


def allocated(cache: Cache, key: str, node_id: str) -> list[Event]:
    """Let the server place an ask on a node."""
    new = si.Allocation(allocationKey=key, applicationID="app", nodeID=node_id)
    return Answers(cache).allocations(si.AllocationResponse(new=[new]))


def released(cache: Cache, key: str, kind: si.TerminationType.ValueType = si.STOPPED_BY_RM) -> list[Event]:
    """Let the server report the end of an allocation."""
    release = si.AllocationRelease(
        allocationKey=key, applicationID="app", terminationType=kind, message="why"
    )
    return Answers(cache).allocations(si.AllocationResponse(released=[release]))


def state(name: str, application_id: str = "app") -> si.ApplicationResponse:
    """Let the server report the state of an application."""
    update = si.UpdatedApplication(
        applicationID=application_id, state=name, stateTransitionTimestamp=2_500_000_000
    )
    return si.ApplicationResponse(updated=[update])


def accepted(*application_ids: str) -> si.ApplicationResponse:
    """The answer that applications are accepted."""
    return si.ApplicationResponse(
        accepted=[si.AcceptedApplication(applicationID=name) for name in application_ids]
    )


def replayed(cache: Cache) -> list[UpdateRequest]:
    """The requests of a replay."""
    return list(Replay(cache).requests(1000))


def node_of_asks(cache: Cache) -> dict[str, str]:
    """The node of every ask in a replay, empty for pending asks."""
    return {
        item.allocationKey: item.nodeID
        for request in replayed(cache)
        for item in request.allocations.allocations
    }


# ---- Calls ----


def test_repeated_calls_send_once() -> None:
    """Unchanged nodes, applications and asks cause no message."""
    cache = filled()
    assert cache.add_nodes([Node(node_id="n1", capacity=CORES)]) == []
    assert cache.submit([Application(application_id="app", user="ann")]).applications == []
    assert cache.ask([ask("run"), ask("wait")], NOW) == []
    assert cache.report([Allocation(ask=ask("run"), node_id="n1")], NOW) == []
    assert cache.set_drained("n1", drained=False) == []


def test_repeated_items_of_a_call_are_sent_once() -> None:
    """The same node or application twice in one call is sent once, so that it is not rejected."""
    cache = Cache()
    node = Node(node_id="n1", capacity=CORES)
    application = Application(application_id="app")
    assert len(cache.add_nodes([node, node])) == 1
    assert len(cache.submit([application, application]).applications) == 1


def test_a_known_node_is_resized() -> None:
    """Adding a known node with another capacity sends the new capacity, and a replay has it, too."""
    cache = filled()
    (message,) = cache.add_nodes([Node(node_id="n1", capacity={"vcore": 500})])
    assert message.action == si.NodeInfo.UPDATE
    assert message.schedulableResource.resources["vcore"].value == 500
    assert replayed(cache)[1].nodes.nodes[0].schedulableResource.resources["vcore"].value == 500


def test_a_known_ask_is_resized() -> None:
    """An ask that is repeated with other resources sends these, and an allocation keeps its node."""
    cache = filled()
    messages = cache.ask([ask("run", vcore=200), ask("wait", vcore=300)], NOW + 9)
    assert [item.resourcePerAlloc.resources["vcore"].value for item in messages] == [200, 300]
    assert node_of_asks(cache) == {"run": "n1", "wait": ""}


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (Ask(key="", application_id="app", resources=CORES), "has no key"),
        (ask("bad", vcore=-1), "vcore is -1"),
        (ask("bad", vcore=2**63), "between 0 and"),
        (Ask(key="bad", application_id="app", resources={"vcore": 1.5}), "vcore is 1.5"),  # type: ignore[dict-item]
        (Ask(key="bad\ud800", application_id="app", resources=CORES), "lone surrogate"),
        (Ask(key="bad", application_id="a" * 2**23, resources=CORES), "it has 8388"),
    ],
)
def test_invalid_items_change_nothing(bad: Ask, reason: str) -> None:
    """An invalid ask among others is refused by name, and none of them is stored or sent."""
    cache = filled()
    with pytest.raises(Rejected, match=reason) as refused:
        cache.ask([ask("good"), bad], NOW)
    assert refused.value.key == bad.key
    assert node_of_asks(cache) == {"run": "n1", "wait": ""}


def test_unknown_nodes_cannot_be_changed() -> None:
    """Draining or resizing a node that was never added is an error with its name."""
    cache = filled()
    with pytest.raises(Rejected, match="n9: there is no such node"):
        cache.set_drained("n9", drained=True)
    with pytest.raises(Rejected, match="n9: there is no such node"):
        cache.update_node("n9", CORES)
    assert cache.remove_node("n9") == []
    assert cache.remove_application(("default", "nobody")) == []
    assert cache.release(["nothing"], Termination.STOPPED) == []


# ---- Replay ----


@pytest.mark.row(161)
def test_a_replay_has_everything_in_order() -> None:
    """The order is: begin, nodes, applications, allocations, pending asks, end with counts."""
    begin, nodes, applications, allocations, end = replayed(filled())
    assert begin.HasField("replay_begin")
    assert [node.nodeID for node in nodes.nodes.nodes] == ["n1", "n2"]
    assert [app.applicationID for app in applications.applications.new] == ["app"]
    assert [(a.allocationKey, a.nodeID) for a in allocations.allocations.allocations] == [
        ("run", "n1"),
        ("wait", ""),
    ]
    counts = end.replay_end
    assert (counts.nodes, counts.applications, counts.allocations) == (2, 1, 2)


def test_a_replay_is_sent_in_parts() -> None:
    """No request of a replay has more items than the server accepts."""
    cache = Cache()
    cache.submit([Application(application_id="app")])
    cache.ask([ask(f"k{n}") for n in range(7)], NOW)
    sizes = [len(r.allocations.allocations) for r in Replay(cache).requests(3)]
    assert sizes == [0, 0, 3, 3, 1, 0]


def test_drained_nodes_are_replayed_drained() -> None:
    """A node that was drained, at its creation or later, is replayed as created drained."""
    cache = Cache()
    cache.add_nodes([Node(node_id="n1", capacity=CORES), Node(node_id="n2", capacity=CORES, drained=True)])
    cache.set_drained("n1", drained=True)
    cache.set_drained("n2", drained=False)
    actions = [node.action for node in replayed(cache)[1].nodes.nodes]
    assert actions == [si.NodeInfo.CREATE_DRAIN, si.NodeInfo.CREATE]


def test_applications_with_allocations_are_forced() -> None:
    """An application with allocations has the tag that prevents its rejection."""
    cache = filled()
    cache.submit([Application(application_id="idle", tags={"namespace": "ns"})])
    tags = {app.applicationID: dict(app.tags) for app in replayed(cache)[2].applications.new}
    assert tags == {"app": {"application.create.force": "true"}, "idle": {"namespace": "ns"}}


def test_asks_keep_their_age() -> None:
    """A replayed ask has its creation time, unless the caller has set one."""
    cache = filled()
    tagged = Ask(key="old", application_id="app", resources=CORES, tags={"creationTime": "5"})
    cache.ask([tagged], NOW)
    times = {
        a.allocationKey: a.allocationTags["creationTime"] for a in replayed(cache)[3].allocations.allocations
    }
    assert times == {"run": str(NOW), "wait": str(NOW), "old": "5"}


def test_released_asks_are_not_replayed() -> None:
    """A released ask is in no replay, so that a server without state does not place it."""
    cache = filled()
    cache.release(["run", "wait"], Termination.STOPPED)
    assert node_of_asks(cache) == {}
    answers = Answers(cache)
    assert answers.begin_replay() == [Released("run", "app", "n1", "")]
    assert answers.begin_replay() == []


def test_removed_items_are_not_replayed() -> None:
    """Allocations on a removed node, or of a removed application, are left out like released ones."""
    cache = filled()
    cache.remove_node("n1")
    assert node_of_asks(cache) == {"wait": ""}
    cache.remove_application(("default", "app"))
    assert node_of_asks(cache) == {}
    assert Answers(cache).begin_replay() == [Released("run", "app", "n1", "")]


def test_only_changes_of_a_replay_are_events() -> None:
    """Answers about unchanged items cause no event; another state of an application does."""
    cache = filled()
    answers = Answers(cache)
    answers.nodes(si.NodeResponse(accepted=[si.AcceptedNode(nodeID="n1")]))
    answers.applications(accepted("app"))
    answers.applications(state("Running"))
    answers.begin_replay()
    assert answers.nodes(si.NodeResponse(accepted=[si.AcceptedNode(nodeID="n1")])) == []
    assert answers.applications(accepted("app")) == []
    assert answers.applications(state("New")) == []
    assert answers.applications(state("Accepted")) == []
    assert allocated(cache, "run", "n1") == []
    assert answers.end_replay() == [ApplicationStateChanged("app", "Accepted", 2.5, "")]
    assert answers.end_replay() == []


def test_items_rejected_in_a_replay_are_forgotten() -> None:
    """A node, application or allocation that is rejected in a replay is removed, with an event."""
    cache = filled()
    answers = Answers(cache)
    answers.applications(accepted("app"))
    answers.begin_replay()
    lost = si.RejectedAllocation(allocationKey="run", applicationID="app", reason="no node")
    assert answers.allocations(si.AllocationResponse(rejectedAllocations=[lost])) == [
        AskRejected("run", "app", "no node")
    ]
    assert node_of_asks(cache) == {"wait": ""}
    gone = si.RejectedApplication(applicationID="app", reason="no queue")
    assert answers.applications(si.ApplicationResponse(rejected=[gone])) == [
        ApplicationRejected("app", "no queue")
    ]
    assert node_of_asks(cache) == {}
    assert cache.applications == {}


# ---- Messages of the server ----


def test_first_answers_are_events() -> None:
    """Acceptances of nodes and applications and their states are events, in the order of the answers."""
    cache = filled()
    answers = Answers(cache)
    response = si.NodeResponse(
        accepted=[si.AcceptedNode(nodeID="n1")],
        rejected=[si.RejectedNode(nodeID="n2", reason="no")],
    )
    assert answers.nodes(response) == [NodeAccepted("n1"), NodeRejected("n2", "no")]
    assert list(cache.nodes) == ["n1"]
    assert answers.applications(accepted("app")) == [ApplicationAccepted("app")]
    assert answers.applications(state("Running")) == [ApplicationStateChanged("app", "Running", 2.5, "")]


def test_an_allocation_is_one_event() -> None:
    """A repeated allocation of the same ask on the same node is no event."""
    cache = filled()
    assert allocated(cache, "wait", "n2") == [Allocated("wait", "app", "n2", "default")]
    assert allocated(cache, "wait", "n2") == []
    assert node_of_asks(cache) == {"run": "n1", "wait": "n2"}


def test_an_answer_to_a_released_ask_is_no_event() -> None:
    """An allocation that crosses the release of its ask is no event."""
    cache = filled()
    cache.release(["wait"], Termination.STOPPED)
    assert allocated(cache, "wait", "n2") == []
    assert released(cache, "wait") == []


def test_an_allocation_on_a_removed_node_is_released() -> None:
    """An allocation that crosses the removal of its node is not reported, and its end is."""
    cache = filled()
    cache.remove_node("n2")
    assert allocated(cache, "wait", "n2") == []
    assert released(cache, "wait") == [Released("wait", "app", "n2", "why")]


def test_releases_are_confirmed_once() -> None:
    """The client's release is answered by one event; a release by the server removes the allocation."""
    cache = filled()
    cache.release(["run"], Termination.STOPPED)
    assert released(cache, "run") == [Released("run", "app", "n1", "why")]
    assert released(cache, "run") == []
    allocated(cache, "wait", "n2")
    assert released(cache, "wait") == [Released("wait", "app", "n2", "why")]
    assert node_of_asks(cache) == {}


def test_a_requested_release_waits_for_the_caller() -> None:
    """A preemption is a request: the allocation remains until the caller releases it."""
    cache = filled()
    assert released(cache, "run", si.PREEMPTED_BY_SCHEDULER) == [
        ReleaseRequested("run", "app", "n1", Termination.PREEMPTED, "why")
    ]
    assert node_of_asks(cache)["run"] == "n1"
    (message,) = cache.release(["run"], Termination.PREEMPTED)
    assert message.terminationType == si.PREEMPTED_BY_SCHEDULER
    assert node_of_asks(cache) == {"wait": ""}
    assert Answers(cache).begin_replay() == []


def test_a_rejected_change_keeps_the_allocation() -> None:
    """A rejected resize of a running allocation does not remove it."""
    cache = filled()
    rejected = si.RejectedAllocation(allocationKey="run", applicationID="app", reason="no")
    response = si.AllocationResponse(rejectedAllocations=[rejected])
    assert Answers(cache).allocations(response) == [AskRejected("run", "app", "no")]
    assert node_of_asks(cache) == {"run": "n1", "wait": ""}


def test_an_ended_application_is_forgotten() -> None:
    """The server forgets a completed application, and so does the client."""
    cache = filled()
    answers = Answers(cache)
    answers.applications(accepted("app"))
    answers.applications(state("Completed"))
    assert cache.applications == {}
    assert node_of_asks(cache) == {}


def test_the_end_of_a_removed_application_does_not_affect_its_successor() -> None:
    """A late end of a removed application does not affect a new one of the same id."""
    cache = filled()
    answers = Answers(cache)
    answers.applications(accepted("app"))
    cache.remove_application(("default", "app"))
    cache.submit([Application(application_id="app")])
    answers.applications(state("Completed"))
    assert list(cache.applications) == [("default", "app")]


@pytest.mark.row(10)
def test_one_id_in_two_partitions() -> None:
    """The same application id in two partitions means two applications, accepted separately."""
    cache = Cache()
    cache.submit([Application(application_id="app"), Application(application_id="app", partition="gpu")])
    answers = Answers(cache)
    assert answers.applications(accepted("app")) == [ApplicationAccepted("app")]
    assert answers.applications(accepted("app")) == [ApplicationAccepted("app")]
    assert answers.applications(accepted("app")) == []
    assert len(replayed(cache)[1].applications.new) == 2
