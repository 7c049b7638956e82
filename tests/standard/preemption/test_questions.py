"""An RM that judges nodes or victims is asked before any victim is stopped (spec §§ 9.2, 9.4)."""

from collections.abc import Iterable

import pytest

from licorne_core.messages.commands import (
    AnswerPreemptions,
    Command,
    FailMode,
    Hold,
    NodeAction,
    NodeRefusal,
    PredicatePolicy,
    PreemptionAnswer,
    SetHold,
)
from licorne_core.messages.effects import AskedCheck, AskedPreemption, Effect, PreemptionsAsked
from licorne_core.model.nodes.node import Node
from licorne_core.standard.preemption.laws import Law
from licorne_core.standard.preemption.remedy import MOST_QUESTIONS
from licorne_core.standard.preemption.search import SearchRefusal
from licorne_core.standard.preemption.victims import NO_PRICE
from licorne_core.values.asks import Ask
from licorne_core.values.ids import NodeId, RmId
from support.core.builders import (
    NONE_RESERVED,
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
    reload,
)
from support.core.driver import Driver, asked, released
from support.preemption.asking import NOW, A, B, cluster, queue, runs, waits
from support.preemption.building import build
from support.preemption.records import NodeRecord

NODES = 15
NODES_JUDGED = PredicatePolicy(deadline=10, fail_mode=FailMode.CLOSED)
VICTIMS_JUDGED = PredicatePolicy(deadline=10, judges_victims=True)
ON_HOLD = SetHold(rm_id=RmId(RM), hold=Hold.DRAINING, on=True)


def town(policy: PredicatePolicy) -> Driver:
    """Nodes that are each full with an allocation of `rich`, and an application of `poor` without asks."""
    driver = Driver()
    rich = "{name: rich, resources: {guaranteed: {memory: 1}}}"
    poor = "{name: poor, resources: {guaranteed: {memory: 9000}}, properties: {%s}}"
    driver.do(
        register(
            config(f"[{rich}, {poor % 'preemption.delay: 5s'}]", properties=NONE_RESERVED), predicates=policy
        )
    )
    driver.do(nodes(*[node(f"n{number:02}", memory=1) for number in range(NODES)]))
    driver.do(apps(app("rich", "root.rich"), app("poor", "root.poor")))
    driver.do(asks(*[ask("rich", f"r{number}", memory=1, policy="s") for number in range(NODES)]))
    return driver


def poor(key: str, predicate: str = "x") -> Ask:
    """An ask of `poor` that may preempt, for which the RM judges nodes or victims."""
    return ask("poor", key, memory=1, predicate=predicate, policy="so")


def unlike(count: int) -> list[Ask]:
    """Asks of `poor`, each of a different class."""
    return [poor(f"p{number}", f"x{number}") for number in range(count)]


def stopped(effects: Iterable[Effect]) -> list[str]:
    """The keys of the allocations that the RM is asked to stop."""
    return [key for _, key, *_ in released(effects)]


# An RM that judges victims


def questions(effects: Iterable[Effect]) -> list[AskedPreemption]:
    """The checks of victims, in order."""
    return [check for effect in effects if isinstance(effect, PreemptionsAsked) for check in effect.checks]


def named(question: AskedPreemption) -> list[str]:
    """The nodes of a check."""
    return [asked.node_id for asked in question.nodes]


def answer(question: AskedPreemption, *agreed: str) -> AnswerPreemptions:
    """Let the RM accept the first victim on these nodes, and refuse all other nodes."""
    needed = {NodeId(name): 0 for name in agreed}
    return AnswerPreemptions(rm_id=RmId(RM), answers=[PreemptionAnswer(question.check, needed)])


