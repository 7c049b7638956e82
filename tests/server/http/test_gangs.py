"""Gangs over REST: task groups, placeholders, and what has to stop."""

from dataclasses import replace

from licorne_core.values.asks import Ask
from licorne_core.values.ids import AllocationKey, AppId, PartitionName
from support.core.builders import app, apps, ask, asks, node, nodes, register
from support.server.http_site import Site

CONFIG = """
partitions:
  - name: default
    queues: [{name: root, submitacl: '*', queues: [{name: a}]}]
"""
BASE = "/ws/v1/partition/default/"


def member(key: str, *, placeholder: bool = False) -> Ask:
    """A member of the task group, or a placeholder for one."""
    return replace(ask("gang", key, vcore=2), placeholder=placeholder, task_group="workers")


def come_together(site: Site) -> None:
    """A gang of two placeholders, one of which is to be replaced."""
    gang = replace(app("gang", "root.a"), placeholder_ask={"vcore": 4})
    site.driver.do(
        register(CONFIG),
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
