"""REST as the tables of the specification have it (spec §§ 12.2, 12.4, 13), seen from outside."""

import asyncio
from typing import Any

import aiohttp
import pytest

from support.peers.served_rm import ServedRm
from support.peers.shim import application, ask, node, resource

CONFIG = """
partitions:
  - name: default
    nodesortpolicy: {type: fair, resourceweights: {vcore: 4.0, memory: 1.0}}
    placementrules: [{name: provided}]
    queues:
      - name: root
        submitacl: "*"
        childtemplate: {maxapplications: 5}
        limits: [{limit: all, groups: [staff], maxresources: {vcore: 9}}]
        queues: [{name: a, properties: {application.unschedasks.backoff: 1}}]
"""
OTHER = "partitions: [{name: default, queues: [{name: root, queues: [{name: b}]}]}]"
BROKEN = "partitions: [{name: default, queues: [{name: root, queues: [{name: b.c}]}]}]"

PARTITION = """clusterId name capacity nodeSortingPolicy preemptionEnabled quotaPreemptionEnabled
    totalNodes applications totalContainers state lastStateTransitionTime"""
QUEUE = """queuename status partition pendingResource maxResource guaranteedResource
    allocatedResource preemptingResource headroom isLeaf isManaged properties parent template
    children childNames absUsedCapacity maxRunningApps runningApps currentPriority
    allocatingAcceptedApps sortingPolicy prioritySorting preemptionEnabled isPreemptionFence
    preemptionDelay quotaPreemptionDelay isPriorityFence priorityOffset isQuotaPreemptionRunning
    unschedAskBackoff askBackoffDelay"""
NODE = """nodeID hostName rackName attributes capacity allocated occupied available utilized
    allocations foreignAllocations schedulable isReserved reservations"""
APPLICATION = """applicationID usedResource maxUsedResource pendingResource partition queueName
    submissionTime requests allocations applicationState user groups rejectedMessage stateLog
    placeholderData hasReserved reservations maxRequestPriority startTime resourceHistory"""
ITEM = """allocationKey allocationTags requestTime resource priority applicationId placeholder
    taskGroupName originator"""
ASK = f"""{ITEM} requiredNodeId allocationLog triggeredPreemption schedulingAttempted
    triggeredScaleUp"""
ALLOCATION = f"{ITEM} allocationTime allocationDelay nodeId placeholderUsed preempted"
USAGE = "queuePath resourceUsage runningApplications maxResources maxApplications children"
DUMP = """timestamp partitions applications appHistory nodes clusterInfo containerHistory queues
    rmDiagnostics logLevel config placementRules eventStreams"""


@pytest.fixture
async def ready(rm: ServedRm) -> ServedRm:
    """One ask runs, on a node with a label, and one is too large for every node."""
    await rm.register(CONFIG)
    # By its weights: the first node is used most.
    await rm.tell_nodes(node("n1", vcore=1000, memory=1000), node("n2", vcore=900, memory=10))
    one = application("app", "root.a", ugi={"user": "ann", "groups": ["staff"]})
    await rm.submit(one)
    await rm.ask(ask("runs", nodeID="n1", resourcePerAlloc=resource(vcore=900, memory=500)))
    await rm.ask(ask("waits", vcore=950, priority=7))
    await rm.heard()
    return rm


def has(thing: dict[str, Any], keys: str) -> None:
    """All the keys are there, and what is a list in the table is no null."""
    missing = set(keys.split()) - thing.keys()
    assert not missing
    nulls = {key for key in keys.split() if thing[key] is None}
    assert nulls <= {"template"}


