"""Asks within their queue's guarantee are placed before reserved asks above it (spec § 8.6)."""

import pytest

from licorne_core.messages.commands import NodeAction
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
from support.core.driver import Driver, placed

QUEUES = (
    "[{{name: base}}, {{name: other, resources: {{guaranteed: {{vcore: {other}m}}}}}},"
    " {{name: due, resources: {{guaranteed: {{vcore: {due}m}}}}}},"
    " {{name: late, resources: {{guaranteed: {{vcore: 20m}}}}}}]"
)


def reserved(other: int = 1, due: int = 20) -> Driver:
    """Full nodes n1 and n2; n1 is reserved for ask `big` of `other`. The arguments are queues' guarantees."""
    core = Driver()
    core.do(register(config(QUEUES.format(other=other, due=due), properties=MANY_RESERVED)))
    drained = node("n3", NodeAction.CREATE_DRAIN, vcore=100)
    core.do(nodes(node("n1", vcore=10), node("n2", vcore=10), drained))
    names = ("base", "other", "due", "late")
    core.do(apps(*(app(name, f"root.{name}") for name in names)))
    core.do(asks(*(ask("base", f"base{n}", vcore=10, on_node=f"n{n}") for n in (1, 2))))
    core.do(asks(ask("other", "big", vcore=6)))
    core.wait(3)
    return core


def free(core: Driver, name: str) -> list[tuple[str, str]]:
    """Release an allocation of `base`; return the placed asks with their nodes."""
    return [(key, at) for _, key, at in placed(core.do(releases(release("base", name))))]


def test_an_ask_within_its_guarantee_precedes_the_reserved_ask() -> None:
    """An ask within its guarantee precedes the reserved ask, even if submitted since the last review."""
    core = reserved()
    core.do(asks(ask("due", "d", vcore=7)))
    assert free(core, "base1") == [("d", "n1")]
    assert free(core, "base2") == [("big", "n2")]


def test_an_ask_within_its_guarantee_is_first_on_other_nodes_as_well() -> None:
    """An ask within its guarantee precedes the reserved ask on other nodes as well."""
    core = reserved()
    core.do(asks(ask("due", "d", vcore=7)))
    assert free(core, "base2") == [("d", "n2")]


def test_the_reserved_ask_uses_the_remaining_room() -> None:
    """If the ask within its guarantee leaves enough room, the reserved ask is placed on the same node."""
    core = reserved()
    core.do(asks(ask("due", "d", vcore=4)))
    assert free(core, "base1") == [("d", "n1"), ("big", "n1")]


def test_asks_within_their_guarantees_are_ordered_by_priority_and_age() -> None:
    """Asks within guarantees are ordered by priority and then age, not by the order of queues."""
    core = reserved()
    core.do(asks(ask("late", "old", vcore=7)))
    core.wait(0.1)
    core.do(asks(ask("due", "young", vcore=7)))
    assert free(core, "base1") == [("old", "n1")]
    core.do(asks(ask("late", "usual", vcore=7), ask("due", "urgent", vcore=7, priority=5)))
    assert free(core, "base2") == [("urgent", "n2")]


@pytest.mark.parametrize(("other", "due"), [(20, 20), (1, 3)], ids=["holder due", "nobody due"])
def test_an_ask_above_its_guarantee_does_not_precede_the_reserved_ask(other: int, due: int) -> None:
    """A reserved ask precedes asks above their guarantee, and all asks if it is within its own guarantee."""
    core = reserved(other, due)
    core.do(asks(ask("due", "d", vcore=7)))
    assert free(core, "base1") == [("big", "n1")]


def test_a_drained_node_accepts_only_the_reserved_ask() -> None:
    """A drained node accepts the ask for which it is reserved, and no other ask (spec § 7.7)."""
    core = reserved()
    core.do(nodes(node("n1", NodeAction.DRAIN_NODE)))
    core.do(asks(ask("due", "d", vcore=7)))
    assert free(core, "base1") == [("big", "n1")]
