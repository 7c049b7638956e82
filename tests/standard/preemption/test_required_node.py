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
    """The victims on a node of twelve cores for a daemon, whose queue has no guarantee."""
    wanted = waits(DAEMONS, 1, vcore=vcore, required_node="n1", **ask)
    world = cluster([queue(DAEMONS), queue(B, {"vcore": 12})], *requests, wanted)
    built = build(world)
    app, request = built.request(f"{DAEMONS}-w1")
    node = built.nodes.by_id[NodeId("n1")]
    return keys(required_node_victims(app, request, node, built.applications, built.search.units()))


def test_guarantees_do_not_protect_from_a_daemon() -> None:
    """A daemon preempts in a queue within its guarantee, and stops the youngest allocation first."""
    assert daemon_victims(runs(B, *range(12))) == [f"{B}-11"]


def test_the_order_of_victims_for_a_daemon() -> None:
    """Victims are ordered by kind, then by the lowest priority, the youngest age, and the smallest size."""
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


def test_of_victims_of_equal_age_the_smaller_is_first() -> None:
    """Of victims of equal age the one with the smallest total of the ask's types is stopped."""
    same = {"created": 5.0, "started": 5.0}
    small = [_aged(one, same) for one in runs(B, 1, 2)]
    large = [_aged(one, same) for one in runs(B, 0, vcore=10)]
    assert daemon_victims(large, small) == [f"{B}-1"]


def _aged(one: RequestRecord, times: dict[str, float]) -> RequestRecord:
    return RequestRecord(**{**vars(one), **times})


def test_higher_priorities_and_present_victims_are_excluded() -> None:
    """Allocations of higher priority, being stopped, or with a required node are not victims."""
    gone = daemon_victims(
        runs(B, *range(4), priority=1),
        runs(B, 4, 5),
        runs(B, 6, 7, state=RequestState.RELEASING),
        runs(B, *range(8, 12), node="n1", required_node="n1"),
        vcore=2,
    )
    assert gone == [f"{B}-5", f"{B}-4"]


def test_a_daemon_stops_nothing_if_all_victims_free_too_little() -> None:
    """A daemon has no victims if all of them together would not free enough room."""
    assert daemon_victims(runs(B, *range(10), priority=1), runs(B, 10, 11), vcore=3) == []


@pytest.mark.parametrize(("larger", "is_vain"), [(4, True), (5, False)])
def test_a_daemon_has_no_victims_while_the_cluster_is_overfull(larger: int, is_vain: bool) -> None:
    """No victim is stopped if root would still exceed the cluster, because another node is overfull."""
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


def test_present_victims_and_free_room_count_first() -> None:
    """A daemon stops further victims only for the amount that free room and present victims do not cover."""
    going = runs(B, 0, state=RequestState.PREEMPTING)
    assert daemon_victims(going, runs(B, *range(1, 12))) == []
    assert daemon_victims(going, runs(B, *range(1, 12)), vcore=2) == [f"{B}-11"]
    assert daemon_victims(runs(B, *range(1, 12)), vcore=2) == [f"{B}-11"]


@pytest.mark.parametrize(("size", "wanted"), [({"gpu": 1}, []), ({"vcore": 1}, [f"{B}-3"])])
def test_a_victim_has_a_type_of_the_ask(size: dict[str, int], wanted: list[str]) -> None:
    """An allocation that has no type of the ask is not a victim."""
    many = runs(B, 1, 2, vcore=4)
    assert daemon_victims(many, runs(B, 3, vcore=4), size=size) == wanted
