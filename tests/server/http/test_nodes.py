"""Nodes over REST: beneficiaries of reservations, and the paths of names that are dots."""

import pytest

from support.core.builders import app, apps, ask, asks, node, nodes, register
from support.server.http_site import Site

NODE = "/ws/v1/partition/default/node/"
CONFIG = "partitions: [{name: default, queues: [{name: a, submitacl: '*'}]}]"


@pytest.fixture
def ready(site: Site) -> Site:
    """A node that is half full with the one allocation of an application."""
    site.driver.do(
        register(CONFIG),
        nodes(node("n1", vcore=1000, memory=100)),
        apps(app("app-1", "root.a")),
        asks(ask("app-1", "k1", vcore=500, memory=7), ask("app-1", "k2", vcore=800)),
    )
    return site


@pytest.mark.row(164)
async def test_a_reserved_node_says_for_which_asks(ready: Site) -> None:
    """A reserved node has the keys of the asks, the oldest first."""
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
    """A tilde precedes one or two dots, and tildes in front of these."""
    ready.driver.do(nodes(node(name, vcore=1)), apps(app(name, "root.a")))
    path = f"~{name}" if name.strip("~") in (".", "..") else name
    of = NODE.removesuffix("/node/")
    assert (await ready.get(f"{NODE}{path}"))["nodeID"] == name
    assert (await ready.get(f"{of}/application/{path}"))["applicationID"] == name
    assert (await ready.get(f"{of}/queue/root.a/application/{path}"))["applicationID"] == name
