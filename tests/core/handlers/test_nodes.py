"""Nodes as an RM sees them: coming, changing, going, and the order in which they fill."""

from collections import Counter
from dataclasses import replace

import pytest

from licorne_core.messages.commands import NodeAction
from licorne_core.messages.effects import AllocationsReleased, NodesAnswered
from licorne_core.values.asks import Ask
from licorne_core.values.ids import AppId, NodeId, PartitionName
from support.core.builders import app, apps, ask, asks, config, node, nodes, register
from support.core.digest import digest_of
from support.core.driver import Driver, keys, placed, released, states

DEFAULT = PartitionName("[rm1]default")


def fleet(*sizes: dict[str, int], policy: str = "") -> Driver:
    """A core with nodes n0, n1 ... of these sizes, and an application."""
    driver = Driver()
    rest = f"nodesortpolicy: {policy}" if policy else ""
    driver.do(register(config("[{name: a}]", rest=rest)))
    driver.do(nodes(*(node(f"n{i}", size=size) for i, size in enumerate(sizes))))
    driver.do(apps(app("app", "root.a")))
    return driver


def wave(count: int, start: int = 0, **size: int) -> list[Ask]:
    """Equal asks."""
    return [ask("app", f"k{i}", size=size) for i in range(start, start + count)]


def used(driver: Driver, *asked: Ask) -> list[str]:
    """The nodes that asks go to, in order."""
    return [node_id for _, _, node_id in placed(driver.do(asks(*asked)))]


@pytest.mark.row(114)
def test_a_node_is_answered() -> None:
    """A new node is accepted; one whose id is taken is rejected with the reason."""
    driver = fleet({"vcore": 1000})
    (answer,) = driver.do(nodes(node("n1", vcore=1), node("n0", vcore=1)))
    assert isinstance(answer, NodesAnswered)
    assert answer.accepted == ["n1"]
    (rejection,) = answer.rejected
    assert rejection.node_id == "n0"
    assert "existing node n0, node name must be unique" in rejection.reason


@pytest.mark.row(115)
def test_what_others_take_of_a_node_is_told_apart() -> None:
    """Our own allocations, those of other schedulers, and what is left, also after a new size."""
    driver = fleet({"vcore": 10})
    others = ask("", "theirs", on_node="n0", size={"vcore": 3, "gpu": 1})
    others.tags = {"foreign": "default"}
    driver.do(asks(ask("app", "ours", vcore=2), others))
    for capacity in (10, 4):
        driver.do(nodes(node("n0", NodeAction.UPDATE, vcore=capacity)))
        told = driver.views.node(DEFAULT, "n0")
        assert (told.allocated, told.occupied) == ({"vcore": 2}, {"vcore": 3, "gpu": 1})
        assert told.available == {"vcore": capacity - 5, "gpu": -1}


@pytest.mark.row(115)
def test_a_larger_node_runs_more() -> None:
    """Asks that wait for room run when a node's capacity is raised."""
    driver = fleet({"vcore": 2000})
    assert len(keys(driver.do(asks(*wave(5, vcore=1000))))) == 2
    grown = nodes(node("n0", NodeAction.UPDATE, vcore=4000))
    assert keys(driver.do(grown)) == ["k2", "k3"]


@pytest.mark.row(115)
def test_a_smaller_node_keeps_what_runs() -> None:
    """Nothing is killed when a node shrinks: its available is below zero, and nothing comes."""
    driver = fleet({"vcore": 2000})
    driver.do(asks(*wave(3, vcore=1000)))
    assert driver.do(nodes(node("n0", NodeAction.UPDATE, vcore=1500))) == []
    assert driver.views.node(DEFAULT, NodeId("n0")).available == {"vcore": -500}


@pytest.mark.row(116)
def test_a_drained_node_takes_nothing_new() -> None:
    """While drained a node keeps what it has and takes nothing; then it is used again."""
    driver = fleet({"vcore": 3000})
    driver.do(asks(*wave(1, vcore=1000)))
    driver.do(nodes(node("n0", NodeAction.DRAIN_NODE)))
    assert keys(driver.do(asks(*wave(1, 1, vcore=1000)))) == []
    assert driver.views.node(DEFAULT, NodeId("n0")).allocation_count == 1
    assert keys(driver.do(nodes(node("n0", NodeAction.DRAIN_TO_SCHEDULABLE)))) == ["k1"]


