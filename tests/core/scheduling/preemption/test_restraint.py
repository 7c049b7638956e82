"""How queues are spared: minimum runtimes, loss limits, and victims by their cost."""

import pickle
from dataclasses import replace

from licorne_core.config.schema import VictimOrder
from licorne_core.scheduling.preemption import Law, Losses, Out, loss_of
from licorne_core.values.ids import QueuePath
from support.preemption.asking import refusal, served, victims
from support.preemption.records import LossRecord
from support.preemption.scenes import NOW, A, B, cluster, queue, runs, waits


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


def test_losses_count_for_an_hour() -> None:
    """Each loss stops to count an hour after it, and then the sums are without it exactly."""
    losses, leaf = Losses(), QueuePath(B)
    assert losses.next_change(leaf, 0.0) is None
    losses.add(leaf, loss_of((("vcore", 3),), 0.1), 0.0)
    losses.add(leaf, loss_of((("memory", 2), ("vcore", 1)), 2.0), 1000.0)
    assert losses.lost(leaf, 3599.0) == {"vcore": 2300, "memory": 4000}
    assert losses.next_change(leaf, 3599.0) == 3600.0
    assert losses.lost(leaf, 3600.0) == {"vcore": 2000, "memory": 4000}
    assert losses.lost(QueuePath(A), 3600.0) == {}
    assert losses.lost(leaf, 4600.0) == {}
    assert losses.next_change(leaf, 4600.0) is None


def test_losses_of_leaves_that_are_gone_are_forgotten() -> None:
    """Dynamic queues come and go, and nobody asks after the losses of one that is gone."""
    losses, only = Losses(), Losses()
    for number in range(100):
        losses.add(QueuePath(f"root.gone-{number}"), loss_of((("vcore", 1),), 5.0), NOW)
    for kept in (losses, only):
        kept.add(QueuePath(B), loss_of((("vcore", 1),), 5.0), NOW + 3600)
    assert len(pickle.dumps(losses)) == len(pickle.dumps(only))