def test_refused_nodes_are_not_named_again_in_a_search() -> None:
    """After a refusal the next check has the next best nodes; after all are refused, the RM is the reason."""
    scene = cluster(
        [queue(A, {"vcore": 4}), queue(B)],
        *[runs(B, number, node=f"n{number}") for number in (1, 2, 3)],
        waits(A, 1),
        nodes=tuple(NodeRecord(name=f"n{number}", capacity={"vcore": 1}) for number in (1, 2, 3)),
    )
    built = build(scene)
    app, request = built.request(f"{A}-w1")
    refused: list[Node] = []
    for name in ("n1", "n2", "n3"):
        found = built.search.find(app, request, NOW, most=1, refused=refused)
        assert isinstance(found, list)
        refused.append(found[0].node)
        assert refused[-1].node_id == name
    last = built.search.find(app, request, NOW, most=1, refused=refused)
    assert isinstance(last, SearchRefusal)
    assert last.law is Law.RM_REFUSED


def test_each_node_is_checked_once() -> None:
    """A check names ten nodes; after all nodes are refused, the RM is not asked again for a while."""
    driver = town(VICTIMS_JUDGED)
    driver.do(asks(poor("p")))
    (first,) = questions(driver.wait(5))
    (second,) = questions(driver.do(answer(first)))
    asked = named(first) + named(second)
    assert (len(named(first)), len(set(asked)), len(asked)) == (10, NODES, NODES)
    assert questions(driver.do(answer(second))) == []


def test_refusals_for_one_ask_do_not_apply_to_the_next() -> None:
    """Refusals for one ask do not apply to the next ask, because victims were stopped meanwhile."""
    driver = town(VICTIMS_JUDGED)
    driver.do(asks(poor("p1"), poor("p2")))
    (first,) = questions(driver.wait(5))
    (second,) = questions(driver.do(answer(first)))
    effects = driver.do(answer(second, named(second)[0]))
    assert len(released(effects)) == 1
    (third,) = questions(effects)
    assert (third.key, named(third)) == ("p2", named(first))


def test_a_leaf_continues_its_searches_in_later_turns() -> None:
    """A leaf has ten searches in a turn, and further turns until every ask was searched for."""
    driver = town(VICTIMS_JUDGED)
    driver.do(asks(*unlike(35)))
    assert len(questions(driver.wait(5))) == 35


def test_open_checks_of_victims_are_bounded() -> None:
    """Beyond the bound on open checks, further asks wait for an answer or its deadline."""
    driver = town(VICTIMS_JUDGED)
    driver.do(asks(*unlike(MOST_QUESTIONS + 2)))
    opened = questions(driver.wait(5))
    assert len(opened) == MOST_QUESTIONS
    (further,) = questions(driver.do(answer(opened[0], named(opened[0])[0])))
    assert further.key == f"p{MOST_QUESTIONS}"
    assert [question.key for question in questions(driver.wait(10))] == [f"p{MOST_QUESTIONS + 1}"]


def test_the_score_of_a_plan_includes_victims_added_by_the_rm() -> None:
    """Each victim added by the RM counts in the score of a plan; without additions the plan is unchanged."""
    scene = cluster([queue(A, {"vcore": 4}), queue(B)], runs(B, *range(12)), waits(A, 1))
    built = build(scene)
    app, request = built.request(f"{A}-w1")
    found = built.search.find(app, request, NOW, most=1)
    assert isinstance(found, list)
    plan = found[0]._replace(spare=found[0].on_node)
    assert plan.score_upto(plan.start) == (0, NO_PRICE, 1, "n1")
    assert plan.score_upto(1) == (0, NO_PRICE, 2, "n1")
    assert plan.victims_upto(1) == plan.offered
    assert plan.victims_upto(-1) == ()


POOR = "{name: poor, resources: {guaranteed: {memory: 4}}}"
LIMITED = POOR.replace("}}}", "}}, limits: [{limit: x, users: [bob], maxresources: {memory: 2}}]}")
ONE_AT_A_TIME = POOR.replace("}}}", "}}, maxapplications: 1}")


