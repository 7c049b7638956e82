"""Shapes of scenarios, and the messages made of them."""

from dataclasses import replace

import pytest

from licorne.si.v1.si_pb2 import AllocationRequest
from licorne.v1.session_pb2 import UpdateRequest
from licorne_core.config import load
from licorne_tools.bench import confirming, workload
from licorne_tools.bench.runs import raised_caps
from licorne_tools.bench.scenarios import SCENARIOS, Asking, Wire, over, predicate_table


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_can_have_any_size(name: str) -> None:
    """A scenario accepts any size, and never becomes larger than that."""
    for pods in (1, 3, 200, 1000):
        shape = SCENARIOS[name].scaled(nodes=20, pods=pods, sort="fair")
        assert shape.nodes == 20
        assert shape.sort == "fair"
        assert 0 < shape.pods <= pods


def test_the_full_size_is_the_published_one() -> None:
    """Without options the shapes are those of the published results."""
    sizes = {name: (s.queues, s.apps, s.asks, s.nodes) for name, s in SCENARIOS.items()}
    assert sizes["shim"] == (5, 80, 125, 5000)
    assert sizes["shim1"] == sizes["shim"]
    assert sizes["core1"] == sizes["core"]
    batches = {name: scenario.batch for name, scenario in SCENARIOS.items()}
    assert {name for name, batch in batches.items() if batch == 1} == {"shim1", "core1", "wire"}
    assert sizes["wire"] == sizes["core1"]
    assert sizes["wirelatency"] == sizes["latency"]
    assert {*batches.values()} == {1, 1000}
    assert SCENARIOS["predicates"].asking == Asking(tagged=True, refused_percent=10, delay=0.0)
    assert sizes["core"] == (2, 1, 5000, 5000)
    assert sizes["onebigapp"] == (1, 1, 20_000, 5000)
    assert sizes["manyapps"] == (1, 1000, 10, 5000)
    assert sizes["manyqueues"] == (1000, 1, 10, 5000)
    assert sizes["tenants"] == (100, 10, 10, 5000)
    assert sizes["blocked"] == (1, 1, 10_000, 5000)
    assert sizes["memory"] == (1, 1000, 1000, 10_000)
    assert sizes["predicates"] == (2, 1, 10_000, 5000)
    assert sizes["gang"] == (10, 100, 50, 5000)
    assert sizes["preempt"] == (100, 1, 20, 5000)
    assert sizes["notice"] == sizes["preempt"]
    assert sizes["storm"] == (10, 1, 1000, 5000)


def test_asks_of_all_applications_are_mixed() -> None:
    """Keys are unique, the batches are full, and every application has its share."""
    shape = SCENARIOS["shim"].scaled(nodes=10, pods=4000, sort=None)
    messages = [
        AllocationRequest.FromString(m) for m in workload.requests("x", workload.asks(shape), shape.batch)
    ]
    assert [len(message.allocations) for message in messages] == [1000] * 4
    asks = [ask for message in messages for ask in message.allocations]
    assert len({ask.allocationKey for ask in asks}) == 4000
    assert len({ask.applicationID for ask in asks[:400]}) == 400


def test_all_asks_fit_unless_nodes_shall_be_full() -> None:
    """However many asks there are, an even distribution fills no node."""
    shape = SCENARIOS["onebigapp"].scaled(nodes=3, pods=10_000, sort=None)
    vcore, memory = workload.LARGEST
    for node in workload.nodes(shape):
        resources = node.schedulableResource.resources
        assert resources["vcore"].value >= vcore * shape.pods_per_node
        assert resources["memory"].value >= memory * shape.pods_per_node
    full = next(workload.nodes(shape, full_at=7)).schedulableResource.resources
    assert 7 == full["vcore"].value // vcore == full["memory"].value // memory


def test_blocked_asks_are_larger_than_any_node() -> None:
    """Half of these asks are in the application itself, and half in earlier applications."""
    asks = list(workload.unplaceable("app"))
    assert len(asks) == 100
    assert sum(ask.applicationID == "app" for ask in asks) == 50
    assert all(ask.resourcePerAlloc.resources["vcore"].value > workload.NODE_VCORE for ask in asks)


@pytest.mark.parametrize("name", SCENARIOS)
def test_configurations_are_valid(name: str) -> None:
    """The core accepts the configuration of every scenario."""
    load(workload.configuration(SCENARIOS[name]))


@pytest.mark.parametrize(
    "config",
    [
        confirming.full_configuration(SCENARIOS["preempt"]),
        confirming.storm_configuration(SCENARIOS["storm"]),
    ],
)
def test_configurations_of_preemption_are_strictly_valid(config: str) -> None:
    """An unknown delay or guarantee would measure something else."""
    assert load(config, strict=True).warnings == ()


def test_fewer_gangs_have_the_same_size() -> None:
    """A smaller scenario has fewer gangs, down to one."""
    full = SCENARIOS["gang"]
    shapes = [full.scaled(pods=pods) for pods in (50_000, 1000, 149, 7)]
    assert [(s.queues * s.apps, s.asks) for s in shapes] == [(1000, 50), (20, 50), (2, 50), (1, 7)]


