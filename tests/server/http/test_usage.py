"""Usage of users, groups and nodes over REST, and the victims of preemption (spec § 12.4)."""

import json

import pytest

from licorne_core.ledger.stops import Ledger
from licorne_core.messages.commands import Command, NodeAction, RemoveRm
from licorne_core.values.ids import PartitionName, RmId
from licorne_server.http.json_cluster import node_utilizations
from licorne_server.http.stream import fragments
from support.core.builders import app, apps, ask, asks, config, node, nodes, register, victim
from support.core.driver import Driver
from support.server.http_site import Site

LIMITED = """
partitions:
  - name: default
    limits:
      - {limit: users, users: [ann], maxresources: {vcore: 9m}, maxapplications: 3}
      - {limit: groups, groups: [dev], maxresources: {vcore: 8m}}
    queues:
      - name: root
        submitacl: '*'
        queues: [{name: a}, {name: b}]
"""
USAGE = "/ws/v1/partition/default/usage"


def fill(site: Site) -> None:
    """Two users, one of them in a group with a limit, in two queues."""
    site.driver.do(
        register(LIMITED),
        nodes(node("n1", vcore=100)),
        apps(app("one", "root.a", user="ann", groups=["dev"])),
        apps(app("two", "root.b", user="ann"), app("three", "root.b", user="bob")),
        asks(*(ask(who, who, vcore=2) for who in ("one", "two", "three"))),
    )


async def test_lists_are_by_name(site: Site) -> None:
    """All users and groups that have applications, or a limit of their own."""
    assert site.driver.do(register(config("[{name: a}]")))
    assert await site.get(f"{USAGE}/users") == []
    assert await site.get(f"{USAGE}/groups") == []
    assert site.driver.do(register(LIMITED))
    assert [user["userName"] for user in await site.get(f"{USAGE}/users")] == ["ann"]
    assert [group["groupName"] for group in await site.get(f"{USAGE}/groups")] == ["dev"]
    fill(site)
    assert [user["userName"] for user in await site.get(f"{USAGE}/users")] == ["ann", "bob"]
    assert [group["groupName"] for group in await site.get(f"{USAGE}/groups")] == ["dev"]


@pytest.mark.parametrize(
    "path", [f"{USAGE}/user/eve", f"{USAGE}/group/eve", "/ws/v1/partition/x/usage/users"]
)
async def test_what_is_not_there_is_404(site: Site, path: str) -> None:
    """A user, group or partition that does not exist."""
    fill(site)
    assert "not found" in (await site.refused(path))["message"]


UTILIZATIONS = "/ws/v1/scheduler/node-utilizations"


async def test_nodes_stand_in_ten_ranges(site: Site) -> None:
    """For each type that nodes have, the nodes by how much is used, upper ends included."""
    site.driver.do(
        register(config("[{name: a}]")),
        nodes(node("n1", vcore=100), node("n2", vcore=100, gpu=4), node("n3", vcore=0)),
        apps(app("one", "root.a")),
        asks(ask("one", "k1", on_node="n1", vcore=31), ask("one", "k2", on_node="n2", vcore=10)),
    )

    [partition] = await site.get(UTILIZATIONS)

    assert (partition["clusterId"], partition["partition"]) == ("rm1", "default")
    gpu, vcore = partition["utilizations"]
    assert (gpu["type"], vcore["type"]) == ("gpu", "vcore")
    names = ["0-10%", "10-20%", "20-30%", "30-40%", "40-50%"]
    names += ["50-60%", "60-70%", "70-80%", "80-90%", "90-100%"]
    assert [part["bucketName"] for part in vcore["utilization"]] == names
    assert [part["numOfNodes"] for part in vcore["utilization"]] == [1, 0, 0, 1, *[0] * 6]
    assert [part["nodeNames"] for part in vcore["utilization"]][:4] == [["n2"], [], [], ["n1"]]
    assert gpu["utilization"][0]["nodeNames"] == ["n2"]


@pytest.mark.parametrize("step", range(6))
@pytest.mark.parametrize(
    "going",
    [nodes(node("n1", NodeAction.DECOMISSION)), RemoveRm(rm_id=RmId("rm1"))],
    ids=["node", "RM"],
)
def test_what_goes_away_in_between_is_left_out(going: Command, step: int) -> None:
    """Whatever ends between whichever two steps, the answer is whole without it."""
    driver = Driver()
    driver.do(register(config("[{name: a}]")), nodes(*(node(f"n{i}", vcore=1) for i in range(3))))
    text = ""
    for number, piece in enumerate(fragments(node_utilizations(driver.views))):
        text += piece
        if number == step:
            driver.do(going)
    names = {
        name
        for partition in json.loads(text)
        for shown in partition["utilizations"]
        for part in shown["utilization"]
        for name in part["nodeNames"]
    }
    assert names <= {"n0", "n1", "n2"}
    assert names >= {"n0", "n2"} or isinstance(going, RemoveRm)


PREEMPTIONS = "/ws/v1/partition/default/preemptions"


@pytest.fixture
def ledger(site: Site) -> Ledger:
    """The record of victims of an RM's partition."""
    site.driver.do(register("partitions: [{name: default, queues: [{name: root}]}]"))
    return site.driver.scheduler.partitions[PartitionName("[rm1]default")].ledger


async def test_the_list_may_be_narrowed(site: Site, ledger: Ledger) -> None:
    """The filter is an application, a key, or both; the latest is first."""
    for key, app_id in (("a", "low"), ("b", "low"), ("a", "other")):
        ledger.note(victim(key, app_id))

    async def keys(query: str) -> list[str]:
        return [
            f"{item['applicationId']}/{item['allocationKey']}" for item in await site.get(PREEMPTIONS + query)
        ]

    assert await keys("") == ["other/a", "low/b", "low/a"]
    assert await keys("?applicationID=low") == ["low/b", "low/a"]
    assert await keys("?allocationKey=a") == ["other/a", "low/a"]
    assert await keys("?applicationID=low&allocationKey=a") == ["low/a"]
    assert await keys("?applicationID=nobody") == []
