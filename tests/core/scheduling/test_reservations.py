"""Reservations and required nodes: who gets a node that is worth waiting for (spec §§ 8.5-8.7)."""

import pytest

from licorne_core.messages.commands import NodeAction, Tick
from support.core.builders import (
    MANY_RESERVED,
    app,
    apps,
    ask,
    asks,
    config,
    node,
    nodes,
    register,
    release,
    releases,
    reload,
)
from support.core.driver import Driver, placed, released
from support.core.requests import reservations as reservations_of

ONE_LEAF = config("[{name: a}]", properties=MANY_RESERVED)


def reserved(core: Driver, rm: str = "rm1") -> dict[str, str]:
    """The node that is reserved for each ask, by application and key."""
    partition = core.scheduler.partitions[f"[{rm}]default"]  # type: ignore[index]
    return {
        f"{owner.app_id}/{key}": kept.node_id
        for owner in partition.applications.values()
        for key, kept in reservations_of(owner).items()
    }


def fragmented(queues: str = "[{name: a}]", *, reservations: bool = True) -> Driver:
    """Two nodes of 10, each with a small allocation of 4 of application `small`."""
    core = Driver(reservations=reservations)
    core.do(
        register(config(queues, properties=MANY_RESERVED)),
        nodes(node("n1", vcore=10), node("n2", vcore=10)),
    )
    core.do(apps(app("small", "root.a"), app("big", "root.a")))
    core.do(asks(ask("small", "s1", vcore=4), ask("small", "s2", vcore=4)))
    return core


@pytest.mark.row(125)
def test_an_old_ask_that_fits_nowhere_reserves_the_node_that_is_least_short() -> None:
    """After two seconds, and not before, the ask has a node reserved, and nothing is told."""
    core = fragmented()
    core.do(asks(ask("small", "s3", vcore=1)))
    core.do(asks(ask("big", "b", vcore=8)))
    core.wait(1.9)
    assert reserved(core) == {}
    assert core.wait(0.2) == []
    assert reserved(core) == {"big/b": "n2"}


@pytest.mark.row(125, 126)
def test_a_big_ask_gets_its_node_in_spite_of_small_ones() -> None:
    """What becomes free on the reserved node goes to the ask that waits for it."""
    core = fragmented()
    core.do(asks(ask("big", "b", vcore=8)))
    core.wait(3)
    core.do(asks(*(ask("small", f"more{number}", vcore=3) for number in range(10))))
    assert reserved(core) == {"big/b": "n1"}
    assert placed(core.do(releases(release("small", "s1")))) == [("big", "b", "n1")]
    assert reserved(core) == {}


@pytest.mark.row(126)
def test_a_reserved_ask_takes_another_node_that_comes_free_first() -> None:
    """The reservation is given up when the ask fits elsewhere."""
    core = fragmented()
    core.do(asks(ask("big", "b", vcore=8)))
    core.wait(3)
    assert reserved(core) == {"big/b": "n1"}
    assert placed(core.do(releases(release("small", "s2")))) == [("big", "b", "n2")]
    assert reserved(core) == {}
    assert placed(core.do(asks(ask("small", "s9", vcore=6)))) == [("small", "s9", "n1")]


@pytest.mark.row(127)
def test_an_impossible_ask_reserves_nothing_and_blocks_nobody() -> None:
    """An ask that no node could ever hold has none reserved, and later asks run."""
    core = fragmented()
    core.do(asks(ask("big", "b", vcore=11), ask("big", "c", vcore=6)))
    core.wait(5)
    assert reserved(core) == {}
    assert placed(core.do(asks(ask("small", "s4", vcore=6)))) == [("small", "s4", "n2")]


def test_nothing_is_reserved_in_a_cluster_that_is_full_as_a_whole() -> None:
    """The ask has to fit under every maximum, the cluster's size included."""
    core = fragmented()
    core.do(asks(ask("small", "x", vcore=5), ask("small", "y", vcore=5)))
    core.do(asks(ask("big", "b", vcore=8)))
    core.wait(10)
    assert reserved(core) == {}


