"""An RM that judges victims is asked about each node once, and not about too much at a time."""

from licorne_core.messages.commands import AnswerPreemptions, PredicatePolicy, PreemptionAnswer
from licorne_core.messages.effects import AskedPreemption, Effect, PreemptionsAsked
from licorne_core.model.nodes.node import Node
from licorne_core.scheduling.preempting import MOST_QUESTIONS
from licorne_core.scheduling.preemption import Law, Refusal
from licorne_core.values.asks import Ask
from licorne_core.values.ids import NodeId, RmId
from support.core.builders import RM, app, apps, ask, asks, config, node, nodes, register
from support.core.driver import Driver, released
from support.preemption.building import build
from support.preemption.records import NodeRecord
from support.preemption.scenes import NOW, A, B, cluster, queue, runs, waits

NODES = 15


def town() -> Driver:
    """Many nodes, each full with a rich allocation, and a poor application without any."""
    driver = Driver()
    policy = PredicatePolicy(deadline=10, judges_victims=True)
    rich = "{name: rich, resources: {guaranteed: {memory: 1}}}"
    poor = "{name: poor, resources: {guaranteed: {memory: 9000}}, properties: {%s}}"
    queues = f"[{rich}, {poor % 'preemption.delay: 5s'}]"
    driver.do(register(config(queues), predicates=policy))
    driver.do(nodes(*[node(f"n{number:02}", memory=1) for number in range(NODES)]))
    driver.do(apps(app("rich", "root.rich"), app("poor", "root.poor")))
    driver.do(asks(*[ask("rich", f"r{number}", memory=1, policy="s") for number in range(NODES)]))
    return driver


def questions(effects: list[Effect]) -> list[AskedPreemption]:
    """The questions about victims, in order."""
    return [check for effect in effects if isinstance(effect, PreemptionsAsked) for check in effect.checks]


def named(question: AskedPreemption) -> list[str]:
    """The nodes of a question."""
    return [asked.node_id for asked in question.nodes]


def answer(question: AskedPreemption, *agreed: str) -> AnswerPreemptions:
    """The RM agrees to these nodes, and refuses the others."""
    needed = {NodeId(name): 0 for name in agreed}
    return AnswerPreemptions(rm_id=RmId(RM), answers=[PreemptionAnswer(question.check, needed)])


def test_nodes_that_were_refused_are_left_out() -> None:
    """The best of the others come next; with none left the RM is what is in the way."""
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
    assert isinstance(last, Refusal)
    assert last.law is Law.RM_REFUSED


def test_no_node_is_asked_about_twice_before_all_were() -> None:
    """Ten nodes at a time; once all were refused nothing is asked for a while."""
    driver = town()
    driver.do(asks(ask("poor", "p", memory=1, predicate="x", policy="so")))
    (first,) = questions(driver.wait(5))
    (second,) = questions(driver.do(answer(first)))
    asked = named(first) + named(second)
    assert (len(named(first)), len(set(asked)), len(asked)) == (10, NODES, NODES)
    assert questions(driver.do(answer(second))) == []


def test_what_was_refused_for_one_ask_is_asked_again_for_the_next() -> None:
    """Victims were told to stop for the first: what the RM said meanwhile may be void."""
    driver = town()
    driver.do(
        asks(
            ask("poor", "p1", memory=1, predicate="x", policy="so"),
            ask("poor", "p2", memory=1, predicate="x", policy="so"),
        )
    )
    (first,) = questions(driver.wait(5))
    (second,) = questions(driver.do(answer(first)))
    effects = driver.do(answer(second, named(second)[0]))
    assert len(released(effects)) == 1
    (third,) = questions(effects)
    assert (third.key, named(third)) == ("p2", named(first))


def unlike(count: int) -> list[Ask]:
    """Poor asks of which none is like another."""
    return [
        ask("poor", f"p{number}", memory=1, predicate=f"x{number}", policy="so") for number in range(count)
    ]


def test_searches_that_turns_leave_out_are_made_in_further_ones() -> None:
    """A leaf has ten searches in a turn; the turns go on until everybody had one."""
    driver = town()
    driver.do(asks(*unlike(35)))
    assert len(questions(driver.wait(5))) == 35


def test_so_many_questions_are_open_at_a_time() -> None:
    """Further asks wait for an answer, whatever it is; no answer at all is one in the end."""
    driver = town()
    driver.do(asks(*unlike(MOST_QUESTIONS + 2)))
    opened = questions(driver.wait(5))
    assert len(opened) == MOST_QUESTIONS
    (further,) = questions(driver.do(answer(opened[0], named(opened[0])[0])))
    assert further.key == f"p{MOST_QUESTIONS}"
    assert [question.key for question in questions(driver.wait(10))] == [f"p{MOST_QUESTIONS + 1}"]


def test_the_score_of_a_plan_counts_those_whom_the_rm_wants_as_well() -> None:
    """Each further victim on the node is one more; without any it is the plan as it was found."""
    scene = cluster([queue(A, {"vcore": 4}), queue(B)], runs(B, *range(12)), waits(A, 1))
    built = build(scene)
    app, request = built.request(f"{A}-w1")
    found = built.search.find(app, request, NOW, most=1)
    assert isinstance(found, list)
    plan = found[0]._replace(spare=found[0].on_node)
    assert plan.score == plan.score_upto(plan.start) == (0, 1, "n1")
    assert plan.score_upto(1) == (0, 2, "n1")
    assert plan.victims_upto(1) == plan.offered
    assert plan.victims_upto(-1) == ()
