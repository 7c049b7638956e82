"""Victims for an ask that requires its node (spec § 9.5)."""

from typing import Any

import pytest

from licorne_core.model.apps.requests import RequestState
from licorne_core.standard.preemption.covering import required_node_victims, stays_too_full
from licorne_core.values.ids import NodeId
from support.preemption.asking import B, cluster, keys, queue, runs, waits
from support.preemption.building import build
from support.preemption.records import NodeRecord, RequestRecord

DAEMONS = "root.daemons"


def daemon_victims(*requests: list[RequestRecord], vcore: int = 1, **ask: Any) -> list[str]:
    """Victims on a node of twelve cores for a daemon, whose queue has no guarantee."""
    wanted = waits(DAEMONS, 1, vcore=vcore, required_node="n1", **ask)
    world = cluster([queue(DAEMONS), queue(B, {"vcore": 12})], *requests, wanted)
    built = build(world)
    app, request = built.request(f"{DAEMONS}-w1")
    node = built.nodes.by_id[NodeId("n1")]
    return keys(required_node_victims(app, request, node, built.applications, built.search.units()))


def test_guarantees_do_not_protect() -> None:
    """A daemon preempts in a queue that is within its guarantee; the youngest is stopped first."""
    assert daemon_victims(runs(B, *range(12))) == [f"{B}-11"]


def test_regular_ones_then_opted_out_then_originators() -> None:
    """The criteria are the kind, then the lower priority, then the younger, then the smaller."""
    gone = daemon_victims(
        runs(B, 1, 2),
        runs(B, 3, priority=-1),
        runs(B, 4, opted_in=False),
        runs(B, 5, originator=True),
        runs(B, 6, originator=True, opted_in=False),
        runs(B, 7, opted_in=False, vcore=4),
        runs(DAEMONS, 8, vcore=2, required_node="n1"),
        vcore=10,
    )
    assert gone == [f"{B}-{number}" for number in (3, 2, 1, 7, 4, 6, 5)]


def test_of_equal_age_the_smaller_goes_first() -> None:
    """Sizes are added up over the types of the ask."""
    same = {"created": 5.0, "started": 5.0}
    small = [_aged(one, same) for one in runs(B, 1, 2)]
    large = [_aged(one, same) for one in runs(B, 0, vcore=10)]
    assert daemon_victims(large, small) == [f"{B}-1"]


def _aged(one: RequestRecord, times: dict[str, float]) -> RequestRecord:
    return RequestRecord(**{**vars(one), **times})


def test_higher_priorities_and_present_victims_are_excluded() -> None:
    """Allocations of higher priority and present victims are no victims."""
    gone = daemon_victims(
        runs(B, *range(4), priority=1),
        runs(B, 4, 5),
        runs(B, 6, 7, state=RequestState.RELEASING),
        runs(B, *range(8, 12), node="n1", required_node="n1"),
        vcore=2,
    )
    assert gone == [f"{B}-5", f"{B}-4"]


def test_no_victims_without_enough_room() -> None:
    """There are no victims if all of them would not free enough room."""
    assert daemon_victims(runs(B, *range(10), priority=1), runs(B, 10, 11), vcore=3) == []


@pytest.mark.parametrize(("larger", "is_vain"), [(4, True), (5, False)])
def test_no_victims_while_the_cluster_remains_overfull(larger: int, is_vain: bool) -> None:
    """Another node is beyond its capacity: even without the victims, the total is too small."""
    nodes = (
        NodeRecord(name="n1", capacity={"vcore": 12}),
        NodeRecord(name="n2", capacity={"vcore": larger}),
    )
    (ask,) = waits(DAEMONS, 1, required_node="n1")
    queues = [queue(DAEMONS), queue(B)]
    others = runs(B, *range(20, 25), node="n2")
    built = build(cluster(queues, runs(B, *range(12)), others, [ask], nodes=nodes))
    app, request = built.request(ask.key)
    node = built.nodes.by_id[NodeId("n1")]
    victims = required_node_victims(app, request, node, built.applications, built.search.units())
    assert keys(victims) == [f"{B}-11"]
    assert stays_too_full(app.leaf.lineage[-1], request, node, victims) is is_vain


def test_no_further_victims_if_present_ones_suffice() -> None:
    """Present victims already free enough room."""
    going = runs(B, 0, state=RequestState.PREEMPTING)
    assert daemon_victims(going, runs(B, *range(1, 12))) == []
    assert daemon_victims(going, runs(B, *range(1, 12)), vcore=2) == [f"{B}-11", f"{B}-10"]


@pytest.mark.parametrize(("size", "wanted"), [({"gpu": 1}, []), ({"vcore": 1}, [f"{B}-3"])])
def test_victims_share_a_type(size: dict[str, int], wanted: list[str]) -> None:
    """An allocation without a type of the ask is no victim."""
    many = runs(B, 1, 2, vcore=4)
    assert daemon_victims(many, runs(B, 3, vcore=4), size=size) == wanted