def judged(poor: str = POOR, enabled: str = "true") -> str:
    """A configuration of the queues `rich` and `poor`, whose asks preempt after 5 s."""
    queues = f"[{{name: rich}}, {poor}]"
    text = config(queues, rest=f"preemption: {{enabled: {enabled}}}")
    return text.replace("submitacl: '*'", "submitacl: '*', properties: {preemption.delay: 5s}")


def asking(poor: str = POOR) -> tuple[Driver, AskedPreemption]:
    """A full cluster, and the check of victims for `p1`, the ask of `poor`."""
    driver = Driver()
    driver.do(register(judged(poor), predicates=VICTIMS_JUDGED))
    driver.do(nodes(node("n1", memory=4), node("n2", memory=100)))
    driver.do(apps(app("fat", "root.rich"), app("rich", "root.rich")))
    driver.do(asks(ask("fat", "x", on_node="n2", memory=100)))
    driver.do(asks(*[ask("rich", f"r{n}", policy="s", on_node="n1", memory=1) for n in range(4)]))
    driver.do(apps(app("poor", "root.poor", user="bob"), app("other", "root.poor", user="bob")))
    driver.do(asks(ask("poor", "p1", policy="o", predicate="x", memory=1)))
    (question,) = questions(driver.wait(5))
    return driver, question


def test_the_victims_in_the_answer_of_the_rm_are_stopped() -> None:
    """If nothing has changed since the check, the victims in the answer are stopped."""
    driver, question = asking()
    assert len(stopped(driver.do(answer(question, "n1")))) == 1


@pytest.mark.parametrize(
    ("poor", "change"),
    [
        (POOR, ON_HOLD),
        (LIMITED, asks(ask("other", "o", on_node="n1", memory=2))),
        (ONE_AT_A_TIME, asks(ask("other", "o", on_node="n1", memory=1))),
    ],
    ids=["hold", "limit", "max applications"],
)
def test_no_victim_is_stopped_for_a_blocked_ask(poor: str, change: Command) -> None:
    """No victim is stopped for an ask that another check blocks when the RM answers."""
    driver, question = asking(poor)
    driver.do(change)
    assert stopped(driver.do(answer(question, "n1"))) == []


@pytest.mark.parametrize(
    "text",
    [judged(enabled="false"), judged(POOR.replace("4", "3"))],
    ids=["switched off", "another guarantee"],
)
def test_an_answer_is_void_after_a_change_of_settings(text: str) -> None:
    """An answer is void after a change of the settings that allowed preemption."""
    driver, question = asking()
    driver.do(reload(text))
    assert stopped(driver.do(answer(question, "n1"))) == []


def test_the_rm_is_asked_again_after_a_reload() -> None:
    """After a reload the RM is asked again, although an earlier check is still open."""
    driver, before = asking()
    (question,) = questions(driver.do(reload(judged(POOR.replace("4", "3")))))
    assert question.check != before.check
    assert len(stopped(driver.do(answer(question, "n1")))) == 1


def test_a_released_ask_does_not_delay_the_next_check() -> None:
    """After the answer about a released ask, the RM is asked for the next ask."""
    driver, question = asking()
    driver.do(asks(ask("poor", "p2", policy="o", predicate="x", memory=1)))
    driver.wait(6)
    driver.do(releases(release("poor", "p1")))
    assert questions(driver.do(answer(question, "n1"))) != []


# An RM that judges nodes


def refuse(check: AskedCheck, *names: str) -> Command:
    """Let the RM refuse these nodes of a check, and accept all others."""
    return answering(check, [NodeRefusal(node_id=NodeId(name), reason="taint") for name in names])


def one_asked(driver: Driver) -> AskedCheck:
    """Submit an ask of `poor`, and return its check of nodes after the delay of preemption."""
    driver.do(asks(poor("p")))
    effects = driver.wait(5)
    assert released(effects) == []
    (check,) = asked(effects)
    assert (check.key, check.allocate) == ("p", False)
    return check


