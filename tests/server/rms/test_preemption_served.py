"""Preemption from end to end: messages to an RM, its answers, and reports meanwhile."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest

from licorne.si.v1 import si_pb2 as si
from licorne.v1 import state_pb2 as pb
from licorne_server.assembly.server import Server
from licorne_server.testing import VirtualClock
from support.core.builders import config
from support.peers.shim import (
    Call,
    Shim,
    application,
    ask,
    eventually,
    new_allocations,
    node,
    releases,
    serving,
)

if TYPE_CHECKING:
    from licorne.v1.state_pb2_grpc import StateAsyncStub

CONFIG = config(
    "[{name: low}, {name: high, resources: {guaranteed: {vcore: 300m}}, properties: {preemption.delay: 1s}}]"
)
LOW = [ask(f"low-{number}", "low", vcore=250) for number in range(4)]
URGENT = ask("urgent", "high", vcore=300, preemptionPolicy=si.PreemptionPolicy(allowPreemptOther=True))
APPLICATIONS = [application("low", "root.low"), application("high", "root.high")]


@pytest.fixture
async def server(clock: VirtualClock) -> AsyncIterator[Server]:
    """A server under that clock."""
    async with serving(clock=clock) as server:
        yield server


async def explained(state: "StateAsyncStub", app: str, key: str) -> pb.ExplainResponse:
    """The situation of an allocation or ask."""
    answer: pb.ExplainResponse = await state.Explain(
        pb.ExplainRequest(application_id=app, allocation_key=key)
    )
    return answer


async def preemptions(state: "StateAsyncStub") -> list[pb.Preemption]:
    """All victims, the latest first."""
    return list((await state.ListPreemptions(pb.ListPreemptionsRequest())).preemptions)


async def queues(state: "StateAsyncStub") -> dict[str, pb.Queue]:
    """The queues by their paths."""
    found = (await state.ListQueues(pb.ListQueuesRequest())).queues
    return {queue.path: queue for queue in found}


async def waits(server: Server) -> None:
    """One ask was submitted, and was tried in vain."""

    def is_parked() -> bool:
        [report] = server.scheduler.views.partitions()
        return report.pending_asks == 1 and not server.engine.busy

    await eventually(is_parked)


async def released_by(call: Call) -> list[si.AllocationRelease]:
    """The next releases."""
    while not (response := await call.next()).released:
        pass
    return list(response.released)


@pytest.mark.parametrize(("properties", "gets"), [("preemption.reclaim: fair-share", 10), ("", 0)])
async def test_a_fair_share_is_taken_back_by_who_asks_for_it(
    shim: Shim, state: "StateAsyncStub", clock: VirtualClock, properties: str, gets: int
) -> None:
    """One queue holds all of 20 cores, another wants them: it gets half, or nothing without the property."""
    high = f"{{name: high, properties: {{preemption.delay: 1s, {properties}}}}}"
    await shim.register(config(f"[{{name: low}}, {high}]"))
    await shim.nodes(shim.open("UpdateNode"), node("n1", vcore=20_000))
    await shim.applications(shim.open("UpdateApplication"), *APPLICATIONS)
    call = shim.open("UpdateAllocation")
    await shim.ask(call, *[ask(f"low-{number}", "low", vcore=1000) for number in range(20)])
    await new_allocations(call, 20)
    others = si.PreemptionPolicy(allowPreemptOther=True)
    await shim.ask(call, *[ask(f"high-{n}", "high", vcore=1000, preemptionPolicy=others) for n in range(20)])
    placed: dict[str, str] = {}
    for _ in range(gets):
        await clock.advance(16.0)
        told = await released_by(call)
        await call.send(si.AllocationRequest(rmID="rm", releases=releases(*told)))
        placed |= await new_allocations(call, len(told))
        if len(placed) == gets:
            break
    for _ in range(3):
        await clock.advance(16.0)
    found = await queues(state)
    assert found["root.high"].allocated.get("vcore", 0) == 1000 * gets == 1000 * len(placed)
    assert found["root.low"].allocated == {"vcore": 20_000 - 1000 * gets}
    assert [one.rule for one in await preemptions(state)] == ["fair-share"] * gets


async def test_a_guarantee_is_taken_back(
    shim: Shim, state: "StateAsyncStub", clock: VirtualClock, server: Server
) -> None:
    """A victim is asked to stop, and reported as such until its end; then the ask has its room."""
    await shim.register(CONFIG)
    await shim.nodes(shim.open("UpdateNode"), node("n1", vcore=1000))
    await shim.applications(shim.open("UpdateApplication"), *APPLICATIONS)
    call = shim.open("UpdateAllocation")
    await shim.ask(call, *LOW)
    await new_allocations(call, 4)
    await shim.ask(call, URGENT)
    await waits(server)
    await clock.advance(2.0)
    told = await released_by(call)
    assert {item.terminationType for item in told} == {si.PREEMPTED_BY_SCHEDULER}
    assert {item.message for item in told} == {
        "preempting allocations to free up resources to run ask: urgent"
    }
    victims = {item.allocationKey for item in told}
    assert len(victims) == 2
    key = told[0].allocationKey

    app = await state.GetApplication(pb.GetApplicationRequest(application_id="low"))
    stopping = {item.allocation_key: item.stopping for item in app.allocations}
    assert {name for name, why in stopping.items() if why == "preempted"} == victims
    waiting = await state.GetApplication(pb.GetApplicationRequest(application_id="high"))
    assert [item.triggered_preemption for item in waiting.asks] == [True]
    found = await queues(state)
    assert found["root.low"].preempting == {"vcore": 500}
    assert found["root.high"].promised == {"vcore": 300}
    answer = await explained(state, "low", key)
    assert answer.verdict == "stopping"
    assert answer.preemption.rule == "guarantee"
    assert answer.preemption.beneficiary_allocation_key == "urgent"
    assert answer.preemption.beneficiary_queue.guaranteed == {"vcore": 300}
    assert {item.allocation_key for item in await preemptions(state)} == victims
    assert {item.released_time for item in await preemptions(state)} == {0}

    await call.send(si.AllocationRequest(rmID="rm", releases=releases(*told)))
    assert await new_allocations(call, 1) == {"urgent": "n1"}
    answer = await explained(state, "low", key)
    assert (answer.verdict, answer.preemption.allocation_key) == ("preempted", key)
    assert answer.preemption.released_time > answer.preemption.time - 1
    found = await queues(state)
    assert found["root.low"].preempting == {}
    assert found["root.high"].promised == {}
