"""The check of waiting items detects every kind of fault."""

from collections.abc import Callable
from typing import Any

import pytest

from licorne_core.model.apps.groups import AskGroup
from licorne_core.model.queues.queue import Queue
from licorne_core.partitions.partition import Partition
from licorne_core.scheduling.waiting.blockers import Blocker, RunningLimit
from licorne_core.scheduling.waiting.shortages import QuotaPool
from licorne_core.values.errors import InvariantBroken
from licorne_core.values.ids import AllocationKey, AppId, NodeId
from licorne_core.views.audit.invariants import check_invariants
from licorne_core.views.audit.rules import check_waiting
from support.core.builders import MANY_RESERVED, app, apps, ask, asks, config, node, nodes, register
from support.core.driver import Driver

APP = AppId("large")
Slip = Callable[[Partition], object]


@pytest.fixture
def core() -> Driver:
    """Two nodes with room for 5 thousandths of a core each, and three waiting asks.

    One ask requests 6, one exceeds the maximum of its queue, and one waits for the end of an application.
    """
    driver = Driver()
    leaves = "[{name: a}, {name: b, resources: {max: {vcore: 1m}}}, {name: c, maxapplications: 1}]"
    driver.do(
        register(config(leaves, properties=MANY_RESERVED)),
        nodes(node("n1", vcore=10), node("n2", vcore=10)),
        apps(app("large", "root.a"), app("over", "root.b")),
        apps(app("runs", "root.c"), app("starts", "root.c")),
        asks(ask("runs", "r1", vcore=5), ask("runs", "r2", vcore=5)),
        asks(ask("large", "k", vcore=6), ask("over", "k", vcore=2), ask("starts", "k", vcore=1)),
    )
    return driver


def group_of(partition: Partition, app_id: str) -> AskGroup:
    """The only ask group of an application."""
    (group,) = partition.applications[AppId(app_id)].groups.values()
    return group


def leaf_of(partition: Partition, path: str) -> Queue:
    """The leaf of this path."""
    leaf = partition.tree.get(path)
    assert leaf is not None
    return leaf


def blocker_of(partition: Partition, app_id: str) -> Blocker:
    """The blocker of an application or of its asks."""
    owner = partition.applications[AppId(app_id)]
    found: Any = owner.blocker or group_of(partition, app_id).blocker
    assert isinstance(found, Blocker)
    return found


def grow(partition: Partition) -> None:
    """Enlarge a node without a wake-up."""
    partition.nodes.resize(partition.nodes.by_id[NodeId("n1")], {"vcore": 20})


def off_waiting_line(app_id: str, level: int) -> Slip:
    """Remove the path of a parked item from the blocker's lines on one level."""

    def slip(partition: Partition) -> None:
        rankings = [
            partition.applications[AppId(app_id)].ranking,
            leaf_of(partition, "root.b").ranking,
            partition.tree.root.ranking,
        ]
        del blocker_of(partition, app_id).waiting_lines[rankings[level]]

    return slip


def activate(partition: Partition) -> None:
    """Activate an item that cannot be served."""
    partition.applications[AppId("over")].ranking.activate(group_of(partition, "over"))


def raise_maximum(partition: Partition) -> None:
    """Remove the maximum of a queue without a wake-up."""
    leaf_of(partition, "root.b").max = None


def misplace(partition: Partition) -> None:
    """Let an application refer to a blocker that does not list it."""
    partition.applications[APP].blocker = blocker_of(partition, "starts")


SLIPS: dict[str, tuple[str, Slip]] = {
    "room on a node": ("W1: <Request k of large", grow),
    "room in a queue": ("W1: <Request k of over", raise_maximum),
    "a place to start": (
        "W1: <Request k of starts",
        lambda p: setattr(leaf_of(p, "root.c"), "max_applications", 2),
    ),
    "nothing in an application": ("W2: ", off_waiting_line("over", 0)),
    "nothing in a queue": ("W2: .* has not <Application over", off_waiting_line("over", 1)),
    "nothing below root": ("W2: .* has not <Queue root.b", off_waiting_line("over", 2)),
    "active": ("W2: .* is active", activate),
    "blocker of others": ("W2: ", misplace),
    "maximum in nobody's way": (
        "W3: ",
        lambda p: p.wakeups.blockers.get(QuotaPool, p.tree.root).shortage((("vcore", 99),)),
    ),
    "limit in nobody's way": ("W3: ", lambda p: p.wakeups.blockers.get(RunningLimit, p.tree.root)),
}


@pytest.mark.parametrize(("rule", "slip"), SLIPS.values(), ids=SLIPS.keys())
def test_a_fault_of_waiting_items_is_detected(core: Driver, rule: str, slip: Slip) -> None:
    """Inconsistent state of waiting items and blockers is reported with the violated rule."""
    partition = core.partition
    check_waiting(partition)
    slip(partition)
    with pytest.raises(InvariantBroken, match=rule):
        check_waiting(partition)


def test_a_reserved_ask_that_could_be_served_is_detected(core: Driver) -> None:
    """Reserved asks are checked one by one, not only the first of each group."""
    core.do(asks(ask("large", "other", vcore=7)))
    core.wait(3)
    partition = core.partition
    assert set(partition.applications[APP].reserved) == {AllocationKey("k"), AllocationKey("other")}
    check_waiting(partition)
    grow(partition)
    with pytest.raises(InvariantBroken, match="W1: "):
        check_waiting(partition)


def test_an_item_that_could_be_served_is_a_fault_only_when_idle(core: Driver) -> None:
    """An item that could be served may wait until the next turn, but not in an idle partition."""
    partition = core.partition
    grow(partition)
    partition.wakeups.waiting.runnable = True
    check_waiting(partition)


def test_the_check_of_the_books_includes_waiting_items(core: Driver) -> None:
    """`check_invariants` detects a blocker without items."""
    partition = core.partition
    partition.wakeups.blockers.get(RunningLimit, partition.tree.root)
    with pytest.raises(InvariantBroken, match="W3: "):
        check_invariants(core.scheduler)
