"""A stub made from the published `si.v1` interface by another party works unchanged.

The shim of these tests is a separate process without any code of Licorne; its stubs are made here from a file
that was written from the published tables. Rows 1 to 16, 18 and 161.
"""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from licorne_server.testing import Served, serve
from support.peers.foreign import Ended, ForeignRm, ForeignShim, foreign_shim, generate, size
from support.peers.shim import TWO_QUEUES as CONFIG

TWO_PARTITIONS = (
    CONFIG
    + """
  - name: gpu
    queues:
      - {name: root, submitacl: "*", queues: [{name: default}]}
"""
)


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stubs made from the published interface."""
    folder = tmp_path_factory.mktemp("stubs")
    generate(folder)
    return folder


@pytest.fixture
async def server() -> AsyncIterator[Served]:
    """A server without RMs."""
    async with serve() as server:
        yield server


@pytest.fixture
async def shim(server: Served, stubs: Path) -> AsyncIterator[ForeignShim]:
    """A foreign shim connected to the server."""
    async with foreign_shim(server.target, stubs) as shim:
        yield shim


async def started(shim: ForeignShim, rm_id: str = "rm1", config: str = CONFIG) -> ForeignRm:
    """A registered RM with its streams open."""
    return await ForeignRm(rm_id, shim).start(config)


async def get(server: Served, path: str) -> Any:
    """The answer of REST."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://{server.http}/ws/v1/{path}") as response,
    ):
        assert response.status == 200, await response.text()
        return await response.json()


async def queue(server: Served, rm_id: str = "rm1", path: str = "root.default") -> dict[str, Any]:
    """A queue of an RM's default partition in REST."""
    found: dict[str, Any] = await get(server, f"partition/[{rm_id}]default/queue/{path}")
    return found


async def used(server: Served, rm_id: str = "rm1", path: str = "root.default") -> tuple[int, int]:
    """Allocated and pending cores of a queue, in thousandths."""
    found = await queue(server, rm_id, path)
    return found["allocatedResource"].get("vcore", 0), found["pendingResource"].get("vcore", 0)


@pytest.mark.row(1)
async def test_a_registration_is_answered_and_listed(server: Served, shim: ForeignShim) -> None:
    """Registering returns an empty response, and REST has the RM with its build information."""
    assert await shim.register("rm1", CONFIG, buildInfo={"buildVersion": "7"}) == {}
    (cluster,) = await get(server, "clusters")
    (build,) = cluster["rmBuildInformation"]
    assert (build["rmId"], build["buildVersion"]) == ("rm1", "7")


@pytest.mark.row(2)
async def test_an_empty_configuration_places_by_namespace(server: Served, shim: ForeignShim) -> None:
    """With the default configuration an application of namespace ns1 runs in root.ns1."""
    rm = await started(shim, config="")
    await rm.submit(queue="", tags={"namespace": "ns1"})
    (app,) = await get(server, "partition/[rm1]default/applications/active")
    assert (app["applicationID"], app["queueName"]) == ("app", "root.ns1")


@pytest.mark.row(3)
async def test_an_invalid_configuration_is_refused_and_a_valid_one_accepted(shim: ForeignShim) -> None:
    """A registration with an invalid configuration fails with a documented text; the next may succeed."""
    with pytest.raises(Ended, match="registration of RM failed") as refused:
        await shim.register("rm1", "partitions: [{name: default, queues: [{name: a.b}]}]")
    assert refused.value.code == "INVALID_ARGUMENT"
    assert await shim.register("rm2", CONFIG) == {}


@pytest.mark.row(4)
@pytest.mark.parametrize(
    ("rpc", "message"),
    [
        ("nodes", "NodeRequest"),
        ("applications", "ApplicationRequest"),
        ("allocations", "AllocationRequest"),
    ],
)
async def test_an_unknown_rm_is_refused(shim: ForeignShim, rpc: str, message: str) -> None:
    """Every stream of an RM that has not registered ends with words that name the RM."""
    stream = await getattr(shim, rpc)()
    await stream.send(rmID="x")
    with pytest.raises(Ended) as refused:
        await stream.next()
    assert refused.value.code == "FAILED_PRECONDITION"
    assert refused.value.text == f'received {message}, but RmID="x" not registered'


