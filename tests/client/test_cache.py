"""The client's cache, and the requests that follow from it."""

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
    """The server puts an ask on a node."""
    new = si.Allocation(allocationKey=key, applicationID="app", nodeID=node_id)
    return Answers(cache).allocations(si.AllocationResponse(new=[new]))


def released(cache: Cache, key: str, kind: si.TerminationType.ValueType = si.STOPPED_BY_RM) -> list[Event]:
    """The server reports the end of an allocation."""
    release = si.AllocationRelease(
        allocationKey=key, applicationID="app", terminationType=kind, message="why"
    )
    return Answers(cache).allocations(si.AllocationResponse(released=[release]))


def state(name: str, application_id: str = "app") -> si.ApplicationResponse:
    """The server reports the state of an application."""
    update = si.UpdatedApplication(
        applicationID=application_id, state=name, stateTransitionTimestamp=2_500_000_000
    )
    return si.ApplicationResponse(updated=[update])


def accepted(*application_ids: str) -> si.ApplicationResponse:
    """The server accepts applications."""
    return si.ApplicationResponse(
        accepted=[si.AcceptedApplication(applicationID=name) for name in application_ids]
    )


def replayed(cache: Cache) -> list[UpdateRequest]:
    """The requests of a replay."""
    return list(Replay(cache).requests(1000))


def node_of_asks(cache: Cache) -> dict[str, str]:
    """The node of every ask that the replay will send, empty for pending ones."""
    return {
        item.allocationKey: item.nodeID
        for request in replayed(cache)
        for item in request.allocations.allocations
    }


# ---- What the caller says ----


def test_saying_it_twice_sends_it_once() -> None:
    """Unchanged nodes, applications and asks cause no message at all."""
    cache = filled()
    assert cache.add_nodes([Node(node_id="n1", capacity=CORES)]) == []
    assert cache.submit([Application(application_id="app", user="ann")]).applications == []
    assert cache.ask([ask("run"), ask("wait")], NOW) == []
    assert cache.report([Allocation(ask=ask("run"), node_id="n1")], NOW) == []
    assert cache.set_drained("n1", drained=False) == []


def test_one_call_may_name_a_thing_twice() -> None:
    """The same node or application twice in one call is sent once, so that nothing is refused."""
    cache = Cache()
    node = Node(node_id="n1", capacity=CORES)
    application = Application(application_id="app")
    assert len(cache.add_nodes([node, node])) == 1
    assert len(cache.submit([application, application]).applications) == 1


def test_a_known_node_is_resized() -> None:
    """Adding an existing node with another capacity sends the new one, as does a replay."""
    cache = filled()
    (message,) = cache.add_nodes([Node(node_id="n1", capacity={"vcore": 500})])
    assert message.action == si.NodeInfo.UPDATE
    assert message.schedulableResource.resources["vcore"].value == 500
    assert replayed(cache)[1].nodes.nodes[0].schedulableResource.resources["vcore"].value == 500


def test_a_known_ask_is_resized_where_it_is() -> None:
    """Asking again with other resources sends them, and keeps the node of an allocation."""
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
def test_what_cannot_be_sent_changes_nothing(bad: Ask, reason: str) -> None:
    """An invalid ask among others is refused by name, and none of them is stored or sent."""
    cache = filled()
    with pytest.raises(Rejected, match=reason) as refused:
        cache.ask([ask("good"), bad], NOW)
    assert refused.value.key == bad.key
    assert node_of_asks(cache) == {"run": "n1", "wait": ""}


def test_unknown_nodes_cannot_be_changed() -> None:
    """Draining or resizing a node that was never added is an error that names it."""
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
def test_a_replay_tells_everything_in_order() -> None:
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


def test_a_replay_comes_in_chunks() -> None:
    """No request of a replay has more items than the server accepts."""
    cache = Cache()
    cache.submit([Application(application_id="app")])
    cache.ask([ask(f"k{n}") for n in range(7)], NOW)
    sizes = [len(r.allocations.allocations) for r in Replay(cache).requests(3)]
    assert sizes == [0, 0, 3, 3, 1, 0]


