"""Shapes of scenarios and the messages made of them."""

import pytest

from licorne.si.v1.si_pb2 import AllocationRequest
from licorne_core.config import load
from licorne_server.bench import workload
from licorne_server.bench.scenarios import SCENARIOS


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenarios_can_be_made_small(name: str) -> None:
    """A scenario takes any size, and never becomes larger than wanted."""
    for pods in (1, 3, 200, 1000):
        shape = SCENARIOS[name].scaled(nodes=20, pods=pods, sort="fair")
        assert shape.nodes == 20
        assert shape.sort == "fair"
        assert 0 < shape.pods <= pods


def test_full_size_is_what_is_advertised() -> None:
    """Without options the shapes are those that the results are compared by."""
    sizes = {name: (s.queues, s.apps, s.asks, s.nodes) for name, s in SCENARIOS.items()}
    assert sizes["shim"] == (5, 80, 125, 5000)
    assert sizes["core"] == (2, 1, 5000, 5000)
    assert sizes["onebigapp"] == (1, 1, 20_000, 5000)
    assert sizes["manyapps"] == (1, 1000, 10, 5000)
    assert sizes["manyqueues"] == (1000, 1, 10, 5000)
    assert sizes["blocked"] == (1, 1, 10_000, 5000)
    assert sizes["memory"] == (1, 1000, 1000, 10_000)
    assert sizes["predicates"] == (2, 1, 10_000, 5000)


def test_asks_of_all_applications_come_mixed() -> None:
    """Keys are unique, the batches are full, and every application has its share."""
    shape = SCENARIOS["shim"].scaled(nodes=10, pods=4000, sort=None)
    messages = [
        AllocationRequest.FromString(m) for m in workload.requests("x", workload.asks(shape))
    ]
    assert [len(message.allocations) for message in messages] == [1000] * 4
    asks = [ask for message in messages for ask in message.allocations]
    assert len({ask.allocationKey for ask in asks}) == 4000
    assert len({ask.applicationID for ask in asks[:400]}) == 400


def test_everything_fits_on_the_nodes_unless_they_are_to_be_full() -> None:
    """However many asks there are, an even spread fills no node."""
    shape = SCENARIOS["onebigapp"].scaled(nodes=3, pods=10_000, sort=None)
    vcore, memory = workload.LARGEST
    for node in workload.nodes(shape):
        resources = node.schedulableResource.resources
        assert resources["vcore"].value >= vcore * shape.pods_per_node
        assert resources["memory"].value >= memory * shape.pods_per_node
    full = next(workload.nodes(shape, full_at=7)).schedulableResource.resources
    assert 7 == full["vcore"].value // vcore == full["memory"].value // memory


def test_unplaceable_asks_are_larger_than_any_node() -> None:
    """Half of them are in the application itself, half in those ahead of it."""
    asks = list(workload.unplaceable("app"))
    assert len(asks) == 100
    assert sum(ask.applicationID == "app" for ask in asks) == 50
    assert all(ask.resourcePerAlloc.resources["vcore"].value > workload.NODE_VCORE for ask in asks)


@pytest.mark.parametrize("name", SCENARIOS)
def test_configurations_are_valid(name: str) -> None:
    """The core takes the configuration of every scenario."""
    load(workload.configuration(SCENARIOS[name]))
