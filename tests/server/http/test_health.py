"""Liveness, readiness, and the health checks."""

import asyncio
from typing import Any

import pytest

from licorne_core.messages.commands import Hold, SetHold
from licorne_core.values.ids import NodeId, QueuePath, RmId
from licorne_server.http.health import Heartbeat
from support.core.builders import RM, app, apps, ask, asks, config, node, nodes, register, reload
from support.patience import PATIENCE
from support.server.http_site import Site

HEALTH = "/ws/v1/scheduler/healthcheck"
LEAF = config("[{name: a}]")
NAMES = [
    "Scheduling errors",
    "Internal errors",
    "Failed nodes",
    "Negative resources",
    "Negative resources",
    "Negative resources",
    "Consistency of data",
    "Consistency of data",
    "Negative resources",
    "Consistency of data",
    "Consistency of data",
    "Consistency of data",
    "Reservation check",
    "Orphan allocation on node check",
    "Orphan allocation on app check",
]


@pytest.fixture
def busy(site: Site) -> Site:
    """An RM with something that runs."""
    site.driver.do(register(LEAF), apps(app("one", "root.a")), nodes(node("n0", vcore=10)))
    site.driver.do(asks(ask("one", "k", vcore=4)))
    return site


async def failed(site: Site, path: str = HEALTH) -> dict[str, str]:
    """The diagnoses of the checks that failed, by name; health must agree with them."""
    shown = await site.get(path)
    checks: list[dict[str, Any]] = shown["HealthChecks"]
    found = {c["Name"]: c["DiagnosisMessage"] for c in checks if not c["Succeeded"]}
    assert shown["Healthy"] is not bool(found)
    return found


@pytest.mark.row(165)
async def test_healthy_from_the_start(site: Site) -> None:
    """A server that nobody has registered with is healthy, and has made all checks."""
    shown = await site.get(HEALTH)
    assert shown["Healthy"] is True
    assert [check["Name"] for check in shown["HealthChecks"]] == NAMES
    for check in shown["HealthChecks"]:
        assert set(check) == {"Name", "Succeeded", "Description", "DiagnosisMessage"}
        assert check["Succeeded"] is True
        assert check["Description"]


@pytest.mark.row(165)
async def test_unhealthy_while_a_node_has_no_partition(busy: Site) -> None:
    """A node for an unknown partition is a failed one until it comes again; a duplicate is not."""
    assert await failed(busy) == {}
    busy.driver.do(nodes(node("n0", vcore=10)))
    assert await failed(busy) == {}
    busy.driver.do(nodes(node("lost", partition="gpu", vcore=1)))
    text = f"node lost of RM {RM} is for a partition that is not there"
    assert await failed(busy) == {"Failed nodes": text}
    busy.driver.wait(3600)
    assert await failed(busy) == {"Failed nodes": text}
    busy.driver.do(nodes(node("lost", vcore=1)))
    assert await failed(busy) == {}


@pytest.mark.row(165)
async def test_rejected_ask_counts_for_five_minutes(busy: Site) -> None:
    """An ask that was rejected is a scheduling error for a while, and not until the next start."""
    busy.driver.do(asks(ask("nobody", "k", vcore=1)))
    busy.driver.wait(299)
    assert await failed(busy) == {"Scheduling errors": f"partition [{RM}]default rejected an ask 299 s ago"}
    busy.driver.wait(1)
    assert await failed(busy) == {}


async def test_many_findings_are_counted(busy: Site) -> None:
    """A diagnosis names the first ten, and says how many there are besides."""
    busy.driver.do(nodes(*(node(f"lost-{n}", partition="gpu", vcore=1) for n in range(13))))
    text = (await failed(busy))["Failed nodes"]
    assert text.count("is for a partition that is not there") == 10
    assert text.endswith("; and 3 more")


async def test_books_that_disagree_are_told(busy: Site) -> None:
    """A total that is not the sum of its parts makes health unhealthy, with both figures."""
    name = busy.driver.views.resolve("default")
    partition = busy.driver.scheduler.partitions[name]
    partition.nodes.by_id[NodeId("n0")].available["vcore"] = 5
    found = await failed(busy)
    assert list(found) == ["Consistency of data"]
    assert found["Consistency of data"].startswith("node n0: allocated")


