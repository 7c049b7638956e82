"""The RM says which victims have to go: what has to be true when it does (spec §§ 9.2, 9.4)."""

from collections.abc import Iterable

import pytest

from licorne_core.messages.commands import (
    AnswerPreemptions,
    Command,
    Hold,
    PredicatePolicy,
    PreemptionAnswer,
    SetHold,
)
from licorne_core.messages.effects import Effect, PreemptionsAsked
from licorne_core.values.ids import NodeId, RmId
from support.core.builders import (
    RM,
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
from support.core.driver import Driver, released

POOR = "{name: poor, resources: {guaranteed: {memory: 4}}}"
LIMITED = POOR.replace("}}}", "}}, limits: [{limit: x, users: [bob], maxresources: {memory: 2}}]}")
ONE_AT_A_TIME = POOR.replace("}}}", "}}, maxapplications: 1}")


def judged(poor: str = POOR, enabled: str = "true") -> str:
    """A rich and a poor queue, whose asks preempt others after 5 s."""
    queues = f"[{{name: rich}}, {poor}]"
    text = config(queues, rest=f"preemption: {{enabled: {enabled}}}")
    return text.replace("submitacl: '*'", "submitacl: '*', properties: {preemption.delay: 5s}")


def asking(poor: str = POOR) -> tuple[Driver, int]:
    """A full cluster, and the number of the question for whom to stop for poor's ask p1."""
    driver = Driver()
    policy = PredicatePolicy(deadline=100, judges_victims=True)
    driver.do(register(judged(poor), predicates=policy))
    driver.do(nodes(node("n1", memory=4), node("n2", memory=100)))
    driver.do(apps(app("fat", "root.rich"), app("rich", "root.rich")))
    driver.do(asks(ask("fat", "x", on_node="n2", memory=100)))
    driver.do(asks(*[ask("rich", f"r{n}", policy="s", on_node="n1", memory=1) for n in range(4)]))
    driver.do(apps(app("poor", "root.poor", user="bob"), app("other", "root.poor", user="bob")))
    driver.do(asks(ask("poor", "p1", policy="o", predicate="x", memory=1)))
    return driver, check_of(driver.wait(5))


def check_of(effects: Iterable[Effect]) -> int:
    """The number of the only question."""
    (check,) = checks(effects)
    return check


def checks(effects: Iterable[Effect]) -> list[int]:
    """The numbers of the questions about victims."""
    said = [effect for effect in effects if isinstance(effect, PreemptionsAsked)]
    return [check.check for effect in said for check in effect.checks]


def stop_one(check: int) -> AnswerPreemptions:
    """The RM agrees that the first victim on n1 goes."""
    return AnswerPreemptions(rm_id=RmId(RM), answers=[PreemptionAnswer(check, {NodeId("n1"): 0})])


def stopped(effects: Iterable[Effect]) -> list[str]:
    """The keys of what the RM is told to stop."""
    return [key for _, key, *_ in released(effects)]


def test_the_first_victim_goes() -> None:
    """Nothing has changed since the question: it is done as the RM says."""
    driver, check = asking()
    assert len(stopped(driver.do(stop_one(check)))) == 1


@pytest.mark.parametrize(
    ("poor", "change"),
    [
        (POOR, SetHold(rm_id=RmId(RM), hold=Hold.DRAINING, on=True)),
        (LIMITED, asks(ask("other", "o", on_node="n1", memory=2))),
        (ONE_AT_A_TIME, asks(ask("other", "o", on_node="n1", memory=1))),
    ],
    ids=["hold", "limit", "max applications"],
)
def test_nobody_goes_for_an_ask_that_may_not_run(poor: str, change: Command) -> None:
    """What stops the ask by now would stop it after its victims are gone, too."""
    driver, check = asking(poor)
    driver.do(change)
    assert stopped(driver.do(stop_one(check))) == []


@pytest.mark.parametrize(
    "text",
    [judged(enabled="false"), judged(POOR.replace("4", "3"))],
    ids=["switched off", "another guarantee"],
)
def test_an_answer_under_other_settings_is_ignored(text: str) -> None:
    """Whether the ask may preempt others was decided under settings that are gone."""
    driver, check = asking()
    driver.do(reload(text))
    assert stopped(driver.do(stop_one(check))) == []


def test_after_a_reload_the_rm_is_asked_again() -> None:
    """The question that is open does not stand in the way of another."""
    driver, before = asking()
    effects = driver.do(reload(judged(POOR.replace("4", "3"))))
    check = check_of(effects)
    assert check != before
    assert len(stopped(driver.do(stop_one(check)))) == 1


def test_the_next_ask_follows_one_that_is_gone_at_once() -> None:
    """What the RM says of an ask that is not wanted any more delays no other ask."""
    driver, check = asking()
    driver.do(asks(ask("poor", "p2", policy="o", predicate="x", memory=1)))
    driver.wait(6)
    driver.do(releases(release("poor", "p1")))
    assert checks(driver.do(stop_one(check))) != []
