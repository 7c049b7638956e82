"""Outgoing requests: items joined into few requests, and replays of everything."""

import json
from pathlib import Path
from typing import Any

import pytest

from licorne import Allocation, Application, Ask, Node, Termination
from licorne.cache import Cache
from licorne.outgoing import Packer, Replay
from licorne.si.v1 import si_pb2 as si
from licorne.v1.session_pb2 import NoticeAnswer, ReplayEnd, UpdateRequest

CASES = json.loads(
    (Path(__file__).parents[2] / "clients" / "conformance" / "joining.json").read_text(encoding="utf-8")
)["cases"]
"""Cases of items that may be joined, for the clients of all languages."""


def asks(*keys: str) -> list[si.Allocation]:
    """Asks with these keys."""
    return [si.Allocation(allocationKey=key) for key in keys]


def releases(*keys: str) -> list[si.AllocationRelease]:
    """Releases of these keys."""
    return [si.AllocationRelease(allocationKey=key) for key in keys]


def taken(packer: Packer) -> list[UpdateRequest]:
    """Everything in the packer."""
    requests = []
    while (request := packer.take()) is not None:
        requests.append(request)
    return requests


def put(packer: Packer, item: str) -> None:
    """Queue an item of a case."""
    match item.split():
        case ["node", name, action]:
            packer.nodes([si.NodeInfo(nodeID=name, action=si.NodeInfo.ActionFromRM.Value(action))])
        case ["submit", name]:
            packer.new_applications([si.AddApplicationRequest(applicationID=name)])
        case ["remove", name]:
            packer.removed_applications([si.RemoveApplicationRequest(applicationID=name)])
        case ["ask", key, *size]:
            filler = "x" * int(size[0]) if size else ""
            packer.allocations([si.Allocation(allocationKey=key, taskGroupName=filler)])
        case ["release", key]:
            packer.releases(releases(key))
        case _:
            packer.notice_answers([NoticeAnswer(allocation_key=item.split()[1])])


def items_of(request: UpdateRequest) -> list[str]:
    """The items of a request as in the case, additions first."""
    told = [f"node {n.nodeID} {si.NodeInfo.ActionFromRM.Name(n.action)}" for n in request.nodes.nodes]
    told += [f"submit {item.applicationID}" for item in request.applications.new]
    told += [f"remove {item.applicationID}" for item in request.applications.remove]
    for ask in request.allocations.allocations:
        told.append(f"ask {ask.allocationKey} {len(ask.taskGroupName) or ''}".strip())
    told += [f"release {r.allocationKey}" for r in request.allocations.releases.allocationsToRelease]
    return told + [f"answer {answer.allocation_key}" for answer in request.notice_answers.answers]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_items_are_joined_as_in_all_clients(case: Any) -> None:
    """The requests are those of the case, with all items in order."""
    packer = Packer(case["max_items"])
    for item in case["items"]:
        put(packer, item)
    assert [items_of(request) for request in taken(packer)] == case["requests"]


def test_calls_share_a_request() -> None:
    """Asks of several calls are sent in one message."""
    packer = Packer()
    packer.allocations(asks("a"))
    packer.allocations(asks("b", "c"))
    assert packer.items == 3
    assert [items_of(request) for request in taken(packer)] == [["ask a", "ask b", "ask c"]]
    assert packer.items == 0


def ask(key: str, partition: str = "default") -> Ask:
    """An ask of the application `a`."""
    return Ask(key=key, application_id="a", resources={"vcore": 1}, partition=partition)


@pytest.fixture
def cache() -> Cache:
    """Three nodes, one of them drained; two namesakes; two allocations and three pending asks."""
    cache = Cache()
    cache.add_nodes([Node(node_id=name, capacity={"vcore": 9}) for name in ("n1", "n2", "n3")])
    cache.set_drained("n2", drained=True)
    cache.submit([Application(application_id="a", partition=name) for name in ("default", "gpu")])
    runs = (ask("k1"), "n1"), (ask("k2", "gpu"), "n3")
    cache.report([Allocation(ask=item, node_id=node_id) for item, node_id in runs], 1)
    cache.ask([ask("k3"), ask("k4"), ask("k5", "gpu")], 1)
    return cache


def sent(requests: list[UpdateRequest]) -> ReplayEnd:
    """The number of items in these requests."""
    return ReplayEnd(
        nodes=sum(len(request.nodes.nodes) for request in requests),
        applications=sum(len(request.applications.new) for request in requests),
        allocations=sum(len(request.allocations.allocations) for request in requests),
    )


@pytest.mark.parametrize("max_items", [1, 2, 1000])
def test_the_counts_are_those_of_the_sent_items(cache: Cache, max_items: int) -> None:
    """Every item is counted once in its kind, however many requests there are."""
    requests = list(Replay(cache).requests(max_items))
    assert requests[-1].replay_end == ReplayEnd(nodes=3, applications=2, allocations=5)
    assert requests[-1].replay_end == sent(requests)


def test_changes_during_a_replay_do_not_affect_it(cache: Cache) -> None:
    """A replay has the state of its beginning; later changes are sent after it."""
    unhurried = Replay(cache).requests(1)
    requests = [next(unhurried) for _ in range(3)]
    cache.remove_node("n3")
    cache.remove_application(("gpu", "a"))
    cache.release(["k1", "k3"], Termination.STOPPED)
    cache.ask([ask("late")], 2)
    requests += unhurried
    assert requests[-1].replay_end == ReplayEnd(nodes=3, applications=2, allocations=5)
    assert requests[-1].replay_end == sent(requests)


def test_removed_objects_are_not_counted(cache: Cache) -> None:
    """A replay neither has nor counts removed objects."""
    cache.remove_node("n3")
    cache.remove_application(("gpu", "a"))
    cache.release(["k1", "k3"], Termination.STOPPED)
    requests = list(Replay(cache).requests(1000))
    assert requests[-1].replay_end == ReplayEnd(nodes=2, applications=1, allocations=1)
    assert requests[-1].replay_end == sent(requests)
