"""Roll-backs of assumed asks (§ 8.4).

A node of 10 cores has an allocation of 2; asks k1 and k2 of 3 cores each are assumed there.
"""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from licorne_core.messages.commands import Command, FailMode, NodeAction, PredicatePolicy
from licorne_core.messages.effects import AskedCheck, Effect
from support.core.builders import (
    answering,
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
from support.core.driver import Driver, asked, keys, placed, released

DEADLINE = 10.0

SQUEEZES: dict[str, Command] = {
    "shrunk": nodes(node("n1", NodeAction.UPDATE, vcore=7)),
    "foreign": asks(replace(ask("", "other", vcore=3, on_node="n1"), tags={"foreign": "x"})),
    "resize": asks(ask("there", "held", vcore=5)),
    "placement": asks(ask("there", "new", vcore=3, on_node="n1")),
}
"""Commands after which the amounts on the node exceed its capacity by 1."""


def assuming(fail_mode: FailMode = FailMode.CLOSED) -> tuple[Driver, list[AskedCheck]]:
    """A core that has assumed k1 and then k2, and the checks sent to the RM."""
    core = Driver(reservations=False)
    core.do(
        register(
            config("[{name: a}]"),
            predicates=PredicatePolicy(deadline=DEADLINE, fail_mode=fail_mode),
        ),
        nodes(node("n1", vcore=10)),
        apps(app("there", "root.a"), app("one", "root.a")),
        asks(ask("there", "held", vcore=2)),
    )
    both = (ask("one", key, vcore=3, predicate="p") for key in ("k1", "k2"))
    checks = asked(core.do(asks(*both)))
    assert assumed(core) == ["k1", "k2"]
    return core, checks


def assumed(core: Driver) -> list[str]:
    """The keys of the assumed asks."""
    every = core.partition.applications.values()
    return [r.key for owner in every for r in owner.booked() if r.state.value == "assumed"]


def accept_all(core: Driver, effects: Sequence[Effect]) -> list[str]:
    """Accept all checks that follow; return the keys of the allocations."""
    told = list(effects)
    waiting = asked(effects)
    for check in waiting:
        effects = core.do(answering(check))
        told += effects
        waiting += asked(effects)
    return keys(told)


def accept(core: Driver, checks: Sequence[AskedCheck]) -> list[Effect]:
    """Accept these checks; return all effects."""
    return core.do(*map(answering, checks))


@pytest.mark.parametrize("how", SQUEEZES)
def test_the_latest_assumed_ask_is_rolled_back_when_room_is_lost(how: str) -> None:
    """After a loss of room the latest assumed ask is rolled back, and the earlier one is checked again."""
    core, checks = assuming()
    effects = core.do(SQUEEZES[how])
    assert assumed(core) == ["k1"]
    assert released(effects) == []
    assert accept_all(core, [*effects, *accept(core, checks)]) == (
        ["new", "k1"] if how == "placement" else ["k1"]
    )
    assert core.explain("one", "k2").verdict == "pending"


@pytest.mark.parametrize("how", SQUEEZES)
def test_an_open_fail_mode_allocates_only_asks_that_still_fit(how: str) -> None:
    """After missed deadlines with the open fail mode, only asks that still fit are allocated."""
    core, _ = assuming(FailMode.OPEN)
    core.do(SQUEEZES[how])
    assert keys(core.wait(DEADLINE - 0.5)) == []
    assert keys(core.wait(2 * DEADLINE)) == ["k1"]
    assert core.explain("one", "k2").verdict == "pending"


def test_all_assumed_asks_that_do_not_fit_are_rolled_back() -> None:
    """All assumed asks that do not fit are rolled back, and no allocation is stopped (spec § 7.2)."""
    core, checks = assuming()
    effects = core.do(nodes(node("n1", NodeAction.UPDATE, vcore=1)))
    assert (assumed(core), released(effects)) == ([], [])
    assert placed(accept(core, checks)) == []


def test_assumed_asks_without_the_missing_type_are_not_rolled_back() -> None:
    """After a shortage of a type only assumed asks that request this type are rolled back."""
    core, _ = assuming()
    core.do(nodes(node("n1", NodeAction.UPDATE, vcore=10, memory=5)))
    core.do(asks(ask("one", "m", memory=5, predicate="q")))
    assert assumed(core) == ["k1", "k2", "m"]
    effects = core.do(nodes(node("n1", NodeAction.UPDATE, vcore=7, memory=5)))
    assert assumed(core) == ["k1", "m"]
    # An ask that was rolled back and assumed again would be checked again.
    assert asked(effects) == []


def test_a_rolled_back_ask_keeps_its_place() -> None:
    """A rolled back ask precedes later asks of its class."""
    core, checks = assuming()
    core.do(asks(ask("one", "k3", vcore=3, predicate="p")))
    core.do(SQUEEZES["shrunk"])
    core.do(nodes(node("n1", NodeAction.UPDATE, vcore=8)))
    assert assumed(core) == ["k1", "k2"]
    accept(core, checks)
    assert core.explain("one", "k3").verdict == "pending"


@pytest.mark.parametrize("fail_mode", FailMode)
def test_a_drained_node_rolls_back_all_assumed_asks(fail_mode: FailMode) -> None:
    """A drain rolls back all assumed asks, for which later answers and deadlines have no effect."""
    core, checks = assuming(fail_mode)
    core.do(nodes(node("n1", NodeAction.DRAIN_NODE)))
    assert assumed(core) == []
    assert placed(core.wait(3 * DEADLINE)) == []
    assert placed(accept(core, checks)) == []
    effects = core.do(nodes(node("n1", NodeAction.DRAIN_TO_SCHEDULABLE)))
    assert accept_all(core, effects) == ["k1", "k2"]


def test_asks_that_require_a_drained_node_remain_assumed() -> None:
    """Asks that require a drained node remain assumed there, and are checked again (spec § 7.7)."""
    core, _ = assuming()
    daemon = asks(ask("one", "daemon", vcore=1, predicate="d", required_node="n1"))
    (check,) = asked(core.do(daemon))
    core.do(nodes(node("n1", NodeAction.DRAIN_NODE)))
    assert assumed(core) == ["daemon"]
    (again,) = asked(core.do(answering(check)))
    assert placed(core.do(answering(again))) == [("one", "daemon", "n1")]


def test_a_removed_node_rolls_back_asks_that_require_it() -> None:
    """Asks that require a removed node are rolled back, and wait for a node of its name."""
    core, _ = assuming()
    core.do(asks(ask("one", "daemon", vcore=1, predicate="d", required_node="n1")))
    effects = core.do(nodes(node("n1", NodeAction.DECOMISSION)))
    assert assumed(core) == []
    assert [key for _, key, _, _ in released(effects)] == ["held"]
    core.do(nodes(node("n2", vcore=1)))
    (check,) = asked(core.do(nodes(node("n1", vcore=1))))
    assert (check.key, check.nodes) == ("daemon", ["n1"])


def test_a_roll_back_frees_room_at_once() -> None:
    """A roll-back frees room on the node, in the queue and in the application at once."""
    core, checks = assuming()
    core.do(asks(ask("there", "plain", vcore=3)))
    assert core.explain("there", "plain").verdict == "pending"
    assert keys(core.do(releases(release("one", "k1")))) == ["plain"]
    assert accept_all(core, accept(core, checks)) == ["k2"]
