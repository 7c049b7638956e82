"""What searches keep from one to the next never changes what they find."""

from random import Random

import pytest

from licorne_core.model.apps.requests import MAY_GO
from licorne_core.scheduling.preemption import Law, PreemptionSearch, Refusal, search
from licorne_core.scheduling.preemption.victims import Leaves, age_of
from licorne_core.values.ids import NodeId
from support.preemption.asking import ENDLESS
from support.preemption.building import build
from support.preemption.changing import Changing
from support.preemption.drawing import ASK, NOW, Drawing
from support.preemption.records import Cluster, NodeRecord
from support.preemption.scenes import A, B, cluster, queue, runs, waits


@pytest.mark.worlds(one_in=2)
@pytest.mark.parametrize("glance", [0, 1, 32])
def test_an_old_search_finds_what_a_new_one_finds(part: range, glance: int) -> None:
    """Whatever comes, goes, grows or is told to stop: every answer is that of a fresh search."""
    plans = 0
    for seed in part:
        built = build(Drawing(seed, 14).cluster(), glance)
        app, request = built.request(ASK)
        changing = Changing(built, Random(seed))
        for _ in range(12):
            changing.change()
            fresh = PreemptionSearch(
                built.tree.root, built.nodes, built.applications, built.reserved, built.losses
            )
            for most in (1, 3):
                wanted = fresh.find(app, request, NOW, most=most, steps=ENDLESS)
                found = built.search.find(app, request, NOW, most=most, steps=ENDLESS)
                assert found == wanted, f"seed {seed}"
                built.search.check()
                plans += isinstance(wanted, list)
    assert plans > 0


@pytest.mark.worlds(one_in=4)
def test_the_order_of_a_leaf_is_kept(part: range, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is booked, grows or ends: what may go stands there once, the youngest first."""
    monkeypatch.setattr("licorne_core.scheduling.preemption.victims.MOST_ENDED", 2)
    went = 0
    for seed in part:
        built = build(Drawing(seed, 14).cluster())
        changing, leaves = Changing(built, Random(seed)), Leaves()
        for _ in range(24):
            changing.change()
            for leaf in built.tree.leaves():
                fresh = [one for app in leaf.applications.values() for one in app.requests.values()]
                there = sorted(age_of(one) for one in fresh if one.state in MAY_GO)
                kept = leaves.of(leaf)
                assert [one.age for one in kept.order if one.may_go] == there, f"seed {seed}"
                went += len(kept.order) - len(there)
    assert went > 0


@pytest.mark.parametrize("nodes", [50, 400])
def test_a_search_costs_what_has_changed(nodes: int) -> None:
    """However many nodes there are: once they are known, one that has changed costs a little."""
    built = build(full(nodes, spare=4))
    app, request = built.request(f"{A}-w1")
    assert isinstance(built.search.find(app, request, NOW, most=1), list)
    before = built.search.work
    built.nodes.changed.note(built.nodes.by_id[NodeId("n007")])
    assert isinstance(built.search.find(app, request, NOW, most=1), list)
    assert 0 < built.search.work - before < 50


@pytest.mark.parametrize("nodes", [50, 400])
def test_a_search_in_vain_costs_what_has_changed(nodes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """B may lose one of the two that each node lacks: no node need be looked at to see that."""
    monkeypatch.setattr(search, "MOST_COUNTED", 10)
    built = build(full(nodes, spare=1))
    app, request = built.request(f"{A}-w1")
    built.search.find(app, request, NOW, most=1)
    before = built.search.work
    found = built.search.find(app, request, NOW, most=1)
    assert isinstance(found, Refusal)
    assert found.law is Law.NOT_ENOUGH
    assert 0 < built.search.work - before < 50


def full(nodes: int, spare: int) -> Cluster:
    """Full nodes of B, which may lose so much, and an ask of A for two victims."""
    names = [f"n{number:03}" for number in range(nodes)]
    return cluster(
        [queue(A, {"vcore": 4}), queue(B, {"vcore": 2 * nodes - spare})],
        *[runs(B, 2 * number, 2 * number + 1, node=name) for number, name in enumerate(names)],
        waits(A, 1, vcore=2),
        nodes=tuple(NodeRecord(name=name, capacity={"vcore": 2}) for name in names),
    )
