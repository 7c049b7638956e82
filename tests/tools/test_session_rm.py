"""The RM of the benchmark with predicates, against a scripted server."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from licorne.si.v1.si_pb2 import Allocation, AllocationResponse, RejectedAllocation
from licorne.v1.session_pb2 import PredicateCheck, PredicateChecks, UpdateRequest, UpdateResponse
from licorne_tools.bench.ceilings import Behaviour, EveryMethod
from licorne_tools.bench.driver import BenchError
from licorne_tools.bench.session_rm import SessionRm
from support.patience import PATIENCE

LATE = 0.5
"""The delay of answers in seconds, which consecutive answers would add up."""


def checks(first: int, *nodes: Sequence[str]) -> UpdateResponse:
    """A message with a check for each list of nodes, with ids from `first` on."""
    listed = [PredicateCheck(id=number, node_ids=ids) for number, ids in enumerate(nodes, first)]
    return UpdateResponse(number=first, predicate_checks=PredicateChecks(checks=listed))


PLACED = UpdateResponse(
    number=99, allocations=AllocationResponse(new=[Allocation(allocationKey="k", nodeID="good")])
)


class Script:
    """A server that sends given responses, records requests, and places an ask after a number of answers."""

    def __init__(self, responses: Sequence[UpdateResponse], last: UpdateResponse = PLACED) -> None:
        """`last` is sent when each message with checks was answered."""
        self.responses = responses
        self.last = last
        self.requests: list[UpdateRequest] = []
        self.sent_at = 0.0
        self.answered_at: list[float] = []

    async def run(self, context: grpc.aio.ServicerContext[Any, bytes]) -> None:
        """Serve the one stream."""
        loop = asyncio.get_running_loop()
        self.sent_at = loop.time()
        for response in self.responses:
            await context.write(response.SerializeToString())
        while len(self.answered_at) < len(self.responses):
            self.requests.append(UpdateRequest.FromString(await context.read()))
            if self.requests[-1].HasField("predicate_answers"):
                self.answered_at.append(loop.time())
        await context.write(self.last.SerializeToString())
        while await context.read() is not grpc.aio.EOF:
            pass


@asynccontextmanager
async def served(behaviour: Behaviour) -> AsyncIterator[str]:
    """The address of a server with this script."""
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((EveryMethod(behaviour),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


async def placed(script: Script, *, refused: frozenset[str] = frozenset(), delay: float = 0) -> int:
    """The number of responses with allocations, with an RM that submits one ask."""
    async with (
        served(script.run) as target,
        SessionRm(target, "x", refused=refused, delay=delay) as rm,
    ):
        async with asyncio.timeout(PATIENCE):
            return len(await rm.place([UpdateRequest().SerializeToString()], 1))


async def test_checks_of_one_message_are_answered_in_one() -> None:
    """Answers are in the order of the checks, with the refused nodes and no others."""
    script = Script([checks(1, ["good"], ["bad", "good"]), checks(3, ["good", "bad"])])
    assert await placed(script, refused=frozenset({"bad"})) == 1
    answers = [r for r in script.requests if r.HasField("predicate_answers")]
    assert [
        [(a.id, [node.node_id for node in a.refused]) for a in request.predicate_answers.answers]
        for request in answers
    ] == [[(1, []), (2, ["bad"])], [(3, ["bad"])]]
    numbers = [request.number for request in script.requests]
    assert numbers == [*range(1, len(numbers) + 1)]


async def test_late_answers_have_their_own_times() -> None:
    """No answer is early, and answers do not wait for each other."""
    script = Script([checks(number, ["good"]) for number in range(1, 41)])
    await placed(script, delay=LATE)
    ids = [a.id for request in script.requests for a in request.predicate_answers.answers]
    assert ids == [*range(1, 41)]
    assert script.answered_at[0] - script.sent_at >= LATE
    assert script.answered_at[-1] - script.sent_at < LATE * len(ids)


@pytest.mark.parametrize(
    "allocations",
    [
        AllocationResponse(rejectedAllocations=[RejectedAllocation(allocationKey="k")]),
        AllocationResponse(new=[Allocation(allocationKey="k", nodeID="bad")]),
    ],
)
async def test_a_wrong_server_fails_the_bench(allocations: AllocationResponse) -> None:
    """A rejection, or an allocation on a refused node, fails the bench."""
    script = Script([checks(1, ["bad"])], last=UpdateResponse(number=2, allocations=allocations))
    with pytest.raises(BenchError, match="rejected"):
        await placed(script, refused=frozenset({"bad"}))