def test_a_reservation_ends_after_an_hour_and_may_be_made_anew() -> None:
    """What could not be used in an hour is given up; the ask may reserve a better node."""
    core = fragmented()
    core.do(asks(ask("big", "b", vcore=8)))
    core.wait(3)
    assert reserved(core) == {"big/b": "n1"}
    core.do(nodes(node("n3", vcore=9, action=NodeAction.CREATE_DRAIN)))
    core.do(asks(ask("small", "f", vcore=2, on_node="n3")))
    core.do(nodes(node("n3", NodeAction.DRAIN_TO_SCHEDULABLE)))
    assert reserved(core) == {"big/b": "n1"}
    core.wait(3600)
    assert reserved(core) == {"big/b": "n3"}


def test_reservations_can_be_switched_off() -> None:
    """Without them the ask waits, and every node stays open."""
    core = fragmented(reservations=False)
    core.do(asks(ask("big", "b", vcore=8)))
    core.wait(10)
    assert reserved(core) == {}
    assert placed(core.do(asks(ask("small", "s3", vcore=6)))) == [("small", "s3", "n1")]


@pytest.mark.parametrize("how", ["release", "remove", "decommission", "shrink"])
def test_a_reservation_goes_with_its_ask_its_application_and_its_node(how: str) -> None:
    """Nothing is left reserved for what is not there any more."""
    core = fragmented()
    core.do(asks(ask("big", "b", vcore=9)))
    core.wait(3)
    assert reserved(core) == {"big/b": "n1"}
    match how:
        case "release":
            core.do(releases(release("big", "b")))
        case "remove":
            core.do(releases(release("big")))
        case "decommission":
            core.do(nodes(node("n1", NodeAction.DECOMISSION)))
        case "shrink":
            core.do(nodes(node("n1", NodeAction.UPDATE, vcore=8)))
    assert "n1" not in reserved(core).values()


def test_a_drained_node_keeps_its_reservation_and_takes_its_ask() -> None:
    """Draining stops new asks, not the one that the node was kept for (spec § 7.7)."""
    core = fragmented()
    core.do(asks(ask("big", "b", vcore=8)))
    core.wait(3)
    core.do(nodes(node("n1", NodeAction.DRAIN_NODE)))
    assert reserved(core) == {"big/b": "n1"}
    assert placed(core.do(releases(release("small", "s1")))) == [("big", "b", "n1")]


def test_a_reserved_ask_that_is_resized_keeps_its_node_if_that_can_hold_it() -> None:
    """In-place resizing changes what is waited for, not where (spec § 8.9)."""
    core = fragmented()
    core.do(asks(ask("big", "b", vcore=8)))
    core.wait(3)
    core.do(asks(ask("big", "b", vcore=7)))
    assert reserved(core) == {"big/b": "n1"}
    assert placed(core.do(asks(ask("big", "b", vcore=6)))) == [("big", "b", "n1")]
    assert reserved(core) == {}


def test_an_accepted_application_with_a_reservation_counts_as_about_to_run() -> None:
    """No other application starts in its place, and it passes its own check (spec § 4.12)."""
    core = fragmented("[{name: a, maxapplications: 2}]")
    core.do(asks(ask("big", "b", vcore=8)))
    core.wait(3)
    assert reserved(core) == {"big/b": "n1"}
    core.do(apps(app("third", "root.a")))
    assert placed(core.do(asks(ask("third", "t", vcore=1)))) == []
    assert placed(core.do(releases(release("small", "s1")))) == [("big", "b", "n1")]
    assert placed(core.do(releases(release("small", "s2")))) == [("third", "t", "n2")]


def test_higher_priority_takes_the_reserved_pass_first() -> None:
    """Of several reserved asks the first in order of priority is placed."""
    core = fragmented()
    core.do(asks(ask("big", "low", vcore=8), ask("big", "high", vcore=8, priority=5)))
    core.wait(3)
    assert reserved(core) == {"big/high": "n1", "big/low": "n2"}
    assert placed(core.do(nodes(node("n3", vcore=9)))) == [("big", "high", "n3")]
    assert placed(core.do(nodes(node("n4", vcore=9)))) == [("big", "low", "n4")]


@pytest.mark.row(124)
def test_an_ask_that_requires_a_node_waits_for_it() -> None:
    """It runs nowhere else, and on its node as soon as that is there."""
    core = fragmented()
    core.do(asks(ask("big", "d", vcore=1, required_node="n3")))
    core.wait(5)
    assert reserved(core) == {}
    assert placed(core.do(nodes(node("n3", vcore=2)))) == [("big", "d", "n3")]


