"""Reservations: reserved amounts, bounds, and reviews that end them (spec §§ 8.4-8.6)."""

import pytest

from licorne_core.messages.commands import NodeAction, Tick
from licorne_core.standard.reservations import review
from licorne_core.standard.reservations.extension import review_of
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
from support.core.driver import Driver, placed, reserved


def cluster(queues: str, count: int = 2, *, properties: str = MANY_RESERVED) -> Driver:
    """Nodes of 10 thousandths of a core, 4 used by `base`; applications are named like their queues.

    The allocations on n1, n2, … have the keys `base1`, `base2`, ….
    """
    core = Driver()
    core.do(register(config(queues, properties=properties)))
    core.do(nodes(*(node(f"n{number}", vcore=10) for number in range(1, count + 1))))
    partition = core.partition
    for leaf in partition.tree.leaves():
        core.do(apps(app(leaf.name, leaf.path)))
    taken = (ask("base", f"base{n}", vcore=4, on_node=f"n{n}") for n in range(1, count + 1))
    core.do(asks(*taken))
    return core


FULL = "[{name: base}, {name: full, resources: {max: {vcore: 12m}}}, {name: due}]"
"""Three leaves, of which `full` has a maximum of 12."""


def held_in_vain() -> Driver:
    """Node n1 is reserved for the ask `big`, which the maximum of its queue now blocks."""
    core = cluster(FULL)
    core.do(asks(ask("full", "big", vcore=7)))
    core.wait(3)
    assert reserved(core) == {"big": "n1"}
    core.do(nodes(node("n3", vcore=6)))
    core.do(asks(ask("full", "more", vcore=6, on_node="n3")))
    return core


@pytest.mark.row(125)
def test_a_reservation_blocked_by_a_maximum_ends() -> None:
    """After the idle time-out a review ends the reservation, and the node accepts another ask."""
    core = held_in_vain()
    core.do(asks(ask("due", "waits", vcore=5), ask("due", "too", vcore=6)))
    assert reserved(core) == {"big": "n1"}
    made = placed(core.wait(4))
    assert ("due", "waits", "n1") in made or ("due", "too", "n1") in made
    assert "big" not in reserved(core)


def test_a_short_blockage_ends_no_reservation() -> None:
    """A reservation whose ask is blocked for less than the idle time-out does not end."""
    core = held_in_vain()
    core.wait(1.5)
    core.do(releases(release("full", "more")))
    core.wait(10)
    assert reserved(core) == {"big": "n1"}
    assert placed(core.do(releases(release("base", "base1")))) == [("full", "big", "n1")]


def test_the_idle_time_out_is_configurable() -> None:
    """`reservation.idle.timeout` sets the time after which an idle reservation ends."""
    patient = FULL.replace("{name: full,", "{name: full, properties: {reservation.idle.timeout: 20s},")
    core = cluster(patient)
    core.do(asks(ask("full", "big", vcore=7)))
    core.wait(3)
    core.do(asks(ask("full", "more", vcore=6, on_node="n2")))
    core.wait(19)
    assert reserved(core) == {"big": "n1"}
    core.wait(3)
    assert reserved(core) == {}


@pytest.mark.row(125)
def test_an_unblocked_ask_reserves_a_node_again_at_once() -> None:
    """An ask whose reservation ended has a node reserved again as soon as no check blocks it."""
    core = held_in_vain()
    core.do(asks(ask("due", "younger", vcore=8)))
    core.wait(4)
    assert reserved(core) == {"younger": "n2"}
    core.do(releases(release("full", "more")))
    assert reserved(core) == {"younger": "n2", "big": "n1"}


REASONS = {
    "maximum of its queue": "[{name: base}, {name: a, resources: {max: {vcore: 12m}}}]",
    "maximum above it": (
        "[{name: base}, {name: p, parent: true, resources: {max: {vcore: 12m}}, queues: [{name: a}]}]"
    ),
    "limit of its user": (
        "[{name: base}, {name: a, limits: [{limit: few, users: [ann], maxresources: {vcore: 12m}}]}]"
    ),
    "limit of its group": (
        "[{name: base}, {name: a, limits: [{limit: few, groups: [dev], maxresources: {vcore: 12m}}]}]"
    ),
}


