"""Clusters, partitions, placement rules, queues and the running configuration over REST."""

import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest
import yaml
from aiohttp import web

from licorne_core.config import load
from licorne_core.messages.commands import RegisterRm
from licorne_core.values.ids import RmId
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
RULES = """
partitions:
  - name: default
    placementrules:
      - name: provided
        create: true
        filter:
          type: deny
          users: ["te.*st*"]
        parent:
          name: user
          filter:
            users: [ann, bob]
            groups: [dev]
    queues:
      - name: open
        submitacl: '*'
"""


@pytest.mark.row(1)
async def test_cluster_names_its_rm(site: Site) -> None:
    """A registered RM is listed with its id, its build information and the server's start."""
    build = {"buildDate": "2026-01-01", "buildVersion": "9.1"}
    site.driver.do(RegisterRm(rm_id=RmId("rm1"), version="9", build_info=build, config=load(OPEN)))

    assert await site.get("/ws/v1/clusters") == [
        {
            "startTime": 1_000_000_000_000_000,
            "rmBuildInformation": [{**build, "rmId": "rm1"}],
            "partition": "default",
            "clusterName": "rm1",
        }
    ]


async def test_nothing_registered_is_empty_lists(site: Site) -> None:
    """Without any RM the lists are empty and not null."""
    assert await site.get("/ws/v1/clusters") == []
    assert await site.get("/ws/v1/partitions") == []


@pytest.mark.row(44, 45, 57)
async def test_partitions_follow_a_reload(site: Site) -> None:
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


async def test_bare_name_means_first_rm(site: Site) -> None:
    """Of two partitions of one name the first RM's has the bare one; both can be addressed."""
    site.driver.do(register(OPEN, rm="rm-b"), register(OPEN.replace("open", "more"), rm="rm-a"))

    names = [partition["name"] for partition in await site.get("/ws/v1/partitions")]

    assert names == ["default", "[rm-a]default"]
    for written, leaf in {
        "default": "root.open",
        "[rm-b]default": "root.open",
        "[rm-a]default": "root.more",
        "%5Brm-a%5Ddefault": "root.more",
    }.items():
        root = await site.get(f"/ws/v1/partition/{written}/queues")
        assert root["childNames"] == [leaf]
        assert root["partition"] == ("default" if leaf == "root.open" else "[rm-a]default")


async def test_config_as_yaml(site: Site) -> None:
    """The running configuration reads back as the YAML that was sent, with checksum and extra."""
    site.driver.do(register(TWO, extra={"log.level": "debug", "flag": "true"}))

    status, headers, body = await site.ask("/ws/v1/config")

    assert (status, headers["Content-Type"]) == (200, "application/x-yaml; charset=utf-8")
    document = yaml.safe_load(body)
    assert document.pop("extra") == {"log.level": "debug", "flag": "true"}
    assert document.pop("checksum") == site.driver.views.rms()[0].checksum
    assert document == yaml.safe_load(TWO)


async def test_config_as_json(site: Site) -> None:
    """A client that accepts JSON gets the same with the older core's spelling of the keys."""
    site.driver.do(register(RULES + "    nodesortpolicy: fair\n", extra={"log.level": "debug"}))

    status, headers, body = await site.ask("/ws/v1/config", Accept="application/json")

    assert (status, headers["Content-Type"]) == (200, "application/json; charset=utf-8")
    config = json.loads(body)
    assert config["Extra"] == {"log.level": "debug"}
    assert config["Checksum"] == site.driver.views.rms()[0].checksum
    (partition,) = config["Partitions"]
    assert partition["NodeSortPolicy"] == {"Type": "fair"}
    assert partition["Queues"] == [{"Name": "open", "SubmitACL": "*"}]
    assert partition["PlacementRules"][0] == {
        "Name": "provided",
        "Create": True,
        "Filter": {"Type": "deny", "Users": ["te.*st*"]},
        "Parent": {"Name": "user", "Filter": {"Users": ["ann", "bob"], "Groups": ["dev"]}},
    }


async def test_config_of_each_rm(site: Site) -> None:
    """By default the first RM's configuration is returned, that of another one for its id in the query."""
    site.driver.do(register(OPEN, rm="rm-b"), register(TWO, rm="rm-a"))

    _, _, first = await site.ask("/ws/v1/config")
    _, _, other = await site.ask("/ws/v1/config?rm=rm-a")

    assert len(yaml.safe_load(first)["partitions"]) == 1
    assert len(yaml.safe_load(other)["partitions"]) == 2
    assert "rm-c" in (await site.refused("/ws/v1/config?rm=rm-c"))["message"]


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
async def test_what_is_read_before_an_answer_is_in_the_share(
    site: Site, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """Every read begins with a slice of its own, as it may examine a lot."""
    begun: list[str] = []

    def counting(request: web.Request) -> AbstractAsyncContextManager[Callable[[], bool]]:
        begun.append(request.path_qs)
        return slice_for(request)

    monkeypatch.setattr(units, "slice_for", counting)
    site.driver.do(register("partitions: [{name: default, queues: [{name: a}, {name: b}]}]"))
    site.driver.do(apps(app("one", "root.a")))
    assert await site.get(path)
    assert len(begun) == 1


async def test_children_only_when_wanted(site: Site) -> None:
    """A single queue names its children, and has them inside where `subtree` is in the query."""
    site.driver.do(register("partitions: [{name: default, queues: [{name: dynamic}, {name: leaf}]}]"))

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
