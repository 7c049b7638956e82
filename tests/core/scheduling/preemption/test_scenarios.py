"""What users expect of preemption (spec § 9, acceptance scenarios), in clusters of records."""

from dataclasses import replace
from typing import Any

import pytest

from licorne_core.config.properties import PreemptionPolicy
from licorne_core.model.apps.requests import RequestState
from licorne_core.scheduling.preemption import Law, Out
from support.preemption.asking import plans, refusal, served, used, victims
from support.preemption.records import Hold, NodeRecord
from support.preemption.scenes import NOW, A, B, cluster, parent, queue, runs, waits


@pytest.mark.row(145)
def test_siblings_get_what_they_are_guaranteed() -> None:
    """With 5 guaranteed each and usage 10 and 2, waiting asks take it to 7 and 5, no further."""
    world = cluster(
        [queue(A, {"vcore": 5}), queue(B, {"vcore": 5})],
        runs(B, *range(10)),
        runs(A, 0, 1),
        waits(A, *range(8)),
    )
    after = served(world, [f"{A}-w{number}" for number in range(8)])
    assert (used(after, B), used(after, A)) == (7, 5)
    last = refusal(after, f"{A}-w7")
    assert last.law is Law.OVER_GUARANTEE
    assert (last.queue, last.requested) == (A, {"vcore": 1})
    assert (last.settled, last.guaranteed) == ({"vcore": 5}, {"vcore": 5})


@pytest.mark.row(140, 142)
def test_many_asks_kill_nobody_below_its_guarantee() -> None:
    """A storm of asks stops where the other queue has what it is guaranteed."""
    world = cluster(
        [queue(A, {"vcore": 30}), queue(B, {"vcore": 5})], runs(B, *range(12)), waits(A, *range(20))
    )
    after = served(world, [f"{A}-w{number}" for number in range(20)])
    assert (used(after, B), used(after, A)) == (5, 7)
    assert refusal(after, f"{A}-w19").law is Law.NO_VICTIMS


@pytest.mark.row(143)
def test_offsets_let_a_queue_of_high_priority_take_what_it_is_due() -> None:
    """High goes from 0 to its 6 and low from 18 to 12; without the offset it gets nothing."""
    for offset, wanted in ((10, (12, 6)), (0, (18, 0))):
        world = cluster(
            [
                queue("root.high", {"vcore": 6}, priority_offset=offset),
                queue("root.low", {"vcore": 6}),
            ],
            runs("root.low", *range(18), priority=5),
            waits("root.high", *range(9)),
            vcore=18,
        )
        after = served(world, [f"root.high-w{number}" for number in range(9)])
        assert (used(after, "root.low"), used(after, "root.high")) == wanted


@pytest.mark.row(144)
def test_a_fence_binds_those_inside_only() -> None:
    """Who is inside a fence takes nothing outside; who is outside takes inside."""
    world = cluster(
        [
            parent("root.f", preemption=PreemptionPolicy.FENCE),
            queue("root.f.x", {"vcore": 2}),
            queue("root.o", {"vcore": 2}),
            queue("root.v"),
        ],
        runs("root.v", *range(6)),
        waits("root.f.x", 1),
        waits("root.o", 1),
        vcore=6,
    )
    assert victims(world, "root.f.x-w1") is Law.NO_VICTIMS
    assert victims(world, "root.o-w1") == ["root.v-5"]
    inside = replace(
        world,
        requests=(*runs("root.f.x", *range(6)), *waits("root.o", 1)),
    )
    assert victims(inside, "root.o-w1") == ["root.f.x-5"]


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


@pytest.mark.row(146)
def test_a_disabled_queue_never_loses() -> None:
    """An interactive queue keeps what it has above its guarantee."""
    world = cluster(
        [
            queue(A, {"vcore": 5}),
            queue(B, {"vcore": 1}, preemption=PreemptionPolicy.DISABLED),
        ],
        runs(B, *range(12)),
        waits(A, 1),
    )
    refused = refusal(world, f"{A}-w1")
    assert refused.law is Law.NO_VICTIMS
    assert refused.out[Out.DISABLED_POLICY] == 1


@pytest.mark.row(147)
def test_a_scavenger_loses_and_who_is_within_its_guarantee_does_not() -> None:
    """The queue with the least guarantee is above it first, so it is the one to lose."""
    world = cluster(
        [queue(A, {"vcore": 4}), queue(B, {"vcore": 6}), queue("root.s", {"vcore": 1})],
        runs(B, *range(6)),
        runs("root.s", *range(6)),
        waits(A, *range(4)),
    )
    after = served(world, [f"{A}-w{number}" for number in range(4)])
    assert (used(after, A), used(after, B), used(after, "root.s")) == (4, 6, 2)


@pytest.mark.row(149)
def test_who_opted_out_and_originators_go_last() -> None:
    """Regular ones go first, then originators, then who opted out; the youngest of each first."""
    requests = [
        *runs(B, 1, 2),
        *runs(B, 3, 4, originator=True),
        *runs(B, 5, opted_in=False),
        *runs(B, 6, originator=True, opted_in=False),
    ]
    world = cluster([queue(A, {"vcore": 9}), queue(B)], requests, waits(A, *range(6)), vcore=6)
    gone = []
    for number in range(6):
        (plan,) = plans(world, f"{A}-w{number}")
        gone += [victim.request.key for victim in plan.victims]
        world = served(world, [f"{A}-w{number}"])
    assert gone == [f"{B}-{number}" for number in (2, 1, 4, 3, 5, 6)]


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
    assert [plan.score for plan in found] == [(0, 1, "n2"), (0, 1, "n3"), (0, 2, "n1")]


def test_nothing_is_guaranteed() -> None:
    """Without a guarantee on the ask's way there is no preemption."""
    world = cluster([queue(A), queue(B)], runs(B, *range(12)), waits(A, 1))
    assert refusal(world, f"{A}-w1").law is Law.NO_GUARANTEE
    other = cluster([queue(A, {"memory": 5}), queue(B)], runs(B, *range(12)), waits(A, 1))
    assert refusal(other, f"{A}-w1").law is Law.NO_GUARANTEE


@pytest.mark.row(142)
def test_exactly_at_its_guarantee_a_queue_gives_nothing() -> None:
    """Only what is above the guarantee may go."""
    world = cluster(
        [queue(A, {"vcore": 5}), queue(B, {"vcore": 12})], runs(B, *range(12)), waits(A, 1)
    )
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
def test_a_lesser_reservation_gives_way(
    hold: dict[str, Any], other: dict[str, Any], wanted: bool
) -> None:
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
