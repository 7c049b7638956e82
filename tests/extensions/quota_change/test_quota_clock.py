"""The start times of the enforcement of changed maxima (spec § 9.6)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from licorne_core.extensions.quota_change.clock import QuotaClock, QuotaTerms, start_time, terms_of
from licorne_core.model.queues.queue import Queue
from licorne_core.model.queues.tree import QueueTree
from licorne_core.values.resources import Resources
from support.core.trees import queue_at, reload_tree, root_config, tree_of
from support.preemption.asking import result_of

NOW = 1000.0
SET = 990.0
"""A start time before `NOW`."""


def terms(size: int | None, delay: float) -> QuotaTerms:
    """A maximum of memory, or none, and a delay in seconds."""
    return QuotaTerms(None if size is None else {"memory": size}, delay)


ROWS: dict[str, tuple[QuotaTerms, QuotaTerms, bool, float | None, float | None]] = {
    "no delay": (terms(9, 30), terms(5, 0), True, SET, None),
    "no maximum": (terms(9, 30), terms(None, 30), True, SET, None),
    "usage within the maximum": (terms(9, 30), terms(8, 30), False, SET, None),
    "same maximum, a delay where there was none": (terms(5, 0), terms(5, 30), True, None, 1030.0),
    "same maximum, a longer delay": (terms(5, 30), terms(5, 50), True, SET, SET + 20),
    "same maximum, a shorter delay": (terms(5, 30), terms(5, 10), True, SET, SET - 20),
    "lower maximum, another delay": (terms(9, 30), terms(5, 50), True, SET, SET + 20),
    "higher maximum, another delay": (terms(4, 30), terms(5, 10), True, SET, SET - 20),
    "lower maximum, no start time": (terms(9, 30), terms(5, 30), True, None, 1030.0),
    "lower maximum, a delay where there was none": (terms(9, 0), terms(5, 30), True, None, 1030.0),
    "lower maximum, a start time": (terms(9, 30), terms(5, 30), True, SET, SET),
    "higher maximum, a start time": (terms(4, 30), terms(5, 30), True, SET, SET),
    "higher maximum, no start time": (terms(4, 30), terms(5, 30), True, None, None),
    "higher maximum, a delay where there was none": (terms(4, 0), terms(5, 30), True, None, None),
    "a maximum where there was none": (terms(None, 30), terms(5, 30), True, None, 1030.0),
    "nothing changed, no start time": (terms(5, 30), terms(5, 30), True, None, None),
    "nothing changed, a start time": (terms(5, 30), terms(5, 30), True, SET, SET),
    "another delay, no start time": (terms(5, 30), terms(5, 10), True, None, None),
}


@pytest.mark.parametrize(("before", "after", "above", "start", "expected"), ROWS.values(), ids=ROWS.keys())
def test_start_times_follow_the_table(
    before: QuotaTerms, after: QuotaTerms, above: bool, start: float | None, expected: float | None
) -> None:
    """The start time after an update of the configuration follows the table of § 9.6."""
    assert start_time(before, after, above_max=above, start=start, now=NOW) == expected


@pytest.mark.parametrize(
    ("before", "after", "lower"),
    [
        ({"memory": 9}, {"memory": 9, "vcore": 1}, True),
        ({"memory": 9, "vcore": 1}, {"memory": 9}, False),
        ({"memory": 9, "vcore": 1}, {"memory": 10, "vcore": 0}, True),
        ({"memory": 9, "vcore": 1}, {"memory": 9, "vcore": 2}, False),
    ],
)
def test_a_maximum_is_lower_if_it_allows_less_of_any_type(
    before: Resources, after: Resources, lower: bool
) -> None:
    """A maximum is lower if it allows less of any type; a type without a bound is unlimited."""
    expected = NOW + 30 if lower else None
    old, new = QuotaTerms(before, 30.0), QuotaTerms(after, 30.0)
    assert start_time(old, new, above_max=True, start=None, now=NOW) == expected


# The clock of a tree of queues

TREE = """
- name: root
  queues:
  - name: a
    resources: {max: {memory: %d}}
    properties: {quota.preemption.delay: %s}
    queues: [{name: x, resources: {max: {memory: %d}}}, {name: y}]
  - {name: b, properties: {quota.preemption.delay: 10s}, resources: {max: {memory: %d}}}
