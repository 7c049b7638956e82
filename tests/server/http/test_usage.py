"""Usage of users, groups and nodes over REST, and the victims of preemption (spec § 12.4)."""

import json

import pytest

from licorne_core.messages.commands import Command, NodeAction, RemoveRm
from licorne_core.values.ids import RmId
from licorne_server.http.json_cluster import node_utilizations
from licorne_server.http.stream import fragments
from support.core.builders import config, node, nodes, register
from support.core.driver import Driver


@pytest.mark.parametrize("step", range(6))
@pytest.mark.parametrize(
    "going",
    [nodes(node("n1", NodeAction.DECOMISSION)), RemoveRm(rm_id=RmId("rm1"))],
    ids=["node", "RM"],
)
def test_objects_that_end_during_an_answer_are_left_out(going: Command, step: int) -> None:
    """Whatever ends between any two steps, the answer is complete without it."""
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
