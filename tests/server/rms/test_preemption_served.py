"""Preemption from end to end: messages to an RM, its answers, and reports meanwhile."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import grpc
import pytest

from licorne.si.v1 import si_pb2 as si
from licorne.v1 import session_pb2 as sp
from licorne.v1 import state_pb2 as pb
from licorne.v1.admin_pb2 import UpdateConfigurationRequest
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne_server.assembly.server import Server
from licorne_server.testing import VirtualClock
from support.core.builders import config
from support.peers.shim import (
    Call,
    RawSession,
    Shim,
    application,
    ask,
    eventually,
    new_allocations,
    node,
    releases,
    resource,
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
JUDGE = sp.Callbacks(predicates=sp.Predicates(judges_victims=True))


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


async def begin(session: RawSession) -> Call:
    """A session of an RM that judges victims, with a node full of them."""
    registration = si.RegisterResourceManagerRequest(config=CONFIG)
    call, _ = await session.begin(callbacks=JUDGE, registration=registration)
    await session.send(call, replay_begin=sp.ReplayBegin())
    await session.send(call, nodes=si.NodeRequest(nodes=[node("n1", vcore=1000)]))
    await session.send(call, applications=si.ApplicationRequest(new=APPLICATIONS))
    running = [si.Allocation.FromString(item.SerializeToString()) for item in LOW]
    for item in running:
        item.nodeID = "n1"
    await session.send(call, allocations=si.AllocationRequest(allocations=running))
    end = sp.ReplayEnd(nodes=1, applications=2, allocations=4)
    await session.send(call, replay_end=end)
    assert (await session.until(call, "replay_result")).replay_result.complete
    return call


async def test_the_rm_says_which_victims_have_to_go(
    session: RawSession, state: "StateAsyncStub", clock: VirtualClock, server: Server
) -> None:
    """It is asked before any stop, and may require one more victim than the room needs."""
    call = await begin(session)
    await session.send(call, allocations=si.AllocationRequest(allocations=[URGENT]))
    await waits(server)
    await clock.advance(2.0)
    asked = await session.until(call, "preemption_checks")
    [check] = asked.preemption_checks.checks
    assert (check.application_id, check.allocation_key) == ("high", "urgent")
    assert check.deadline_milliseconds == 2000
    [offered] = check.nodes
    assert (offered.node_id, offered.start_index) == ("n1", 1)
    assert len(offered.victims) > 2
    assert await preemptions(state) == []
    need = sp.NodeNeed(node_id="n1", index=2)
    answer = sp.PreemptionAnswer(id=check.id, nodes=[need])
    await session.send(call, preemption_answers=sp.PreemptionAnswers(answers=[answer]))
    released: list[si.AllocationRelease] = []
    while len(released) < 3:
        released += (await session.until(call, "allocations")).allocations.released
    expected = [victim.allocation_key for victim in offered.victims[:3]]
    assert sorted(item.allocationKey for item in released) == sorted(expected)
    assert {item.terminationType for item in released} == {si.PREEMPTED_BY_SCHEDULER}


@pytest.mark.parametrize("answer", [sp.PreemptionAnswer(), None], ids=["refused", "silent"])
async def test_without_the_rm_nobody_has_to_go(
    session: RawSession,
    state: "StateAsyncStub",
    clock: VirtualClock,
    server: Server,
    answer: sp.PreemptionAnswer | None,
) -> None:
    """An RM that refuses all nodes, or gives no answer in time, keeps its allocations."""
    call = await begin(session)
    await session.send(call, allocations=si.AllocationRequest(allocations=[URGENT]))
    await waits(server)
    await clock.advance(2.0)
    asked = await session.until(call, "preemption_checks")
    [check] = asked.preemption_checks.checks
    if answer is not None:
        wanted = sp.PreemptionAnswer(id=check.id)
        number = await session.send(call, preemption_answers=sp.PreemptionAnswers(answers=[wanted]))
        while (await call.next()).acknowledged < number:
            pass
    await clock.advance(3.0)
    assert await preemptions(state) == []
    app = await state.GetApplication(pb.GetApplicationRequest(application_id="low"))
    assert {item.stopping for item in app.allocations} == {""}
    assert (await explained(state, "high", "urgent")).verdict == "pending"
    assert not server.engine.defects


async def test_a_daemon_gets_its_node(shim: Shim, state: "StateAsyncStub") -> None:
    """An ask without another node preempts allocations on it, whatever the guarantees."""
    await shim.register(CONFIG)
    await shim.nodes(shim.open("UpdateNode"), node("n1", vcore=1000), node("n2", vcore=200))
    await shim.applications(shim.open("UpdateApplication"), *APPLICATIONS)
    call = shim.open("UpdateAllocation")
    await shim.ask(call, *LOW)
    await new_allocations(call, 4)
    tags = {"yunikorn.apache.org/requiredNode": "n1"}
    daemon = ask("daemon", "low", resourcePerAlloc=resource(vcore=100), allocationTags=tags)
    await shim.ask(call, daemon)
    [told] = await released_by(call)
    assert told.message == ("preempting allocations to free up resources to run daemon set ask: daemon")
    [record] = await preemptions(state)
    assert (record.rule, record.beneficiary_allocation_key) == ("required-node", "daemon")
    await call.send(si.AllocationRequest(rmID="rm", releases=releases(told)))
    assert await new_allocations(call, 1) == {"daemon": "n1"}


async def test_a_lowered_maximum_is_enforced(
    shim: Shim, state: "StateAsyncStub", clock: VirtualClock, channel: grpc.aio.Channel
) -> None:
    """The queue has the time, then the state, and the record of the victim the queue."""
    settings = """
partitions:
  - name: default
    preemption: {quotapreemptionenabled: true}
    queues:
      - name: root
        submitacl: '*'
        queues:
          - name: low
            resources: {max: {vcore: %s}}
            properties: {quota.preemption.delay: 10s}
          - {name: high}
"""
    await shim.register(settings % "1")
    await shim.nodes(shim.open("UpdateNode"), node("n1", vcore=1000))
    await shim.applications(shim.open("UpdateApplication"), *APPLICATIONS)
    call = shim.open("UpdateAllocation")
    await shim.ask(call, *LOW)
    await new_allocations(call, 4)
    lower = UpdateConfigurationRequest(rm_id="rm", config=settings % "500m")
    await AdminStub(channel).UpdateConfiguration(lower)
    due = (await queues(state))["root.low"].quota_preemption_time
    assert 9 * 10**9 < due - round(clock.now() * 10**9) <= 10 * 10**9
    await clock.advance(12.0)
    told = await released_by(call)
    assert len(told) == 2
    found = (await queues(state))["root.low"]
    assert found.preempting == {"vcore": 500}
    assert found.quota_preemption_time == 0
    for record in await preemptions(state):
        assert (record.rule, record.beneficiary_allocation_key) == ("quota", "")
        assert record.beneficiary_queue.path == "root.low"
        assert record.beneficiary_queue.max == {"vcore": 500}
