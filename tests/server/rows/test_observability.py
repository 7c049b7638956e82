"""What operators look at, seen from outside (spec §§ 12.4, 12.5)."""

import aiohttp
import grpc
import pytest

from licorne.si.v1 import si_pb2 as si
from licorne.v1 import admin_pb2 as ap
from licorne.v1.admin_pb2_grpc import AdminStub
from support.peers.served_rm import ServedRm
from support.peers.shim import application, ask, connected, node

LEAF = "partitions: [{name: default, queues: [{name: root, queues: [{name: a, submitacl: '*'}]}]}]"
TWO = "partitions: [{name: default, queues: [{name: a}]}, {name: other, queues: [{name: b}]}]"


@pytest.mark.row(165)
async def test_health_follows_the_nodes(rm: ServedRm) -> None:
    """Healthy after the start; unhealthy after a node for a partition that is not there."""
    await rm.register(LEAF)
    assert (await rm.health())["Healthy"] is True
    lost = si.NodeInfo(nodeID="lost", action=si.NodeInfo.CREATE)
    lost.attributes["si/node-partition"] = "gpu"
    [reason] = await rm.tell_nodes(lost)
    assert reason == "failed to find partition [rm]gpu for new node lost"
    shown = await rm.health()
    assert shown["Healthy"] is False
    [failed] = [check for check in shown["HealthChecks"] if not check["Succeeded"]]
    assert failed["Name"] == "Failed nodes"
    assert "node lost of RM rm is for a partition that is not there" in failed["DiagnosisMessage"]


@pytest.mark.row(163, 165)
async def test_a_node_without_a_partition_counts_as_failed(rm: ServedRm) -> None:
    """Metrics count it until it has one; a second node of a known id is rejected uncounted."""
    await rm.shim.register(TWO)
    nodes = rm.shim.open("UpdateNode")
    lost, later = (si.NodeInfo(nodeID=name, action=si.NodeInfo.CREATE) for name in ("lost", "late"))
    for one in (lost, later):
        one.attributes["si/node-partition"] = "gpu"
    answer = await rm.shim.nodes(nodes, node("n0", vcore=1000), lost, later)
    assert {item.nodeID for item in answer.rejected} == {"lost", "late"}
    answer = await rm.shim.nodes(nodes, node("n0", vcore=1), node("late", vcore=1))
    assert [item.nodeID for item in answer.rejected] == ["n0"]
    url = f"http://{rm.server.http_address}/ws/v1/metrics"
    async with aiohttp.ClientSession() as client, client.get(url) as scrape:
        lines = (await scrape.text()).splitlines()
    for partition, active, failed in (("default", 2, 1), ("other", 0, 0)):
        for state, count in (("active", active), ("failed", failed)):
            labels = f'rm="rm",partition="{partition}",state="{state}"'
            assert f"yunikorn_scheduler_node{{{labels}}} {count}" in lines


@pytest.mark.row(168)
async def test_an_update_is_seen_over_rest(rm: ServedRm) -> None:
    """New queues are there and the running text is the new one; a bad one changes nothing."""
    await rm.register(LEAF)
    wider = LEAF.replace("{name: a,", "{name: b}, {name: a,")
    async with connected(rm.server) as channel:
        admin = AdminStub(channel)
        await admin.UpdateConfiguration(ap.UpdateConfigurationRequest(rm_id="rm", config=wider))
        assert (await rm.queue("root"))["childNames"] == ["root.a", "root.b"]
        running = await rm.read("config", Accept="application/json")
        broken = wider.replace("name: b", "name: b.c")
        with pytest.raises(grpc.aio.AioRpcError, match=r"b\.c"):
            await admin.UpdateConfiguration(
                ap.UpdateConfigurationRequest(rm_id="rm", config=broken)
            )
        assert await rm.read("config", Accept="application/json") == running
        assert (await rm.queue("root"))["childNames"] == ["root.a", "root.b"]


@pytest.mark.row(165)
async def test_health_forgets_a_rejected_ask(rm: ServedRm) -> None:
    """One rejected ask makes health unhealthy for five minutes, and not for ever."""
    await rm.register(LEAF)
    await rm.submit(application("app", "root.a"))
    await rm.ask(ask("k", "nobody"))
    failed = [c["Name"] for c in (await rm.health())["HealthChecks"] if not c["Succeeded"]]
    assert failed == ["Scheduling errors"]
    await rm.wait(300)
    assert (await rm.health())["Healthy"] is True


@pytest.mark.row(166)
async def test_dump_has_everything_in_one_answer(rm: ServedRm) -> None:
    """The state dump has its keys, and what runs is in it."""
    await rm.register(LEAF, n0=1000)
    await rm.submit(application("app", "root.a"))
    await rm.ask(ask("k"))
    await rm.heard()
    shown = await rm.dump()
    assert set(shown) == {
        "timestamp", "partitions", "applications", "appHistory", "nodes", "clusterInfo",
        "containerHistory", "queues", "rmDiagnostics", "logLevel", "config", "placementRules",
        "eventStreams",
    }  # fmt: skip
    [app] = shown["applications"]
    assert [allocation["nodeId"] for allocation in app["allocations"]] == ["n0"]
    assert "finishedTime" not in app
    assert shown["rmDiagnostics"]["rm"]["error"].startswith("the RM is served over si.v1")
