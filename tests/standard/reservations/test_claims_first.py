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
    """Nodes of 10, filled by `base1` and `base2`; n1 is reserved for an ask of 6 of `other`."""
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
    """Release an allocation; return the asks that are placed, with their nodes."""
    return [(key, at) for _, key, at in placed(core.do(releases(release("base", name))))]


def test_a_claim_is_placed_before_the_reserved_ask() -> None:
    """A claim newer than the last review is placed before the reserved ask."""
    core = reserved()
    core.do(asks(ask("due", "d", vcore=7)))
    assert free(core, "base1") == [("d", "n1")]
    assert free(core, "base2") == [("big", "n2")]


def test_a_claim_is_placed_first_on_other_nodes_too() -> None:
    """On another node, too, a claim is placed before the reserved ask."""
    core = reserved()
    core.do(asks(ask("due", "d", vcore=7)))
    assert free(core, "base2") == [("d", "n2")]


def test_a_reserved_ask_uses_room_left_by_claims() -> None:
    """Room on the node that the claim leaves is used by the reserved ask."""
    core = reserved()
    core.do(asks(ask("due", "d", vcore=4)))
    assert free(core, "base1") == [("d", "n1"), ("big", "n1")]


def test_the_claim_of_highest_priority_is_first_and_then_the_oldest() -> None:
    """Of several claims, priority and then age decide, not the order of queues."""
    core = reserved()
    core.do(asks(ask("late", "old", vcore=7)))
    core.wait(0.1)
    core.do(asks(ask("due", "young", vcore=7)))
    assert free(core, "base1") == [("old", "n1")]
    core.do(asks(ask("late", "usual", vcore=7), ask("due", "urgent", vcore=7, priority=5)))
    assert free(core, "base2") == [("urgent", "n2")]


@pytest.mark.parametrize(("other", "due"), [(20, 20), (1, 3)], ids=["holder due", "nobody due"])
def test_an_ask_above_its_guarantee_does_not_precede(other: int, due: int) -> None:
    """A reserved ask within its guarantee is served first, and so is one facing an ask above its own."""
    core = reserved(other, due)
    core.do(asks(ask("due", "d", vcore=7)))
    assert free(core, "base1") == [("big", "n1")]


def test_a_drained_node_accepts_only_the_reserved_ask() -> None:
    """A drained node accepts the ask that has it reserved, but no claim (spec § 7.7)."""
    core = reserved()
    core.do(nodes(node("n1", NodeAction.DRAIN_NODE)))
    core.do(asks(ask("due", "d", vcore=7)))
    assert free(core, "base1") == [("big", "n1")]
