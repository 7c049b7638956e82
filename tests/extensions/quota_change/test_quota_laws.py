"""Laws of the enforcement of a maximum, checked by sums (spec § 9.6)."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from licorne_core.config.schema import QueueSettings
from licorne_core.extensions.quota_change.victims import amount_of
from licorne_core.model.apps.requests import Request, RequestEvent, RequestState
from licorne_core.model.queues.queue import Queue
from licorne_core.model.queues.tree import QueueTree
from licorne_core.standard.preemption.losses import Losses
from licorne_core.values.asks import Allocation, Ask
from licorne_core.values.ids import AllocationKey, NodeId
from licorne_core.values.resources import charge
from support.core.builders import ask
from support.core.trees import enter, queue_at, tree_of
from support.preemption.asking import Enforced, enforced, parts_of

NOW = 100_000.0
TYPES = ("memory", "vcore")
LEAVES = ("root.p.a", "root.p.b", "root.p.c.d", "root.p.c.e")
QUEUES = ("root.p", "root.p.c", *LEAVES)
TREE = "- {name: p, queues: [{name: a}, {name: b}, {name: c, queues: [{name: d}, {name: e}]}]}"
HARMLESS = QueueSettings()

Sizes = dict[str, int]

sizes = st.dictionaries(st.sampled_from(TYPES), st.integers(1, 9), min_size=1)
guarantees = st.none() | st.dictionaries(st.sampled_from(TYPES), st.integers(0, 12))
maxima = st.fixed_dictionaries({"memory": st.integers(0, 20)}, optional={"vcore": st.integers(0, 20)})
events = st.sampled_from(
    [RequestEvent.ALLOCATE] * 4 + [RequestEvent.KEEP_ROOM, RequestEvent.ASSUME, RequestEvent.PREEMPT]
)
settings = st.just(HARMLESS) | st.builds(
    QueueSettings,
    preemption_minimum_runtime=st.sampled_from([0.0, 2000.0]),
    preemption_loss_limit=st.sampled_from([(), (("memory", 20_000),), (("vcore", 0),)]),
)


@st.composite
def wanted(draw: st.DrawFn) -> Ask:
    """A random ask, with any priority and age, and all flags that exempt from preemption."""
    plain = ask(
        "",
        "",
        priority=draw(st.integers(0, 2)),
        created=NOW - draw(st.integers(0, 10_000)),
        required_node=draw(st.sampled_from([None, None, None, "n"])),
        size=draw(sizes),
    )
    return replace(plain, originator=draw(st.booleans()), allow_preempt_self=draw(st.booleans()))


running = st.tuples(st.sampled_from(LEAVES), wanted(), events)


@st.composite
def trees(draw: st.DrawFn) -> QueueTree:
    """A random tree with allocations, guarantees, maxima and settings."""
    tree = tree_of(TREE)
    for path in QUEUES:
        queue = queue_at(tree, path)
        queue.guaranteed = draw(guarantees)
        queue.max = draw(maxima)
        queue.settings = draw(settings)
    apps = {path: enter(queue_at(tree, path), path) for path in LEAVES}
    for number, (path, one, event) in enumerate(draw(st.lists(running, min_size=8, max_size=25))):
        app = apps[path]
        own = replace(one, app_id=app.app_id, key=AllocationKey(f"k{number}"))
        created = one.create_time or 0.0
        request = Request(own, created, number)
        request.follow(RequestEvent.ALLOCATE if event is RequestEvent.PREEMPT else event)
        request.allocation = Allocation(own, NodeId("n"), created, created)
        app.requests[own.key] = request
        for queue in queue_at(tree, path).lineage:
            charge(queue.allocated, own.ask_class.items)
        if event is RequestEvent.PREEMPT:
            request.follow(event)
            for queue in queue_at(tree, path).lineage:
                charge(queue.preempting, own.ask_class.items)
    return tree


def stays(queue: Queue) -> Counter[str]:
    """The amounts of the queue's allocations that are not being stopped."""
    kept: Counter[str] = Counter()
    waiting = [queue]
    while waiting:
        below = waiting.pop()
        waiting += below.children.values()
        for app in below.applications.values():
            for request in app.requests.values():
                if request.state is not RequestState.PREEMPTING:
                    kept.update(dict(request.ask.ask_class.items))
    return kept


def loses(queue: Queue, found: Enforced) -> Counter[str]:
    """The amounts that the queue loses by these victims."""
    lost: Counter[str] = Counter()
    for victim in found.victims:
        leaf: Queue | None = next((q for q in walk(queue) if victim.app.app_id in q.applications), None)
        if leaf is not None:
            lost.update(dict(victim.request.ask.ask_class.items))
    return lost


def walk(queue: Queue) -> list[Queue]:
    """The queue and all queues below it."""
    return [queue, *(below for child in queue.children.values() for below in walk(child))]


def enforce(queue: Queue) -> Enforced:
    """The victims if the maximum of the queue is enforced now."""
    return enforced(queue, Losses(), NOW)


