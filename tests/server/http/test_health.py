"""The health checks of REST, and the heartbeat. `reads/test_bad_days.py` has the findings in all forms."""

import pytest

from licorne_core.values.ids import QueuePath, RmId
from licorne_server.http.health import Heartbeat
from licorne_server.reads import verdict
from licorne_server.reads.sources import Figures, RmFigures
from licorne_server.telemetry.measures import RmMeasures
from support.core.builders import RM, app, apps, ask, asks, config, node, nodes, register, reload
from support.peers.shim import eventually
from support.server.http_site import Site

HEALTH = "/ws/v1/scheduler/healthcheck"
LEAF = config("[{name: a}]")


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let findings count at once."""
    monkeypatch.setattr(verdict, "SETTLE_SECONDS", 0.0)


@pytest.fixture
def busy(site: Site) -> Site:
    """Place an allocation of an RM."""
    site.driver.do(register(LEAF), apps(app("one", "root.a")), nodes(node("n0", vcore=10)))
    site.driver.do(asks(ask("one", "k", vcore=4)))
    return site


async def failed(site: Site, path: str = HEALTH) -> dict[str, str]:
    """The diagnoses of the failed checks by name; the health must agree with them."""
    shown = await site.get(path)
    found = {c["Name"]: c["DiagnosisMessage"] for c in shown["HealthChecks"] if not c["Succeeded"]}
    assert shown["Healthy"] is not bool(found)
    return found


@pytest.mark.row(165)
async def test_a_node_without_a_partition_is_unhealthy(busy: Site) -> None:
    """A node for an unknown partition is a failed one until it is created again; a duplicate is not."""
    assert await failed(busy) == {}
    busy.driver.do(nodes(node("n0", vcore=10)))
    assert await failed(busy) == {}
    busy.driver.do(nodes(node("lost", partition="gpu", vcore=1)))
    text = f"nodes of RM {RM} are for partitions that are not there: lost"
    assert await failed(busy) == {"Failed nodes": text}
    busy.driver.wait(3600)
    assert await failed(busy) == {"Failed nodes": text}
    busy.driver.do(nodes(node("lost", vcore=1)))
    assert await failed(busy) == {}
    busy.driver.do(nodes(*(node(f"lost-{n}", partition="gpu", vcore=1) for n in range(13))))
    assert (await failed(busy))["Failed nodes"].endswith(": lost-0, lost-1, lost-2 and 10 more")


@pytest.mark.row(165)
async def test_a_rejected_ask_is_unhealthy_for_five_minutes(busy: Site) -> None:
    """A rejected ask is a scheduling error for five minutes, and not until the next start."""
    busy.driver.do(asks(ask("nobody", "k", vcore=1)))
    busy.driver.wait(299)
    text = f"an ask was rejected in [{RM}]default in the last 5 minutes"
    assert await failed(busy) == {"Scheduling errors": text}
    busy.driver.wait(1)
    assert await failed(busy) == {}


@pytest.mark.row(165)
async def test_wrong_sums_of_queues_and_users_are_reported(busy: Site) -> None:
    """A queue, or a user with a limit, whose usage is not the sum of its applications is reported."""
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
    books = f"the books of [{RM}]default disagree: "
    of_queues = (
        f"{books}queue root: allocated map[vcore:4], in it map[vcore:9]; "
        "queue root.a: allocated map[vcore:9], in it map[vcore:4]"
    )
    of_users = f"{books}user ann in root.a: allocated map[vcore:3], in it map[vcore:4]"
    assert diagnoses == [of_queues, of_users]


async def test_states_of_the_server_are_reported(busy: Site) -> None:
    """Lost or slow RMs, a refused configuration and lack of memory are findings until they end."""
    measures = RmMeasures()
    measures.is_refused = True
    lost = RmFigures(rm_id=RmId(RM), connected=False, outbox_age=30.0, outbox_messages=7, measures=measures)
    busy.figures = Figures(rms=(lost,), shortage=1)
    assert await failed(busy) == {
        "Resource managers": f"RM {RM} is not connected; RM {RM} does not read: 7 messages wait for it",
        "Configuration": f"the last configuration of RM {RM} was refused; the one before it is in force",
        "Memory": "memory is short: new work is refused",
    }
    busy.figures = Figures(rms=(RmFigures(rm_id=RmId(RM), connected=True, outbox_age=29.0),))
    assert await failed(busy) == {}


async def test_the_health_of_one_rm(busy: Site) -> None:
    """With `rm` the checks are about that RM only, and an unknown one is a 404."""
    busy.driver.do(register(LEAF, rm="rm2"))
    busy.driver.do(nodes(node("lost", partition="gpu", vcore=1), rm="rm2"))
    assert await failed(busy, f"{HEALTH}?rm={RM}") == {}
    assert list(await failed(busy, f"{HEALTH}?rm=rm2")) == ["Failed nodes"]
    assert list(await failed(busy)) == ["Failed nodes"]
    answer = await busy.refused(f"{HEALTH}?rm=rm3")
    assert (answer["status_code"], answer["message"]) == (404, "RM rm3 is not registered")


async def test_the_lag_is_the_greatest_since_the_last_read() -> None:
    """The greatest delay of the loop is reported once."""
    time = 0.0
    heartbeat = Heartbeat(clock=lambda: time)
    heartbeat.start()
    time = 0.75
    heartbeat.beat()
    assert heartbeat.worst_lag() == 0.5
    assert heartbeat.worst_lag() == 0.0
    heartbeat.stop()


async def test_the_heartbeat_runs_in_the_loop() -> None:
    """A heartbeat that was started measures the loop without further calls."""
    heartbeat = Heartbeat()
    heartbeat.start()
    await eventually(lambda: heartbeat.delays.count)
    heartbeat.stop()
