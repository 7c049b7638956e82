"""`State` and `Admin` on a member, for the RMs of other members."""

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from structlog.testing import capture_logs

from licorne.v1 import admin_pb2 as admin
from licorne.v1 import state_pb2 as state
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne.v1.state_pb2_grpc import StateStub
from licorne_core.config import load
from licorne_server.services.members.forwarding import ROUTES, page_of_all
from support.patience import PATIENCE
from support.peers.members import Deployment, members
from support.peers.shim import Shim, ask, connected, eventually, info_of, new_allocations
from support.peers.tls import Bearing

UNAVAILABLE = grpc.StatusCode.UNAVAILABLE
QUEUE = (
    "partitions:\n  - name: default\n    queues:\n      - name: root\n        submitacl: '*'\n"
    "        queues: [{{name: {}}}]\n"
)


QUEUES_USED = ("root", "root.ns")


class Seen:
    """A member, with a record of the calls to it."""

    def __init__(self, channel: Any) -> None:
        """Record the calls of a channel."""
        self.channel = channel
        self.state: Any = StateStub(channel)
        self.admin: Any = AdminStub(channel)


class Town:
    """Members a, b and c with RMs: `one` on b, `two` on c, and none on a."""

    def __init__(self, deployment: Deployment, a: Seen, b: Seen, c: Seen) -> None:
        """Create the members, with a record of their calls."""
        self.deployment = deployment
        self.a, self.b, self.c = a, b, c


async def settle(deployment: Deployment, channel: Any, rm_id: str, home: str) -> None:
    """Let a member serve an RM with a running and a waiting ask."""
    deployment.home = home
    shim = Shim(channel, rm_id)
    allocations, _, _ = await shim.set_up()
    await shim.ask(allocations, ask("runs"), ask("waits", vcore=5000))
    await new_allocations(allocations, 1)


@pytest.fixture
async def town() -> AsyncIterator[Town]:
    """All members, with the RMs connected to a."""
    async with (
        members("a", "b", "c") as deployment,
        connected(deployment.servers["a"]) as to_a,
        connected(deployment.servers["b"]) as to_b,
        connected(deployment.servers["c"]) as to_c,
    ):
        await settle(deployment, to_a, "two", "c")
        await settle(deployment, to_a, "one", "b")
        yield Town(deployment, Seen(to_a), Seen(to_b), Seen(to_c))


READS = {
    "ListPartitions": state.ListPartitionsRequest(rm_id="one"),
    "ListQueues": state.ListQueuesRequest(partition="[one]default", page_size=1),
    "ListApplications": state.ListApplicationsRequest(partition="[one]default"),
    "GetApplication": state.GetApplicationRequest(partition="[one]default", application_id="app"),
    "ListNodes": state.ListNodesRequest(partition="[one]default"),
    "Explain": state.ExplainRequest(partition="[one]default", application_id="app"),
    "ListUsage": state.ListUsageRequest(partition="[one]default"),
    "ListReservations": state.ListReservationsRequest(partition="[one]default"),
    "ListPreemptions": state.ListPreemptionsRequest(partition="[one]default"),
    "ListOutstanding": state.ListOutstandingRequest(partition="[one]default"),
    "ListCalendar": state.ListCalendarRequest(partition="[one]default"),
    "ListTopology": state.ListTopologyRequest(partition="[one]default"),
    "ListEvents": state.ListEventsRequest(rm_id="one"),
}


@pytest.mark.parametrize("method", READS)
async def test_reads_of_an_rm_are_answered_by_its_owner(town: Town, method: str) -> None:
    """A member without the RM, and one with another RM, give the answer of the owner."""
    at_owner = await getattr(town.b.state, method)(READS[method])
    for seen in (town.a, town.c):
        assert await getattr(seen.state, method)(READS[method]) == at_owner


def test_every_call_has_its_route() -> None:
    """All methods have a route, except the one about the server itself and those on shared documents."""
    services = (state.DESCRIPTOR.services_by_name["State"], admin.DESCRIPTOR.services_by_name["Admin"])
    named = {f"/{service.full_name}/{method.name}" for service in services for method in service.methods}
    assert named - ROUTES.keys() == {
        "/licorne.v1.State/GetServer",
        "/licorne.v1.Admin/GetBudgets",
        "/licorne.v1.Admin/UpdateBudgets",
        "/licorne.v1.Admin/ListMembers",
        "/licorne.v1.Admin/DrainMember",
    }
    assert not ROUTES.keys() - named


