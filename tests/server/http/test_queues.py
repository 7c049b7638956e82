"""Queues over REST: the tree, single queues, every field."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest
from aiohttp import web

from licorne_server.http import units
from licorne_server.http.stream import slice_for
from support.core.builders import app, apps, ask, asks, node, nodes, register, reload, remove_apps
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
TEMPLATES = """
partitions:
  - name: default
    placementrules: [{name: provided, create: true}]
    queues:
      - name: root
        submitacl: '*'
        childtemplate:
          maxapplications: 10
          properties: {application.sort.policy: fair}
          resources: {max: {memory: 20}}
        queues:
          - {name: notemplate, parent: true}
          - {name: parent, parent: true, childtemplate: {resources: {max: {memory: 21}}}}
"""
HANDED_DOWN = """
partitions:
  - name: default
    queues:
      - name: p
        properties:
          application.sort.policy: foo
          priority.offset: "7"
          priority.policy: fence
          preemption.policy: fence
          team: red
        queues: [{name: a}]
      - {name: never, properties: {preemption.policy: disabled}, queues: [{name: a}]}
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


@pytest.mark.row(20)
async def test_root_is_inserted(site: Site) -> None:
    """Two queues on top appear below a root that nobody wrote."""
    site.driver.do(register("partitions: [{name: default, queues: [{name: a}, {name: b}]}]"))

    root = await site.get(QUEUES)

    assert root["queuename"] == "root"
    assert root["childNames"] == ["root.a", "root.b"]
    assert [child["queuename"] for child in root["children"]] == ["root.a", "root.b"]


@pytest.mark.row(21)
async def test_single_top_queue_goes_below_root(site: Site) -> None:
    """One queue on top that is not called root is a child of root."""
    site.driver.do(register("partitions: [{name: default, queues: [{name: Default}]}]"))

    assert (await site.get(QUEUES))["childNames"] == ["root.default"]


@pytest.mark.row(30)
async def test_root_maximum_is_the_cluster(site: Site) -> None:
    """Root's maximum is the sum of the nodes, whatever comes and goes."""
    site.driver.do(register(FULL), nodes(node("n1", vcore=1000, memory=70)))
    assert (await site.get(QUEUES))["maxResource"] == {"vcore": 1000, "memory": 70}

    site.driver.do(nodes(node("n2", vcore=500, gpu=2)))
    assert (await site.get(QUEUES))["maxResource"] == {"vcore": 1500, "memory": 70, "gpu": 2}


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


@pytest.mark.row(46, 47)
async def test_the_nearest_template_counts(site: Site) -> None:
    """Below a parent without a template root's counts, below one with its own that one, whole."""
    site.driver.do(register(TEMPLATES))
    site.driver.do(apps(app("far", "root.notemplate.sales"), app("near", "root.parent.sales")))

    far = await site.get(QUEUE + "root.notemplate.sales")
    near = await site.get(QUEUE + "root.parent.sales")

    assert (far["maxResource"], far["maxRunningApps"]) == ({"memory": 20}, 10)
    assert (near["maxResource"], near["maxRunningApps"]) == ({"memory": 21}, 0)
    assert (far["sortingPolicy"], near["sortingPolicy"]) == ("fair", "fifo")


@pytest.mark.row(27, 42, 48)
async def test_properties_are_handed_down(site: Site) -> None:
    """A child has its parent's properties, without offset and fence; bad values count for none."""
    site.driver.do(register(HANDED_DOWN))

    parent = await site.get(QUEUE + "root.p")
    child = await site.get(QUEUE + "root.p.a")

    assert (parent["isLeaf"], parent["priorityOffset"], parent["isPreemptionFence"]) == (
        False,
        7,
        True,
    )
    assert child["properties"] == {
        "application.sort.policy": "foo",
        "priority.offset": "0",
        "priority.policy": "default",
        "preemption.policy": "default",
        "team": "red",
    }
    assert (child["isLeaf"], child["priorityOffset"], child["isPriorityFence"]) == (True, 0, False)
    assert (child["isPreemptionFence"], child["sortingPolicy"]) == (False, "fifo")
    never = await site.get(QUEUE + "root.never.a")
    assert (never["preemptionEnabled"], never["properties"]["preemption.policy"]) == (
        False,
        "disabled",
    )