@pytest.mark.row(124)
def test_an_ask_reserves_the_full_node_that_it_requires_at_once() -> None:
    """Neither age nor room is asked for; several asks share the node, larger than it or not."""
    core = fragmented()
    core.do(asks(*(ask("big", f"d{size}", vcore=size, required_node="n1") for size in (7, 8))))
    assert reserved(core) == {"big/d7": "n1", "big/d8": "n1"}
    assert placed(core.do(releases(release("small", "s1")))) == [("big", "d7", "n1")]
    assert reserved(core) == {"big/d8": "n1"}


@pytest.mark.row(128)
def test_an_ask_that_requires_a_node_takes_it_from_those_that_do_not() -> None:
    """The reservation of another application is cancelled, and made on another node if it can."""
    core = fragmented()
    core.do(asks(ask("big", "b", vcore=8)))
    core.wait(3)
    assert reserved(core) == {"big/b": "n1"}
    core.do(apps(app("daemons", "root.a")))
    core.do(asks(ask("daemons", "d", vcore=7, required_node="n1")))
    assert reserved(core) == {"daemons/d": "n1", "big/b": "n2"}
    assert placed(core.do(releases(release("small", "s1")))) == [("daemons", "d", "n1")]


@pytest.mark.row(128)
def test_an_ask_that_fits_its_required_node_takes_it_in_spite_of_a_reservation() -> None:
    """A daemon set does not wait behind an ask that a node is kept for."""
    core = fragmented()
    core.do(asks(ask("big", "b", vcore=8)))
    core.wait(3)
    assert reserved(core) == {"big/b": "n1"}
    core.do(apps(app("daemons", "root.a")))
    made = core.do(asks(ask("daemons", "d", vcore=1, required_node="n1")))
    assert placed(made) == [("daemons", "d", "n1")]
    assert reserved(core) == {"big/b": "n2"}


def test_a_raised_maximum_lets_a_reserved_ask_through() -> None:
    """Headroom is asked for again when the reserved ask is tried."""
    tight = "[{name: a, resources: {max: {vcore: 15m}}}]"
    core = fragmented(tight)
    core.do(asks(ask("big", "b", vcore=7)))
    core.wait(3)
    assert reserved(core) == {"big/b": "n1"}
    core.do(asks(ask("small", "s3", vcore=4, on_node="n2")))
    assert placed(core.do(releases(release("small", "s1")))) == [("big", "b", "n1")]
    core.do(asks(ask("big", "c", vcore=9)))
    core.do(reload(config("[{name: a, resources: {max: {vcore: 30m}}}]", properties=MANY_RESERVED)))
    assert released(core.wait(5)) == []
    assert "big/c" not in reserved(core)


def test_an_ask_that_becomes_old_enough_claims_before_those_behind_it() -> None:
    """Though an older ask of its class and of a lower priority was about to reserve before."""
    core = Driver()
    core.do(
        register(ONE_LEAF),
        nodes(node("n1", memory=10), node("n2", memory=10)),
        apps(app("a1", "root.a")),
        asks(ask("a1", "f1", memory=6), ask("a1", "f2", memory=6)),
    )
    core.send(
        asks(
            ask("a1", "first", memory=5),
            ask("a1", "second", memory=6),
            ask("a1", "small", memory=1, priority=-1),
            ask("a1", "old", memory=5, priority=-3, created=core.now - 30),
        )
    )
    core.send(Tick(decisions=1))
    core.now += 3
    core.run()
    assert reserved(core) == {"a1/first": "n2", "a1/second": "n1"}


def test_young_asks_of_two_classes_reserve_each_in_its_own_time() -> None:
    """An ask of a higher priority that is too young stops none that is old enough."""
    core = fragmented()
    core.do(asks(ask("big", "low", vcore=8)))
    core.now += 1
    core.do(asks(ask("big", "high", vcore=7, priority=5)))
    core.wait(1)
    assert reserved(core) == {"big/low": "n1"}
    core.wait(1)
    assert reserved(core) == {"big/low": "n1", "big/high": "n2"}