@pytest.mark.parametrize("queues", REASONS.values(), ids=REASONS.keys())
@pytest.mark.parametrize("required", [False, True], ids=["any node", "one node"])
def test_every_blocking_check_ends_a_reservation(queues: str, required: bool) -> None:
    """Each check that blocks a reserved ask makes its reservation idle."""
    core = Driver()
    core.do(register(config(queues, properties=MANY_RESERVED)))
    core.do(nodes(node("n1", vcore=10), node("n2", vcore=10)))
    path = "root.p.a" if "name: p" in queues else "root.a"
    core.do(apps(app("base", "root.base", user="eve"), app("a", path, user="ann", groups=["dev"])))
    core.do(asks(ask("base", "b1", vcore=4, on_node="n1"), ask("base", "b2", vcore=4, on_node="n2")))
    core.do(asks(ask("a", "big", vcore=7, required_node="n1" if required else None)))
    core.wait(3)
    assert reserved(core) == {"big": "n1"}
    core.do(asks(ask("a", "more", vcore=6, on_node="n2")))
    core.wait(4)
    assert reserved(core) == {}
    core.do(releases(release("a", "more")))
    assert reserved(core) == {"big": "n1"}


def test_a_full_cluster_ends_no_reservation() -> None:
    """A reservation whose ask lacks room in a full cluster does not end."""
    core = cluster("[{name: base}, {name: a}]")
    core.do(asks(ask("a", "big", vcore=7)))
    core.wait(3)
    core.do(asks(ask("base", "fills", vcore=6, on_node="n2")))
    core.wait(60)
    assert reserved(core) == {"big": "n1"}
    assert placed(core.do(releases(release("base", "base1")))) == [("a", "big", "n1")]


DUE = (
    "[{name: base}, {name: other, resources: {max: {vcore: 90m}}},"
    " {name: due, resources: {guaranteed: {vcore: 12m}}}]"
)


def lent(queues: str = DUE) -> Driver:
    """Node n1 is reserved for the ask `big` of the queue `other`, and n2 is full."""
    core = cluster(queues)
    core.do(asks(ask("other", "big", vcore=9)))
    core.wait(3)
    assert reserved(core) == {"big": "n1"}
    core.do(asks(ask("base", "fills", vcore=6, on_node="n2")))
    return core


def test_a_reservation_yields_to_an_ask_within_its_guarantee() -> None:
    """A reservation above its queue's guarantee ends if an ask within its guarantee fits on the node."""
    core = lent()
    assert placed(core.do(asks(ask("due", "small", vcore=2)))) == []
    assert placed(core.wait(1)) == [("due", "small", "n1")]


def test_a_reservation_yields_as_soon_as_there_is_room() -> None:
    """Freed room on a reserved node is used by an ask within its guarantee, not by the reserved ask."""
    core = lent()
    core.do(asks(ask("base", "f1", vcore=5, on_node="n1"), ask("due", "d", vcore=9)))
    core.wait(2)
    assert reserved(core)["big"] == "n1"
    core.do(releases(release("base", "f1")))
    assert placed(core.do(releases(release("base", "base1")))) == [("due", "d", "n1")]


@pytest.mark.parametrize("end", ["stays", "is cancelled", "is due nothing more"])
def test_a_reservation_yields_to_no_removed_or_satisfied_ask(end: str) -> None:
    """A reservation remains if the other ask is removed, or if that ask's queue has its guarantee already."""
    core = lent()
    core.do(nodes(node("n3", NodeAction.CREATE_DRAIN, vcore=20)))
    core.do(asks(ask("base", "f1", vcore=5, on_node="n1"), ask("due", "d", vcore=5)))
    core.wait(1.5)
    assert reserved(core) == {"big": "n1"}
    if end == "is cancelled":
        core.do(releases(release("due", "d")))
    elif end == "is due nothing more":
        core.do(asks(ask("due", "more", vcore=9, on_node="n3")))
    made = placed(core.do(releases(release("base", "f1"))))
    assert made == ([("due", "d", "n1")] if end == "stays" else [])
    assert reserved(core)["big"] == ("n2" if end == "stays" else "n1")


