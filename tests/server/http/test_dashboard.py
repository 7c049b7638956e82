"""The first page of the older core's web interface: history, and how full the nodes are."""

import json

import pytest

from licorne_core.messages.commands import Command, NodeAction, RemoveRm
from licorne_core.values.ids import RmId
from licorne_server.http.json_cluster import node_utilizations
from licorne_server.http.stream import fragments
from support.core.builders import app, apps, ask, asks, config, node, nodes, register
from support.core.driver import Driver
from support.server.http_site import Site

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
