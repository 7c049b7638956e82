"""`PlanConfiguration` and `PlanSubmission` over the wire, which change nothing."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from licorne.si.v1 import si_pb2 as si
from licorne.v1 import admin_pb2 as pb
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne_core.config import load
from licorne_core.values.ids import RmId
from licorne_core.values.rm_caps import RmCaps
from licorne_server.assembly.server import Server
from licorne_server.process.bounds import RmBounds
from licorne_server.services.admin.plans import read_submission
from licorne_server.wire.framing import PART, Pace
from support.peers.shim import Call, Shim, application, ask, connected, new_allocations, serving, violations
from support.peers.tls import connected_as, tls

CONFIG = """
partitions:
  - name: default
    limits: [{limit: all, users: [tester], maxresources: {vcore: 100}, maxapplications: 9}]
    queues:
      - name: root
        submitacl: "*"
        properties: {preemption.delay: 7s}
        queues:
          - name: a
            resources: {max: {vcore: 2}}
          - name: b
"""
WIDER = CONFIG.replace("vcore: 2", "vcore: 3").replace("name: b", "name: c")


class Site:
    """A server with an RM: in root.a two of four asks of 1 core are allocated."""

    def __init__(self, server: Server, admin: Any, calls: tuple[Call, Call, Call]) -> None:
        """Use this setup."""
        self.server = server
        self.admin = admin
        self.alloc_call, self.app_call, _ = calls

    async def plan(self, config: str, **fields: Any) -> Any:
        """The plan of a configuration."""
        request = pb.PlanConfigurationRequest(rm_id="rm", config=config, **fields)
        return await self.admin.PlanConfiguration(request)

    async def submission(self, *asks: si.Allocation, queue: str = "root.b", **fields: Any) -> Any:
        """The plan of the application `new`."""
        request = pb.PlanSubmissionRequest(
            rm_id="rm", application=application("new", queue, **fields), asks=asks
        )
        return await self.admin.PlanSubmission(request)

    @property
    def books(self) -> tuple[int, int, int]:
        """The applications, allocations and pending asks."""
        [report] = self.server.scheduler.views.partitions(RmId("rm"))
        return sum(report.applications.values()), report.allocations, report.pending_asks


@pytest.fixture
async def site(server: Server, shim: Shim, channel: grpc.aio.Channel) -> AsyncIterator[Site]:
    """A complete setup."""
    calls = await shim.set_up(config=CONFIG, nodes=2, vcore=2_000)
    site = Site(server, AdminStub(channel), calls)
    await fill(shim, calls)
    before = site.books
    yield site
    assert site.books == before, "a plan has changed something"


async def fill(shim: Shim, calls: tuple[Call, Call, Call]) -> None:
    """Fill root.a of a registered RM."""
    await shim.applications(calls[1], application("full", "root.a"))
    await shim.ask(calls[0], *(ask(f"k{i}", "full", 1_000) for i in range(4)))
    await new_allocations(calls[0], 2)


async def refused(call: Any) -> grpc.aio.AioRpcError:
    """The error of a call."""
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await call
    return error.value


async def test_a_too_large_configuration_is_refused(site: Site) -> None:
    """A configuration above the cap is refused before it is parsed."""
    error = await refused(site.plan("#" * (3 * 1024 * 1024)))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "config" in violations(error)


@pytest.mark.row(168)
async def test_a_planned_submission_is_placed_as_planned(site: Site, shim: Shim) -> None:
    """The real asks are placed on the nodes of the plan."""
    wanted = [ask(f"w{i}", "new", 500) for i in range(2)]
    plan = await site.submission(*wanted)
    async with connected(site.server) as channel:
        other = Shim(channel, "second")
        calls = await other.set_up(config=CONFIG, nodes=2, vcore=2_000)
        await fill(other, calls)
        await other.applications(calls[1], application("new", "root.b"))
        await other.ask(calls[0], *wanted)
        placed = await new_allocations(calls[0], 2)
    assert placed == {one.allocation_key: one.node_id for one in plan.asks}


async def test_too_many_asks_of_a_submission_are_refused(site: Site) -> None:
    """Asks are counted before they are read."""
    error = await refused(site.submission(*(ask(f"w{i}", "new") for i in range(1_001))))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "at most 1000" in violations(error)["asks"]


async def test_an_invalid_application_is_refused_with_its_field(site: Site) -> None:
    """The status is INVALID_ARGUMENT with the field of the application."""
    error = await refused(site.submission(queue="x" * 100_000))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "application" in violations(error)


async def test_plans_need_the_rights_of_the_rm() -> None:
    """A caller without rights to an RM is refused both plans."""
    async with (
        serving(tls=tls()) as server,
        connected_as("operator", server) as channel,
        connected_as("rm", server) as other,
    ):
        await Shim(channel, "operator").register(CONFIG)
        admin: Any = AdminStub(other)
        for call in (
            admin.PlanConfiguration(pb.PlanConfigurationRequest(rm_id="operator", config=WIDER)),
            admin.PlanSubmission(pb.PlanSubmissionRequest(rm_id="operator")),
        ):
            assert (await refused(call)).code() is grpc.StatusCode.PERMISSION_DENIED


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (CONFIG, ""),
        (CONFIG.replace("vcore: 2", "vcore: -2"), "invalid quantity '-2' for vcore"),
        (CONFIG + "          - name: c\n", "4 queues, at most 3 are allowed"),
    ],
    ids=["unchanged", "invalid", "too large"],
)
async def test_no_copy_is_made_for_a_submission_that_would_be_refused(text: str, problem: str) -> None:
    """A running application, and one that would be refused, are answered at once."""
    async with serving(rms=RmBounds(each=RmCaps(queues=3))) as server, connected(server) as channel:
        await Shim(channel).register(CONFIG)
        admin: Any = AdminStub(channel)
        request = pb.PlanConfigurationRequest(rm_id="rm", config=text)
        if problem:
            error = await refused(admin.PlanConfiguration(request))
            assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert problem in (error.details() or "")
        else:
            plan = await admin.PlanConfiguration(request)
            assert (plan.changed, plan.complete, plan.base_revision) == (False, True, 1)
            assert plan.checksum == load(CONFIG).checksum
        assert server.copies.made == 0
        wider = pb.PlanConfigurationRequest(rm_id="rm", config=WIDER)
        assert (await admin.PlanConfiguration(wider)).changed
        assert server.copies.made == 1


@pytest.mark.pure
async def test_other_tasks_run_while_a_submission_is_read() -> None:
    """However many asks there are, other tasks run in between, and all asks are read."""

    class Counted(Pace):
        """A pace that counts its pauses."""

        rests = 0

        async def rest(self) -> None:
            """Count."""
            self.rests += 1
            await super().rest()

    pace = Counted(asyncio.Lock())
    wanted = [ask(f"w{i}", "new", 5, allocationTags={"x": "y" * 1_000}) for i in range(1_000)]
    request = pb.PlanSubmissionRequest(application=application("new", "root.b"), asks=wanted)
    _, asks = await read_submission(request, pace)
    assert [one.key for one in asks] == [one.allocationKey for one in wanted]
    assert pace.rests >= request.ByteSize() // PART


async def test_shortages_are_reported_where_no_copy_is_made() -> None:
    """The answer has the shortages of the checks alone, and the reason why nothing was tried."""
    async with serving(rms=RmBounds(plan_pause=1e-9)) as server, connected(server) as channel:
        shim = Shim(channel)
        await fill(shim, await shim.set_up(config=CONFIG, nodes=2, vcore=2_000))
        request = pb.PlanStartRequest(rm_id="rm", application_id="full", allocation_key="k2")
        plan = await AdminStub(channel).PlanStart(request)
    assert (list(plan.trials), plan.complete) == ([], False)
    assert "bounds.max_plan_pause" in plan.not_tried
    assert plan.advice.message == "the maximum of queue root.a at vcore=3 (now vcore=2)"
    [change] = plan.advice.changes
    assert (dict(change.amounts), dict(change.before)) == ({"vcore": 3_000}, {"vcore": 2_000})
