"""`PlanConfiguration` and `PlanSubmission` over the wire: none of the planned changes happens."""

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
from support.peers.shim import (
    Call,
    Shim,
    application,
    ask,
    connected,
    new_allocations,
    resource,
    serving,
    violations,
)
from support.peers.tls import connected_as, tls
from support.server.configuring import refusal

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
NARROW = CONFIG.replace("vcore: 2", "vcore: 1").replace("vcore: 100", "vcore: 1")


class Site:
    """A server with an RM: in root.a two of four asks of 1 core each are placed."""

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
        """Applications, allocations and pending asks."""
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
    """Fill root.a of an RM that is set up."""
    await shim.applications(calls[1], application("full", "root.a"))
    await shim.ask(calls[0], *(ask(f"k{i}", "full", 1_000) for i in range(4)))
    await new_allocations(calls[0], 2)


async def refused(call: Any) -> grpc.aio.AioRpcError:
    """The error of a call."""
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await call
    return error.value


@pytest.mark.row(168)
async def test_a_plan_says_what_a_configuration_would_do(site: Site) -> None:
    """The plan has queues, asks and inherited values; nothing of it happens."""
    plan = await site.plan(WIDER)
    assert (plan.changed, plan.complete, plan.base_revision) == (True, True, 1)
    changes = {queue.path: queue.change for queue in plan.queues}
    assert changes == {"root.a": "changed", "root.b": "removed", "root.c": "added"}
    [value] = next(queue for queue in plan.queues if queue.path == "root.a").values
    assert (value.name, value.before, value.after) == ("max", "vcore=2", "vcore=3")
    [placed] = plan.placed
    assert (placed.allocation_key, placed.code_before) == ("k2", "QUEUE_MAX_EXCEEDED")
    assert placed.node_id in ("n0", "n1")
    assert dict(placed.resource) == {"vcore": 1_000}
    assert plan.counts.placed == 1
    delay = [one for one in plan.defaults if one.name == "property preemption.delay"]
    assert {(one.path, one.value, one.origin) for one in delay} == {
        ("root.a", "7s", "root"),
        ("root.c", "7s", "root"),
    }


@pytest.mark.row(168)
async def test_a_plan_says_what_would_be_exceeded_and_by_whom(site: Site) -> None:
    """A queue above its new maximum has the excess, and a limit of a user the user."""
    plan = await site.plan(NARROW)
    queue = next(queue for queue in plan.queues if queue.path == "root.a")
    assert dict(queue.over_max) == {"vcore": 1_000}
    assert queue.applications == 1
    [limit] = plan.exceeded_limits
    assert (limit.queue, limit.user, limit.group) == ("root", "tester", "")
    assert (dict(limit.used), dict(limit.limit)) == ({"vcore": 2_000}, {"vcore": 1_000})
    assert (limit.applications, limit.max_applications) == (1, 9)
    assert {ask.code for ask in plan.blocked} == {"USER_QUOTA_EXCEEDED"}


@pytest.mark.row(168)
async def test_the_configuration_in_force_changes_nothing(site: Site) -> None:
    """The plan of the running configuration is empty."""
    plan = await site.plan(CONFIG)
    assert not plan.changed
    assert plan.counts == pb.PlanCounts()


@pytest.mark.row(168)
async def test_a_refused_configuration_has_no_plan(site: Site) -> None:
    """The error is that of an update, with all problems."""
    broken = CONFIG.replace("vcore: 2", "vcore: -2").replace("submitacl", "submitall")
    error = await refused(site.plan(broken))
    update = pb.UpdateConfigurationRequest(rm_id="rm", config=broken)
    same = await refused(site.admin.UpdateConfiguration(update))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert error.details() == same.details()
    assert violations(error) == violations(same) != {}


@pytest.mark.row(168)
async def test_a_stale_base_has_no_plan(site: Site) -> None:
    """The error is that of an update, and names the revision in force."""
    error = refusal(await refused(site.plan(WIDER, base_revision=7)))
    assert (error.code, error.reason) == (grpc.StatusCode.ABORTED, "STALE_REVISION")
    assert error.metadata == {"revision": "1"}
    assert (await site.plan(WIDER, base_revision=1)).changed


async def test_an_empty_text_is_the_default(site: Site) -> None:
    """The plan is that of the configuration that an update without one brings back."""
    plan = await site.plan("")
    assert plan.changed
    assert "root.a" in {queue.path for queue in plan.queues}


async def test_an_unknown_rm_has_no_plan(site: Site) -> None:
    """FAILED_PRECONDITION, as with all calls."""
    request = pb.PlanConfigurationRequest(rm_id="nobody", config=CONFIG)
    error = refusal(await refused(site.admin.PlanConfiguration(request)))
    assert (error.code, error.reason) == (
        grpc.StatusCode.FAILED_PRECONDITION,
        "RM_NOT_REGISTERED",
    )


async def test_a_configuration_may_be_too_large(site: Site) -> None:
    """It is refused before it is parsed."""
    error = await refused(site.plan("#" * (3 * 1024 * 1024)))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "config" in violations(error)