@pytest.mark.row(5, 7)
async def test_registering_again_cleans_one_rm_only(server: Served, shim: ForeignShim) -> None:
    """A second registration drops nodes, applications and usage of that RM, and of no other."""
    rms = [await started(shim, rm_id) for rm_id in ("rm1", "rm2")]
    for rm in rms:
        await rm.add_node()
        await rm.submit()
        await rm.ask("k1")
        await rm.new(1)
    again = await started(shim, "rm1")
    assert await get(server, "partition/[rm1]default/nodes") == []
    assert await get(server, "partition/[rm1]default/applications/active") == []
    assert await used(server, "rm1") == (0, 0)
    await again.add_node()
    await again.submit()
    assert await used(server, "rm2") == (1000, 0)
    await rms[1].ask("k2")
    assert set(await rms[1].new(1)) == {"k2"}


@pytest.mark.row(6)
async def test_two_rms_with_equal_names_are_separate(server: Served, shim: ForeignShim) -> None:
    """With equal nodes, applications and keys each RM gets only its own usage and answers."""
    first, second = await started(shim, "rm1"), await started(shim, "rm2")
    await first.add_node(vcore=1000)
    await second.add_node(vcore=4000)
    for rm in (first, second):
        await rm.submit()
    await second.ask("k1", "k2", "k3")
    assert set(await second.new(3)) == {"k1", "k2", "k3"}
    assert await used(server, "rm1") == (0, 0)
    await first.ask("k1", vcore=500)
    found = await first.new(1)
    assert found["k1"]["resourcePerAlloc"] == {"resources": {"vcore": {"value": "500"}}}
    assert await used(server, "rm1") == (500, 0)
    assert await used(server, "rm2") == (3000, 0)


@pytest.mark.row(8, 9)
@pytest.mark.parametrize("named", ["", "default", "[rm1]default"])
async def test_all_spellings_of_the_own_partition_are_equal(
    server: Served, shim: ForeignShim, named: str
) -> None:
    """Empty, bare and normalized partition names are the same; answers are normalized."""
    rm = await started(shim)
    await rm.add_node()
    await rm.submit(partitionName=named)
    await rm.ask("k1", partitionName=named)
    assert (await rm.new(1))["k1"]["partitionName"] == "[rm1]default"
    await rm.release("k1", partitionName=named)
    (release,) = await rm.released()
    assert release["partitionName"] == "[rm1]default"
    assert [
        app["applicationID"] for app in await get(server, "partition/[rm1]default/applications/active")
    ] == ["app"]


@pytest.mark.row(10)
async def test_one_application_id_in_two_partitions(shim: ForeignShim) -> None:
    """The same id in two partitions is two applications, and both are scheduled."""
    rm = await started(shim, config=TWO_PARTITIONS)
    await rm.add_node("n1")
    await rm.add_node("n2", attributes={"si/node-partition": "gpu"})
    await rm.submit()
    await rm.submit(partitionName="gpu")
    await rm.ask("k1")
    assert (await rm.new(1))["k1"]["nodeID"] == "n1"
    await rm.ask("k2", partitionName="gpu")
    allocation = (await rm.new(1))["k2"]
    assert (allocation["nodeID"], allocation["partitionName"]) == ("n2", "[rm1]gpu")


@pytest.mark.row(11)
async def test_each_message_has_one_kind(shim: ForeignShim) -> None:
    """Acceptances and rejections share a message before removals; new, rejected and released do not."""
    rm = await started(shim)
    await rm.add_node()
    good = {"applicationID": "app", "queueName": "root.default", "ugi": {"user": "ann"}}
    bad = {**good, "applicationID": "bad", "partitionName": "nowhere"}
    await rm.applications.send(rmID="rm1", new=[good, bad], remove=[{"applicationID": "app"}])
    verdict = await rm.verdict()
    assert [item["applicationID"] for item in verdict["accepted"]] == ["app"]
    assert [item["applicationID"] for item in verdict["rejected"]] == ["bad"]
    assert "[rm1]nowhere" in verdict["rejected"][0]["reason"]
    await rm.submit()
    await rm.ask("k1")
    await rm.new(1)
    orphan = {"allocationKey": "k2", "applicationID": "nobody", "resourcePerAlloc": size(1)}
    release = {"allocationKey": "k1", "applicationID": "app", "terminationType": "STOPPED_BY_RM"}
    await rm.allocations.send(rmID="rm1", allocations=[orphan], releases={"allocationsToRelease": [release]})
    assert await rm.allocations.next() == {
        "rejectedAllocations": [
            {
                "allocationKey": "k2",
                "applicationID": "nobody",
                "reason": "failed to find application nobody",
            }
        ]
    }
    assert [item["allocationKey"] for item in await rm.released()] == ["k1"]


