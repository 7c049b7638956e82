"""Nodes over REST: the paths of names that are dots."""

import pytest

from support.core.builders import app, apps, ask, asks, node, nodes, register
from support.server.http_site import Site

NODE = "/ws/v1/partition/default/node/"
CONFIG = "partitions: [{name: default, queues: [{name: a, submitacl: '*'}]}]"


@pytest.fixture
def ready(site: Site) -> Site:
    """A node that is half full with the allocation of one application."""
    site.driver.do(
        register(CONFIG),
        nodes(node("n1", vcore=1000, memory=100)),
        apps(app("app-1", "root.a")),
        asks(ask("app-1", "k1", vcore=500, memory=7), ask("app-1", "k2", vcore=800)),
    )
    return site


@pytest.mark.parametrize("name", [".", "..", "~.", "~~..", "...", "~n", "~"])
async def test_nodes_named_by_dots_have_a_path(ready: Site, name: str) -> None:
    """In a path, a tilde precedes a name of one or two dots, and a name of tildes and dots."""
    ready.driver.do(nodes(node(name, vcore=1)), apps(app(name, "root.a")))
    path = f"~{name}" if name.strip("~") in (".", "..") else name
    of = NODE.removesuffix("/node/")
    assert (await ready.get(f"{NODE}{path}"))["nodeID"] == name
    assert (await ready.get(f"{of}/application/{path}"))["applicationID"] == name
    assert (await ready.get(f"{of}/queue/root.a/application/{path}"))["applicationID"] == name
