"""Nodes that the RM accepts for a reservation and refuses for the allocation (spec §§ 8.4-8.6)."""

import pytest

from licorne_core.messages.commands import PredicatePolicy
from licorne_core.messages.effects import Effect
from support.core.builders import (
    MANY_RESERVED,
    answering,
    app,
    apps,
    ask,
    asks,
    config,
    node,
    nodes,
    refusing,
    register,
    release,
    releases,
)
from support.core.driver import Driver, asked, placed, released, reserved


class Fickle:
    """An RM that accepts every reservation, and refuses every allocation of one class of asks."""

    def __init__(self) -> None:
        """Two nodes of 10 thousandths of a core, with 4 used by `base` on each."""
        self.core = Driver()
        queues = "[{name: base}, {name: a}, {name: b}]"
        self.core.do(
            register(config(queues, properties=MANY_RESERVED), predicates=PredicatePolicy(deadline=2.0)),
            nodes(node("n1", vcore=10), node("n2", vcore=10)),
            apps(app("base", "root.base"), app("a", "root.a"), app("b", "root.b")),
            asks(*(ask("base", f"base{n}", vcore=4, priority=1, on_node=f"n{n}") for n in (1, 2))),
        )
        self.refused = 0

    def hear(self, effects: list[Effect]) -> list[tuple[str, str, str]]:
        """Answer all checks, and confirm all stops; return the placed asks."""
        made = placed(effects)
        for app_id, key, *_ in released(effects):
            made += self.hear(self.core.do(releases(release(app_id, key))))
        for check in asked(effects):
            self.refused += check.allocate
            answer = refusing(check) if check.allocate else answering(check)
            made += self.hear(self.core.do(answer))
        return made

    def wait(self, seconds: float) -> list[tuple[str, str, str]]:
        """Let time pass in steps of a tenth of a second."""
        return [made for _ in range(round(seconds * 10)) for made in self.hear(self.core.wait(0.1))]

    def reserved(self) -> list[str]:
        """The reserved nodes."""
        return list(reserved(self.core).values())


@pytest.mark.parametrize("required", ["", "n1"], ids=["any node", "one node"])
def test_a_reservation_ends_when_the_rm_refuses_the_allocation(required: str) -> None:
    """A reservation whose allocation the RM refuses ends, and other asks use the room."""
    rm = Fickle()
    big = ask("a", "big", vcore=7, predicate="p", required_node=required or None)
    rm.hear(rm.core.do(asks(big)))
    rm.wait(3)
    assert rm.reserved() == ["n1"]
    rm.hear(rm.core.do(releases(release("base", "base1"))))
    assert rm.refused
    assert "n1" not in rm.reserved()
    assert rm.wait(20) == []
    assert "n1" not in rm.reserved()
    assert placed(rm.core.do(asks(ask("b", "other", vcore=9)))) == [("b", "other", "n1")]


def test_room_of_victims_that_the_rm_refuses_is_used_by_others() -> None:
    """If the RM refuses a required node after a victim was stopped, other asks use the room."""
    rm = Fickle()
    rm.core.do(asks(ask("b", "victim", vcore=6, policy="s", on_node="n1")))
    daemon = ask("a", "daemon", vcore=5, predicate="p", required_node="n1", policy="o")
    rm.hear(rm.core.do(asks(daemon)))
    assert rm.refused
    rm.hear(rm.core.do(asks(ask("b", "else", vcore=6), ask("b", "other", vcore=6))))
    assert rm.wait(5) == [("b", "other", "n1")]
    assert rm.reserved() == []


def test_a_changed_node_is_tried_again_after_a_refusal() -> None:
    """After a change of a refused node, an ask that requires it is tried there again."""
    rm = Fickle()
    rm.hear(rm.core.do(asks(ask("a", "big", vcore=7, predicate="p", required_node="n1"))))
    rm.hear(rm.core.do(releases(release("base", "base1"))))
    before = rm.refused
    assert rm.reserved() == []
    rm.hear(rm.core.do(asks(ask("base", "again", vcore=4, on_node="n1"))))
    assert rm.reserved() == ["n1"]
    rm.hear(rm.core.do(releases(release("base", "again"))))
    assert rm.refused == before + 1