@pytest.mark.parametrize("guaranteed", [2, 12])
def test_no_reservation_yields_to_an_ask_above_its_guarantee(guaranteed: int) -> None:
    """A reservation remains if the other ask exceeds its guarantee, or the reserved ask is within its own."""
    own = "resources: {guaranteed: {vcore: 90m}}" if guaranteed == 12 else ""
    core = lent(
        f"[{{name: base}}, {{name: other, {own}}},"
        f" {{name: due, resources: {{guaranteed: {{vcore: {guaranteed}m}}}}}}]"
    )
    core.do(asks(ask("due", "small", vcore=3)))
    core.wait(10)
    assert reserved(core)["big"] == "n1"


def test_other_asks_are_placed_beside_the_reserved_amount() -> None:
    """A reservation keeps its amounts of each type; other asks may use the remaining room of the node."""
    core = Driver()
    core.do(register(config("[{name: a}]", properties=MANY_RESERVED)))
    core.do(nodes(node("n1", vcore=10, gpu=2)), apps(app("a", "root.a")))
    core.do(asks(ask("a", "base", vcore=6, on_node="n1"), ask("a", "big", vcore=5, gpu=1)))
    core.do(nodes(node("n2", vcore=1)))
    core.wait(3)
    assert reserved(core) == {"big": "n1"}
    assert placed(core.do(asks(ask("a", "gpu", gpu=1)))) == [("a", "gpu", "n1")]
    assert placed(core.do(asks(ask("a", "no", gpu=1), ask("a", "nor", vcore=2)))) == []
    freed = core.do(releases(release("a", "base")))
    assert placed(freed) == [("a", "big", "n1"), ("a", "nor", "n1")]


def test_a_reload_of_exclusive_reservations_applies_at_once() -> None:
    """A reload of `reservation.exclusive` applies to existing reservations at once, in both directions."""
    queues = "[{{name: a, properties: {{reservation.exclusive: '{}'}}}}, {{name: b}}]"
    shared, exclusive = (config(queues.format(text), properties=MANY_RESERVED) for text in ("false", "true"))
    core = Driver()
    core.do(register(shared), nodes(node("n1", vcore=10, gpu=2), node("n2", vcore=1)))
    core.do(apps(app("a", "root.a"), app("b", "root.b")))
    core.do(asks(ask("a", "base", vcore=6, on_node="n1"), ask("a", "big", vcore=5)))
    core.wait(3)
    assert reserved(core) == {"big": "n1"}
    core.do(reload(exclusive))
    assert reserved(core) == {"big": "n1"}
    assert placed(core.do(asks(ask("b", "gpu", gpu=1)))) == []
    assert placed(core.do(reload(shared))) == [("b", "gpu", "n1")]


def test_an_exclusive_reservation_keeps_the_whole_node() -> None:
    """With `reservation.exclusive: true` a reserved node accepts no other ask, however small (spec § 8.4)."""
    core = Driver()
    exclusive = "[{name: a, properties: {reservation.exclusive: 'true'}}, {name: b}]"
    core.do(register(config(exclusive, properties=MANY_RESERVED)))
    core.do(nodes(node("n1", vcore=10, gpu=2), node("n2", vcore=1)))
    core.do(apps(app("a", "root.a"), app("b", "root.b")))
    core.do(asks(ask("a", "base", vcore=6, on_node="n1"), ask("a", "big", vcore=5)))
    core.wait(3)
    assert reserved(core) == {"big": "n1"}
    assert placed(core.do(asks(ask("b", "gpu", gpu=1)))) == []
    assert placed(core.do(releases(release("a", "big")))) == [("b", "gpu", "n1")]


@pytest.mark.parametrize(
    ("properties", "leaf", "most"),
    [
        ("", "", 1),
        ("{reservation.max.nodes: '3', application.reservation.max.nodes: '3'}", "", 3),
        ("{reservation.max.nodes: '3'}", "", 2),
        (MANY_RESERVED, "reservation.max.nodes: '2'", 2),
        (MANY_RESERVED, "application.reservation.max.nodes: '1'", 1),
        (MANY_RESERVED, "reservation.max.nodes: '0'", 0),
    ],
    ids=["default", "partition", "half for an application", "queue", "application", "none"],
)
def test_reserved_nodes_are_bounded(properties: str, leaf: str, most: int) -> None:
    """Reserved nodes are bounded by application, queue and partition; the end of one allows another."""
    core = cluster(f"[{{name: base}}, {{name: a, properties: {{{leaf}}}}}]", 5, properties=properties)
    core.do(asks(*(ask("a", f"k{number}", vcore=8) for number in range(5))))
    core.wait(10)
    assert len(reserved(core)) == most
    if most:
        first = next(iter(reserved(core)))
        core.do(releases(release("a", first)))
        assert len(reserved(core)) == most
        assert first not in reserved(core)


