"""Expected results of preemption (spec § 9, acceptance scenarios), in clusters of records."""

from dataclasses import replace
from typing import Any

import pytest

from licorne_core.standard.preemption.laws import Law, Out
from support.preemption.asking import NOW, A, B, cluster, parent, plans, queue, refusal, runs, victims, waits
from support.preemption.records import Hold, LossRecord, NodeRecord


def test_an_ask_in_a_full_parent_preempts_only_its_siblings() -> None:
    """If its parent is at the maximum, an ask preempts only allocations below that parent, on any node."""
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


@pytest.mark.row(142)
def test_a_queue_exactly_at_its_guarantee_loses_nothing() -> None:
    """Only amounts above the guarantee of a queue may be preempted."""
    world = cluster([queue(A, {"vcore": 5}), queue(B, {"vcore": 12})], runs(B, *range(12)), waits(A, 1))
    refused = refusal(world, f"{A}-w1")
    assert (refused.law, refused.out[Out.BELOW_GUARANTEE]) == (Law.NO_VICTIMS, 1)


@pytest.mark.row(142)
@pytest.mark.parametrize(("memory", "goes"), [(4, Law.NO_VICTIMS), (5, [f"{B}-2"])])
def test_a_queue_at_its_guarantee_loses_no_other_type(memory: int, goes: Any) -> None:
    """An allocation without the guaranteed type is a victim only if its queue exceeds that guarantee."""
    world = cluster(
        [queue(A, {"vcore": 5, "memory": 5}), queue(B, {"memory": 4})],
        runs(B, 1, size={"memory": memory}),
        runs(B, 2, size={"vcore": 12}),
        waits(A, 1, size={"vcore": 1, "memory": 1}),
        nodes=(NodeRecord(name="n1", capacity={"vcore": 12, "memory": 12}),),
    )
    assert victims(world, f"{A}-w1") == goes


def test_promised_amounts_count_as_usage() -> None:
    """Amounts promised to asks of a queue count as usage in the comparison with its guarantee."""
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


def test_a_plan_lists_spare_victims_for_the_rm() -> None:
    """After the necessary victims a plan lists further allocations of the node that may be stopped."""
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


def test_victims_have_a_minimum_runtime() -> None:
    """A victim must have run for the minimum runtime of its leaf; a refusal reports when that time ends."""
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


def test_a_recovered_allocation_runs_since_its_creation() -> None:
    """The runtime of a recovered allocation counts from its creation, not from the recovery."""
    (old,) = runs(B, 0, vcore=12)
    for brought, wanted in ((True, [old.key]), (False, Law.NO_VICTIMS)):
        world = cluster(
            [queue(A, {"vcore": 12}), queue(B, preemption_minimum_runtime=500.0)],
            [replace(old, started=NOW, brought=brought)],
            waits(A, 1),
        )
        assert victims(world, f"{A}-w1") == wanted


def test_the_loss_of_a_leaf_in_an_hour_is_bounded() -> None:
    """Losses, as amounts times seconds, are summed over the last hour and all victims of a plan."""
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
