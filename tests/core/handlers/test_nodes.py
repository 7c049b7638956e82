"""Nodes as an RM sees them: creation, changes, removal, and order."""

from collections import Counter
from dataclasses import replace

import pytest

from licorne_core.messages.commands import NodeAction
from licorne_core.messages.effects import AllocationsReleased, NodesAnswered
from licorne_core.values.asks import Ask
from support.core.builders import app, apps, ask, asks, config, node, nodes, register
from support.core.contents import digest_of
from support.core.driver import Driver, keys, placed


def fleet(*sizes: dict[str, int], policy: str = "") -> Driver:
    """A core with one application, and nodes n0, n1, … of these sizes."""
    driver = Driver()
    rest = f"nodesortpolicy: {policy}" if policy else ""
    driver.do(register(config("[{name: a}]", rest=rest)))
    driver.do(nodes(*(node(f"n{i}", size=size) for i, size in enumerate(sizes))))
    driver.do(apps(app("app", "root.a")))
    return driver


def wave(count: int, start: int = 0, **size: int) -> list[Ask]:
    """This number of equal asks, with keys from `start` on."""
    return [ask("app", f"k{i}", size=size) for i in range(start, start + count)]


def used(driver: Driver, *asked: Ask) -> list[str]:
    """Submit these asks; return the nodes on which they are placed, in order."""
    return [node_id for _, _, node_id in placed(driver.do(asks(*asked)))]


@pytest.mark.row(115)
def test_foreign_amounts_on_a_node_are_reported_separately() -> None:
    """A node reports own and foreign allocations and its free room separately, also after a resize."""
    driver = fleet({"vcore": 10})
    others = ask("", "theirs", on_node="n0", size={"vcore": 3, "gpu": 1})
    others.tags = {"foreign": "default"}
    driver.do(asks(ask("app", "ours", vcore=2), others))
    for capacity in (10, 4):
        driver.do(nodes(node("n0", NodeAction.UPDATE, vcore=capacity)))
        told = driver.node("n0")
        assert (told.allocated, told.occupied) == ({"vcore": 2}, {"vcore": 3, "gpu": 1})
        assert told.available == {"vcore": capacity - 5, "gpu": -1}


def test_a_node_may_be_registered_again() -> None:
    """A node that is registered again after its removal is a new, empty node."""
    driver = fleet({"vcore": 2000}, {"vcore": 1000})
    driver.do(asks(*wave(3, vcore=1000)))
    driver.do(nodes(node("n0", NodeAction.DECOMISSION), node("n0", vcore=2000)))
    assert Counter(used(driver, *wave(3, 3, vcore=1000))) == {"n0": 2}


@pytest.mark.row(118)
def test_a_replaced_node_is_accepted_after_releases_of_the_old_node() -> None:
    """If a request replaces a node, allocations of the old node are released before the new is accepted."""
    driver = fleet({"vcore": 1000})
    driver.do(asks(*wave(1, vcore=500)))
    effects = driver.send(nodes(node("n0", NodeAction.DECOMISSION), node("n0", vcore=1)))
    kinds = [type(effect) for effect in effects]
    assert kinds.index(AllocationsReleased) < kinds.index(NodesAnswered)


@pytest.mark.row(121)
def test_only_the_ratio_of_weights_matters() -> None:
    """Weights of 4 to 1 and of 1 to 0.25 give the same order."""
    orders = []
    for weights in ("{vcore: 4.0, memory: 1.0}", "{vcore: 1.0, memory: 0.25}"):
        sizes = [{"vcore": 1000 + 700 * i, "memory": 100 - 13 * i} for i in range(5)]
        driver = fleet(*sizes, policy=f"{{type: fair, resourceweights: {weights}}}")
        orders.append(used(driver, *wave(40, vcore=110, memory=7)))
    assert orders[0] == orders[1]
    assert len(set(orders[0])) == 5


@pytest.mark.row(115)
def test_an_update_without_a_size_changes_nothing() -> None:
    """An update without a size, or of an unknown node, changes nothing and is not answered."""
    driver = fleet({"vcore": 1000})
    before = digest_of(driver.scheduler)
    bare = [node(node_id, NodeAction.UPDATE) for node_id in ("n0", "n9")]
    named = replace(bare[0], attributes={"si/hostname": "other"})
    unknown = [node("n9", action, vcore=1) for action in NodeAction if "CREATE" not in action.name]
    assert driver.do(nodes(*bare, named, *unknown)) == []
    assert digest_of(driver.scheduler) == before


def test_nodes_of_a_removed_partition_are_rejected() -> None:
    """A new node for a removed partition is rejected, and other changes are ignored."""
    driver = fleet({"vcore": 1000})
    assert driver.do(nodes(node("n0", NodeAction.DECOMISSION, partition="second"))) == []
    (answer,) = driver.do(nodes(node("n1", partition="second", vcore=1)))
    assert isinstance(answer, NodesAnswered)
    assert [rejection.reason for rejection in answer.rejected] == [
        "failed to find partition [rm1]second for new node n1"
    ]


@pytest.mark.row(120)
@pytest.mark.parametrize(
    ("policy", "utilization"),
    [
        ("{type: fair}", 0.5),
        ("{type: fair, resourceweights: {vcore: 0.0, memory: 1.0}}", 0.5),
        ("{type: fair, resourceweights: {gpu: 1.0, memory: 3.0}}", 0.625),
        ("{type: fair, resourceweights: {fpga: 9.0}}", 0.0),
    ],
    ids=["no cores at all", "no weight", "others", "none that the node has"],
)
def test_types_without_capacity_or_weight_do_not_count(policy: str, utilization: float) -> None:
    """Types without capacity or weight are left out of the weighted mean."""
    driver = fleet({"vcore": 0, "memory": 10, "gpu": 1}, policy=policy)
    driver.do(asks(ask("app", "k", memory=5, gpu=1)))
    assert driver.node("n0").utilization == pytest.approx(utilization)


def test_nothing_is_decided_without_nodes() -> None:
    """A partition without nodes has no turn until its first node is added."""
    driver = fleet()
    assert used(driver, *wave(1, vcore=1)) == []
    assert driver.scheduler.next_deadline() is None
    assert keys(driver.do(nodes(node("n0", vcore=1)))) == ["k0"]
