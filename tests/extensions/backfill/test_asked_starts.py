"""Shadow starts on nodes that the RM has to accept first."""

from collections.abc import Sequence

from licorne_core.extensions.backfill.extension import starts_of
from licorne_core.messages.commands import (
    AnswerPredicates,
    FailMode,
    NodeAction,
    NodeRefusal,
    PredicateAnswer,
    PredicatePolicy,
)
from licorne_core.messages.effects import Effect
from licorne_core.values.ids import NodeId, RmId
from licorne_core.values.tags import RUNTIME
from support.core.builders import app, apps, ask, asks, config, node, nodes, register
from support.core.driver import START, Driver
from support.core.driver import asked as checks_in

CONFIG = config("[{name: a}]", properties="{backfill: easy, reservation.max.nodes: '0'}")


def world(count: int, fail: FailMode = FailMode.CLOSED) -> tuple[Driver, list[Effect]]:
    """Nodes of four cores with three in use, the first until 10 s, the second until 20 s, and so on.

    An ask as large as a node waits, and the RM judges nodes.
    """
    driver = Driver()
    driver.do(register(CONFIG, predicates=PredicatePolicy(deadline=1.0, fail_mode=fail)))
    driver.do(nodes(*(node(f"n{number:03}", vcore=4) for number in range(count))))
    driver.do(apps(app("runs", "root.a"), app("first", "root.a")))
    some = [
        ask("runs", f"r{n}", vcore=3, on_node=f"n{n:03}", tags={RUNTIME: str(10 + 10 * n)})
        for n in range(count)
    ]
    driver.do(asks(*some))
    return driver, driver.do(asks(ask("first", "k", vcore=4, predicate="picky", tags={RUNTIME: "5"})))


def asked(effects: Sequence[Effect]) -> list[tuple[int, list[str]]]:
    """Number and nodes of each check in the effects, all of which are for later starts."""
    found = checks_in(effects)
    assert not any(one.allocate for one in found)
    return [(one.check, [*map(str, one.nodes)]) for one in found]


def answer(driver: Driver, check: int, refused: Sequence[str] = ()) -> list[Effect]:
    """Answer the check: the RM refuses these nodes, and accepts all others."""
    refusals = [NodeRefusal(node_id=NodeId(one), reason="taint") for one in refused]
    answers = [PredicateAnswer(check, refusals)]
    return driver.do(AnswerPredicates(rm_id=RmId("rm1"), answers=answers))


def starts(driver: Driver) -> list[tuple[float, list[str]]]:
    """The shadow starts: seconds after the start of the test, and nodes."""
    shadows = starts_of(driver.partition).shadows
    return [(one.start - START, [str(node.node_id) for node in one.places]) for one in shadows]


def test_a_start_is_published_once_the_rm_has_accepted_its_node() -> None:
    """Before the RM has answered, no room is held; a start on a refused node is never published."""
    driver, effects = world(3)
    [(check, about)] = asked(effects)
    assert (about, starts(driver)) == (["n000"], [])
    [(check, about)] = asked(answer(driver, check, ["n000"]))
    assert (about, starts(driver)) == (["n001", "n002"], [])
    assert asked(answer(driver, check, ["n001"])) == []
    assert starts(driver) == [(30.0, ["n002"])]


def test_a_few_questions_find_the_only_node_that_the_rm_accepts() -> None:
    """Six questions are enough for 40 nodes: each names about twice as many nodes as the one before."""
    driver, effects = world(40)
    questions = 0
    while found := asked(effects):
        [(check, about)] = found
        questions += 1
        effects = answer(driver, check, [one for one in about if one != "n039"])
    assert (starts(driver), questions) == ([(400.0, ["n039"])], 6)


def test_an_ask_whose_nodes_are_all_refused_lets_others_hold_a_start() -> None:
    """After the RM has refused each node once, the next ask is planned."""
    driver, effects = world(3)
    while found := asked(effects):
        [(check, about)] = found
        effects = answer(driver, check, about)
    assert starts(driver) == []
    driver.do(asks(ask("first", "other", vcore=4, tags={RUNTIME: "5"})))
    assert starts(driver) == [(10.0, ["n000"])]


def test_one_question_is_open_for_each_start_that_may_be_held() -> None:
    """While the RM is asked for the first ask, the next one gets no start: `easy` allows only one."""
    driver, effects = world(3)
    [(check, _)] = asked(effects)
    driver.do(apps(app("second", "root.a")))
    assert asked(driver.do(asks(ask("second", "next", vcore=3, tags={RUNTIME: "5"})))) == []
    assert starts(driver) == []
    answer(driver, check)
    assert starts(driver) == [(10.0, ["n000"])]


def test_a_silent_rm_delays_a_start_until_the_deadline_of_its_answer() -> None:
    """At the deadline nodes count as accepted with the fail mode OPEN, and as refused with CLOSED."""
    driver, _ = world(1, FailMode.OPEN)
    driver.wait(1.1)
    assert starts(driver) == [(10.0, ["n000"])]
    driver, _ = world(1, FailMode.CLOSED)
    driver.wait(3)
    assert starts(driver) == []
    driver.do(asks(ask("first", "other", vcore=4, tags={RUNTIME: "5"})))
    assert starts(driver) == [(10.0, ["n000"])]


def test_a_holder_keeps_its_start_until_the_rm_has_accepted_another_node() -> None:
    """The start is kept if its node is removed, and if an earlier start may be possible."""
    driver, effects = world(3)
    [(check, _)] = asked(effects)
    answer(driver, check)
    [(check, about)] = asked(driver.do(nodes(node("n000", NodeAction.DRAIN_NODE))))
    assert (about, starts(driver)) == (["n001"], [(10.0, [])])
    answer(driver, check)
    assert starts(driver) == [(20.0, ["n001"])]
    driver.do(nodes(node("n000", NodeAction.DRAIN_TO_SCHEDULABLE)))
    driver.wait(6)
    [(check, about)] = asked(driver.do(nodes(node("n009", vcore=1))))
    assert (about, starts(driver)) == (["n000"], [(20.0, ["n001"])])
    answer(driver, check)
    assert starts(driver) == [(10.0, ["n000"])]