def test_drained_nodes_come_back_drained() -> None:
    """A node that was drained, at first or later, is replayed as created drained."""
    cache = Cache()
    cache.add_nodes([Node(node_id="n1", capacity=CORES), Node(node_id="n2", capacity=CORES, drained=True)])
    cache.set_drained("n1", drained=True)
    cache.set_drained("n2", drained=False)
    actions = [node.action for node in replayed(cache)[1].nodes.nodes]
    assert actions == [si.NodeInfo.CREATE_DRAIN, si.NodeInfo.CREATE]


def test_applications_that_run_are_forced() -> None:
    """An application with allocations carries the tag that keeps it from being rejected."""
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


def test_a_release_in_flight_does_not_resurrect() -> None:
    """A released ask is in no replay; a server without state has released it."""
    cache = filled()
    cache.release(["run", "wait"], Termination.STOPPED)
    assert node_of_asks(cache) == {}
    answers = Answers(cache)
    assert answers.begin_replay() == [Released("run", "app", "n1", "")]
    assert answers.begin_replay() == []


def test_removals_in_flight_do_not_resurrect() -> None:
    """Allocations on a removed node, or of a removed application, are treated like released ones."""
    cache = filled()
    cache.remove_node("n1")
    assert node_of_asks(cache) == {"wait": ""}
    cache.remove_application(("default", "app"))
    assert node_of_asks(cache) == {}
    assert Answers(cache).begin_replay() == [Released("run", "app", "n1", "")]


def test_the_caller_hears_of_a_replay_only_what_changed() -> None:
    """Echoes of unchanged items cause no event; another final state of an application does."""
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


def test_what_the_replay_rejects_is_forgotten() -> None:
    """A node, application or allocation that the server refuses in a replay is removed, with an event."""
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


# ---- What the server says ----


def test_first_answers_are_told() -> None:
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


def test_an_allocation_is_told_once() -> None:
    """A repeated allocation of the same ask on the same node is no event."""
    cache = filled()
    assert allocated(cache, "wait", "n2") == [Allocated("wait", "app", "n2", "default")]
    assert allocated(cache, "wait", "n2") == []
    assert node_of_asks(cache) == {"run": "n1", "wait": "n2"}


def test_an_answer_to_a_withdrawn_ask_is_not_told() -> None:
    """An allocation that crosses the release of its ask starts nothing."""
    cache = filled()
    cache.release(["wait"], Termination.STOPPED)
    assert allocated(cache, "wait", "n2") == []
    assert released(cache, "wait") == []


def test_an_allocation_on_a_removed_node_is_only_released() -> None:
    """An allocation that crosses the removal of its node is never started, and its end is reported."""
    cache = filled()
    cache.remove_node("n2")
    assert allocated(cache, "wait", "n2") == []
    assert released(cache, "wait") == [Released("wait", "app", "n2", "why")]


def test_releases_are_confirmed_once() -> None:
    """Our release is answered by one event; one by the server alone forgets the allocation."""
    cache = filled()
    cache.release(["run"], Termination.STOPPED)
    assert released(cache, "run") == [Released("run", "app", "n1", "why")]
    assert released(cache, "run") == []
    allocated(cache, "wait", "n2")
    assert released(cache, "wait") == [Released("wait", "app", "n2", "why")]
    assert node_of_asks(cache) == {}


def test_a_wanted_release_keeps_the_allocation_until_it_is_confirmed() -> None:
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


def test_a_refused_change_keeps_what_runs() -> None:
    """A rejected resize of a running allocation does not make the client forget it."""
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


def test_the_end_of_a_former_application_spares_its_successor() -> None:
    """A late end of a removed application does not end the one submitted again under its id."""
    cache = filled()
    answers = Answers(cache)
    answers.applications(accepted("app"))
    cache.remove_application(("default", "app"))
    cache.submit([Application(application_id="app")])
    answers.applications(state("Completed"))
    assert list(cache.applications) == [("default", "app")]


@pytest.mark.row(10)
def test_one_id_in_two_partitions() -> None:
    """The same application id in two partitions is two applications, accepted one by one."""
    cache = Cache()
    cache.submit([Application(application_id="app"), Application(application_id="app", partition="gpu")])
    answers = Answers(cache)
    assert answers.applications(accepted("app")) == [ApplicationAccepted("app")]
    assert answers.applications(accepted("app")) == [ApplicationAccepted("app")]
    assert answers.applications(accepted("app")) == []
    assert len(replayed(cache)[1].applications.new) == 2
