"""Reservations of nodes, also of required nodes (spec §§ 8.5-8.7)."""

import pytest

from licorne_core.messages.commands import Command, NodeAction
from licorne_core.values.tags import RUNTIME
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
    """Nodes n1 and n2 of 10 thousandths of a core, with an allocation of 4 of `small` on each."""
    core = Driver(reservations=reservations)
    core.do(register(config(queues, rest="nodesortpolicy: fair", properties=MANY_RESERVED)))
    core.do(nodes(node("n1", vcore=10), node("n2", vcore=10)))
    core.do(apps(app("small", "root.a"), app("big", "root.a"), app("third", "root.a")))
    core.do(asks(ask("small", "s1", vcore=4), ask("small", "s2", vcore=4)))
    return core


def waiting(queues: str = "[{name: a}]") -> Driver:
    """The nodes of `fragmented`, with n1 reserved for the ask `b` of 8."""
    core = fragmented(queues)
    core.do(asks(ask("big", "b", vcore=8)))
    core.wait(3)
    assert reserved(core) == {"b": "n1"}
    return core


def busy(*contents: dict[int, int | None]) -> Driver:
    """Nodes n1, n2, … of 10, each with allocations of these sizes and declared runtimes in seconds."""
    core = Driver()
    core.do(register(config("[{name: a}]", rest="nodesortpolicy: fair", properties=MANY_RESERVED)))
    core.do(apps(app("other", "root.a"), app("big", "root.a")))
    for number, sizes in enumerate(contents, 1):
        core.do(nodes(node(f"n{number}", vcore=10)))
        for size, runtime in sizes.items():
            tags = {} if runtime is None else {RUNTIME: str(runtime)}
            core.do(asks(ask("other", f"n{number}-{size}", vcore=size, on_node=f"n{number}", tags=tags)))
    return core


@pytest.mark.parametrize(
    ("contents", "waited", "chosen"),
    [
        (({4: 200}, {6: 100}), 0, "n2"),
        (({4: 200}, {6: 100}), 103, "n2"),
        (({4: 1500}, {6: 100}), 1450, "n1"),
        (({5: 100, 1: 5100}, {6: 5060}), 5000, "n2"),
        (({9: 86400}, {4: None}), 0, "n2"),
        (({4: None}, {6: 5100}), 5000, "n2"),
    ],
    ids=[
        "of two ends the earlier",
        "an end that is a little overdue",
        "an end that is long overdue",
        "an overdue end beside another",
        "an unknown end after a short time",
        "an unknown end after a long time",
    ],
)
def test_the_node_that_has_room_first_is_reserved(
    contents: tuple[dict[int, int | None], ...], waited: int, chosen: str
) -> None:
    """The node is reserved that is expected to have room first, though it may lack more.

    An allocation that is overdue is expected to end the later, the longer it is overdue; one of unknown
    runtime counts as overdue since its beginning.
    """
    core = busy(*contents)
    core.now += waited
    core.do(asks(ask("big", "b", vcore=10)))
    core.wait(3)
    assert reserved(core) == {"b": chosen}


def test_runtimes_are_learnt_for_reservations() -> None:
    """The runtimes of earlier allocations of the leaf and size count if none is declared."""
    core = busy()
    core.do(nodes(node("n0", vcore=30)))
    core.do(asks(*(ask("other", f"run{size}{each}", vcore=size) for size in (4, 6) for each in range(3))))
    for size in (6, 4):
        core.now += 100
        core.do(releases(*(release("other", f"run{size}{each}") for each in range(3))))
    core.do(nodes(node("n0", NodeAction.DECOMISSION), node("n1", vcore=10), node("n2", vcore=10)))
    core.do(asks(ask("other", "s4", vcore=4)))
    core.do(asks(ask("other", "s6", vcore=6)))
    core.do(asks(ask("big", "b", vcore=8)))
    core.wait(3)
    assert reserved(core) == {"b": "n2"}


@pytest.mark.row(126)
def test_a_reserved_ask_is_placed_on_another_node_that_has_room_earlier() -> None:
    """A reserved ask is placed on the first node with room, and its reservation ends."""
    core = waiting()
    assert placed(core.do(releases(release("small", "s2")))) == [("big", "b", "n2")]
    assert reserved(core) == {}
    assert placed(core.do(asks(ask("small", "s9", vcore=6)))) == [("small", "s9", "n1")]


def test_a_reservation_ends_after_an_hour() -> None:
    """A reservation ends after an hour, and the ask may then have a better node reserved."""
    core = waiting()
    core.now += 3590
    core.do(nodes(node("n3", vcore=9, action=NodeAction.CREATE_DRAIN)))
    core.do(asks(ask("small", "f", vcore=2, on_node="n3")))
    core.do(nodes(node("n3", NodeAction.DRAIN_TO_SCHEDULABLE)))
    core.run()
    assert reserved(core) == {"b": "n1"}
    core.wait(10)
    assert reserved(core) == {"b": "n3"}


def test_reservations_can_be_disabled() -> None:
    """With reservations disabled no node is reserved, and other asks may use every node."""
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
def test_a_reservation_ends_with_its_ask_application_or_node(end: Command) -> None:
    """A reservation ends with the removal of its ask, application or node."""
    core = waiting()
    core.do(end)
    assert "n1" not in reserved(core).values()


def test_a_drained_node_takes_its_reserved_ask() -> None:
    """A drained node keeps its reservation, and accepts the reserved ask (spec § 7.7)."""
    core = waiting()
    core.do(nodes(node("n1", NodeAction.DRAIN_NODE)))
    assert reserved(core) == {"b": "n1"}
    assert placed(core.do(releases(release("small", "s1")))) == [("big", "b", "n1")]


def test_a_resized_ask_keeps_a_reserved_node_that_is_large_enough() -> None:
    """A resized ask keeps its reserved node if the node can hold the new size (spec § 8.9)."""
    core = waiting()
    core.do(asks(ask("big", "b", vcore=7)))
    assert reserved(core) == {"b": "n1"}
    assert placed(core.do(asks(ask("big", "b", vcore=6)))) == [("big", "b", "n1")]
    assert reserved(core) == {}


def test_an_accepted_application_with_a_reservation_counts_as_running() -> None:
    """An accepted application with a reservation counts against the running limit (spec § 4.12)."""
    core = waiting("[{name: a, maxapplications: 2}]")
    assert placed(core.do(asks(ask("third", "t", vcore=1)))) == []
    assert placed(core.do(releases(release("small", "s1")))) == [("big", "b", "n1")]
    assert placed(core.do(releases(release("small", "s2")))) == [("third", "t", "n2")]


@pytest.mark.row(124)
def test_an_ask_reserves_its_required_node_at_once() -> None:
    """Asks of any age and size reserve their required node at once, several on one node."""
    core = fragmented()
    core.do(asks(*(ask("big", f"d{size}", vcore=size, required_node="n1") for size in (7, 8))))
    assert reserved(core) == {"d7": "n1", "d8": "n1"}
    assert placed(core.do(releases(release("small", "s1")))) == [("big", "d7", "n1")]
    assert reserved(core) == {"d8": "n1"}


@pytest.mark.row(128)
def test_an_ask_that_fits_on_its_required_node_ignores_a_reservation() -> None:
    """An ask that fits on its required node is placed there, although the node is reserved for another."""
    core = waiting()
    made = core.do(asks(ask("third", "d", vcore=1, required_node="n1")))
    assert placed(made) == [("third", "d", "n1")]
    assert reserved(core) == {"b": "n2"}