@pytest.mark.row(116)
def test_a_node_may_come_drained() -> None:
    """A node that is created drained counts in the cluster and takes nothing until it may."""
    driver = fleet({"vcore": 0})
    driver.do(nodes(node("late", NodeAction.CREATE_DRAIN, vcore=1000)))
    assert keys(driver.do(asks(*wave(1, vcore=1000)))) == []
    assert used(driver, ask("app", "bound", required_node="late", vcore=500)) == ["late"]


@pytest.mark.row(117)
def test_a_decommissioned_node_frees_all_it_has() -> None:
    """What ran there is told released, the cluster is smaller, and the application completes."""
    driver = fleet({"vcore": 2000})
    driver.do(asks(*wave(2, vcore=1000)))
    effects = driver.do(nodes(node("n0", NodeAction.DECOMISSION)))
    why = ("STOPPED_BY_RM", "Node n0 Removed")
    assert released(effects) == [("app", "k0", *why), ("app", "k1", *why)]
    assert states(effects, "app") == ["Completing"]
    root = driver.views.queues(DEFAULT)
    assert (root.max, root.allocated) == ({}, {})


def test_a_node_may_come_back_under_its_id() -> None:
    """A node that was decommissioned and registered again is a new, empty node."""
    driver = fleet({"vcore": 2000}, {"vcore": 1000})
    driver.do(asks(*wave(3, vcore=1000)))
    driver.do(nodes(node("n0", NodeAction.DECOMISSION), node("n0", vcore=2000)))
    assert Counter(used(driver, *wave(3, 3, vcore=1000))) == {"n0": 2}


@pytest.mark.row(118)
def test_a_node_that_is_replaced_is_accepted_when_the_old_one_is_gone() -> None:
    """In one request what was on the old node is released before the new one is accepted."""
    driver = fleet({"vcore": 1000})
    driver.do(asks(*wave(1, vcore=500)))
    effects = driver.send(nodes(node("n0", NodeAction.DECOMISSION), node("n0", vcore=1)))
    kinds = [type(effect) for effect in effects]
    assert kinds.index(AllocationsReleased) < kinds.index(NodesAnswered)


def test_fair_spreads_over_nodes() -> None:
    """Four equal nodes and four asks: one each, in the order of the ids."""
    driver = fleet(*[{"vcore": 4000, "memory": 4}] * 4, policy="fair")
    assert used(driver, *wave(4, vcore=1000, memory=1)) == ["n0", "n1", "n2", "n3"]


@pytest.mark.row(119)
def test_binpacking_fills_one_node_before_the_next() -> None:
    """The fullest node that fits is used, until nothing fits there any more."""
    driver = fleet(*[{"vcore": 4000, "memory": 4}] * 3, policy="{type: binpacking}")
    order = used(driver, *wave(9, vcore=1000, memory=1))
    assert order == ["n0"] * 4 + ["n1"] * 4 + ["n2"]


@pytest.mark.row(120)
@pytest.mark.parametrize(
    ("weights", "utilization"), [("", 0.70), (", resourceweights: {vcore: 4.0, memory: 1.0}", 0.82)]
)
def test_utilization_is_a_weighted_mean(weights: str, utilization: float) -> None:
    """90 % of the cores and 50 % of the memory are 0.70, or 0.82 with weights of 4 and 1."""
    policy = f"{{type: fair{weights}}}"
    driver = fleet({"vcore": 1000, "memory": 100, "gpu": 4}, policy=policy)
    driver.do(asks(ask("app", "k", vcore=900, memory=50, gpu=4)))
    report = driver.views.node(DEFAULT, NodeId("n0"))
    assert report.utilization == pytest.approx(utilization)


@pytest.mark.row(120)
def test_weights_choose_the_node() -> None:
    """Of a node short of cores and one short of memory, the weights say which is fuller."""
    for weights, first in (
        ("{vcore: 4.0, memory: 1.0}", "n1"),
        ("{vcore: 1.0, memory: 4.0}", "n0"),
    ):
        driver = fleet(policy=f"{{type: fair, resourceweights: {weights}}}")
        driver.do(nodes(*(node(f"n{i}", vcore=1000, memory=100) for i in range(2))))
        busy = [
            ask("app", "cores", on_node="n0", vcore=900, memory=10),
            ask("app", "memory", on_node="n1", vcore=100, memory=90),
        ]
        driver.do(asks(*busy))
        assert used(driver, ask("app", "k", vcore=1, memory=1)) == [first]


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


