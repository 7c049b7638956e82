"""Choice of victims for a changed maximum (spec § 9.6)."""

from dataclasses import replace

import pytest

from licorne_core.extensions.quota_change.victims import amount_of
from licorne_core.messages.commands import PredicatePolicy
from licorne_core.model.queues.queue import Queue
from licorne_core.partitions.partition import Partition
from licorne_core.standard.preemption.losses import Losses
from licorne_core.values.asks import Ask
from licorne_core.values.ids import AllocationKey, AppId, NodeId, QueuePath
from support.core.builders import app, apps, ask, asks, config, node, nodes, register, reload
from support.core.driver import START, Driver
from support.preemption.asking import Enforced, enforced, parts_of

HOUR = 3600.0


class Scene:
    """A core with a large node and replayed allocations."""

    def __init__(self, queues: str, predicates: PredicatePolicy | None = None) -> None:
        """Start without allocations."""
        self.driver = Driver()
        self.losses = Losses()
        self.driver.do(register(config(queues), predicates=predicates))
        self.driver.do(nodes(node("n", memory=10_000, vcore=10_000, pods=1000)))

    @property
    def partition(self) -> Partition:
        """The only partition."""
        return self.driver.partition

    def queue(self, path: str) -> Queue:
        """The queue of this path."""
        found = self.partition.tree.get(path)
        assert found is not None
        return found

    def run(self, path: str, *running: Ask) -> None:
        """Replay allocations in the leaf, in the applications that they name."""
        for one in running:
            if one.app_id not in self.partition.applications:
                self.driver.do(apps(app(one.app_id, path)))
            self.driver.do(asks(one if one.node_id else replace(one, node_id=NodeId("n"))))

    def follow(self, queues: str) -> None:
        """Apply another configuration."""
        self.driver.do(reload(config(queues)))

    def preempt(self, app_id: str, key: str) -> None:
        """Let preemption ask the RM to stop the allocation."""
        app = self.partition.applications[AppId(app_id)]
        self.partition.allocations.preempt(app, app.requests[AllocationKey(key)])

    def enforce(self, path: str, after: float = 0.0) -> Enforced:
        """The victims if the queue's maximum is enforced after this number of seconds."""
        return enforced(self.queue(path), self.losses, self.driver.now + after)

    def keys(self, path: str, after: float = 0.0) -> list[str]:
        """The keys of the victims."""
        return [victim.request.key for victim in self.enforce(path, after).victims]


def willing(of: Ask) -> Ask:
    """The same ask with permission to be preempted."""
    return replace(of, allow_preempt_self=True)


def a_leaf(size: str, rest: str = "") -> str:
    """A leaf with this maximum."""
    return f"[{{name: a, resources: {{max: {{{size}}}{rest}}}}}]"


def with_properties(size: str, properties: str) -> str:
    """A leaf with this maximum and these properties."""
    return f"[{{name: a, resources: {{max: {{{size}}}}}, properties: {{{properties}}}}}]"


# The amount


def test_only_the_excess_is_stopped() -> None:
    """The amount to stop has only the types above the maximum."""
    scene = Scene(a_leaf("memory: 10, vcore: 10m, pods: 5"))
    scene.run("root.a", ask("app", "k", memory=10, vcore=4, pods=5))
    scene.follow(a_leaf("memory: 7, vcore: 4m"))
    assert amount_of(scene.queue("root.a")) == {"memory": 3}


def test_present_victims_count_as_ended() -> None:
    """Allocations that are being stopped count as ended."""
    scene = Scene(a_leaf("memory: 10"))
    scene.run("root.a", ask("app", "k", memory=2), ask("app", "l", memory=8))
    scene.preempt("app", "k")
    scene.follow(a_leaf("memory: 7"))
    assert amount_of(scene.queue("root.a")) == {"memory": 1}
    scene.follow(a_leaf("memory: 8"))
    assert amount_of(scene.queue("root.a")) == {}


def test_ancestors_do_not_drop_below_their_guarantees() -> None:
    """A leaf loses at most the amount by which an ancestor exceeds its guarantee, perhaps nothing."""
    tree = "[{{name: p, resources: {{guaranteed: {{memory: {}}}}}, queues: {}}}]"
    scene = Scene(tree.format(8, a_leaf("memory: 10")))
    scene.run("root.p.a", ask("app", "k", memory=10))
    scene.follow(tree.format(8, a_leaf("memory: 5")))
    assert amount_of(scene.queue("root.p.a")) == {"memory": 2}
    scene.follow(tree.format(12, a_leaf("memory: 5")))
    assert amount_of(scene.queue("root.p.a")) == {"memory": 0}


