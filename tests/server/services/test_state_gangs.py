"""Gangs over the wire: `licorne.v1.State` and both kinds of stream."""

from typing import TYPE_CHECKING

import pytest

from licorne.si.v1 import si_pb2 as si
from licorne.v1 import state_pb2 as pb
from support.peers.shim import Call, Shim, application, ask, new_allocations, releases, resource

if TYPE_CHECKING:
    from licorne.v1.state_pb2_grpc import StateAsyncStub

SECOND = 10**9


def gang() -> si.AddApplicationRequest:
    """An application that asks for two placeholders."""
    return application(
        "gang",
        placeholderAsk=resource(vcore=200),
        gangSchedulingStyle="Hard",
        executionTimeoutMilliSeconds=60_000,
    )


PLACEHOLDERS = [ask(key, "gang", taskGroupName="workers", placeholder=True) for key in ("p1", "p2")]
REAL = ask("r", "gang", taskGroupName="workers")
"""It takes the place of the first."""


@pytest.fixture
async def calls(shim: Shim) -> tuple[Call, Call, Call]:
    """An RM with a gang whose placeholders are all placed."""
    calls = await shim.set_up()
    await shim.applications(calls[1], gang())
    await shim.ask(calls[0], *PLACEHOLDERS)
    await new_allocations(calls[0], 2)
    return calls


async def shown(state: "StateAsyncStub") -> pb.Application:
    """The gang as State has it."""
    found: pb.Application = await state.GetApplication(pb.GetApplicationRequest(application_id="gang"))
    return found


async def told_to_stop(call: Call) -> si.AllocationRelease:
    """The next release."""
    while not (response := await call.next()).released:
        pass
    release: si.AllocationRelease
    [release] = response.released
    return release


def confirmed(release: si.AllocationRelease) -> si.AllocationRequest:
    """The RM has stopped it."""
    return si.AllocationRequest(rmID="rm", releases=releases(release))


async def test_a_gang_shows_what_it_asked_for_and_has(
    state: "StateAsyncStub", calls: tuple[Call, Call, Call]
) -> None:
    """The report has task groups, style, the remaining time, and the placeholders' amounts."""
    app = await shown(state)
    assert app.task_groups == [pb.TaskGroup(name="workers", count=2, min_resource={"vcore": 100})]
    assert app.gang_scheduling_style == "Hard"
    assert app.placeholder_ask == app.placeholder_allocated == {"vcore": 200}
    assert (app.placeholder_count, app.allocation_count) == (2, 2)
    assert app.allocated == {}
    seconds = (app.placeholder_deadline - app.submission_time) / SECOND
    assert 60 <= seconds < 90
    assert [
        (item.allocation_key, item.placeholder, item.task_group, item.stopping) for item in app.allocations
    ] == [("p1", True, "workers", ""), ("p2", True, "workers", "")]
    listed = (await state.ListApplications(pb.ListApplicationsRequest())).applications
    assert [item.task_groups for item in listed if item.task_groups] == [app.task_groups]


async def test_an_elastic_gang_shows_its_size(state: "StateAsyncStub", shim: Shim) -> None:
    """The maximum is 0 for no bound; an application without such a gang has no such figures."""
    calls = await shim.set_up()
    await shim.applications(
        calls[1], application("gang", tags={"namespace": "default", "licorne/gang-min": "2"})
    )
    members = [ask(key, "gang", taskGroupName="workers") for key in ("m1", "m2")]
    await shim.ask(calls[0], *members)
    await new_allocations(calls[0], 2)
    found = {
        app.application_id: app
        for app in (await state.ListApplications(pb.ListApplicationsRequest())).applications
    }
    assert found.pop("gang").elastic == pb.Elastic(size=2, min=2, step=1)
    assert [app.application_id for app in found.values() if app.HasField("elastic")] == []


async def test_a_place_changes_hands(
    state: "StateAsyncStub", shim: Shim, calls: tuple[Call, Call, Call]
) -> None:
    """The placeholder is being stopped, the real one replaces it, and then it has its place."""
    await shim.ask(calls[0], REAL)
    release = await told_to_stop(calls[0])
    assert release == si.AllocationRelease(
        partitionName="[rm]default",
        applicationID="gang",
        allocationKey="p1",
        terminationType=si.PLACEHOLDER_REPLACED,
        message="replacing allocationKey: r",
    )
    app = await shown(state)
    [waiting] = app.asks
    assert (waiting.allocation_key, waiting.replaces, waiting.placeholder) == ("r", "p1", False)
    assert waiting.task_group == "workers"
    assert {item.allocation_key: item.stopping for item in app.allocations} == {
        "p1": "replaced",
        "p2": "",
    }
    verdicts = {
        key: (await state.Explain(pb.ExplainRequest(application_id="gang", allocation_key=key))).verdict
        for key in ("r", "p1", "p2")
    }
    assert verdicts == {"r": "replacing", "p1": "stopping", "p2": "allocated"}
    await calls[0].send(confirmed(release))
    response = await calls[0].next()
    assert [
        (item.allocationKey, item.nodeID, item.taskGroupName, item.placeholder) for item in response.new
    ] == [("r", "n0", "workers", False)]
    app = await shown(state)
    assert (app.task_groups[0].replaced, app.task_groups[0].timed_out) == (1, 0)
    assert {item.allocation_key: item.placeholder_used for item in app.allocations} == {
        "p2": False,
        "r": True,
    }
