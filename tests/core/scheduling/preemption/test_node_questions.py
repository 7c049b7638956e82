"""An RM that judges nodes and no victims is asked about a plan's node before anybody is stopped."""

import pytest

from licorne_core.messages.commands import (
    Command,
    FailMode,
    Hold,
    NodeAction,
    NodeRefusal,
    PredicatePolicy,
    SetHold,
)
from licorne_core.messages.effects import AskedCheck
from licorne_core.scheduling.preempting import MOST_QUESTIONS
from licorne_core.values.asks import Ask
from licorne_core.values.ids import NodeId, PartitionName, RmId
from support.core.builders import (
    RM,
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
from support.core.driver import Driver, asked, released
from support.core.steps import last

NODES = 15


def town(fail_mode: FailMode = FailMode.CLOSED) -> Driver:
    """Many nodes, each full with a rich allocation, and a poor application without any."""
    driver = Driver()
    policy = PredicatePolicy(deadline=10, fail_mode=fail_mode)
    rich = "{name: rich, resources: {guaranteed: {memory: 1}}}"
    poor = "{name: poor, resources: {guaranteed: {memory: 9000}}, properties: {%s}}"
    driver.do(register(config(f"[{rich}, {poor % 'preemption.delay: 5s'}]"), predicates=policy))
    driver.do(nodes(*[node(f"n{number:02}", memory=1) for number in range(NODES)]))
    driver.do(apps(app("rich", "root.rich"), app("poor", "root.poor")))
    driver.do(asks(*[ask("rich", f"r{number}", memory=1, policy="s") for number in range(NODES)]))
    return driver


def poor(key: str, predicate: str = "x") -> Ask:
    """An ask that may preempt others, and whose node the RM judges."""
    return ask("poor", key, memory=1, predicate=predicate, policy="so")


def refuse(check: AskedCheck, *names: str) -> Command:
    """The RM refuses these nodes of a check, and accepts the others."""
    return answering(check, [NodeRefusal(node_id=NodeId(name), reason="taint") for name in names])


def one_asked(driver: Driver) -> AskedCheck:
    """An ask of poor has waited for long enough: the question about nodes for it."""
    driver.do(asks(poor("p")))
    effects = driver.wait(5)
    assert released(effects) == []
    (check,) = asked(effects)
    assert (check.key, check.allocate) == ("p", False)
    return check


def test_nobody_is_stopped_before_the_rm_has_agreed_to_the_node() -> None:
    """One question names the best ten nodes; the best that it accepts is cleared."""
    driver = town()
    check = one_asked(driver)
    assert check.nodes == [f"n{number:02}" for number in range(10)]
    effects = driver.do(refuse(check, "n00", "n01"))
    assert [key for _, key, *_ in released(effects)] == ["r2"]


def test_the_next_nodes_follow_those_that_are_refused() -> None:
    """No node is asked about twice, and with none left nobody is stopped."""
    driver = town()
    check = one_asked(driver)
    effects = driver.do(refuse(check, *check.nodes))
    (second,) = asked(effects)
    assert (released(effects), second.nodes) == ([], [f"n{n}" for n in range(10, NODES)])
    effects = driver.do(refuse(second, *second.nodes)) + driver.wait(60)
    assert (released(effects), asked(effects)) == ([], [])


def test_what_the_rm_has_said_of_a_node_is_not_asked_again() -> None:
    """Of the second ask like the first the best node is known: its victim is told at once."""
    driver = town()
    driver.do(asks(poor("p"), poor("q")))
    (check,) = asked(driver.wait(5))
    effects = driver.do(answering(check))
    assert [key for _, key, *_ in released(effects)] == ["r0", "r1"]
    assert asked(effects) == []


@pytest.mark.parametrize(
    ("fail_mode", "stopped"),
    [(FailMode.OPEN, ["r0"]), (FailMode.CLOSED, [])],
    ids=["open", "closed"],
)
def test_silence_counts_by_the_fail_mode(fail_mode: FailMode, stopped: list[str]) -> None:
    """It is consent, or a try in vain: no refusal, so that the nodes are asked about again."""
    driver = town(fail_mode)
    check = one_asked(driver)
    effects = driver.wait(10)
    assert [key for _, key, *_ in released(effects)] == stopped
    if not stopped:
        shown = last(driver.views.explain(PartitionName("[rm1]default"), "poor", "p")).checks[-1]
        assert "refuse" not in shown.message()
        (again,) = asked(driver.wait(15))
        assert again.nodes == check.nodes


def test_consent_to_a_node_that_has_changed_since_is_void() -> None:
    """The RM may have judged before: it is asked again, and nobody is stopped on its old word."""
    driver = town()
    check = one_asked(driver)
    for action in (NodeAction.DRAIN_NODE, NodeAction.DRAIN_TO_SCHEDULABLE):
        driver.send(nodes(*[node(name, action=action) for name in check.nodes]))
    effects = driver.do(answering(check))
    (again,) = asked(effects)
    assert (released(effects), again.nodes) == ([], check.nodes)


def test_nothing_is_stopped_while_the_rm_is_on_hold() -> None:
    """What stops the ask by now would stop it after its victims are gone, too."""
    driver = town()
    check = one_asked(driver)
    driver.do(SetHold(rm_id=RmId(RM), hold=Hold.DRAINING, on=True))
    assert released(driver.do(answering(check))) == []


def test_the_next_ask_follows_one_that_is_gone_at_once() -> None:
    """The nodes are known by then, so that its victim is told at once."""
    driver = town()
    driver.do(asks(poor("p"), poor("q")))
    (check,) = asked(driver.wait(5))
    driver.do(releases(release("poor", "p")))
    effects = driver.do(answering(check))
    assert [key for _, key, *_ in released(effects)] == ["r0"]


def test_so_many_questions_are_open_at_a_time() -> None:
    """Asks of other kinds wait for an answer, whatever it is."""
    driver = town()
    driver.do(asks(*[poor(f"p{n}", f"x{n}") for n in range(MOST_QUESTIONS + 2)]))
    opened = asked(driver.wait(5))
    assert len(opened) == MOST_QUESTIONS
    (further,) = asked(driver.do(answering(opened[0])))
    assert further.key == f"p{MOST_QUESTIONS}"
