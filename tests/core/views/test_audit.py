"""The audit of a running core detects each kind of fault, and has no finding in sound books."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from licorne_core.messages.commands import NodeAction
from licorne_core.partitions.partition import Partition
from licorne_core.values.asks import Ask
from licorne_core.values.ids import AllocationKey, AppId, NodeId, QueuePath
from licorne_core.views import Concern, Finding
from licorne_core.views.audit.recount import recount_queue
from support.core.builders import app, apps, ask, asks, config, node, nodes, register, reload
from support.core.driver import Driver

LEAF = config(
    "[{name: a, limits: ["
    "{limit: one, users: [ann], maxresources: {vcore: 50}}, "
    "{limit: all, groups: [staff], maxresources: {vcore: 50}}]}]"
)


def foreign(key: str, on_node: str, vcore: int) -> Ask:
    """A foreign allocation on this node."""
    return replace(ask("", key, on_node=on_node, vcore=vcore), tags={"foreign": "static"})


def world() -> tuple[Driver, Partition]:
    """Node n0 with an allocation, and node n1 with a foreign allocation and a reservation."""
    driver = Driver()
    driver.do(register(LEAF), apps(app("one", "root.a", groups=["staff"])))
    driver.do(nodes(node("n0", vcore=10), node("n1", vcore=20)))
    driver.do(asks(ask("one", "runs", vcore=8, on_node="n0"), foreign("f", "n1", 5)))
    driver.do(asks(ask("one", "waits", vcore=17)))
    driver.wait(3)
    name = driver.views.resolve("default")
    return driver, driver.scheduler.partitions[name]


def findings(driver: Driver) -> list[Finding]:
    """The findings of the audit of the only partition."""
    found = driver.views.audit(driver.views.resolve("default"))
    return [finding for finding in found if finding is not None]


def test_sound_books_have_no_findings() -> None:
    """Books with allocations, foreign allocations and reservations have no findings."""
    driver, partition = world()
    assert partition.nodes.by_id[NodeId("n1")].reservations
    assert findings(driver) == []


def negative_total(partition: Partition) -> None:
    partition.nodes.total = {"vcore": -1}


def negative_node(partition: Partition) -> None:
    partition.nodes.by_id[NodeId("n1")].occupied["vcore"] = -5


def wrong_total(partition: Partition) -> None:
    partition.nodes.total = {"vcore": 31}


def wrong_usage(partition: Partition) -> None:
    partition.tree.root.allocated["vcore"] = 7


def wrong_node(partition: Partition) -> None:
    partition.nodes.by_id[NodeId("n0")].available["vcore"] = 3


def wrong_occupied(partition: Partition) -> None:
    partition.nodes.by_id[NodeId("n1")].occupied["vcore"] = 6


def wrong_victims(partition: Partition) -> None:
    partition.nodes.by_id[NodeId("n0")].preempting["vcore"] = 1


def wrong_tally(partition: Partition) -> None:
    partition.tally.states["Running"] = 2


def wrong_numbers(partition: Partition) -> None:
    partition.applications[AppId("one")].pending_count = 2


def wrong_running(partition: Partition) -> None:
    partition.tree.root.running_applications = 2


def wrong_started(partition: Partition) -> None:
    partition.limits.users["ann"][QueuePath("root.a")].applications.clear()


def unknown_reservation(partition: Partition) -> None:
    del partition.applications[AppId("one")].requests[AllocationKey("waits")]


def orphan_on_node(partition: Partition) -> None:
    del partition.applications[AppId("one")].requests[AllocationKey("runs")]


def orphan_in_application(partition: Partition) -> None:
    partition.nodes.by_id[NodeId("n0")].allocations.clear()


def wrong_leaf(partition: Partition) -> None:
    leaf = partition.tree.get(QueuePath("root.a"))
    assert leaf is not None
    leaf.pending["vcore"] = 16


def wrong_parent(partition: Partition) -> None:
    partition.tree.root.pending["vcore"] = 16


def negative_leaf(partition: Partition) -> None:
    leaf = partition.tree.get(QueuePath("root.a"))
    assert leaf is not None
    leaf.allocated["vcore"] = -8


def wrong_application(partition: Partition) -> None:
    partition.applications[AppId("one")].allocated["vcore"] = 7


def wrong_placeholders(partition: Partition) -> None:
    partition.applications[AppId("one")].placeholder_allocated["vcore"] = 1


def wrong_demand(partition: Partition) -> None:
    partition.applications[AppId("one")].pending_total["vcore"] = 1


def wrong_user(partition: Partition) -> None:
    tracker = partition.limits.users["ann"][QueuePath("root.a")]
    tracker.allocated["vcore"] = 9


def unlimited_user(partition: Partition) -> None:
    partition.limits.users["ann"][QueuePath("root")].allocated["vcore"] = 8


def wrong_group(partition: Partition) -> None:
    partition.limits.groups["staff"][QueuePath("root.a")].allocated.clear()


def member_of_the_past(partition: Partition) -> None:
    tracker = partition.limits.users["ann"][QueuePath("root.a")]
    tracker.members[AppId("past")] = partition.applications[AppId("one")]


@pytest.mark.parametrize(
    ("spoil", "concern", "text"),
    [
        (wrong_leaf, Concern.QUEUE_SUM, "queue root.a: pending"),
        (wrong_parent, Concern.QUEUE_SUM, "queue root: pending"),
        (negative_leaf, Concern.NEGATIVE_SHARE, "queue root.a: allocated"),
        (wrong_application, Concern.APPLICATION_SUM, "application one: allocated"),
        (wrong_placeholders, Concern.APPLICATION_SUM, "application one: placeholders"),
        (wrong_demand, Concern.APPLICATION_SUM, "application one: pending"),
        (wrong_user, Concern.USER_SUM, "user ann in root.a: allocated"),
        (unlimited_user, Concern.USER_SUM, "user ann in root: allocated"),
        (wrong_group, Concern.USER_SUM, "group staff in root.a: allocated"),
        (member_of_the_past, Concern.USER_SUM, "user ann in root.a: counts application past"),
        (negative_total, Concern.NEGATIVE_PARTITION, "partition [rm1]default: capacity"),
        (negative_node, Concern.NEGATIVE_NODE, "node n1: "),
        (wrong_total, Concern.PARTITION_SUM, "partition [rm1]default: capacity"),
        (wrong_usage, Concern.PARTITION_SUM, "partition [rm1]default: allocated"),
        (wrong_node, Concern.NODE_SUM, "node n0: allocated"),
        (wrong_occupied, Concern.NODE_SUM, "node n1: occupied"),
        (wrong_victims, Concern.NODE_SUM, "node n0: preempting"),
        (wrong_tally, Concern.PARTITION_SUM, "partition [rm1]default: applications"),
        (wrong_numbers, Concern.APPLICATION_SUM, "application one: numbers"),
        (wrong_running, Concern.QUEUE_SUM, "queue root: numbers"),
        (wrong_started, Concern.USER_SUM, "user ann in root.a: numbers"),
        (unknown_reservation, Concern.RESERVATION, "node n1 is reserved for waits of application"),
        (orphan_on_node, Concern.ORPHAN_ON_NODE, "node n0 has runs of application one"),
        (orphan_in_application, Concern.ORPHAN_IN_APPLICATION, "application one has runs on node"),
    ],
)
def test_each_fault_has_its_finding(spoil: Callable[[Partition], None], concern: Concern, text: str) -> None:
    """Each fault of the books has a finding under its own name."""
    driver, partition = world()
    spoil(partition)
    found = [finding.text for finding in findings(driver) if finding.concern is concern]
    assert any(each.startswith(text) for each in found)


@pytest.mark.row(165)
def test_overfull_nodes_are_reported_while_they_are_overfull() -> None:
    """An overfull node or partition is reported as long as it is overfull; the books are sound."""
    driver, _ = world()
    driver.do(nodes(node("n0", vcore=6, action=NodeAction.UPDATE)))
    assert findings(driver) == [Finding(Concern.OVERFULL, "node n0: available map[vcore:-2]")]
    driver.do(nodes(node("n1", vcore=1, action=NodeAction.UPDATE)))
    assert [finding.text for finding in findings(driver)] == [
        "partition [rm1]default: available map[vcore:-6]",
        "node n0: available map[vcore:-2]",
        "node n1: available map[vcore:-4]",
    ]
    assert {finding.concern for finding in findings(driver)} == {Concern.OVERFULL}
    driver.do(nodes(node("n0", vcore=8, action=NodeAction.UPDATE)))
    driver.do(nodes(node("n1", vcore=5, action=NodeAction.UPDATE)))
    assert findings(driver) == []


@pytest.mark.parametrize("begins", range(5))
def test_large_totals_are_audited_while_they_change(monkeypatch: pytest.MonkeyPatch, begins: int) -> None:
    """An audit in steps does not report changes between its steps, and reports faults that remain."""
    monkeypatch.setattr("licorne_core.views.audit.recount.STEP", 2)
    driver, partition = world()
    driver.do(*(apps(app(f"app-{n}", "root.a")) for n in range(7)))
    driver.do(asks(*(ask(f"app-{n}", "k", vcore=1) for n in range(7))))
    leaf = partition.tree.get(QueuePath("root.a"))
    assert leaf is not None
    steps = recount_queue(leaf)
    for _ in range(begins):
        assert next(steps) is None
    # Change items that were counted, and items that were not.
    driver.do(asks(ask("app-0", "more", vcore=1), ask("app-6", "more", vcore=1)))
    assert [doubt for doubt in steps if doubt is not None] == []
    leaf.pending["vcore"] += 5
    found = [doubt.text for doubt in recount_queue(leaf) if doubt is not None]
    assert len(found) == 1
    assert found[0].startswith("queue root.a: pending ")


def test_changes_between_steps_are_not_reported() -> None:
    """Changes of the books between two steps of an audit are not reported as faults."""
    driver, partition = world()
    steps = driver.views.audit(partition.name)
    assert next(steps) is None
    driver.do(asks(ask("one", "more", vcore=1)), reload(LEAF))
    assert [finding for finding in steps if finding is not None] == []


@pytest.mark.row(165)
def test_a_node_of_an_unknown_partition_is_a_failed_node() -> None:
    """A node for an unknown partition is reported until it is corrected; a duplicate is not."""
    driver, _ = world()
    lost = node("lost", partition="gpu", vcore=1)
    driver.do(nodes(lost, node("n0", vcore=10)))
    assert driver.views.rms()[0].failed_nodes == (NodeId("lost"),)
    driver.do(nodes(node("lost", vcore=1)))
    assert driver.views.rms()[0].failed_nodes == ()
