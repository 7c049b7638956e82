"""Requests on their way out: items packed into few, and replays of everything."""

import pytest

from licorne import Allocation, Application, Ask, Node, Termination
from licorne.cache import Cache
from licorne.outgoing import MAX_BYTES, Packer, Replay
from licorne.si.v1 import si_pb2 as si
from licorne.v1.session_pb2 import ReplayEnd, UpdateRequest


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


def words(requests: list[UpdateRequest]) -> list[str]:
    """What the requests say, one text each."""
    return [
        " ".join(
            [f"+{item.allocationKey}" for item in request.allocations.allocations]
            + [f"-{r.allocationKey}" for r in request.allocations.releases.allocationsToRelease]
        )
        or str(request.WhichOneof("message"))
        for request in requests
    ]


def test_calls_share_a_request() -> None:
    """Asks of several calls leave in one message."""
    packer = Packer()
    packer.allocations(asks("a"))
    packer.allocations(asks("b", "c"))
    assert packer.items == 3
    assert words(taken(packer)) == ["+a +b +c"]
    assert packer.items == 0


def test_order_survives_packing() -> None:
    """An ask made after a release is in a later message, because releases come last in one."""
    packer = Packer()
    packer.allocations(asks("a"))
    packer.releases(releases("a"))
    packer.releases(releases("b"))
    packer.allocations(asks("a"))
    assert words(taken(packer)) == ["+a -a -b", "+a"]


def test_kinds_keep_their_order() -> None:
    """Nodes, applications and asks leave in the order of the calls."""
    packer = Packer()
    packer.nodes([si.NodeInfo(nodeID="n")])
    packer.new_applications([si.AddApplicationRequest(applicationID="x")])
    packer.removed_applications([si.RemoveApplicationRequest(applicationID="x")])
    packer.new_applications([si.AddApplicationRequest(applicationID="x")])
    packer.allocations(asks("a"))
    assert words(taken(packer)) == ["nodes", "applications", "applications", "+a"]


def test_no_request_exceeds_the_limits() -> None:
    """A message carries at most `max_items` items and about half a MiB."""
    packer = Packer(max_items=2)
    packer.allocations(asks("a", "b", "c"))
    assert words(taken(packer)) == ["+a +b", "+c"]
    packer = Packer()
    packer.allocations([si.Allocation(allocationKey="k" * 100_000) for _ in range(12)])
    requests = taken(packer)
    assert sum(len(request.allocations.allocations) for request in requests) == 12
    assert max(request.ByteSize() for request in requests) < MAX_BYTES + 1000


def test_a_giant_item_travels_alone() -> None:
    """An item above the size limit is not held back: the server has to judge it."""
    packer = Packer()
    packer.allocations(asks("a", "k" * (MAX_BYTES + 1), "b"))
    assert len(taken(packer)) == 3


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
    """How many items there are in these requests."""
    return ReplayEnd(
        nodes=sum(len(request.nodes.nodes) for request in requests),
        applications=sum(len(request.applications.new) for request in requests),
        allocations=sum(len(request.allocations.allocations) for request in requests),
    )


@pytest.mark.parametrize("max_items", [1, 2, 1000])
def test_the_counts_are_those_of_what_was_sent(cache: Cache, max_items: int) -> None:
    """Every item is counted once in its kind, in however many requests it went."""
    requests = list(Replay(cache).requests(max_items))
    assert requests[-1].replay_end == ReplayEnd(nodes=3, applications=2, allocations=5)
    assert requests[-1].replay_end == sent(requests)


def test_changes_during_a_replay_change_neither_it_nor_its_counts(cache: Cache) -> None:
    """A replay is of the moment it began; what changes after that is sent behind it."""
    unhurried = Replay(cache).requests(1)
    requests = [next(unhurried) for _ in range(3)]
    cache.remove_node("n3")
    cache.remove_application(("gpu", "a"))
    cache.release(["k1", "k3"], Termination.STOPPED)
    cache.ask([ask("late")], 2)
    requests += unhurried
    assert requests[-1].replay_end == ReplayEnd(nodes=3, applications=2, allocations=5)
    assert requests[-1].replay_end == sent(requests)


def test_what_has_ended_is_not_counted(cache: Cache) -> None:
    """A replay after the end of things has neither them nor their count."""
    cache.remove_node("n3")
    cache.remove_application(("gpu", "a"))
    cache.release(["k1", "k3"], Termination.STOPPED)
    requests = list(Replay(cache).requests(1000))
    assert requests[-1].replay_end == ReplayEnd(nodes=2, applications=1, allocations=1)
    assert requests[-1].replay_end == sent(requests)
