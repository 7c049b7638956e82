"""The state dump over REST (spec §§ 12.4, 12.5, 14)."""

import asyncio
import json

import pytest

from support.core.builders import RM, app, apps, ask, asks, config, node, nodes, register
from support.peers.shim import eventually
from support.server.http_site import Site

DUMP = "/ws/v1/fullstatedump"
LEAF = config("[{name: a}]")
KEYS = {
    "timestamp", "partitions", "applications", "appHistory", "nodes", "clusterInfo",
    "containerHistory", "queues", "rmDiagnostics", "logLevel", "config", "placementRules",
    "eventStreams",
}  # fmt: skip


@pytest.fixture
def busy(site: Site) -> Site:
    """Two RMs, each with a node; the first has an application of each state."""
    site.driver.do(register(LEAF), apps(app("one", "root.a"), app("done", "root.a")))
    site.driver.do(apps(app("bad", "root.nowhere")), nodes(node("n0", vcore=10)))
    site.driver.do(asks(ask("one", "k", vcore=4)))
    site.driver.do(register(LEAF, rm="rm2"), nodes(node("m0", vcore=20), rm="rm2"))
    return site


@pytest.mark.row(166)
@pytest.mark.parametrize("path", [DUMP, "/debug/fullstatedump"])
async def test_dump_of_nothing_has_all_keys(site: Site, path: str) -> None:
    """The dump of a server without RMs has every key, under the newer path and the older one."""
    shown = await site.get(path)
    assert set(shown) == KEYS
    assert shown["timestamp"] == 1_000_000_000_000_000
    assert shown["logLevel"] == "INFO"
    assert shown["rmDiagnostics"] == shown["config"] == {}
    for key in KEYS - {"timestamp", "logLevel", "rmDiagnostics", "config"}:
        assert shown[key] == [], key


@pytest.mark.row(166)
async def test_dump_shows_what_the_other_paths_show(busy: Site) -> None:
    """Every part of the dump is what its own path answers."""
    shown = await busy.get(DUMP)
    partition = "/ws/v1/partition/default/"
    assert set(shown) == KEYS
    assert shown["partitions"] == await busy.get("/ws/v1/partitions")
    assert shown["clusterInfo"] == await busy.get("/ws/v1/clusters")
    assert shown["queues"][0] == await busy.get(partition + "queues")
    assert shown["nodes"][0] == {
        "partitionName": "default", "nodesInfo": await busy.get(partition + "nodes")
    }  # fmt: skip
    rules = await busy.get(partition + "placementrules")
    assert shown["placementRules"][0] == {"partition": "default", "rules": rules}
    for state in ("active", "rejected"):
        for row in await busy.get(partition + f"applications/{state}"):
            assert row in shown["applications"]
    names = {(row["applicationID"], row["applicationState"]) for row in shown["applications"]}
    assert names == {("one", "Running"), ("done", "New"), ("bad", "Rejected")}
    _, _, running = await busy.ask("/ws/v1/config", Accept="application/json")
    assert shown["config"][RM] == json.loads(running)
    assert shown["eventStreams"] == [{"rmId": RM, "readers": 0}, {"rmId": "rm2", "readers": 0}]


@pytest.mark.row(166)
async def test_dump_has_what_rms_add(busy: Site) -> None:
    """What an RM adds stands under its id, as the RM wrote it."""
    busy.states[RM] = '{"pods": [1, 2]}'
    assert (await busy.get(DUMP))["rmDiagnostics"] == {RM: {"pods": [1, 2]}, "rm2": None}


async def test_dump_of_one_rm(busy: Site) -> None:
    """With `rm` nothing of another RM is in the dump; an unknown one is a 404."""
    shown = await busy.get(DUMP + "?rm=rm2")
    assert [row["partitionName"] for row in shown["nodes"]] == ["[rm2]default"]
    assert set(shown["config"]) == set(shown["rmDiagnostics"]) == {"rm2"}
    assert shown["applications"] == []
    answer = await busy.refused(DUMP + "?rm=rm3")
    assert (answer["status_code"], answer["message"]) == (404, "RM rm3 is not registered")


async def test_one_dump_at_a_time(busy: Site) -> None:
    """A second dump is refused while one is under way, and taken after it."""
    busy.answering.clear()
    first = asyncio.create_task(busy.get(DUMP))
    await eventually(lambda: busy.asked)
    answer = await busy.refused(DUMP)
    assert (answer["status_code"], answer["message"]) == (503, "a state dump is being sent already")
    busy.answering.set()
    assert set(await first) == KEYS
    assert set(await busy.get(DUMP)) == KEYS