def test_budgets_show_the_use_of_all_members() -> None:
    """The use of each RM is that of its owner, and the total has each RM once."""
    here, elsewhere = state.BudgetHolding(rm_id="a", here=True), state.BudgetHolding(rm_id="b")
    here.used["vcore"], elsewhere.slice["vcore"] = 3, 9
    mine = state.Budget(name="all", holdings=[here, elsewhere])
    mine.used["vcore"] = 3
    theirs = state.Budget(name="all", holdings=[state.BudgetHolding(rm_id="b", here=True)])
    theirs.holdings[0].used["vcore"], theirs.holdings[0].slice["vcore"] = 4, 9
    stale = state.Budget(name="all", holdings=[state.BudgetHolding(rm_id="a", here=True)])
    stale.holdings[0].used["vcore"] = 100
    route = ROUTES["/licorne.v1.State/ListBudgets"]
    assert route.merge is not None
    answers = [state.ListBudgetsResponse(budgets=[budget]) for budget in (mine, theirs, stale)]
    answers[1].budgets.add(name="of another definition")
    merged = route.merge(state.ListBudgetsRequest(), answers)
    assert isinstance(merged, state.ListBudgetsResponse)
    [found] = merged.budgets
    assert dict(found.used) == {"vcore": 7}
    assert [(one.rm_id, one.here, dict(one.used)) for one in found.holdings] == [
        ("a", True, {"vcore": 3}),
        ("b", True, {"vcore": 4}),
    ]


async def test_reasons_are_summed_over_all_members(town: Town) -> None:
    """Without a partition each member has the totals, once for each RM; with one those of its owner."""
    for seen in (town.a, town.b, town.c):
        answer = await seen.state.ListReasons(state.ListReasonsRequest())
        [reason] = answer.reasons
        assert (answer.asks, reason.asks, reason.queues) == (2, 2, 2)
        assert reason.code == "NEVER_FITS"
        assert {one.partition for one in reason.first_queues} == {"[one]default", "[two]default"}
        of_one = await seen.state.ListReasons(state.ListReasonsRequest(partition="[one]default"))
        assert [one.partition for one in of_one.reasons[0].first_queues] == ["[one]default"]


async def test_hours_are_summed_over_all_members(town: Town) -> None:
    """Each RM counts once, on whichever member; a missing member makes the sums unknown."""
    for seen in (town.a, town.b, town.c):
        answer = await seen.state.ListResourceHours(state.ListResourceHoursRequest())
        found = [(row.partition, row.name) for row in answer.rows]
        assert found == sorted((f"[{rm}]default", name) for rm in ("one", "two") for name in QUEUES_USED)
        of_one = await seen.state.ListResourceHours(state.ListResourceHoursRequest(partition="[one]default"))
        assert [row.partition for row in of_one.rows] == ["[one]default"] * len(QUEUES_USED)


async def test_names_without_an_rm_mean_the_first_rm_of_all_members(town: Town) -> None:
    """A bare or empty name means the RM whose id comes first, and pages continue there."""
    for seen in (town.a, town.b, town.c):
        for name in ("default", ""):
            page = await seen.state.ListQueues(state.ListQueuesRequest(partition=name, page_size=1))
            assert [queue.path for queue in page.queues] == ["root"]
            request = state.ListQueuesRequest(partition=name, page_token=page.next_page_token)
            assert len((await seen.state.ListQueues(request)).queues) > 0
            [node] = (await seen.state.ListNodes(state.ListNodesRequest(partition=name))).nodes
            assert node.partition == "[one]default"
        ours = await seen.state.ListEvents(state.ListEventsRequest())
        theirs = await town.b.state.ListEvents(state.ListEventsRequest(rm_id="one"))
        assert ours.instance == theirs.instance


async def test_lists_have_the_rms_of_all_members(town: Town) -> None:
    """RMs and partitions are in the order of RM ids, the same on every member."""
    for seen in (town.a, town.b, town.c):
        rms = await seen.state.ListRms(state.ListRmsRequest())
        assert [rm.rm_id for rm in rms.rms] == ["one", "two"]
        partitions = await seen.state.ListPartitions(state.ListPartitionsRequest())
        assert [one.name for one in partitions.partitions] == ["[one]default", "[two]default"]
        assert not rms.missing_members
        assert not partitions.missing_members


async def test_pages_of_all_rms_have_each_rm_once(town: Town) -> None:
    """Pages of any size, from any members in turn, have all RMs in order."""
    for number in range(7):
        town.deployment.home = "abc"[number % 3]
        await Shim(town.a.channel, f"rm{number}").register()
    wanted = ["one", *(f"rm{number}" for number in range(7)), "two"]
    for size in (1, 2, 4):
        found, token = [], ""
        for seen in (town.a, town.b, town.c) * 9:
            request = state.ListRmsRequest(page_size=size, page_token=token)
            page = await seen.state.ListRms(request)
            found += [rm.rm_id for rm in page.rms]
            token = page.next_page_token
            if not token:
                break
        assert found == wanted


