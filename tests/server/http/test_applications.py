"""Applications, asks, allocations and gangs over REST: lists by state, and fields that change."""

from dataclasses import replace

import pytest

from licorne_core.values.asks import Ask
from licorne_core.values.ids import AllocationKey, AppId, PartitionName
from support.core.builders import app, apps, ask, asks, node, nodes, register, release, releases
from support.server.http_site import Site

BASE = "/ws/v1/partition/default/"
CONFIG = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: '*'
        queues:
          - name: a
          - name: b
"""


@pytest.fixture
def ready(site: Site) -> Site:
    """Two leaves, a node with room for two asks, and an application in each leaf."""
    site.driver.do(
        register(CONFIG),
        nodes(node("n1", vcore=1000, memory=100)),
        apps(app("app-2", "root.b"), app("app-1", "root.a", user="ann", groups=["dev", "ops"])),
    )
    return site


async def test_lists_of_a_queue_and_of_a_partition(ready: Site) -> None:
    """A leaf lists its own, a parent none, and a partition all, ordered by id."""

    async def ids(path: str) -> list[str]:
        return [shown["applicationID"] for shown in await ready.get(BASE + path)]

    assert await ids("queue/root.a/applications") == ["app-1"]
    assert await ids("queue/root.a/applications/active") == ["app-1"]
    assert await ids("queue/root/applications") == []
    assert await ids("applications/active") == ["app-1", "app-2"]
    assert await ids("applications/completed") == []


async def test_status_picks_from_the_active_ones(ready: Site) -> None:
    """With a status only applications in that state are listed; its case does not matter."""
    ready.driver.do(asks(ask("app-1", "k1", vcore=1)))

    for status, found in {"Running": ["app-1"], "new": ["app-2"], "failing": []}.items():
        listed = await ready.get(f"{BASE}applications/active?status={status}")
        assert [shown["applicationID"] for shown in listed] == found


@pytest.mark.row(103)
async def test_a_back_off_shows_its_end(site: Site) -> None:
    """An application in back-off has the time of its end; afterwards it has none."""
    tired = CONFIG.replace(
        "- name: a\n",
        "- name: a\n            properties: {application.unschedasks.backoff: '1', "
        "application.unschedasks.backoff.delay: 5s}\n",
    )
    site.driver.do(register(tired), apps(app("app-1", "root.a")))
    site.driver.do(nodes(*(node(f"n{number}", vcore=10) for number in range(3))))
    site.driver.do(asks(ask("app-1", "big", priority=1, vcore=20), ask("app-1", "k", vcore=1)))
    assert (await site.get(BASE + "application/app-1"))["backoffDeadline"] == "1970-01-12T13:46:45Z"
    site.driver.do(releases(release("app-1", "big")))
    site.driver.wait(5)
    assert "backoffDeadline" not in await site.get(BASE + "application/app-1")


@pytest.mark.row(164)
async def test_reservations_are_listed_by_key(ready: Site) -> None:
    """An application lists the asks with a reserved node, a leaf the applications about to run."""
    ready.driver.do(
        asks(ask("app-1", "k1", vcore=900)),
        nodes(node("n2", vcore=1000)),
        asks(ask("app-2", "k1", vcore=200, required_node="n1")),
    )

    one, two = await ready.get(BASE + "applications/active")

    assert (one["hasReserved"], one["reservations"]) == (False, [])
    assert (two["hasReserved"], two["reservations"]) == (True, ["k1"])
    for path, names in {"root": ["app-2"], "root.a": [], "root.b": ["app-2"]}.items():
        assert (await ready.get(BASE + "queue/" + path))["allocatingAcceptedApps"] == names


GANGS = """
partitions:
  - name: default
    queues: [{name: root, submitacl: '*', queues: [{name: a}]}]
"""


def member(key: str, *, placeholder: bool = False) -> Ask:
    """A member of the task group, or a placeholder for one."""
    return replace(ask("gang", key, vcore=2), placeholder=placeholder, task_group="workers")


def come_together(site: Site) -> None:
    """A gang of two placeholders, one of which is to be replaced."""
    gang = replace(app("gang", "root.a"), placeholder_ask={"vcore": 4})
    site.driver.do(
        register(GANGS),
        nodes(node("n1", vcore=10)),
        apps(gang),
        asks(member("p1", placeholder=True), member("p2", placeholder=True)),
        asks(member("r")),
    )


async def test_what_has_to_stop_says_why(site: Site) -> None:
    """With its application and on its node: `preempted` is for victims only."""
    come_together(site)
    partition = site.driver.scheduler.partitions[PartitionName("[rm1]default")]
    gang = partition.applications[AppId("gang")]
    site.driver.do(asks(ask("gang", "v", vcore=1)))
    partition.allocations.preempt(gang, gang.requests[AllocationKey("v")])
    for path in ("application/gang", "node/n1"):
        shown = await site.get(BASE + path)
        found = {
            item["allocationKey"]: (item["stopping"], item["preempted"], item["placeholder"])
            for item in shown["allocations"]
        }
        assert found == {
            "p1": ("replaced", False, True),
            "p2": ("", False, True),
            "v": ("preempted", True, False),
        }
    queue = await site.get(BASE + "queue/root.a")
    assert (queue["preemptingResource"], queue["promisedResource"]) == ({"vcore": 1}, {})
    assert queue["isQuotaPreemptionRunning"] is False
    name = 'yunikorn_queue_resource{partition="default",queue="root.a",resource="vcore",rm="rm1"'
    assert (await site.metrics())[name + ',state="preempting"}'] == 1
