"""The check of the books detects every kind of fault."""

from collections.abc import Callable

import pytest

from licorne_core.model.apps.groups import AskGroup
from licorne_core.model.quotas import Tracker
from licorne_core.partitions.partition import Partition
from licorne_core.scheduler import Scheduler
from licorne_core.values.app_states import AppState
from licorne_core.values.errors import InvariantBroken
from licorne_core.values.ids import AllocationKey, AppId, NodeId, PartitionName, QueuePath, RmId
from licorne_core.values.timers import Due, Timer
from licorne_core.views.audit.invariants import check_invariants
from support.core.builders import app, apps, ask, asks, config, node, nodes, register
from support.core.driver import Driver

ONE = PartitionName("[rm1]default")
APP = AppId("app")
KEY = AllocationKey("k0")
NODE = NodeId("n1")
ROOT = QueuePath("root")
LEAF = QueuePath("root.a")
GONE = QueuePath("root.gone")
QUEUES = "[{name: a, limits: [{limit: '', users: [ann], maxapplications: 9}]}, {name: b}]"
Slip = Callable[[Partition], object]


@pytest.fixture
def scheduler() -> Scheduler:
    """Two RMs, one of which has an allocation and a waiting ask."""
    driver = Driver()
    for rm in ("rm1", "rm2"):
        driver.do(register(config(QUEUES), rm=rm))
        driver.do(nodes(node("n1", memory=1), rm=rm), apps(app("app", "root.a"), rm=rm))
        driver.do(asks(*(ask("app", f"k{i}", memory=1) for i in range(2)), rm=rm))
    return driver.scheduler


def group_of(partition: Partition) -> AskGroup:
    """The only ask group of the application."""
    (group,) = partition.applications[APP].groups.values()
    return group


def user_at_root(partition: Partition) -> Tracker:
    """The tracker of the user's total usage at root, which has no limit."""
    return partition.limits.users["ann"][ROOT]


def enter_new(partition: Partition) -> None:
    """Set the state of the application to New, although it has allocations."""
    owner = partition.applications[APP]
    partition.tally.moved(owner.state.value, AppState.NEW.value)
    owner.state = AppState.NEW
    for queue in partition.leaf_of(owner).lineage:
        queue.running_applications -= 1


SLIPS: dict[str, tuple[str, Slip]] = {
    "node available": (
        "A1: node n1: allocated",
        lambda p: p.nodes.by_id[NODE].available.update(memory=1),
    ),
    "node occupied": ("A1: ", lambda p: p.nodes.by_id[NODE].occupied.update(memory=1)),
    "cluster": ("A2: .*capacity", lambda p: setattr(p.nodes, "total", {"memory": 2})),
    "what queues may have": ("A2: .*for queues", lambda p: p.nodes.usable.clear()),
    "root maximum": ("A2: .*maximum", lambda p: setattr(p.tree.root, "max", {"memory": 2})),
    "root allocated": ("A3: queue root:", lambda p: p.tree.root.allocated.clear()),
    "queue pending": ("A3: .*pending", lambda p: p.tree.root.children["a"].pending.clear()),
    "running": ("A3: ", lambda p: setattr(p.tree.root, "running_applications", 2)),
    "priority": ("A3: ", lambda p: p.tree.root.children["a"].priorities.add(7)),
    "tree": ("A3: ", lambda p: p.tree.root.children.pop("a")),
    "app allocated": ("A4: ", lambda p: p.applications[APP].allocated.clear()),
    "app pending": ("A4: .*pending", lambda p: p.applications[APP].pending_total.clear()),
    "group": ("A4: .*waiting", lambda p: setattr(group_of(p), "waiting", 2)),
    "app groups": ("A4: ", lambda p: p.applications[APP].groups.clear()),
    "user": ("A5: .*allocated", lambda p: p.limits.users["ann"][LEAF].allocated.clear()),
    "unlimited user": (
        "A5: .*allocated",
        lambda p: user_at_root(p).allocated.update(cpu=1),
    ),
    "limit": ("A5: .*booked", lambda p: setattr(user_at_root(p), "max", {})),
    "idle user": ("A5: .*nothing", lambda p: p.limits.users.update(bob={})),
    "app state": ("A6: ", enter_new),
    "unknown to the partition": ("A6: ", lambda p: p.applications.clear()),
    "unknown to its queue": ("A", lambda p: p.tree.root.children["a"].applications.clear()),
    "unknown to its node": ("A", lambda p: p.nodes.by_id[NODE].allocations.clear()),
    "unknown to its application": ("A", lambda p: p.applications[APP].requests.pop(KEY)),
    "negative": ("A7: ", lambda p: p.nodes.by_id[NODE].set_capacity({"memory": -1})),
    "too large": ("A7: ", lambda p: p.nodes.by_id[NODE].set_capacity({"memory": 2**63})),
    "user of no queue": ("Q1: ", lambda p: setattr(p.limits.users["ann"][LEAF], "path", GONE)),
    "ranked for nothing": ("Q1: ", lambda p: p.tree.root.children["b"].ranking.put("x", (1,))),
    "score": ("N1: .*booked 7", lambda p: setattr(p.nodes.by_id[NODE], "score", 7)),
    "unknown to the agenda": ("L3: ", lambda p: p.timers.set(Timer(Due.CLEAN_QUEUES), 1.0)),
    "no turn": ("L3: ", lambda p: setattr(p.wakeups.waiting, "runnable", True)),
    "other owner": ("R1: ", lambda p: setattr(p, "rm_id", RmId("rm2"))),
    "other name": ("R1: ", lambda p: setattr(p, "name", PartitionName("[rm2]default"))),
}


@pytest.mark.parametrize(("rule", "slip"), SLIPS.values(), ids=SLIPS.keys())
def test_a_fault_of_the_books_is_detected(scheduler: Scheduler, rule: str, slip: Slip) -> None:
    """Inconsistent books are reported with the violated rule."""
    check_invariants(scheduler)
    slip(scheduler.partitions[ONE])
    with pytest.raises(InvariantBroken, match=rule):
        check_invariants(scheduler)


def test_a_removed_partition_on_the_agenda_is_detected(scheduler: Scheduler) -> None:
    """A partition on the agenda that belongs to no RM is reported."""
    del scheduler.partitions[ONE]
    with pytest.raises(InvariantBroken, match=r"L3: the agenda has .*\[rm1\]default"):
        check_invariants(scheduler)


def test_state_shared_by_rms_is_detected(scheduler: Scheduler) -> None:
    """An object that two RMs share, such as a table of nodes, is reported with both partitions."""
    one, two = scheduler.partitions.values()
    two.nodes = one.nodes
    with pytest.raises(InvariantBroken, match=r"R1: owner of NodeBook: .*\[rm2\].*\[rm1\]"):
        check_invariants(scheduler)