@pytest.mark.parametrize("seed", range(50))
def test_merged_pages_are_complete(seed: int) -> None:
    """Whatever rows members have, and wherever their pages end, all are included once and in order."""
    draw = random.Random(seed)
    lists = [sorted({f"{draw.randrange(60):02}" for _ in range(draw.randrange(20))}) for _ in range(4)]

    def page(ids: list[str], size: int, token: str) -> state.ListRmsResponse:
        behind = [rm_id for rm_id in ids if rm_id > token]
        end = draw.randint(1, size)
        rest = behind[end - 1] if len(behind) > end else ""
        rms = [state.ResourceManager(rm_id=rm_id) for rm_id in behind[:end] if draw.random() < 0.9]
        shown.update(rm.rm_id for rm in rms)
        return state.ListRmsResponse(rms=rms, next_page_token=rest)

    found: list[str] = []
    shown: set[str] = set()
    token, more = "", True
    while more:
        size = draw.randint(1, 5)
        request = state.ListRmsRequest(page_size=size, page_token=token)
        merged: Any = page_of_all("rms", 100, 10, request, [page(ids, size, token) for ids in lists])
        assert len(merged.rms) <= size
        found += [rm.rm_id for rm in merged.rms]
        assert merged.next_page_token != token or not token
        token, more = merged.next_page_token, bool(merged.next_page_token)
    assert found == sorted(set(found))
    assert set(found) <= shown


async def test_answers_name_missing_members(town: Town) -> None:
    """Lists name silent members; bare names are then refused, as they may mean an RM of theirs."""
    await town.deployment.kill("c")
    rms = await town.a.state.ListRms(state.ListRmsRequest())
    assert ([rm.rm_id for rm in rms.rms], rms.missing_members) == (["one"], ["c"])
    partitions = await town.a.state.ListPartitions(state.ListPartitionsRequest())
    assert (len(partitions.partitions), partitions.missing_members) == (1, ["c"])
    levels = await town.a.admin.GetLogLevels(admin.GetLogLevelsRequest())
    assert levels.missing_members == ["c"]
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await town.a.state.ListNodes(state.ListNodesRequest(partition="default"))
    assert refused.value.code() is UNAVAILABLE
    text = "partition default is not known while members do not answer: c; name an RM"
    assert refused.value.details() == text
    nodes = await town.a.state.ListNodes(state.ListNodesRequest(partition="[one]default"))
    assert len(nodes.nodes) == 1
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await town.a.state.ListNodes(state.ListNodesRequest(partition="[two]default"))
    assert refused.value.code() is UNAVAILABLE


async def test_operators_reach_every_rm_from_every_member(town: Town) -> None:
    """The owner changes nodes, queues, applications and configurations in the name of the real caller."""
    node = admin.SetNodeSchedulableRequest(rm_id="one", node_id="n0", schedulable=False)
    assert (await town.a.admin.SetNodeSchedulable(node)).changed
    [seen] = (await town.c.state.ListNodes(state.ListNodesRequest(partition="[one]default"))).nodes
    assert seen.drained
    update = admin.UpdateConfigurationRequest(rm_id="one", config=QUEUE.format("new"), comment="why")
    revision = (await town.a.admin.UpdateConfiguration(update)).revision
    current = await town.b.admin.GetConfiguration(admin.GetConfigurationRequest(rm_id="one"))
    assert (current.revision, current.by, current.comment) == (revision, "127.0.0.1", "why")
    assert current == await town.c.admin.GetConfiguration(admin.GetConfigurationRequest(rm_id="one"))
    validate = admin.ValidateConfigurationRequest(config=QUEUE.format("newer"), compare_rm_id="one")
    assert (await town.a.admin.ValidateConfiguration(validate)).compared
    stop = admin.StopApplicationRequest(rm_id="one", application_id="app", reason="over")
    assert (await town.c.admin.StopApplication(stop)).allocations == 1


async def test_a_dump_of_an_rm_is_streamed_from_its_owner(town: Town) -> None:
    """The stream of a dump is passed on whole."""
    request = admin.DumpStateRequest(rm_id="one")
    dumped = b"".join([part.json async for part in town.a.admin.DumpState(request)])
    assert b'"[one]default"' in dumped
    assert b'"[two]default"' not in dumped


async def test_log_levels_are_set_on_all_members(town: Town) -> None:
    """Each member sets the level, and leaves a line that names the caller."""
    with capture_logs() as lines:
        request = admin.SetLogLevelRequest(logger="core.rms", level="debug")
        answer = await town.a.admin.SetLogLevel(request)
        request = admin.SetLogLevelRequest(logger="core.rms")
        await town.a.admin.SetLogLevel(request)
    assert answer.levels["core.rms"] == "debug"
    noted = [line["by"] for line in lines if line.get("action") == "set log level"]
    assert noted == ["127.0.0.1"] * 6


