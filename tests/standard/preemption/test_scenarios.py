"""What users expect of preemption (spec § 9, acceptance scenarios), in clusters of records."""

from dataclasses import replace
from typing import Any

import pytest

from licorne_core.config.schema import VictimOrder
from licorne_core.model.apps.requests import RequestState
from licorne_core.standard.preemption.laws import Law, Out
from support.preemption.asking import (
    NOW,
    A,
    B,
    cluster,
    parent,
    plans,
    queue,
    refusal,
    runs,
    served,
    victims,
    waits,
)
from support.preemption.records import Hold, LossRecord, NodeRecord


def test_a_full_parent_is_a_fence() -> None:
    """An ask that its parent has no room for takes from its siblings only, wherever they run."""
    world = cluster(
        [
            parent("root.p", most={"vcore": 4}),
            queue("root.p.x", {"vcore": 2}),
            queue("root.p.y"),
            queue("root.v"),
        ],
        runs("root.p.y", 1, 2, 3, 4, node="n2"),
        runs("root.v", 5, 6),
        waits("root.p.x", 1, vcore=2),
        nodes=(
            NodeRecord(name="n1", capacity={"vcore": 4}),
            NodeRecord(name="n2", capacity={"vcore": 4}),
        ),
    )
    (plan,) = plans(world, "root.p.x-w1")
    assert [victim.request.key for victim in plan.other_nodes] == ["root.p.y-4", "root.p.y-3"]
    assert (plan.node.node_id, plan.on_node, plan.start) == ("n1", (), -1)


def test_one_originator_is_dearer_than_many_regular_ones() -> None:
    """The kind of victims comes before their number."""
    world = cluster(
        [queue(A, {"vcore": 9}), queue(B)],
        runs(B, 1, 2, 3),
        runs(B, 4, vcore=3, originator=True),
        waits(A, 1, vcore=3),
        vcore=6,
    )
    assert victims(world, f"{A}-w1") == [f"{B}-3", f"{B}-2", f"{B}-1"]


def test_fewest_victims_then_the_smallest_node_id() -> None:
    """The node where one has to go comes before one where two have to, then ids decide."""
    world = cluster(
        [queue(A, {"vcore": 9}), queue(B)],
        runs(B, 1, 2),
        runs(B, 3, node="n2", vcore=2),
        runs(B, 4, node="n3", vcore=2),
        waits(A, 1, vcore=2),
        nodes=tuple(NodeRecord(name=f"n{n}", capacity={"vcore": 2}) for n in (1, 3, 2)),
    )
    found = plans(world, f"{A}-w1", most=10)
    assert [plan.score_upto(plan.start) for plan in found] == [(0, 1, "n2"), (0, 1, "n3"), (0, 2, "n1")]


def test_nothing_is_guaranteed() -> None:
    """Without a guarantee on the ask's way there is no preemption."""
    world = cluster([queue(A), queue(B)], runs(B, *range(12)), waits(A, 1))
    assert refusal(world, f"{A}-w1").law is Law.NO_GUARANTEE
    other = cluster([queue(A, {"memory": 5}), queue(B)], runs(B, *range(12)), waits(A, 1))
    assert refusal(other, f"{A}-w1").law is Law.NO_GUARANTEE


@pytest.mark.row(142)
def test_exactly_at_its_guarantee_a_queue_gives_nothing() -> None:
    """Only amounts above the guarantee may be taken."""
    world = cluster([queue(A, {"vcore": 5}), queue(B, {"vcore": 12})], runs(B, *range(12)), waits(A, 1))
    refused = refusal(world, f"{A}-w1")
    assert (refused.law, refused.out[Out.BELOW_GUARANTEE]) == (Law.NO_VICTIMS, 1)


@pytest.mark.row(142)
@pytest.mark.parametrize(("memory", "goes"), [(4, Law.NO_VICTIMS), (5, [f"{B}-2"])])
def test_at_its_guarantee_a_queue_gives_no_other_type_either(memory: int, goes: Any) -> None:
    """What has none of the guaranteed type goes only if its queue has too much of that type."""
    world = cluster(
        [queue(A, {"vcore": 5, "memory": 5}), queue(B, {"memory": 4})],
        runs(B, 1, size={"memory": memory}),
        runs(B, 2, size={"vcore": 12}),
        waits(A, 1, size={"vcore": 1, "memory": 1}),
        nodes=(NodeRecord(name="n1", capacity={"vcore": 12, "memory": 12}),),
    )
    assert victims(world, f"{A}-w1") == goes


def test_who_is_going_already_counts_as_gone() -> None:
    """An ask waits for victims that were told to stop, rather than have more of them stopped."""
    world = cluster(
        [queue(A, {"vcore": 5}), queue(B)],
        runs(B, *range(11)),
        runs(B, 11, state=RequestState.PREEMPTING),
        waits(A, 1),
        waits(A, 2, vcore=2),
    )
    assert victims(world, f"{A}-w1") is Law.WAITS_FOR_RELEASES
    assert victims(world, f"{A}-w2") == [f"{B}-10"]


def test_what_was_promised_counts_as_used() -> None:
    """A queue asks for no more victims than its guarantee is good for."""
    promised = waits(A, 9, triggered=True, hold=Hold(node="n1", time=NOW))
    nodes = tuple(NodeRecord(name=f"n{n}", capacity={"vcore": 6}) for n in (1, 2))
    world = cluster(
        [queue(A, {"vcore": 1}), queue(B)],
        runs(B, *range(6)),
        runs(B, *range(6, 12), node="n2"),
        waits(A, 1),
        promised,
        nodes=nodes,
    )
    refused = refusal(world, f"{A}-w1")
    assert (refused.law, refused.settled) == (Law.OVER_GUARANTEE, {"vcore": 1})