def test_victims_are_stopped_on_the_best_accepted_node() -> None:
    """A check names the best ten nodes, and the victim on the best accepted node is stopped."""
    driver = town(NODES_JUDGED)
    check = one_asked(driver)
    assert check.nodes == [f"n{number:02}" for number in range(10)]
    effects = driver.do(refuse(check, "n00", "n01"))
    assert stopped(effects) == ["r2"]


def test_the_next_nodes_are_checked_after_refusals() -> None:
    """No node is in two checks, and if all nodes are refused no victim is stopped."""
    driver = town(NODES_JUDGED)
    check = one_asked(driver)
    effects = driver.do(refuse(check, *check.nodes))
    (second,) = asked(effects)
    assert (stopped(effects), second.nodes) == ([], [f"n{n}" for n in range(10, NODES)])
    effects = driver.do(refuse(second, *second.nodes)) + driver.wait(60)
    assert (released(effects), asked(effects)) == ([], [])


def test_an_accepted_node_is_not_checked_again() -> None:
    """For a second equal ask on an accepted node, the victim is stopped at once."""
    driver = town(NODES_JUDGED)
    driver.do(asks(poor("p"), poor("q")))
    (check,) = asked(driver.wait(5))
    effects = driver.do(answering(check))
    assert stopped(effects) == ["r0", "r1"]
    assert asked(effects) == []


@pytest.mark.parametrize(
    ("fail_mode", "gone"),
    [(FailMode.OPEN, ["r0"]), (FailMode.CLOSED, [])],
    ids=["open", "closed"],
)
def test_a_missing_answer_counts_by_the_fail_mode(fail_mode: FailMode, gone: list[str]) -> None:
    """A missing answer is an acceptance with the open fail mode, and gives no result with the closed one."""
    driver = town(PredicatePolicy(deadline=10, fail_mode=fail_mode))
    check = one_asked(driver)
    effects = driver.wait(10)
    assert stopped(effects) == gone
    if not gone:
        shown = driver.explain("poor", "p").checks[-1]
        assert "refuse" not in shown.message()
        (again,) = asked(driver.wait(15))
        assert again.nodes == check.nodes


def test_an_acceptance_of_a_changed_node_is_void() -> None:
    """If nodes change after a check was sent, the RM is asked again before any stop."""
    driver = town(NODES_JUDGED)
    check = one_asked(driver)
    for action in (NodeAction.DRAIN_NODE, NodeAction.DRAIN_TO_SCHEDULABLE):
        driver.send(nodes(*[node(name, action=action) for name in check.nodes]))
    effects = driver.do(answering(check))
    (again,) = asked(effects)
    assert (released(effects), again.nodes) == ([], check.nodes)


def test_nothing_is_stopped_while_the_rm_is_on_hold() -> None:
    """No victim is stopped while the RM is on hold, even after it has accepted."""
    driver = town(NODES_JUDGED)
    check = one_asked(driver)
    driver.do(ON_HOLD)
    assert released(driver.do(answering(check))) == []


def test_an_ask_uses_the_results_for_a_released_ask() -> None:
    """With the results for a released ask of the class, the victim of the next ask is stopped at once."""
    driver = town(NODES_JUDGED)
    driver.do(asks(poor("p"), poor("q")))
    (check,) = asked(driver.wait(5))
    driver.do(releases(release("poor", "p")))
    effects = driver.do(answering(check))
    assert stopped(effects) == ["r0"]


def test_open_checks_of_nodes_are_bounded() -> None:
    """Beyond the bound on open checks, asks of other classes wait for any answer."""
    driver = town(NODES_JUDGED)
    driver.do(asks(*unlike(MOST_QUESTIONS + 2)))
    opened = asked(driver.wait(5))
    assert len(opened) == MOST_QUESTIONS
    (further,) = asked(driver.do(answering(opened[0])))
    assert further.key == f"p{MOST_QUESTIONS}"