@pytest.mark.row(1, 120, 164)
async def test_lists_of_the_cluster_have_their_keys(ready: ServedRm) -> None:
    """Clusters, partitions, node utilizations, rules, and the form of the history."""
    [cluster] = await ready.read("clusters")
    has(cluster, "startTime rmBuildInformation partition clusterName")
    [partition] = await ready.partitions()
    has(partition, PARTITION)
    has(partition["capacity"], "capacity usedCapacity utilization")
    assert partition["nodeSortingPolicy"] == {
        "type": "fair",
        "resourceWeights": {"vcore": 4.0, "memory": 1.0},
    }
    assert (partition["applications"]["Running"], partition["applications"]["total"]) == (1, 1)
    [shown] = await ready.read("scheduler/node-utilizations")
    has(shown, "clusterId partition utilizations")
    for each in shown["utilizations"]:
        has(each, "type utilization")
        assert len(each["utilization"]) == 10
        has(each["utilization"][0], "bucketName numOfNodes")
    rules = await ready.get("placementrules")
    assert [rule["name"] for rule in rules] == ["provided", "recovery"]
    has(rules[0], "name parameters filter")
    has(rules[0]["filter"], "type userList groupList userExp groupExp")
    await ready.wait(60)
    for kind, count in (("apps", "totalApplications"), ("containers", "totalContainers")):
        [*_, sample] = await ready.read(f"history/{kind}")
        assert sample[count] == "1"
        assert isinstance(sample["timestamp"], int)


@pytest.mark.row(120, 164)
async def test_queues_nodes_and_applications_have_their_keys(ready: ServedRm) -> None:
    """Each object of the table, under each path that it has."""
    tree = await ready.get("queues")
    for queue in (tree, tree["children"][0], await ready.queue("root.a")):
        has(queue, QUEUE)
    assert (await ready.queue("root"))["children"] == []
    assert (await ready.get("queue/root?subtree"))["children"][0]["queuename"] == "root.a"
    [first, _] = await ready.get("nodes")
    assert first == await ready.get("node/n1")
    has(first, NODE)
    assert first["utilized"] == {"vcore": 90, "memory": 50}
    has(first["allocations"][0], ALLOCATION)
    app = await ready.app("app")
    has(app, APPLICATION)
    has(app["requests"][0], ASK)
    assert app["requests"][0]["priority"] == "7"
    has(app["allocations"][0], ALLOCATION)
    for path in ("queue/root.a/application/app", "application/app"):
        assert await ready.get(path) == app
    for path in ("queue/root.a/applications", "applications/active?status=running"):
        assert await ready.get(path) == [app]
    assert await ready.get("applications/active?status=accepted") == []


@pytest.mark.row(156, 164)
async def test_usage_has_its_keys(ready: ServedRm) -> None:
    """A user with the groups by application, a group with its applications, each by queue."""
    [user] = await ready.get("usage/users")
    assert (user["userName"], user["groups"]) == ("ann", {"app": "staff"})
    assert user == await ready.get("usage/user/ann")
    [group] = await ready.get("usage/groups")
    assert (group["groupName"], group["applications"]) == ("staff", ["app"])
    assert group == await ready.get("usage/group/staff")
    for queues in (user["queues"], group["queues"]):
        has(queues, USAGE)
        assert queues["children"][0]["resourceUsage"] == {"vcore": 900, "memory": 500}
    assert group["queues"]["maxResources"] == {"vcore": 9000}


@pytest.mark.row(166)
async def test_older_path_of_the_dump_leads_to_it(ready: ServedRm) -> None:
    """The dump of the older path has the keys of the table."""
    has(await ready.dump(), DUMP)


@pytest.mark.row(58)
async def test_validation_changes_nothing_of_what_runs(ready: ServedRm) -> None:
    """A good configuration and a bad one are judged, and neither comes into force."""
    before = await ready.read("config", Accept="application/json"), await ready.get("queues")
    url = f"http://{ready.server.http_address}/ws/v1/validate-conf"
    async with aiohttp.ClientSession() as client:
        for config, allowed, reason in ((OTHER, True, ""), (BROKEN, False, "b.c")):
            async with client.post(url, data=config) as answer:
                verdict = await answer.json()
            has(verdict, "allowed reason checksum checksumMatch")
            assert verdict["allowed"] is allowed
            assert reason in verdict["reason"]
    after = await ready.read("config", Accept="application/json"), await ready.get("queues")
    assert after == before


