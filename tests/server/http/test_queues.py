"""Queues over REST: the tree, single queues, every field."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest
from aiohttp import web

from licorne_server.http import units
from licorne_server.http.stream import slice_for
from support.core.builders import app, apps, ask, asks, node, nodes, register
from support.server.http_site import Site

QUEUES = "/ws/v1/partition/default/queues"
QUEUE = "/ws/v1/partition/default/queue/"

FULL = """
partitions:
  - name: default
    placementrules:
      - name: provided
        create: true
    queues:
      - name: root
        queues:
          - name: leaf
            submitacl: '*'
            maxapplications: 7
            resources:
              guaranteed: {vcore: 1, memory: 100}
              max: {vcore: 2, memory: 100}
            properties:
              application.sort.policy: fair
              application.sort.priority: disabled
              priority.policy: fence
              priority.offset: "5"
              preemption.policy: fence
              preemption.delay: 90s
              our.own.key: anything
          - name: dynamic
            parent: true
            submitacl: '*'
            childtemplate:
              maxapplications: 3
              properties: {application.sort.policy: fair}
              resources:
                guaranteed: {vcore: 1}
                max: {vcore: 4}
"""


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
async def test_what_is_read_before_an_answer_is_in_the_share(
    site: Site, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """Every read begins with a slice of its own: what it looks at may be large."""
    begun: list[str] = []

    def counting(request: web.Request) -> AbstractAsyncContextManager[Callable[[], bool]]:
        begun.append(request.path_qs)
        return slice_for(request)

    monkeypatch.setattr(units, "slice_for", counting)
    site.driver.do(register("partitions: [{name: default, queues: [{name: a}, {name: b}]}]"))
    site.driver.do(apps(app("one", "root.a")))
    assert await site.get(path)
    assert len(begun) == 1


@pytest.mark.row(41, 164)
async def test_every_field_of_a_leaf(site: Site) -> None:
    """A leaf shows usage, limits, policies and properties, unknown ones among them."""
    site.driver.do(
        register(FULL),
        nodes(node("n1", vcore=4000, memory=1000)),
        apps(app("app-1", "root.leaf")),
        asks(*[ask("app-1", f"k{n}", priority=9, vcore=750, memory=10) for n in range(3)]),
    )

    leaf = await site.get(QUEUE + "root.leaf")

    assert (leaf["queuename"], leaf["parent"], leaf["status"]) == ("root.leaf", "root", "Active")
    assert (leaf["isLeaf"], leaf["isManaged"], leaf["children"]) == (True, True, [])
    assert leaf["maxResource"] == {"vcore": 2000, "memory": 100}
    assert leaf["guaranteedResource"] == {"vcore": 1000, "memory": 100}
    assert leaf["allocatedResource"] == {"vcore": 1500, "memory": 20}
    assert leaf["pendingResource"] == {"vcore": 750, "memory": 10}
    assert leaf["preemptingResource"] == {}
    assert leaf["headroom"] == {"vcore": 500, "memory": 80}
    assert leaf["fairMax"] == {"vcore": 2000, "memory": 100}
    assert leaf["absUsedCapacity"] == {"vcore": 75, "memory": 20}
    assert (leaf["maxRunningApps"], leaf["runningApps"]) == (7, 1)
    assert leaf["allocatingAcceptedApps"] == []
    assert (leaf["sortingPolicy"], leaf["prioritySorting"]) == ("fair", False)
    assert (leaf["isPriorityFence"], leaf["priorityOffset"], leaf["currentPriority"]) == (
        True,
        5,
        5,
    )
    assert (leaf["preemptionEnabled"], leaf["isPreemptionFence"]) == (True, True)
    assert (leaf["preemptionDelay"], leaf["quotaPreemptionDelay"]) == ("1m30s", "0s")
    assert leaf["properties"]["our.own.key"] == "anything"
    assert leaf["template"] is None


@pytest.mark.row(46)
async def test_dynamic_leaf_shows_its_template(site: Site) -> None:
    """A queue that placement made has what the template says, and the parent shows the template."""
    site.driver.do(register(FULL), apps(app("app-1", "root.dynamic.ann")))

    parent = await site.get(QUEUE + "root.dynamic")
    leaf = await site.get(QUEUE + "root.dynamic.ann")

    assert parent["template"] == {
        "maxApplications": 3,
        "properties": {"application.sort.policy": "fair"},
        "maxResource": {"vcore": 4000},
        "guaranteedResource": {"vcore": 1000},
    }
    assert leaf["isManaged"] is False
    assert (leaf["maxResource"], leaf["guaranteedResource"]) == ({"vcore": 4000}, {"vcore": 1000})
    assert (leaf["maxRunningApps"], leaf["sortingPolicy"]) == (3, "fair")


async def test_children_only_when_wanted(site: Site) -> None:
    """A single queue names its children, and has them inside where `subtree` is in the query."""
    site.driver.do(register(FULL))

    alone = await site.get(QUEUE + "root")
    whole = await site.get(QUEUE + "root?subtree")

    assert alone["children"] == []
    assert alone["childNames"] == ["root.dynamic", "root.leaf"]
    assert [child["queuename"] for child in whole["children"]] == alone["childNames"]


@pytest.mark.parametrize("written", ["root.A@b:c", "root.a%40b%3Ac", "ROOT.a@B:c", "root%2Ea@b:c"])
async def test_names_raw_and_encoded(site: Site, written: str) -> None:
    """Names with `@` and `:` are found raw or encoded, in any case."""
    site.driver.do(register('partitions: [{name: default, queues: [{name: "a@b:c"}]}]'))

    assert (await site.get(QUEUE + written))["queuename"] == "root.a@b:c"


async def test_name_with_a_slash(site: Site) -> None:
    """A slash inside a queue's name is written as %2F."""
    site.driver.do(register('partitions: [{name: default, queues: [{name: "a/b"}]}]'))

    assert (await site.get(QUEUE + "root.a%2Fb"))["queuename"] == "root.a/b"