async def test_all_members_reload_their_files(tmp_path: Path) -> None:
    """RMs of all members get the new file; a refusal of one member is the answer."""
    file = tmp_path / "queues.yaml"
    file.write_text(QUEUE.format("old"))
    changes: dict[str, Any] = {"config_file": file, "default_config": load(file.read_text())}
    async with (
        members("a", "b", "c", **changes) as deployment,
        connected(deployment.servers["a"]) as channel,
    ):
        for rm_id, home in (("one", "b"), ("two", "c")):
            deployment.home = home
            await Shim(channel, rm_id).register()
        seen = Seen(channel)
        file.write_text(QUEUE.format("new"))
        answer = await seen.admin.ReloadConfiguration(admin.ReloadConfigurationRequest())
        assert [(rm.rm_id, rm.changed) for rm in answer.rms] == [("one", True), ("two", True)]
        file.write_text("partitions: 7\n")
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await seen.admin.ReloadConfiguration(admin.ReloadConfigurationRequest())
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_unknown_rms_are_refused_as_on_one_server(town: Town) -> None:
    """The status, text and reason for an unknown RM or partition are those of a single server."""
    async with members("alone") as alone, connected(alone.servers["alone"]) as channel:
        single = Seen(channel)
        for service, method, request in (
            ("admin", "GetConfiguration", admin.GetConfigurationRequest(rm_id="nobody")),
            ("admin", "StopApplication", admin.StopApplicationRequest(rm_id="nobody", application_id="a")),
            ("state", "ListNodes", state.ListNodesRequest(partition="[nobody]default")),
            ("state", "ListNodes", state.ListNodesRequest(partition="nowhere")),
            ("state", "ListEvents", state.ListEventsRequest(rm_id="nobody")),
        ):
            told = []
            for seen in (single, town.a, town.c):
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await getattr(getattr(seen, service), method)(request)
                told.append((refused.value.code(), refused.value.details(), info_of(refused.value)))
            assert told[1:] == [told[0]] * 2


async def test_events_are_watched_from_every_member(town: Town) -> None:
    """A watch through another member has the owner's events, and ends when the RM has another owner."""
    [kept, *_] = (await town.b.state.ListEvents(state.ListEventsRequest(rm_id="one"))).events
    watch = town.c.state.WatchEvents(state.WatchEventsRequest(rm_id="one", start=kept.id))
    seen: list[int] = []
    while not seen:
        seen += [event.id for event in (await watch.read()).events]
    assert seen[0] == kept.id
    town.deployment.give("one", "a")
    async with asyncio.timeout(PATIENCE):
        assert await watch.code() is UNAVAILABLE


async def test_a_cancelled_watch_ends_at_the_owner(town: Town) -> None:
    """A cancelled watch occupies no place at the owner."""
    watch = town.a.state.WatchEvents(state.WatchEventsRequest(rm_id="one"))
    await watch.read()
    log = town.deployment.servers["b"].events.get("one")
    assert log.watchers == 1
    watch.cancel()
    await eventually(lambda: not log.watchers)


async def test_rms_see_their_own_data_through_another_member(tmp_path: Path) -> None:
    """The owner uses the rights of the caller's token, wherever it was presented; a viewer sees all."""
    files = {name: (tmp_path / name,) for name in ("one", "two", "viewer")}
    for name, [file] in files.items():
        file.write_text(f"token-of-{name}-aaaaaaaaaaaaaaaa\n")
    viewers = files["viewer"]
    tokens = {rm_id: files[rm_id] for rm_id in ("one", "two")}
    async with (
        members("a", "b", "c", rm_tokens=tokens, viewer_tokens=viewers) as deployment,
        connected(deployment.servers["a"]) as channel,
    ):
        bearing = {name: Bearing(channel, f"Bearer token-of-{name}-aaaaaaaaaaaaaaaa") for name in files}
        await settle(deployment, bearing["one"], "one", "b")
        await settle(deployment, bearing["two"], "two", "c")
        seen = Seen(bearing["two"])
        assert [rm.rm_id for rm in (await seen.state.ListRms(state.ListRmsRequest())).rms] == ["two"]
        [node] = (await seen.state.ListNodes(state.ListNodesRequest())).nodes
        assert node.partition == "[two]default"
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await seen.state.ListNodes(state.ListNodesRequest(partition="[one]default"))
        assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
        viewer = Seen(bearing["viewer"])
        for partition in ("[one]default", "[two]default"):
            [node] = (await viewer.state.ListNodes(state.ListNodesRequest(partition=partition))).nodes
            assert node.partition == partition
