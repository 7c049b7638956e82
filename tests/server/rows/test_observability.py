"""What operators look at, seen from outside (spec §§ 12.4, 12.5)."""

import pytest

from licorne.si.v1 import si_pb2 as si
from support.served_rm import ServedRm
from support.shim import application, ask

LEAF = "partitions: [{name: default, queues: [{name: root, queues: [{name: a, submitacl: '*'}]}]}]"


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