@pytest.mark.row(168)
async def test_a_submission_says_where_an_application_would_go(site: Site) -> None:
    """The plan has the queue, a node for each ask that fits, and the blockers of the others."""
    plan = await site.submission(*(ask(f"w{i}", "new", 1_000) for i in range(3)))
    assert (plan.accepted, plan.queue, plan.partition) == (True, "root.b", "[rm]default")
    assert plan.rule == ""
    assert [one.allocation_key for one in plan.asks] == ["w0", "w1", "w2"]
    first, second, third = plan.asks
    assert {first.node_id, second.node_id} <= {"n0", "n1"}
    assert (first.code, second.code) == ("", "")
    assert (third.node_id, third.code) == ("", "QUEUE_MAX_EXCEEDED")
    assert third.message.startswith("exceeds the cluster by vcore=1; ")


async def test_a_submission_may_be_rejected(site: Site) -> None:
    """The plan has the reason, in the words for the RM."""
    plan = await site.submission(queue="root.nowhere")
    assert not plan.accepted
    assert "no placement rule matched" in plan.rejection


@pytest.mark.row(168)
async def test_what_a_submission_says_is_done_when_it_is_made(site: Site, shim: Shim) -> None:
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


@pytest.mark.parametrize(
    ("asks", "field", "text"),
    [
        ([ask("w0", "other")], "asks[0].applicationID", "'other' is not the application"),
        ([ask("w0", "new"), ask("w0", "new")], "asks[1].allocationKey", "'w0' is given twice"),
        ([ask("w0", "new", nodeID="n0")], "asks[0].nodeID", "'n0', but an ask has no node yet"),
        ([ask("", "new")], "asks[0]", "allocationKey"),
        ([ask(f"w{i}", "new") for i in range(1_001)], "asks", "at most 1000"),
        ([ask("w0", "new", resourcePerAlloc=resource(**{"": 1}))], "asks[0]", "name is empty"),
    ],
    ids=["application", "twice", "node", "key", "many", "types"],
)
async def test_bad_asks_are_named(site: Site, asks: list[si.Allocation], field: str, text: str) -> None:
    """INVALID_ARGUMENT with the field of the ask that is wrong."""
    error = await refused(site.submission(*asks))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    [(found, message)] = violations(error).items()
    assert found == field
    assert text in message


async def test_a_bad_application_is_named(site: Site) -> None:
    """INVALID_ARGUMENT with the field of the application."""
    error = await refused(site.submission(queue="x" * 100_000))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "application" in violations(error)


async def test_an_ask_may_be_refused_alone(site: Site) -> None:
    """It has a code for that, and the message for the RM; the others continue."""
    plan = await site.submission(ask("w0", "new", -5), ask("w1", "new", 5))
    assert [one.code for one in plan.asks] == ["REJECTED", ""]
    assert plan.asks[0].message
    assert plan.asks[1].node_id


async def test_plans_are_of_an_own_rm_alone() -> None:
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
async def test_no_copy_is_made_for_what_is_known_without_one(text: str, problem: str) -> None:
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
async def test_reading_a_submission_gives_way() -> None:
    """However many asks there are, other tasks run between; all of them are read."""

    class Counted(Pace):
        """A pace that counts how often it has given way."""

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


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("k2", "with the maximum of queue root.a at vcore=3 it starts at once on n"),
        ("k3", "with the maximum of queue root.a at vcore=4 it starts at once on n"),
    ],
)
async def test_a_waiting_ask_is_told_what_was_tried_with_success(site: Site, key: str, told: str) -> None:
    """Each change has the node on which the copy has started the ask."""
    request = pb.PlanStartRequest(rm_id="rm", application_id="full", allocation_key=key)
    plan = await site.admin.PlanStart(request)
    [trial] = plan.trials
    [change] = trial.changes
    assert plan.complete
    assert trial.message.startswith(told)
    assert (trial.node_id in ("n0", "n1"), trial.others) == (True, int(key == "k3"))
    assert (change.kind, change.holder, change.path) == ("maximum", "queue", "root.a")


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"allocation_key": ""}, "allocation_key is empty"),
        ({"application_id": "a\n"}, "application_id holds control characters: a\\n"),
        ({"partition": "x" * 999}, "partition has 999 characters, at most"),
        ({"allocation_key": "k0"}, "application full has no pending ask k0"),
        ({"application_id": "none"}, "application none not found in partition [rm]default"),
        ({"partition": "x"}, "partition x not found"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
async def test_nothing_is_tried_for_an_ask_that_does_not_wait(
    site: Site, fields: dict[str, str], told: str
) -> None:
    """An ask that runs, or does not exist, is refused with the value, and no copy is made."""
    named = {"rm_id": "rm", "application_id": "full", "allocation_key": "k2", **fields}
    error = await refused(site.admin.PlanStart(pb.PlanStartRequest(**named)))
    is_wrong = told.startswith(next(iter(fields))) and "not found" not in told
    assert error.code() is (grpc.StatusCode.INVALID_ARGUMENT if is_wrong else grpc.StatusCode.NOT_FOUND)
    assert told in (error.details() or "")
    assert list(violations(error)) == (list(fields) if is_wrong else [])
    assert site.server.copies.made == 0


async def test_what_an_ask_lacks_is_told_if_no_copy_is_made() -> None:
    """By its checks alone, with the reason for which nothing was tried."""
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
