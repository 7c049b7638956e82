"""Clusters, partitions, placement rules, queues and the configuration in force, over REST."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest
from aiohttp import web

from licorne_server.http import units
from licorne_server.http.stream import slice_for
from support.core.builders import app, apps, register, reload
from support.server.http_site import Site

OPEN = """
partitions:
  - name: default
    queues:
      - name: open
        submitacl: '*'
"""
TWO = """
partitions:
  - name: default
    queues:
      - name: open
        submitacl: '*'
  - name: gpu
    nodesortpolicy:
      type: binpacking
      resourceweights:
        vcore: 4.5
        memory: 1
    preemption:
      enabled: false
    queues:
      - name: open
"""


@pytest.mark.row(44, 45, 57)
async def test_partitions_have_the_settings_of_a_reload(site: Site) -> None:
    """Node order, weights and preemption are those in force; a removed partition is missing."""
    site.driver.do(register(TWO), reload(OPEN + "    nodesortpolicy: binpacking\n"))

    (default,) = await site.get("/ws/v1/partitions")

    assert default["nodeSortingPolicy"] == {
        "type": "binpacking",
        "resourceWeights": {"vcore": 1.0, "memory": 1.0},
    }
    assert default["preemptionEnabled"] is True

    site.driver.do(reload(OPEN + "    nodesortpolicy: {type: spread, attribute: si/zone}\n"))
    (default,) = await site.get("/ws/v1/partitions")

    assert default["nodeSortingPolicy"] == {
        "type": "spread",
        "attribute": "si/zone",
        "resourceWeights": {"vcore": 1.0, "memory": 1.0},
    }
    assert "not found" in (await site.refused("/ws/v1/partition/gpu/queues"))["message"]


QUEUES = "/ws/v1/partition/default/queues"
QUEUE = "/ws/v1/partition/default/queue/"


@pytest.mark.parametrize(
    "path",
    [
        "/ws/v1/clusters",
        "/ws/v1/partitions",
        "/ws/v1/partition/default/placementrules",
        QUEUES,
        QUEUE + "root.a",
        QUEUE + "root.a?subtree",
        "/ws/v1/partition/default/application/one",
        QUEUE + "root.a/application/one",
    ],
)
async def test_every_read_has_a_time_slice(site: Site, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    """A read may examine a lot before it answers, so it begins with a time slice."""
    begun: list[str] = []

    def counting(request: web.Request) -> AbstractAsyncContextManager[Callable[[], bool]]:
        begun.append(request.path_qs)
        return slice_for(request)

    monkeypatch.setattr(units, "slice_for", counting)
    site.driver.do(register("partitions: [{name: default, queues: [{name: a}, {name: b}]}]"))
    site.driver.do(apps(app("one", "root.a")))
    assert await site.get(path)
    assert len(begun) == 1