CHILDREN = (
    "[{name: p, resources: {max: {memory: %d}}, queues: ["
    "{name: a, resources: {guaranteed: {memory: 2}}}, {name: b}, "
    "{name: c, queues: [{name: d}, {name: e, resources: {guaranteed: {memory: 3}}}]}]}]"
)


def test_children_are_reduced_in_proportion_to_their_excess() -> None:
    """Amounts are divided in proportion to the excess, rounded down, at each level of the tree."""
    scene = Scene(CHILDREN % 100)
    scene.run("root.p.a", ask("in-a", "a", memory=12))
    scene.run("root.p.b", ask("in-b", "b", memory=5))
    scene.run("root.p.c.d", ask("in-d", "d", memory=4))
    scene.run("root.p.c.e", ask("in-e", "e", memory=4))
    scene.follow(CHILDREN % 13)
    parent = scene.queue("root.p")
    assert amount_of(parent) == {"memory": 12}
    # The excess over guarantees is 10 in a, 5 in b and 8 in c; below c it is 4 in d and 1 in e.
    parts = {leaf.path: part["memory"] for leaf, part in parts_of(parent, amount_of(parent))}
    assert parts == {"root.p.a": 5, "root.p.b": 2, "root.p.c.d": 3, "root.p.c.e": 0}


def test_a_leaf_loses_no_type_without_an_excess() -> None:
    """A leaf without an excess of vcore has no victim that uses vcore, although it has to free memory."""
    tree = (
        "[{name: p, resources: {max: {memory: %d, vcore: %dm}}, "
        "queues: [{name: a, resources: {guaranteed: {vcore: 1m}}}, {name: b}]}]"
    )
    scene = Scene(tree % (10, 7))
    scene.run("root.p.a", ask("in-a", "av", vcore=1))
    scene.run("root.p.a", ask("in-a", "a", memory=2, vcore=3), ask("in-a", "al", memory=2))
    scene.run("root.p.b", ask("in-b", "b", memory=2, vcore=3), ask("in-b", "bl", memory=2))
    scene.follow(tree % (4, 6))
    assert scene.keys("root.p") == ["al", "bl"]
    assert scene.enforce("root.p").selected == 4


# The choice


def test_candidates_larger_than_the_amount_are_skipped() -> None:
    """A candidate that exceeds the remaining amount is skipped, so less may be freed than the excess."""
    scene = Scene(a_leaf("memory: 20"))
    scene.run("root.a", *(ask("app", f"k{size}", memory=size) for size in (2, 3, 4, 11)))
    scene.follow(a_leaf("memory: 12"))
    found = scene.enforce("root.a")
    assert [victim.request.key for victim in found.victims] == ["k2", "k3"]
    assert found.amount == {"memory": 8}
    assert found.claimed == {"memory": 5}
    assert found.selected == 4
    assert found.victims[0].app.app_id == "app"


def test_a_queue_within_its_maximum_has_no_victims() -> None:
    """A queue within its maximum has neither victims nor candidates."""
    scene = Scene(a_leaf("memory: 20"))
    scene.run("root.a", ask("app", "k", memory=20))
    assert scene.enforce("root.a") == Enforced({}, 0, (), {})


def test_a_victim_may_free_types_that_are_within_the_maximum() -> None:
    """A victim may free more of a type that is within the maximum, as long as guarantees are kept."""
    for guaranteed, expected in ((5, ["k"]), (6, [])):
        scene = Scene(a_leaf("memory: 20", f", guaranteed: {{vcore: {guaranteed}m}}"))
        scene.run("root.a", ask("app", "k", memory=8, vcore=5), ask("app", "l", memory=12, vcore=5))
        scene.follow(a_leaf("memory: 12", f", guaranteed: {{vcore: {guaranteed}m}}"))
        assert scene.keys("root.a") == expected