@pytest.mark.row(60, 109)
async def test_rejected_application_is_seen_with_the_reason_that_the_rm_was_told(
    ready: ServedRm,
) -> None:
    """Among the rejected ones and under its own name, and no more among the active ones."""
    told = await ready.submit(application("lost", "root.nowhere"))
    [shown] = await ready.get("applications/rejected")
    assert shown["applicationID"] == "lost"
    assert shown["applicationState"] == "Rejected"
    assert shown["rejectedMessage"] == told["lost"]
    assert "no placement rule matched" in told["lost"]
    assert (await ready.app("lost")) == shown
    assert [app["applicationID"] for app in await ready.get("applications/active")] == ["app"]


@pytest.mark.row(103)
async def test_queue_shows_after_how_many_asks_an_application_backs_off(ready: ServedRm) -> None:
    """A leaf has the number of asks and the delay; an application that does not has no time."""
    leaf = await ready.queue("root.a")
    assert (leaf["unschedAskBackoff"], leaf["askBackoffDelay"]) == (1, "30s")
    assert "backoffDeadline" not in await ready.app("app")


@pytest.mark.row(125)
async def test_node_says_for_whom_it_is_kept(rm: ServedRm) -> None:
    """Two seconds after the ask a node is reserved, as the node and the application show."""
    await rm.register(CONFIG.replace("application.unschedasks.backoff: 1", ""), n1=1000, n2=1000)
    await rm.submit(application("app", "root.a"))
    await rm.ask(ask("s1", nodeID="n1", vcore=600), ask("s2", nodeID="n2", vcore=600))
    await rm.ask(ask("big", vcore=700))
    assert [shown["isReserved"] for shown in await rm.get("nodes")] == [False, False]
    await rm.wait(2)
    kept = [shown for shown in await rm.get("nodes") if shown["isReserved"]]
    assert [shown["reservations"] for shown in kept] == [["big"]]
    app = await rm.app("app")
    assert (app["hasReserved"], app["reservations"]) == (True, ["big"])


@pytest.mark.row(162)
async def test_batches_follow_one_another_without_a_gap(ready: ServedRm) -> None:
    """Batches of two have together what one large one has; the last id is that of the last."""
    whole = await ready.read("events/batch")
    has(whole, "InstanceUUID LowestID HighestID EventRecords")
    parts: list[Any] = []
    for start in range(whole["LowestID"], whole["HighestID"] + 1, 2):
        parts += (await ready.read(f"events/batch?start={start}&count=2"))["EventRecords"]
    assert parts == whole["EventRecords"]
    beyond = await ready.read(f"events/batch?start={whole['HighestID'] + 1}")
    assert beyond["EventRecords"] is None


@pytest.mark.row(8, 9, 22)
async def test_partition_has_all_its_names(ready: ServedRm) -> None:
    """Bare, with its RM in brackets, and with the brackets percent-encoded."""
    await ready.still()
    found = [
        await ready.read(f"partition/{name}/node/n1")
        for name in ("default", f"[{ready.rm_id}]default", f"%5B{ready.rm_id}%5Ddefault")
    ]
    assert found[0] == found[1] == found[2]


@pytest.mark.row(19)
async def test_rest_stops_with_the_server(ready: ServedRm) -> None:
    """Whoever reads events is told in the last line, and then nobody answers any more."""
    url = f"http://{ready.server.http_address}/ws/v1/"
    async with aiohttp.ClientSession() as client:
        async with client.get(url + "events/stream") as stream:
            assert b"InstanceUUID" in await stream.content.readline()
            stopping = asyncio.ensure_future(ready.server.stop())
            *_, last = [line async for line in stream.content]
            assert b'"status_code":503' in last
        await stopping
        with pytest.raises(aiohttp.ClientError):
            await client.get(url + "clusters")