@pytest.mark.row(13, 14)
async def test_releases_of_allocations_are_acknowledged(server: Served, shim: ForeignShim) -> None:
    """The release of an allocation is answered; that of a pending ask is carried out silently."""
    rm = await started(shim)
    await rm.add_node()
    await rm.submit(queue="root.small")
    await rm.ask("k1", "k2", "waits")
    await rm.new(2)
    assert await used(server, path="root.small") == (2000, 1000)
    await rm.release("waits")
    await rm.release("k1")
    (release,) = await rm.released()
    assert release == {
        "partitionName": "[rm1]default",
        "applicationID": "app",
        "allocationKey": "k1",
        "terminationType": "STOPPED_BY_RM",
        "message": "allocation remove as per RM request",
    }
    assert await used(server, path="root.small") == (1000, 0)


@pytest.mark.row(15)
async def test_an_empty_key_releases_everything(server: Served, shim: ForeignShim) -> None:
    """A release without a key frees all allocations and withdraws all asks of the application."""
    rm = await started(shim)
    await rm.add_node()
    await rm.submit(queue="root.small")
    await rm.submit("other")
    await rm.ask("k1", "k2", "waits")
    await rm.ask("spared", app="other")
    await rm.new(3)
    await rm.release("")
    assert {item["allocationKey"] for item in await rm.released(2)} == {"k1", "k2"}
    assert await used(server, path="root.small") == (0, 0)
    assert await used(server) == (1000, 0)


@pytest.mark.row(16)
async def test_a_repeated_confirmation_has_no_effect(server: Served, shim: ForeignShim) -> None:
    """A repeated confirmation of an ended allocation is not answered and changes nothing."""
    rm = await started(shim)
    await rm.add_node()
    await rm.submit()
    await rm.ask("k1", "k2")
    await rm.new(2)
    await rm.release("k1")
    await rm.released()
    for _ in range(2):
        await rm.release("k1", kind="PLACEHOLDER_REPLACED")
    await rm.release("k2")
    assert [item["allocationKey"] for item in await rm.released()] == ["k2"]
    assert await used(server) == (0, 0)


@pytest.mark.row(18)
async def test_a_broken_stream_loses_nothing(server: Served, shim: ForeignShim) -> None:
    """After all streams broke, pending asks are placed, and reported on the next streams."""
    rm = await started(shim)
    await rm.submit()
    await rm.ask("k1", "k2")
    await rm.add_node()
    assert set(await rm.new(2)) == {"k1", "k2"}
    await rm.submit("later", queue="root.small")
    await rm.ask("k3", "k4", "k5", app="later", vcore=1000)
    await rm.new(2)
    for stream in (rm.nodes, rm.applications, rm.allocations):
        await stream.cancel()
    rm.allocations = await shim.allocations()
    await rm.release("k3", app="later")
    assert [item["allocationKey"] for item in await rm.released()] == ["k3"]
    assert set(await rm.new(1)) == {"k5"}
    assert await used(server, path="root.small") == (2000, 0)


@pytest.mark.row(161)
async def test_a_replay_restores_the_state(stubs: Path) -> None:
    """After a replay a new server has the same usage, and accepts allocations above a quota, too."""
    asks = ("k1", "k2", "k3")
    async with serve() as server, foreign_shim(server.target, stubs) as shim:
        rm = await started(shim)
        await rm.add_node()
        await rm.submit()
        await rm.ask(*asks)
        nodes = {key: item["nodeID"] for key, item in (await rm.new(3)).items()}
        before = await used(server)
    async with serve() as server, foreign_shim(server.target, stubs) as shim:
        rm = await started(shim)
        await rm.add_node()
        await rm.submit()
        for key, node_id in nodes.items():
            await rm.ask(key, nodeID=node_id)
        echoed = await rm.new(3)
        assert {key: item["nodeID"] for key, item in echoed.items()} == nodes
        assert await used(server) == before
        await rm.submit("big", queue="root.small", tags={"application.create.force": "true"})
        await rm.ask("over", app="big", vcore=3000, nodeID="n1")
        assert set(await rm.new(1)) == {"over"}
        assert await used(server, path="root.small") == (3000, 0)