"""


class Partition:
    """A tree and its clock, as in a partition."""

    def __init__(self, top: int, delay: str, low: int, other: int, *, enabled: bool = True) -> None:
        """Start without usage."""
        self.tree: QueueTree = tree_of(TREE % (top, delay, low, other))
        self.clock = QuotaClock(enabled=enabled)
        self.now = NOW

    def at(self, path: str) -> Queue:
        """The queue of this path."""
        return queue_at(self.tree, path)

    def use(self, path: str, memory: int) -> None:
        """Add to the allocated amount of the leaf and of the queues above it; negative amounts subtract."""
        for queue in self.at(path).lineage:
            queue.allocated["memory"] = queue.allocated.get("memory", 0) + memory

    def reload(self, top: int, delay: str, low: int, other: int, *, enabled: bool | None = None) -> None:
        """Apply another configuration."""
        on = self.clock.enabled if enabled is None else enabled
        was, self.clock.enabled = self.clock.enabled, on
        before = {queue: terms_of(queue, enabled=was) for queue in self.tree.walk()}
        reload_tree(self.tree, root_config(TREE % (top, delay, low, other)))
        for queue, former in before.items():
            self.clock.on_reload(queue, former, self.now)

    def starts(self) -> dict[str, float]:
        """The queues with a start time, in seconds from now."""
        return {
            queue.path: self.clock.start(queue) - self.now
            for queue in self.tree.walk()
            if self.clock.start(queue)
        }

    def wait(self, seconds: int) -> list[tuple[int, list[str]]]:
        """The paths of due queues, for each second at which the clock requests a call."""
        due = []
        for second in range(1, seconds + 1):
            deadline = self.clock.next_deadline(self.now)
            self.now += 1.0
            if deadline is not None:
                assert deadline == self.now
                queues = result_of(self.clock.due(self.now))
                found = [str(q.path) for q in queues if self.clock.take(q, self.now)]
                due += [(second, found)] if found else []
        return due


def test_a_lowered_maximum_is_enforced_once_after_the_delay() -> None:
    """A queue that is still above its maximum after the enforcement is tolerated, and no timer is set."""
    partition = Partition(10, "30s", 10, 10)
    partition.use("root.a.y", 10)
    partition.reload(5, "30s", 5, 10)
    assert partition.starts() == {"root.a": 30.0}
    assert partition.wait(100) == [(30, ["root.a"])]
    assert partition.starts() == {}
    assert partition.clock.next_deadline(partition.now) is None


def test_an_update_without_a_change_enforces_nothing() -> None:
    """After an enforcement only a change of the queue's own maximum starts another."""
    partition = Partition(10, "30s", 10, 10)
    partition.use("root.a.y", 10)
    partition.reload(5, "30s", 5, 10)
    partition.wait(30)
    partition.reload(5, "30s", 5, 9)
    assert partition.starts() == {}
    partition.reload(4, "30s", 4, 9)
    assert partition.starts() == {"root.a": 30.0}


def test_a_queue_within_its_maximum_is_not_enforced() -> None:
    """The check of a queue within its maximum removes its start time."""
    partition = Partition(10, "30s", 10, 10)
    partition.use("root.a.y", 10)
    partition.reload(5, "30s", 5, 10)
    partition.use("root.a.y", -5)
    assert partition.wait(1) == []
    partition.use("root.a.y", 5)
    assert partition.starts() == {}
    assert partition.wait(60) == []


def test_a_queue_below_a_due_queue_waits() -> None:
    """A leaf below a due queue waits for the next check, because both have the same victims."""
    partition = Partition(10, "30s", 10, 10)
    partition.use("root.a.x", 10)
    partition.use("root.b", 10)
    partition.reload(5, "30s", 5, 5)
    assert partition.starts() == {"root.a": 30.0, "root.a.x": 30.0, "root.b": 10.0}
    assert partition.wait(60) == [(10, ["root.b"]), (30, ["root.a"]), (31, ["root.a.x"])]


def test_due_queues_are_in_tree_order() -> None:
    """Due queues are listed in the order of the tree: the child of a before b."""
    partition = Partition(10, "10s", 10, 10)
    partition.use("root.a.x", 10)
    partition.use("root.b", 10)
    partition.reload(10, "10s", 5, 5)
    assert partition.wait(60) == [(10, ["root.a.x", "root.b"])]


def test_parents_are_due_before_their_children() -> None:
    """If a recovered allocation takes a leaf and its parent above their maxima, the parent is due first."""
    partition = Partition(10, "10s", 10, 10)
    partition.use("root.a.x", 11)
    partition.clock.on_growth(partition.at("root.a.x").lineage, partition.now)
    assert partition.wait(60) == [(10, ["root.a"]), (11, ["root.a.x"])]


