"""The transport alone, with the messages of a run."""

import pytest

from licorne.si.v1.si_pb2 import Allocation, AllocationResponse
from licorne.v1.session_pb2 import UpdateRequest, UpdateResponse
from licorne_tools.bench import workload
from licorne_tools.bench.ceilings import answered, answers_of, echo
from licorne_tools.bench.scenarios import SCENARIOS, Wire

ITEMS = [Allocation(allocationKey=f"k{number}", nodeID="n") for number in range(5)]


def test_an_answer_has_as_many_items_as_its_request() -> None:
    """The messages of both protocols are complete."""
    batches = list(workload.batched(ITEMS, 2))
    over_si = [AllocationResponse.FromString(m) for m in answered(Wire.SI, batches)]
    assert [[*response.new] for response in over_si] == batches
    over_session = [UpdateResponse.FromString(m) for m in answered(Wire.SESSION, batches)]
    assert [[*response.allocations.new] for response in over_session] == batches
    assert [response.number for response in over_session] == [1, 2, 3]


@pytest.mark.slow
@pytest.mark.parametrize("wire", Wire)
async def test_the_echo_answers_every_request(wire: Wire) -> None:
    """The clients of both protocols get all that they expect, and the cost is that of real work."""
    shape = SCENARIOS["core1"].scaled(nodes=2, pods=100)
    asks = list(workload.asks(shape))
    if wire is Wire.SI:
        requests = workload.requests("x", asks, 1)
    else:
        requests = workload.session_requests(asks, 1)
        assert UpdateRequest.FromString(requests[0]).allocations.allocations[0] == asks[0]
    found = await echo(wire, requests, [AllocationResponse(new=asks).SerializeToString()], 1)
    assert all(value > 0 for value in found.values())


def test_the_echo_answers_each_ask_with_its_allocation() -> None:
    """The echo answers one ask per message, as the requests have them."""
    found = [
        AllocationResponse.FromString(data) for data in answers_of(SCENARIOS["wire"].scaled(pods=6, nodes=2))
    ]
    assert [len(response.new) for response in found] == [1] * 6
    assert {item.nodeID for response in found for item in response.new} == {"node-00000", "node-00001"}


def test_the_echo_answers_single_asks_and_releases() -> None:
    """Asks and releases alternate, so that no allocation precedes its ask."""
    found = [
        AllocationResponse.FromString(data) for data in answers_of(SCENARIOS["wirelatency"].scaled(pods=2))
    ]
    told = [([a.allocationKey for a in r.new], [a.allocationKey for a in r.released]) for r in found]
    first, second = "app-q0000-0000-000000", "app-q0000-0000-000001"
    assert told == [([first], []), ([], [first]), ([second], []), ([], [second])]