@pytest.mark.parametrize(
    ("hold", "other", "wanted"),
    [
        ({"time": NOW - 5}, {"priority": 0}, True),
        ({"time": NOW - 4}, {"priority": 0}, False),
        ({"time": NOW - 5}, {"priority": 1}, False),
        ({"time": NOW - 5}, {"priority": 0, "triggered": True}, False),
        ({"time": NOW - 5, "required": True}, {"priority": 0, "required_node": "n1"}, False),
    ],
)
def test_a_lesser_reservation_gives_way(hold: dict[str, Any], other: dict[str, Any], wanted: bool) -> None:
    """A node that is reserved for others is out, unless they are lesser and had their time."""
    world = cluster(
        [queue(A, {"vcore": 5}), queue(B)],
        runs(B, *range(12)),
        waits(B, 1, hold=Hold(node="n1", **hold), **other),
        waits(A, 1, priority=1),
    )
    assert (victims(world, f"{A}-w1") == [f"{B}-11"]) is wanted
    assert (victims(world, f"{A}-w1") is Law.NODES_KEPT) is not wanted


def test_a_priority_fence_hides_what_is_inside() -> None:
    """Below a fence of low offset everything may go, and below one of high offset nothing."""
    for offset, wanted in ((0, [f"{B}-11"]), (1, [f"{B}-11"]), (2, Law.NO_VICTIMS)):
        world = cluster(
            [queue(A, {"vcore": 5}), queue(B, priority_fence=True, priority_offset=offset)],
            runs(B, *range(12), priority=1000),
            waits(A, 1, priority=1),
        )
        assert victims(world, f"{A}-w1") == wanted


def test_spare_victims_are_offered_where_the_rm_judges() -> None:
    """Behind its victims, the plan has those that could go as well without breaking a law."""
    world = cluster(
        [queue(A, {"vcore": 5}), queue(B, {"vcore": 8})],
        runs(B, *range(10)),
        runs(A, 1, 2),
        waits(A, 1, predicate="arm"),
    )
    (plan,) = plans(world, f"{A}-w1")
    assert [victim.request.key for victim in plan.on_node] == [f"{B}-9"]
    assert [victim.request.key for victim in plan.spare] == [f"{B}-8"]
    assert plan.start == 0


# Restraint: minimum runtimes, loss limits, and victims by their cost


def test_too_young_victims_are_left_until_they_have_run() -> None:
    """The minimum runtime is the victims' leaf's, and the refusal says when it is over."""
    world = cluster(
        [queue(A, {"vcore": 5}), queue(B, preemption_minimum_runtime=995.0)],
        runs(B, *range(6, 18)),
        waits(A, 1),
    )
    refused = refusal(world, f"{A}-w1")
    assert (refused.law, refused.out[Out.TOO_YOUNG]) == (Law.NO_VICTIMS, 12)
    assert refused.until == NOW + 1
    later = replace(world, now=NOW + 1)
    assert victims(later, f"{A}-w1") == [f"{B}-6"]


def test_what_an_rm_brought_along_runs_since_it_was_asked_for() -> None:
    """After a recovery everything would be young otherwise."""
    (old,) = runs(B, 0, vcore=12)
    for brought, wanted in ((True, [old.key]), (False, Law.NO_VICTIMS)):
        world = cluster(
            [queue(A, {"vcore": 12}), queue(B, preemption_minimum_runtime=500.0)],
            [replace(old, started=NOW, brought=brought)],
            waits(A, 1),
        )
        assert victims(world, f"{A}-w1") == wanted


def test_a_leaf_loses_no_more_in_an_hour_than_it_may() -> None:
    """Losses are amounts times seconds; those of the last hour and of the same plan add up."""
    limited = queue(B, preemption_loss_limit=(("vcore", 2000),))
    world = cluster([queue(A, {"vcore": 9}), limited], runs(B, *range(12)), waits(A, 1), waits(A, 2, vcore=3))
    assert victims(world, f"{A}-w1") == [f"{B}-11"]
    assert victims(world, f"{A}-w2") is Law.NOT_ENOUGH
    lost = LossRecord(leaf=B, time=NOW - 3000, size={"vcore": 1}, seconds=1500.0)
    burnt = replace(world, losses=(lost,))
    refused = refusal(burnt, f"{A}-w1")
    assert (refused.law, refused.out[Out.LOSS_LIMIT]) == (Law.NO_VICTIMS, 12)
    assert refused.until == NOW + 600
    assert victims(replace(world, losses=(replace(lost, time=NOW - 3600),)), f"{A}-w1") == [f"{B}-11"]


def test_by_cost_the_cheapest_goes_first() -> None:
    """The asking leaf may want the least priority, then the least cost times seconds run."""
    tagged = {number: {"licorne/preemption-cost": text} for number, text in enumerate("590x")}
    world = cluster(
        [queue(A, {"vcore": 9}, preemption_victim_order=VictimOrder.COST), queue(B)],
        *[runs(B, number, tags=tags) for number, tags in tagged.items()],
        runs(B, 9, priority=-1, tags=tagged[1]),
        waits(A, *range(5)),
        vcore=5,
    )
    gone = []
    for number in range(5):
        keys = victims(world, f"{A}-w{number}")
        assert not isinstance(keys, Law)
        gone += keys
        world = served(world, [f"{A}-w{number}"])
    assert gone == [f"{B}-{number}" for number in (9, 2, 3, 0, 1)]