@pytest.mark.slow
@given(trees(), st.sampled_from(QUEUES))
def test_no_queue_loses_below_its_guarantee(tree: QueueTree, path: str) -> None:
    """A queue that loses an amount of a type keeps its guarantee of that type, as do the queues above."""
    found = enforce(queue_at(tree, path))
    for queue in tree.walk():
        for name, lost in loses(queue, found).items():
            guaranteed = (queue.guaranteed or {}).get(name)
            assert guaranteed is None or stays(queue)[name] - lost >= guaranteed


@pytest.mark.slow
@given(trees(), st.sampled_from(QUEUES))
def test_victims_free_at_most_the_excess(tree: QueueTree, path: str) -> None:
    """Victims free at most the excess of each type, and the result reports the freed amounts."""
    queue = queue_at(tree, path)
    found = enforce(queue)
    lost = loses(queue, found)
    assert lost == Counter(found.claimed)
    for name, bound in (queue.max or {}).items():
        excess = max(0, stays(queue)[name] - bound)
        assert found.amount.get(name, 0) <= excess
        if excess:
            assert lost[name] <= found.amount.get(name, 0)
    assert all(found.amount.values())
    assert bool(found.victims) <= bool(found.amount)
    assert len(found.victims) <= found.selected


@pytest.mark.slow
@given(trees(), st.sampled_from(QUEUES))
def test_the_parts_of_leaves_add_up_to_the_amount(tree: QueueTree, path: str) -> None:
    """The parts of all leaves together are the amount to free, or less by rounding.

    A single leaf has all of it. A part is never more than the leaf's excess over its guarantee.
    """
    queue = queue_at(tree, path)
    amount = amount_of(queue)
    parts = parts_of(queue, amount)
    assert [leaf.path for leaf, _ in parts] == [leaf for leaf in LEAVES if leaf.startswith(path)]
    if queue.is_leaf:
        assert parts == [(queue, amount)]
    for name, value in amount.items():
        of_leaves = [part[name] for _, part in parts]
        assert min(of_leaves) >= 0
        spares = [max(0, stays(leaf)[name] - (leaf.guaranteed or {}).get(name, 0)) for leaf, _ in parts]
        assert all(part <= spare for part, spare in zip(of_leaves, spares, strict=True))
        assert sum(of_leaves) <= value
        below = walk(queue)[1:]
        if not any(child.guaranteed for child in below):
            assert sum(of_leaves) >= value - len(below)


@pytest.mark.slow
@given(trees(), st.sampled_from(LEAVES))
def test_no_remaining_candidate_fits(tree: QueueTree, path: str) -> None:
    """Each remaining candidate exceeds the remaining amount, or is protected by a guarantee."""
    leaf = queue_at(tree, path)
    for queue in leaf.lineage:
        queue.settings = HARMLESS
    found = enforce(leaf)
    taken = {victim.request.key for victim in found.victims}
    lost = loses(leaf, found)
    for app in leaf.applications.values():
        for request in app.requests.values():
            size = dict(request.ask.ask_class.items)
            stoppable = request.state in (RequestState.ALLOCATED, RequestState.PLACEHOLDER)
            candidate = stoppable and not request.ask.ask_class.required_node
            if request.key in taken:
                assert candidate
                assert size.keys() & found.amount.keys()
            elif candidate and size.keys() & found.amount.keys():
                amount = amount_of(leaf)
                too_large = any(size[n] > amount[n] - lost[n] for n in size.keys() & amount.keys())
                guaranteed = any(
                    stays(queue)[name] - lost[name] - value < (queue.guaranteed or {})[name]
                    for queue in leaf.lineage
                    for name, value in size.items()
                    if name in (queue.guaranteed or {})
                )
                assert too_large or guaranteed


@pytest.mark.slow
@given(trees(), st.sampled_from(QUEUES))
def test_minimum_runtimes_and_loss_limits_are_kept(tree: QueueTree, path: str) -> None:
    """No victim has run for less than its leaf's minimum runtime, and no leaf loses more than its limit."""
    found = enforce(queue_at(tree, path))
    for leaf in (queue_at(tree, leaf) for leaf in LEAVES):
        lost: Counter[str] = Counter()
        for victim in found.victims:
            if victim.app.app_id in leaf.applications:
                assert victim.request.allocation is not None
                run = NOW - victim.request.allocation.allocation_time
                assert run >= leaf.settings.preemption_minimum_runtime
                for name, value in victim.request.ask.ask_class.items:
                    lost[name] += int(value * run)
        for name, limit in leaf.settings.preemption_loss_limit:
            assert lost[name] <= limit


@pytest.mark.slow
@given(trees(), st.sampled_from(QUEUES))
def test_the_choice_of_victims_changes_nothing_and_is_repeatable(tree: QueueTree, path: str) -> None:
    """A second choice without a change between has the same victims in the same order."""
    found = enforce(queue_at(tree, path))
    assert enforce(queue_at(tree, path)) == found
