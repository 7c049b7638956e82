"""Nodes over REST: what they have, what is on them, how they come and go."""

from dataclasses import replace

import pytest

from licorne_core.values.asks import Ask, AskClass
from licorne_core.values.ids import AllocationKey, AppId, NodeId
from support.core.builders import app, apps, ask, asks, config, node, nodes, register, release, releases
from support.server.http_site import Site

NODES = "/ws/v1/partition/default/nodes"
NODE = "/ws/v1/partition/default/node/"
CONFIG = "partitions: [{name: default, queues: [{name: a, submitacl: '*'}]}]"


@pytest.fixture
def ready(site: Site) -> Site:
    """A node that is half full with the one allocation of an application."""
    attributes = {"si/hostname": "host-1", "si/rackname": "rack-1", "zone": "z"}
    site.driver.do(
        register(CONFIG),
        nodes(replace(node("n1", vcore=1000, memory=100), attributes=attributes)),
        apps(app("app-1", "root.a")),
        asks(ask("app-1", "k1", vcore=500, memory=7), ask("app-1", "k2", vcore=800)),
    )
    return site


@pytest.mark.row(114, 164)
async def test_every_field_of_a_node(ready: Site) -> None:
    """A node shows its place, its resources in whole percent, and its allocations."""
    shown = await ready.get(NODE + "n1")

    assert (shown["nodeID"], shown["hostName"], shown["rackName"]) == ("n1", "host-1", "rack-1")
    assert shown["attributes"]["zone"] == "z"
    assert shown["capacity"] == {"vcore": 1000, "memory": 100}
    assert shown["allocated"] == {"vcore": 500, "memory": 7}
    assert shown["available"] == {"vcore": 500, "memory": 93}
    assert shown["occupied"] == {}
    assert shown["utilized"] == {"vcore": 50, "memory": 7}
    assert (shown["schedulable"], shown["isReserved"]) == (True, False)
    assert [(a["allocationKey"], a["applicationId"]) for a in shown["allocations"]] == [("k1", "app-1")]
    assert await ready.get(NODES) == [shown]


async def test_allocations_name_their_queues(site: Site) -> None:
    """Each allocation on a node says in which queue its application is."""
    site.driver.do(
        register(config("[{name: a}, {name: b}]")),
        nodes(node("n1", vcore=1000)),
        apps(app("app-1", "root.a"), app("app-2", "root.b")),
        asks(*[ask(f"app-{n}", f"k{n}{m}", vcore=1) for n in (1, 2) for m in (1, 2)]),
    )

    (listed,) = await site.get(NODES)

    assert {a["allocationKey"]: a["queueName"] for a in listed["allocations"]} == {
        "k11": "root.a", "k12": "root.a", "k21": "root.b", "k22": "root.b",
    }  # fmt: skip
    assert await site.get(NODE + "n1") == listed


def foreign(key: str, **resources: int) -> Ask:
    """What another scheduler runs on the first node."""
    tags = {"foreign": "default", "kubernetes.io/meta/podName": key}
    return Ask(
        key=AllocationKey(key),
        app_id=AppId(""),
        ask_class=AskClass.of(resources),
        node_id=NodeId("n1"),
        tags=tags,
    )


@pytest.mark.row(122)
async def test_foreign_allocations_are_shown_apart(ready: Site) -> None:
    """What others run on a node is listed as such, until it ends, and counts as occupied."""
    ready.driver.do(asks(foreign("f1", vcore=100, memory=5), foreign("f2", vcore=20)))

    shown = await ready.get(NODE + "n1")
    allocation = shown["foreignAllocations"][0]

    assert [a["allocationKey"] for a in shown["foreignAllocations"]] == ["f1", "f2"]
    assert [a["allocationKey"] for a in shown["allocations"]] == ["k1"]
    assert shown["occupied"] == {"vcore": 120, "memory": 5}
    assert shown["available"] == {"vcore": 380, "memory": 88}
    assert (allocation["nodeId"], allocation["partition"]) == ("n1", "default")
    assert (allocation["applicationId"], allocation["queueName"]) == ("", "")
    assert allocation["resource"] == {"vcore": 100, "memory": 5}
    assert allocation["priority"] == "0"
    assert allocation["allocationTags"]["kubernetes.io/meta/podName"] == "f1"

    ready.driver.do(releases(release("", "f1")))
    left = (await ready.get(NODES))[0]["foreignAllocations"]
    assert [a["allocationKey"] for a in left] == ["f2"]


@pytest.mark.row(164)
async def test_a_reserved_node_says_for_which_asks(ready: Site) -> None:
    """A node that is kept free says so, and names the keys of the asks, the oldest first."""
    ready.driver.do(nodes(node("n2", vcore=200, memory=100)))
    ready.driver.do(asks(ask("app-1", "k4", vcore=600, required_node="n1")))
    ready.driver.wait(1)
    ready.driver.do(asks(ask("app-1", "k3", vcore=600, required_node="n1", priority=1)))

    shown = await ready.get(NODE + "n1")

    assert (shown["isReserved"], shown["reservations"]) == (True, ["k4", "k3"])
    first, _ = shown["reservedFor"]
    assert first.pop("time") == 1_000_000 * 10**9
    assert first == {
        "allocationKey": "k4",
        "applicationId": "app-1",
        "queueName": "root.a",
        "required": True,
        "exclusive": False,
        "resource": {"vcore": 600},
        "idleSince": 0,
        "reasonCode": "WAITS_FOR_ROOM",
        "reason": "waits for room on the node",
        "lacks": {"vcore": 100},
    }


@pytest.mark.parametrize("name", [".", "..", "~.", "~~..", "...", "~n", "~"])
async def test_names_that_are_dots_have_a_path(ready: Site, name: str) -> None:
    """A tilde stands before one or two dots, and before tildes in front of these."""
    ready.driver.do(nodes(node(name, vcore=1)), apps(app(name, "root.a")))
    path = f"~{name}" if name.strip("~") in (".", "..") else name
    of = NODE.removesuffix("/node/")
    assert (await ready.get(f"{NODE}{path}"))["nodeID"] == name
    assert (await ready.get(f"{of}/application/{path}"))["applicationID"] == name
    assert (await ready.get(f"{of}/queue/root.a/application/{path}"))["applicationID"] == name