@pytest.mark.row(24, 27)
async def test_one_name_on_two_levels(site: Site) -> None:
    """A leaf and a queue below a parent may have one name; `parent: true` alone makes a parent."""
    top = "{name: testqueue}, {name: parent, queues: [{name: testqueue}]}, {name: e, parent: true}"
    site.driver.do(register(f"partitions: [{{name: default, queues: [{top}]}}]"))
    for path, is_leaf in {
        "root.testqueue": True,
        "root.parent.testqueue": True,
        "root.parent": False,
        "root.e": False,
    }.items():
        assert (await site.get(QUEUE + path))["isLeaf"] is is_leaf


@pytest.mark.row(50, 51)
async def test_a_draining_queue_says_so(site: Site) -> None:
    """A queue that left the configuration is Draining while it is used, and gone ten seconds on."""
    two, one = (f"partitions: [{{name: default, queues: [{q}]}}]" for q in (("{name: a, submitacl: "
                "'*'}, {name: b}"), "{name: b}"))  # fmt: skip
    site.driver.do(register(two), apps(app("app-1", "root.a")), reload(one))
    assert (await site.get(QUEUE + "root.a"))["status"] == "Draining"

    site.driver.do(reload(two))
    assert (await site.get(QUEUE + "root.a"))["status"] == "Active"

    site.driver.do(reload(one), remove_apps("app-1"))
    site.driver.wait(10)
    assert (await site.get(QUEUES))["childNames"] == ["root.b"]


async def test_only_root_names_its_partition(site: Site) -> None:
    """Below root the partition is an empty text, as tools expect it."""
    site.driver.do(register(FULL))

    root = await site.get(QUEUES)

    assert root["partition"] == "default"
    assert {child["partition"] for child in root["children"]} == {""}


async def test_children_only_when_wanted(site: Site) -> None:
    """A single queue names its children, and has them inside where `subtree` is in the query."""
    site.driver.do(register(FULL))

    alone = await site.get(QUEUE + "root")
    whole = await site.get(QUEUE + "root?subtree")

    assert alone["children"] == []
    assert alone["childNames"] == ["root.dynamic", "root.leaf"]
    assert [child["queuename"] for child in whole["children"]] == alone["childNames"]


async def test_usage_over_the_maximum_is_shown_as_full(site: Site) -> None:
    """After a quota was lowered the percentage stays at 100, because pages cannot show more."""
    site.driver.do(
        register(FULL),
        nodes(node("n1", vcore=4000, memory=1000)),
        apps(app("app-1", "root.leaf")),
        asks(ask("app-1", "k1", on_node="n1", vcore=3000, memory=1)),
    )

    leaf = await site.get(QUEUE + "root.leaf")

    assert leaf["allocatedResource"]["vcore"] > leaf["maxResource"]["vcore"]
    assert leaf["absUsedCapacity"] == {"vcore": 100, "memory": 1}


@pytest.mark.parametrize("written", ["root.A@b:c", "root.a%40b%3Ac", "ROOT.a@B:c", "root%2Ea@b:c"])
async def test_names_raw_and_encoded(site: Site, written: str) -> None:
    """Names with `@` and `:` are found raw or encoded, in any case."""
    site.driver.do(register('partitions: [{name: default, queues: [{name: "a@b:c"}]}]'))

    assert (await site.get(QUEUE + written))["queuename"] == "root.a@b:c"


async def test_name_with_a_slash(site: Site) -> None:
    """A slash inside a queue's name is written as %2F."""
    site.driver.do(register('partitions: [{name: default, queues: [{name: "a/b"}]}]'))

    assert (await site.get(QUEUE + "root.a%2Fb"))["queuename"] == "root.a/b"