def test_recovered_and_resized_allocations_are_enforced_after_the_delay() -> None:
    """Recovered and resized allocations start the delay, unless a start time is set already."""
    partition = Partition(10, "30s", 10, 10)
    partition.use("root.b", 11)
    partition.clock.on_growth(partition.at("root.b").lineage, partition.now)
    assert partition.starts() == {"root.b": 10.0}
    partition.now += 4.0
    partition.clock.on_growth(partition.at("root.b").lineage, partition.now)
    assert partition.starts() == {"root.b": 6.0}


def test_growth_within_the_maximum_is_not_enforced() -> None:
    """Recovered allocations within the maximum, or in queues without a delay, set no start time."""
    partition = Partition(10, "30s", 10, 10)
    partition.use("root.b", 10)
    partition.clock.on_growth(partition.at("root.b").lineage, partition.now)
    assert partition.starts() == {}
    partition.reload(10, "none", 5, 10)
    partition.use("root.a.x", 20)
    partition.clock.on_growth(partition.at("root.a.x").lineage, partition.now)
    assert partition.starts() == {}


def test_enforcement_can_be_disabled() -> None:
    """While enforcement is off, no queue has a start time; once it is on, the delays begin."""
    partition = Partition(10, "30s", 10, 10, enabled=False)
    partition.use("root.a.y", 10)
    partition.reload(5, "30s", 5, 10)
    partition.clock.on_growth(partition.at("root.a.y").lineage, partition.now)
    assert partition.starts() == {}
    partition.reload(5, "30s", 5, 10, enabled=True)
    assert partition.starts() == {"root.a": 30.0}
    partition.reload(5, "30s", 5, 10, enabled=False)
    assert partition.starts() == {}


def test_root_and_dynamic_queues_are_never_enforced() -> None:
    """Root, whose maximum is the cluster, and dynamic queues have no start time."""
    tree = tree_of(
        "- {name: root, submitacl: '*', properties: {quota.preemption.delay: 1s}, queues: "
        "[{name: p, parent: true, childtemplate: {resources: {max: {memory: 5}}, "
        "properties: {quota.preemption.delay: 1s}}}]}"
    )
    leaf = queue_at(tree, "root.p")
    leaf = Queue("d", leaf, is_leaf=True, managed=False)
    leaf.max = {"memory": 5}
    leaf.settings = queue_at(tree, "root.p").settings
    tree.root.max = {"memory": 5}
    clock = QuotaClock(enabled=True)
    for queue in leaf.lineage:
        queue.allocated["memory"] = 9
    clock.on_growth(leaf.lineage, NOW)
    for queue in leaf.lineage:
        clock.on_reload(queue, terms_of(queue, enabled=False), NOW)
    assert [clock.start(queue) for queue in leaf.lineage] == [0.0, 0.0, 0.0]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["reload", "use", "grow", "wait"]),
            st.integers(0, 12),
            st.sampled_from(["2s", "5s", "none"]),
        ),
        max_size=30,
    )
)
def test_a_queue_is_due_only_above_its_maximum_and_once_for_each_change(
    steps: list[tuple[str, int, str]],
) -> None:
    """After any order of events, a queue is due only above its maximum, and once for each change."""
    partition = Partition(10, "2s", 10, 10)
    changes = dict.fromkeys((str(queue.path) for queue in partition.tree.walk()), 0)
    for what, number, delay in steps:
        if what == "reload":
            partition.reload(number + 1, delay, number // 2 + 1, 13 - number)
            changes = {path: count + 1 for path, count in changes.items()}
        elif what in ("use", "grow"):
            paths = ["root.a.x", "root.a.y", "root.b"]
            leaf = partition.at(paths[number % 3])
            partition.use(leaf.path, number)
            if what == "grow":
                partition.clock.on_growth(leaf.lineage, partition.now)
                for queue in leaf.lineage:
                    changes[queue.path] += 1
        else:
            for path in (path for _, due in partition.wait(number) for path in due):
                queue = partition.at(path)
                assert queue.allocated["memory"] > (queue.max or {})["memory"]
                assert changes[path] > 0
                changes[path] = 0
        for queue in partition.tree.walk():
            if partition.clock.start(queue):
                assert queue.managed
                assert queue.settings.of("quota_change") > 0