def test_a_tenth_of_the_nodes_may_be_reserved() -> None:
    """A tenth of the nodes may be reserved; reservations of required nodes do not count."""
    core = cluster("[{name: base}, {name: a}, {name: b}]", 19, properties="")
    core.do(asks(*(ask("base", f"d{n}", vcore=9, required_node=f"n{n}") for n in range(1, 4))))
    core.do(asks(ask("a", "k1", vcore=8), ask("b", "k2", vcore=8)))
    core.wait(5)
    kept = {key for key in reserved(core) if key.startswith("k")}
    assert (len(kept), len(reserved(core))) == (1, 4)
    core.do(nodes(node("n20", vcore=1)))
    assert {key for key in reserved(core) if key.startswith("k")} == {"k1", "k2"}


def test_a_raised_bound_on_reservations_applies_at_once() -> None:
    """After a reload that raises the bound, further nodes are reserved at once."""
    core = cluster("[{name: base}, {name: a}]", 3, properties="")
    core.do(asks(ask("a", "k1", vcore=8), ask("a", "k2", vcore=8)))
    core.wait(5)
    assert len(reserved(core)) == 1
    core.do(reload(config("[{name: base}, {name: a}]", properties=MANY_RESERVED)))
    assert len(reserved(core)) == 2


def busy(core: Driver, seconds: float) -> list[tuple[str, str, str]]:
    """Let time pass with many small asks, so that no pass ends; return the other placed asks."""
    core.do(nodes(node("busy", vcore=1, small=1000)))
    core.send(asks(*(ask("base", f"s{n}", small=1) for n in range(1000))))
    made = []
    for _ in range(round(seconds * 10)):
        core.now += 0.1
        made += placed(core.send(Tick(decisions=1)))
    return [one for one in made if one[0] != "base"]


def test_a_partition_whose_passes_never_end_is_reviewed() -> None:
    """Even if passes never end, a review ends the reservation of a blocked ask."""
    core = held_in_vain()
    assert busy(core, 7) == []
    assert "big" not in reserved(core)


def test_asks_within_guarantees_are_served_even_if_passes_never_end() -> None:
    """Even if passes never end, an ask within its guarantee is placed on a reserved node."""
    core = lent()
    core.do(asks(ask("due", "small", vcore=2)))
    assert busy(core, 7) == [("due", "small", "n1")]


def test_a_drained_reserved_node_accepts_no_other_ask() -> None:
    """A reservation of a drained node does not yield to an ask within its guarantee (spec § 7.7)."""
    core = lent()
    core.do(nodes(node("n1", NodeAction.DRAIN_NODE)))
    core.do(asks(ask("due", "small", vcore=2)))
    assert placed(core.wait(10)) == []
    assert reserved(core)["big"] == "n1"


def test_the_default_bound_of_an_application_grows_with_the_cluster() -> None:
    """The default bound of an application is half of root's bound, which grows with the number of nodes."""
    core = cluster("[{name: base}, {name: a}]", 10, properties="")
    core.do(asks(*(ask("a", f"k{number}", vcore=8) for number in range(3))))
    core.wait(5)
    assert len(reserved(core)) == 1
    core.do(nodes(*(node(f"m{number}", vcore=1) for number in range(30))))
    assert len(reserved(core)) == 2


def test_a_review_considers_a_bounded_number_of_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A review considers a bounded number of classes, whatever the number of leaves."""
    monkeypatch.setattr(review, "MOST_CLASSES", 2)
    due = "resources: {guaranteed: {vcore: 99m}}"
    leaves = ", ".join(f"{{name: d{n}, {due}}}" for n in range(5))
    core = cluster(f"[{{name: base}}, {{name: other}}, {leaves}]")
    core.do(asks(ask("other", "big", vcore=9)))
    core.wait(3)
    core.do(asks(*(ask("base", f"f{n}", vcore=6, on_node=f"n{n}") for n in (1, 2))))
    core.do(asks(*(ask(f"d{n}", "k", vcore=1 + n) for n in range(5))))
    core.wait(2)
    partition = core.partition
    assert len(review_of(partition)._rivals) == 2