def test_exempt_allocations_are_no_candidates() -> None:
    """Allocations without a type in excess, with a required node, or being stopped are no candidates."""
    scene = Scene(a_leaf("memory: 40"))
    scene.run(
        "root.a",
        ask("app", "other", pods=1),
        ask("app", "daemon", memory=1, on_node="n", required_node="n"),
        ask("app", "going", memory=1),
        ask("app", "victim", memory=1),
        ask("app", "large", memory=30),
    )
    scene.preempt("app", "going")
    scene.follow(a_leaf("memory: 12"))
    assert scene.enforce("root.a").selected == 2
    assert scene.keys("root.a") == ["victim"]


def test_an_assumed_allocation_is_no_candidate() -> None:
    """An assumed allocation, which the RM does not know, is no candidate."""
    scene = Scene(a_leaf("memory: 40"), PredicatePolicy())
    scene.run("root.a", ask("app", "k", memory=20))
    scene.driver.do(asks(ask("app", "assumed", predicate="any", memory=10)))
    scene.follow(a_leaf("memory: 5"))
    assert amount_of(scene.queue("root.a")) == {"memory": 25}
    assert scene.keys("root.a") == ["k"]


def test_the_order_of_victims() -> None:
    """Victims are ordered by opt-in, originator, number of types, priority, age in hours, size, and name."""
    order = [
        willing(ask("app", "01-willing", memory=9, vcore=1, priority=9)),
        replace(willing(ask("app", "02-willing-originator", memory=9, vcore=1)), originator=True),
        ask("app", "03-low", memory=9, vcore=1, priority=-1),
        ask("app", "04-small", memory=2, vcore=2),
        ask("app", "05-name", memory=3, vcore=2),
        ask("app", "06-name", memory=3, vcore=2),
        ask("bpp", "00-name", memory=3, vcore=2),
        ask("app", "08-old", memory=1, vcore=1, created=START - HOUR),
        ask("app", "09-high", memory=1, vcore=1, priority=1),
        ask("app", "10-one-type", memory=1),
        replace(ask("app", "11-originator", memory=1, vcore=1), originator=True),
    ]
    scene = Scene(a_leaf("memory: 100, vcore: 100m"))
    scene.run("root.a", *order[::-1])
    scene.follow(a_leaf("memory: 0, vcore: 0m"))
    assert scene.keys("root.a") == [one.key for one in order]


def test_ages_are_compared_in_whole_hours() -> None:
    """If ages are equal in whole hours the smaller one is stopped first, otherwise the younger one."""
    for age, expected in ((HOUR - 1, ["small", "large"]), (HOUR, ["large", "small"])):
        scene = Scene(a_leaf("memory: 100"))
        scene.run(
            "root.a",
            ask("app", "small", memory=1, created=START - age),
            ask("app", "large", memory=2, created=START),
        )
        scene.follow(a_leaf("memory: 0"))
        assert scene.keys("root.a") == expected


# Restraint


def test_the_minimum_runtime_protects_victims() -> None:
    """The runtime counts from the creation for recovered allocations, and from the placement for others."""
    young = "preemption.minimum.runtime: 60s"
    scene = Scene(with_properties("memory: 100", young))
    scene.run("root.a", ask("app", "recovered", memory=1, created=START - 50))
    scene.driver.do(asks(ask("app", "placed", memory=2, created=START - 50)))
    scene.follow(with_properties("memory: 0", young))
    assert scene.keys("root.a", after=9.0) == []
    assert scene.keys("root.a", after=10.0) == ["recovered"]
    assert scene.keys("root.a", after=59.0) == ["recovered"]
    assert scene.keys("root.a", after=60.0) == ["recovered", "placed"]


@pytest.mark.parametrize(
    ("lost", "expected"),
    [(0, ["k1", "k2"]), (40_000, ["k1", "k2"]), (40_001, ["k1"]), (90_001, [])],
)
def test_the_loss_limit_of_a_leaf_applies(lost: int, expected: list[str]) -> None:
    """A victim is spared if the work lost in the leaf, with its own, would exceed the limit."""
    limit = "preemption.loss.limit: memory=100"
    scene = Scene(with_properties("memory: 100", limit))
    scene.run("root.a", ask("app", "k1", memory=1), ask("app", "k2", memory=5, vcore=9))
    scene.follow(with_properties("memory: 0", limit))
    scene.losses.add(QueuePath("root.a"), (("memory", lost),), scene.driver.now)
    assert scene.keys("root.a", after=10.0) == expected
