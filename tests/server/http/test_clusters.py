"""Clusters, partitions, placement rules and the running configuration over REST."""

import json

import pytest
import yaml

from licorne_core.config import load
from licorne_core.messages.commands import RegisterRm
from licorne_core.values.ids import RmId
from support.core.builders import register, reload
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
      - name: tag
        value: Namespace
      - name: fixed
        value: root.open
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
    """Node order, weights and preemption are those in force; what is gone is not there."""
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


async def test_placement_rules_are_a_bare_list(site: Site) -> None:
    """Rules come in order with parameters as texts and parents inside, the recovery rule last."""
    site.driver.do(register(RULES))

    provided, tag, fixed, recovery = await site.get("/ws/v1/partition/default/placementrules")

    no_filter = {"type": "allow", "userList": [], "groupList": [], "userExp": "", "groupExp": ""}
    assert provided == {
        "name": "provided",
        "parameters": {"create": "true"},
        "filter": {**no_filter, "type": "deny", "userExp": "te.*st*"},
        "parentRule": {
            "name": "user",
            "parameters": {"create": "false"},
            "filter": {**no_filter, "userList": ["ann", "bob"], "groupList": ["dev"]},
            "parentRule": None,
        },
    }
    assert tag["parameters"] == {"create": "false", "tagName": "namespace"}
    assert fixed["parameters"] == {"create": "false", "queue": "root.open", "qualified": "true"}
    assert recovery["name"] == "recovery"


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
    """Who accepts JSON gets the same with the older core's spelling of the keys."""
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
    """The first RM's configuration is shown, that of another one when its id is in the query."""
    site.driver.do(register(OPEN, rm="rm-b"), register(TWO, rm="rm-a"))

    _, _, first = await site.ask("/ws/v1/config")
    _, _, other = await site.ask("/ws/v1/config?rm=rm-a")

    assert len(yaml.safe_load(first)["partitions"]) == 1
    assert len(yaml.safe_load(other)["partitions"]) == 2
    assert "rm-c" in (await site.refused("/ws/v1/config?rm=rm-c"))["message"]