@pytest.mark.row(165)
async def test_queues_and_users_are_added_up(busy: Site) -> None:
    """A queue, and a user with a limit, that have more than their applications are told of."""
    limited = "[{limit: one, users: [ann], maxresources: {vcore: 50}}]"
    busy.driver.do(reload(config(f"[{{name: a, limits: {limited}}}]")))
    assert await failed(busy) == {}
    partition = busy.driver.scheduler.partitions[busy.driver.views.resolve("default")]
    leaf = partition.tree.get(QueuePath("root.a"))
    assert leaf is not None
    leaf.allocated["vcore"] = 9
    partition.limits.users["ann"][QueuePath("root.a")].allocated["vcore"] = 3
    diagnoses = [
        check["DiagnosisMessage"]
        for check in (await busy.get(HEALTH))["HealthChecks"]
        if not check["Succeeded"]
    ]
    of_queues = (
        "queue root: allocated map[vcore:4], in it map[vcore:9]; "
        "queue root.a: allocated map[vcore:9], in it map[vcore:4]"
    )
    of_users = "user ann in root.a: allocated map[vcore:3], in it map[vcore:4]"
    assert diagnoses == [of_queues, of_users]


async def test_failures_inside_are_told(busy: Site) -> None:
    """An RM that is on hold after a defect, and an engine that has stopped, are internal errors."""
    busy.driver.send(SetHold(rm_id=RmId(RM), hold=Hold.DEFECT, on=True))
    text = f"RM {RM} is not scheduled until it registers again"
    assert await failed(busy) == {"Internal errors": text}
    busy.status.failure = "engine stopped: KeyError"
    assert await failed(busy) == {"Internal errors": f"engine stopped: KeyError; {text}"}


async def test_health_of_one_rm(busy: Site) -> None:
    """With `rm` the checks are about that RM only; an unknown one is a 404."""
    busy.driver.do(register(LEAF, rm="rm2"))
    busy.driver.do(nodes(node("lost", partition="gpu", vcore=1), rm="rm2"))
    assert await failed(busy, f"{HEALTH}?rm={RM}") == {}
    assert list(await failed(busy, f"{HEALTH}?rm=rm2")) == ["Failed nodes"]
    assert list(await failed(busy)) == ["Failed nodes"]
    answer = await busy.refused(f"{HEALTH}?rm=rm3")
    assert (answer["status_code"], answer["message"]) == (404, "RM rm3 is not registered")


async def verdicts(site: Site) -> tuple[int, int]:
    """Statuses of the two probes."""
    return (await site.ask("/livez"))[0], (await site.ask("/readyz"))[0]


async def test_life_of_a_server(site: Site) -> None:
    """Alive from the start, ready once started, not while draining, dead when the engine is."""
    site.status.started = False
    assert await verdicts(site) == (200, 503)
    site.status.started = True
    assert await verdicts(site) == (200, 200)
    site.status.draining = True
    assert await verdicts(site) == (200, 503)
    site.status.draining = False
    site.status.failure = "engine stopped"
    assert await verdicts(site) == (503, 503)


async def test_probes_say_why(site: Site) -> None:
    """A probe that fails has the reason as its text."""
    assert (await site.ask("/readyz"))[2] == b"ok\n"
    site.status.draining = True
    assert (await site.ask("/readyz"))[2] == b"draining\n"
    site.status.failure = "engine stopped: no memory"
    assert (await site.ask("/livez"))[2] == b"engine stopped: no memory\n"


async def test_a_standstill_is_over_when_the_server_goes_on(site: Site) -> None:
    """Both probes fail with the reason, and no longer than it lasts."""
    site.status.stall = "the engine has not turned for 30 s"
    assert await verdicts(site) == (503, 503)
    assert (await site.ask("/livez"))[2] == b"the engine has not turned for 30 s\n"
    site.status.stall = ""
    assert await verdicts(site) == (200, 200)


async def test_lag_is_the_worst_since_last_asked() -> None:
    """The loop's lag is that of its latest beat, told once."""
    time = 0.0
    heartbeat = Heartbeat(clock=lambda: time)
    heartbeat.start()
    time = 0.75
    heartbeat.beat()
    assert heartbeat.worst_lag() == 0.5
    assert heartbeat.worst_lag() == 0.0
    heartbeat.stop()


async def test_heartbeat_beats_by_itself() -> None:
    """Started, it beats in the loop without anybody's help."""
    beaten = asyncio.Event()

    class Watched(Heartbeat):
        def beat(self) -> None:
            super().beat()
            beaten.set()

    heartbeat = Watched()
    heartbeat.start()
    await asyncio.wait_for(beaten.wait(), PATIENCE)
    heartbeat.stop()