def test_an_application_has_the_sum_of_its_gang() -> None:
    """The sum is that of its placeholders; each real ask has one of its task group and size."""
    shape = SCENARIOS["gang"].scaled(pods=50)
    [application] = confirming.applications(shape)
    name = application.applicationID
    placeholders = list(confirming.members(shape, name, placeholder=True))
    real = list(confirming.members(shape, name, placeholder=False))
    for kind in ("vcore", "memory"):
        sizes = [item.resourcePerAlloc.resources[kind].value for item in placeholders]
        assert application.placeholderAsk.resources[kind].value == sum(sizes)
    kinds = [[(m.taskGroupName, str(m.resourcePerAlloc)) for m in some] for some in (placeholders, real)]
    assert kinds[0] == kinds[1]
    assert {m.placeholder for m in placeholders} == {True}
    assert {m.placeholder for m in real} == {False}


@pytest.mark.parametrize(("nodes", "pods"), [(5000, 2000), (20, 200), (1, 3)])
def test_every_preempting_ask_has_victims(nodes: int, pods: int) -> None:
    """Each node has victims, and each preempting ask is as large as those that it needs."""
    shape = SCENARIOS["preempt"].scaled(nodes=nodes, pods=pods)
    assert confirming.held(shape) * nodes >= 2 * confirming.VICTIMS * shape.pods
    vcore, memory = confirming.claim()
    assert (vcore, memory) == confirming.times(workload.LARGEST, confirming.VICTIMS)


@pytest.mark.parametrize(("nodes", "pods"), [(5000, 10_000), (20, 200)])
def test_no_victims_help_the_largest_ask(nodes: int, pods: int) -> None:
    """A node could hold the ask if it were empty, but the lender may not lose enough there."""
    shape = SCENARIOS["storm"].scaled(nodes=nodes, pods=pods)
    lent, _ = confirming.room(shape)
    node = next(confirming.storm_nodes(shape)).schedulableResource.resources["vcore"].value
    [greedy] = confirming.greedy_ask(shape)
    wanted = greedy.resourcePerAlloc.resources["vcore"].value
    free = node - confirming.LENT * lent
    assert wanted <= node
    assert wanted - free > confirming.SPARE * lent
    assert greedy.preemptionPolicy.allowPreemptOther


@pytest.mark.parametrize("batch", [1, 7])
def test_requests_have_the_requested_number_of_items(batch: int) -> None:
    """Over both protocols all asks are sent, this number in each request, the remainder in the last."""
    shape = SCENARIOS["shim1"].scaled(pods=400, batch=batch)
    asks = list(workload.asks(shape))
    over_si = [AllocationRequest.FromString(m) for m in workload.requests("x", iter(asks), shape.batch)]
    over_session = [
        UpdateRequest.FromString(m).allocations for m in workload.session_requests(iter(asks), shape.batch)
    ]
    for requests in (over_si, over_session):
        assert [ask for request in requests for ask in request.allocations] == asks
        assert {len(request.allocations) for request in requests[:-1]} == {batch}


def test_single_items_use_both_protocols() -> None:
    """Other scenarios use the protocol of their comparison, unless another one is given."""
    wires = {name: [each.wire for each in over(s, None)] for name, s in SCENARIOS.items()}
    assert wires["shim1"] == wires["core1"] == wires["wire"] == [Wire.SI, Wire.SESSION]
    assert wires["shim"] == wires["latency"] == [Wire.SI]
    assert wires["predicates"] == [Wire.SESSION]
    assert [each.wire for each in over(SCENARIOS["shim"], Wire.SESSION)] == [Wire.SESSION]
    assert [each.wire for each in over(SCENARIOS["shim1"], Wire.SI)] == [Wire.SI]
    assert over(SCENARIOS["latency"], Wire.SESSION) == []


@pytest.mark.parametrize("percent", [0, 1, 10, 30, 50, 99, 100])
def test_the_given_share_of_nodes_is_refused(percent: int) -> None:
    """The share holds for any hundred consecutive nodes, and each decision is stable."""
    asking = Asking(refused_percent=percent)
    for first in (0, 37):
        assert sum(map(asking.refuses, range(first, first + 100))) == percent
    assert asking.accepted(200) == 200 - 2 * percent


def test_all_asks_fit_on_the_accepted_nodes() -> None:
    """All asks fit on the accepted nodes, however few these are."""
    asking = Asking(refused_percent=98)
    shape = replace(SCENARIOS["predicates"].scaled(nodes=100, pods=2000), asking=asking)
    nodes, refused = list(workload.nodes(shape)), workload.refused_nodes(shape)
    assert len(refused) == 98
    vcore = sum(
        node.schedulableResource.resources["vcore"].value for node in nodes if node.nodeID not in refused
    )
    assert vcore >= shape.pods * workload.LARGEST[0]


def test_the_table_of_predicates_is_complete() -> None:
    """There are five shapes, tagged and not, answered at once and after 50 ms."""
    table = predicate_table(SCENARIOS["predicates"])
    shapes = [(100, 5), (1000, 5), (3000, 5), (3000, 50), (10_000, 5000)]
    assert [(s.pods, s.nodes, s.asking.tagged, s.asking.delay) for s in table] == [
        (*shape, tagged, delay) for shape in shapes for tagged in (True, False) for delay in (0.0, 0.05)
    ]


def test_caps_of_an_rm_are_raised_for_its_scenario() -> None:
    """The caps are raised for a scenario beyond them, and for no other one."""
    assert not [cap for shape in SCENARIOS.values() for cap in raised_caps(shape)]
    large = SCENARIOS["preempt"].scaled(nodes=130_000, pods=19_500)
    assert raised_caps(large) == {"LICORNE_BOUNDS_MAX_NODES": "130000", "LICORNE_BOUNDS_MAX_ASKS": "1319500"}