@pytest.mark.row(124)
def test_an_ask_for_one_node_goes_nowhere_else() -> None:
    """An ask with a required node waits for it, and is taken by it even while it is drained."""
    driver = fleet({"vcore": 1000}, {"vcore": 1000})
    bound = ask("app", "bound", required_node="n7", vcore=500)
    assert used(driver, bound) == []
    arrived = driver.do(nodes(node("n7", NodeAction.CREATE_DRAIN, vcore=1000)))
    assert placed(arrived) == [(AppId("app"), "bound", "n7")]


def test_a_type_that_no_node_has_is_not_to_be_had() -> None:
    """An ask for a resource that no node registers never runs, and does not disturb others."""
    driver = fleet({"vcore": 1000})
    odd = ask("app", "odd", priority=9, vcore=1, fpga=1)
    assert keys(driver.do(asks(odd, *wave(1, vcore=1)))) == ["k0"]


@pytest.mark.row(115)
def test_an_update_without_a_size_changes_nothing() -> None:
    """Neither does one of a node that nobody has, or with attributes alone; none is answered."""
    driver = fleet({"vcore": 1000})
    before = digest_of(driver.scheduler)
    bare = [node(node_id, NodeAction.UPDATE) for node_id in ("n0", "n9")]
    named = replace(bare[0], attributes={"si/hostname": "other"})
    unknown = [node("n9", action, vcore=1) for action in NodeAction if "CREATE" not in action.name]
    assert driver.do(nodes(*bare, named, *unknown)) == []
    assert digest_of(driver.scheduler) == before


@pytest.mark.row(116)
def test_draining_twice_is_draining() -> None:
    """Flags may be set again: one order to schedule makes the node schedulable."""
    driver = fleet({"vcore": 1000})
    for action in (NodeAction.DRAIN_NODE, NodeAction.DRAIN_NODE):
        assert driver.do(nodes(node("n0", action))) == []
    assert used(driver, *wave(1, vcore=1)) == []
    again = [node("n0", NodeAction.DRAIN_TO_SCHEDULABLE)] * 2
    assert keys(driver.do(nodes(*again))) == ["k0"]


@pytest.mark.row(30, 115)
def test_a_cluster_that_shrinks_below_its_usage_waits() -> None:
    """With less than nothing left no ask is placed, of other types neither; then it goes on."""
    driver = fleet({"vcore": 2000, "memory": 10})
    driver.do(asks(*wave(2, vcore=1000)))
    driver.do(nodes(node("n0", NodeAction.UPDATE, vcore=500, memory=10)))
    assert driver.views.queues(DEFAULT).headroom == {"vcore": -1500, "memory": 10}
    assert used(driver, *wave(1, 5, vcore=1, memory=1)) == []
    assert used(driver, *wave(1, 6, memory=1)) == ["n0"]
    assert keys(driver.do(nodes(node("n0", NodeAction.UPDATE, vcore=2001, memory=10)))) == ["k5"]


def test_an_order_to_a_partition_that_is_gone() -> None:
    """A new node for it is rejected by name, and other changes are ignored."""
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
def test_what_a_node_has_none_of_does_not_count(policy: str, utilization: float) -> None:
    """Types with no capacity or no weight are left out of the mean, above and below the line."""
    driver = fleet({"vcore": 0, "memory": 10, "gpu": 1}, policy=policy)
    driver.do(asks(ask("app", "k", memory=5, gpu=1)))
    assert driver.views.node(DEFAULT, NodeId("n0")).utilization == pytest.approx(utilization)


def test_nothing_is_decided_without_nodes() -> None:
    """A partition without nodes takes no turn, and starts with the first node."""
    driver = fleet()
    assert used(driver, *wave(1, vcore=1)) == []
    assert driver.scheduler.next_deadline() is None
    assert keys(driver.do(nodes(node("n0", vcore=1)))) == ["k0"]
