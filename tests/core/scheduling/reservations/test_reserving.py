"""Reservations and required nodes: asks that get the node that they wait for (spec §§ 8.5-8.7)."""

import pytest

from licorne_core.messages.commands import Command, NodeAction
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
)
from support.core.driver import Driver, placed, reserved


def fragmented(queues: str = "[{name: a}]", *, reservations: bool = True) -> Driver:
    """Two nodes of 10, each with a small allocation of 4 of application `small`."""
    core = Driver(reservations=reservations)
    core.do(register(config(queues, properties=MANY_RESERVED)))
    core.do(nodes(node("n1", vcore=10), node("n2", vcore=10)))
    core.do(apps(app("small", "root.a"), app("big", "root.a"), app("third", "root.a")))
    core.do(asks(ask("small", "s1", vcore=4), ask("small", "s2", vcore=4)))
    return core


def waiting(queues: str = "[{name: a}]") -> Driver:
    """The same, with n1 reserved for an ask of 8."""
    core = fragmented(queues)
    core.do(asks(ask("big", "b", vcore=8)))
    core.wait(3)
    assert reserved(core) == {"b": "n1"}
    return core


@pytest.mark.row(126)
def test_a_reserved_ask_takes_another_node_that_comes_free_first() -> None:
    """The reservation is given up when the ask fits elsewhere."""
    core = waiting()
    assert placed(core.do(releases(release("small", "s2")))) == [("big", "b", "n2")]
    assert reserved(core) == {}
    assert placed(core.do(asks(ask("small", "s9", vcore=6)))) == [("small", "s9", "n1")]


def test_nothing_is_reserved_in_a_cluster_that_is_full_as_a_whole() -> None:
    """The ask has to fit under every maximum, the cluster's size included."""
    core = fragmented()
    core.do(asks(ask("small", "x", vcore=5), ask("small", "y", vcore=5)))
    core.do(asks(ask("big", "b", vcore=8)))
    core.wait(10)
    assert reserved(core) == {}


def test_a_reservation_ends_after_an_hour_and_may_be_made_anew() -> None:
    """What could not be used in an hour is given up; the ask may reserve a better node."""
    core = waiting()
    core.do(nodes(node("n3", vcore=9, action=NodeAction.CREATE_DRAIN)))
    core.do(asks(ask("small", "f", vcore=2, on_node="n3")))
    core.do(nodes(node("n3", NodeAction.DRAIN_TO_SCHEDULABLE)))
    assert reserved(core) == {"b": "n1"}
    core.wait(3600)
    assert reserved(core) == {"b": "n3"}


def test_reservations_can_be_switched_off() -> None:
    """Without them the ask waits, and every node stays open."""
    core = fragmented(reservations=False)
    core.do(asks(ask("big", "b", vcore=8)))
    core.wait(10)
    assert reserved(core) == {}
    assert placed(core.do(asks(ask("small", "s3", vcore=6)))) == [("small", "s3", "n1")]


@pytest.mark.parametrize(
    "end",
    [
        releases(release("big", "b")),
        releases(release("big")),
        nodes(node("n1", NodeAction.DECOMISSION)),
        nodes(node("n1", NodeAction.UPDATE, vcore=7)),
    ],
    ids=["ask", "application", "node", "size of the node"],
)
def test_a_reservation_goes_with_its_ask_its_application_and_its_node(end: Command) -> None:
    """Nothing is left reserved for what is not there any more."""
    core = waiting()
    core.do(end)
    assert "n1" not in reserved(core).values()


def test_a_drained_node_keeps_its_reservation_and_takes_its_ask() -> None:
    """Draining stops new asks, not the one that the node was kept for (spec § 7.7)."""
    core = waiting()
    core.do(nodes(node("n1", NodeAction.DRAIN_NODE)))
    assert reserved(core) == {"b": "n1"}
    assert placed(core.do(releases(release("small", "s1")))) == [("big", "b", "n1")]


def test_a_reserved_ask_that_is_resized_keeps_its_node_if_that_can_hold_it() -> None:
    """In-place resizing changes what is waited for, not where (spec § 8.9)."""
    core = waiting()
    core.do(asks(ask("big", "b", vcore=7)))
    assert reserved(core) == {"b": "n1"}
    assert placed(core.do(asks(ask("big", "b", vcore=6)))) == [("big", "b", "n1")]
    assert reserved(core) == {}


def test_an_accepted_application_with_a_reservation_counts_as_about_to_run() -> None:
    """No other application starts in its place, and it passes its own check (spec § 4.12)."""
    core = waiting("[{name: a, maxapplications: 2}]")
    assert placed(core.do(asks(ask("third", "t", vcore=1)))) == []
    assert placed(core.do(releases(release("small", "s1")))) == [("big", "b", "n1")]
    assert placed(core.do(releases(release("small", "s2")))) == [("third", "t", "n2")]


@pytest.mark.row(124)
def test_an_ask_reserves_the_full_node_that_it_requires_at_once() -> None:
    """Neither age nor room is asked for; several asks share the node, larger than it or not."""
    core = fragmented()
    core.do(asks(*(ask("big", f"d{size}", vcore=size, required_node="n1") for size in (7, 8))))
    assert reserved(core) == {"d7": "n1", "d8": "n1"}
    assert placed(core.do(releases(release("small", "s1")))) == [("big", "d7", "n1")]
    assert reserved(core) == {"d8": "n1"}


@pytest.mark.row(128)
def test_an_ask_that_fits_its_required_node_takes_it_in_spite_of_a_reservation() -> None:
    """A daemon set does not wait behind an ask that a node is kept for."""
    core = waiting()
    made = core.do(asks(ask("third", "d", vcore=1, required_node="n1")))
    assert placed(made) == [("third", "d", "n1")]
    assert reserved(core) == {"b": "n2"}
