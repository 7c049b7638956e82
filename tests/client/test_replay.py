"""The counts at the end of a replay: the server compares them with what has arrived."""

import pytest

from licorne import Allocation, Application, Ask, Node, Termination
from licorne.cache import Cache
from licorne.outgoing import Replay
from licorne.v1.session_pb2 import ReplayEnd, UpdateRequest


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
