"""The validity of predicate results, each for one node in its reported state and for one ask (§ 8.4)."""

from collections.abc import Callable

import pytest

from licorne_core.messages.commands import (
    FailMode,
    NodeAction,
    NodeRefusal,
    NotePredicatesSent,
    PredicatePolicy,
)
from licorne_core.messages.effects import Effect
from licorne_core.standard.predicates import checks, owed, results
from licorne_core.values.asks import Ask
from licorne_core.values.ids import AppId, NodeId, PartitionName, RmId
from support.core.builders import (
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
from support.core.contents import assumed
from support.core.driver import Driver, asked, heard, placed
from support.core.steps import listed

PARTITION = PartitionName("[rm1]default")
Judge = Callable[[str, str], str]
"""Returns the reason why the RM refuses an ask (by key) on a node, or an empty text."""


def cluster(count: int, *, rest: str = "", policy: PredicatePolicy | None = None) -> Driver:
    """Nodes of 10 thousandths of a core, and an application `one` of an RM that judges nodes."""
    core = Driver()
    core.do(register(config("[{name: a}]", rest=rest), predicates=policy or PredicatePolicy()))
    core.do(nodes(*(node(f"n{number}", vcore=10) for number in range(1, count + 1))))
    core.do(apps(app("one", "root.a")))
    return core


def answered(core: Driver, effects: list[Effect], judge: Judge) -> tuple[list[Effect], int]:
    """Answer all checks by `judge`; return all effects, and the number of answers."""
    everything = list(effects)
    waiting = asked(effects)
    count = 0
    while waiting:
        count += 1
        assert count < 200, "the RM is asked for ever"
        check = waiting.pop(0)
        reasons = {name: judge(check.key, name) for name in check.nodes}
        refused = [NodeRefusal(node_id=NodeId(n), reason=why) for n, why in reasons.items() if why]
        effects = core.do(answering(check, refused))
        everything += effects
        waiting += asked(effects)
    return everything, count


def test_refused_asks_move_to_the_accepted_node() -> None:
    """Asks that were assumed on refused nodes move to the accepted node, each after one check."""
    core = cluster(3)
    wanted = [ask("one", f"k{n:02}", vcore=1, predicate="p") for n in range(25)]
    made, count = answered(core, core.do(asks(*wanted)), lambda _, __: "no")
    assert placed(made) == []
    assert count <= len(wanted)
    made, count = answered(
        core, core.do(nodes(node("n4", vcore=10))), lambda _, name: "" if name == "n4" else "no"
    )
    assert {where for _, _, where in placed(made)} == {"n4"}
    assert (len(placed(made)), count) == (10, 10)


def test_classes_do_not_void_results_of_each_other() -> None:
    """If the RM refuses ten classes everywhere, each class is checked at most once on each node."""
    core = cluster(3)
    wanted = [ask("one", f"k{n}", vcore=1, predicate=f"alone {n}") for n in range(10)]
    made, count = answered(core, core.do(asks(*wanted)), lambda _, __: "no")
    assert placed(made) == []
    assert count <= 30
    partition = core.partition
    assert all(not node.allocations for node in partition.nodes.by_id.values())


@pytest.mark.parametrize("order", ["fair", "binpacking"])
def test_each_ask_of_a_class_is_judged_separately(order: str) -> None:
    """If the RM accepts only one ask of a class per node, exactly one ask is placed on each node."""
    core = cluster(4, rest=f"nodesortpolicy: {{type: {order}}}")
    taken: set[str] = set()
    used: set[str] = set()
    effects = core.do(asks(*(ask("one", f"k{n}", vcore=1, predicate="p") for n in range(9))))
    waiting = asked(effects)
    while waiting:
        check = waiting.pop(0)
        used_up = [name for name in check.nodes if name in taken]
        effects = core.do(refusing(check, *used_up) if used_up else answering(check))
        taken.add(check.nodes[0])
        new = [where for _, _, where in placed(effects)]
        assert not used.intersection(new)
        assert len(set(new)) == len(new)
        used.update(new)
        taken.update(new)
        waiting += asked(effects)
    assert used == {"n1", "n2", "n3", "n4"}


def test_an_ask_on_a_node_with_assumed_asks_has_a_check_of_its_own() -> None:
    """A check judges asks only on its first node; an ask assumed on a further node has a check of its own."""
    core = cluster(2)
    effects = core.do(asks(*(ask("one", f"k{n}", vcore=5, predicate="p") for n in range(4))))
    check, *others = asked(effects)
    assert (check.key, check.nodes) == ("k0", ["n1", "n2"])
    assert [(other.key, other.nodes) for other in others] == [("k2", ["n1"]), ("k3", ["n2"])]
    effects = core.do(answering(check))
    assert [key for _, key, _ in placed(effects)] == ["k0"]
    (again,) = asked(effects)
    assert (again.key, again.nodes, again.allocate) == ("k1", ["n2"], True)
    assert placed(core.do(asks(ask("one", "other", vcore=1)))) == []
    effects = core.do(answering(again))
    assert [key for _, key, _ in placed(effects)] == ["k1"]
    effects = core.do(*(answering(other) for other in others))
    assert [key for _, key, _ in placed(effects)] == ["k2", "k3"]


def test_an_answer_is_void_for_a_node_that_changed_meanwhile() -> None:
    """If a node changes after a check was sent, the answer is void, and the RM is asked again."""
    core = cluster(1)
    core.do(asks(ask("one", "there", vcore=2, on_node="n1")))
    (check,) = asked(core.do(asks(ask("one", "k", vcore=4, predicate="p"))))
    core.do(releases(release("one", "there")))
    (again,) = asked(core.do(refusing(check)))
    effects = core.do(answering(again))
    assert placed(effects) == [("one", "k", "n1")]


def test_an_allocation_on_a_refused_node_voids_the_refusal() -> None:
    """After an allocation on a refused node the RM is asked about the node again."""
    core = cluster(1)
    effects = core.do(asks(ask("one", "friend", vcore=1, predicate="friendly")))
    (check,) = asked(effects)
    shy = core.do(asks(ask("one", "shy", vcore=1, predicate="shy")))
    alone, _ = answered(core, shy, lambda _, __: "no friend there")
    assert placed(alone) == []
    effects = core.do(answering(check))
    assert placed(effects) == [("one", "friend", "n1")]
    made, _ = answered(core, effects, lambda _, __: "")
    assert ("one", "shy", "n1") in placed(made)


def test_an_open_fail_mode_allocates_all_asks_of_a_check() -> None:
    """With the open fail mode, one missed deadline allocates all asks of a check."""
    core = cluster(1, policy=PredicatePolicy(deadline=2.0, fail_mode=FailMode.OPEN))
    core.do(asks(*(ask("one", f"k{n}", vcore=1, predicate="p") for n in range(3))))
    assert placed(core.wait(1.9)) == []
    assert placed(core.wait(0.2)) == [("one", f"k{n}", "n1") for n in range(3)]


def test_a_check_names_more_nodes_after_a_refusal() -> None:
    """A check names one node for each ask, and twice as many after each refusal."""
    core = cluster(200)
    (check,) = asked(core.do(asks(ask("one", "k", vcore=1, predicate="p"))))
    counts = [len(check.nodes)]
    for _ in range(6):
        (check,) = asked(core.do(refusing(check)))
        counts.append(len(check.nodes))
    assert counts == [1, 2, 4, 8, 16, 32, 64]
    many = [ask("one", f"m{n}", vcore=1, predicate="many") for n in range(50)]
    (check,) = asked(core.do(asks(*many)))
    assert len(check.nodes) == 50


def in_turn(classes: int, count: int, name: str = "k") -> list[Ask]:
    """`count` asks of each class, with alternating classes."""
    return [
        ask("one", f"{name}{number}-{place}", vcore=1, predicate=f"p{place}")
        for number in range(count)
        for place in range(classes)
    ]


def asked_about(core: Driver, wanted: list[Ask]) -> list[int]:
    """The number of nodes in each check; the RM accepts all of them."""
    counts: list[int] = []
    waiting = asked(core.do(asks(*wanted)))
    while waiting:
        check = waiting.pop(0)
        counts.append(len(check.nodes))
        waiting += asked(core.do(answering(check)))
    return counts


def test_checks_of_alternating_classes_name_few_nodes() -> None:
    """Checks of alternating classes name few nodes, because most acceptances become void."""
    core = cluster(30)
    counts = asked_about(core, in_turn(12, 6))
    assert counts[:12] == [6] * 12
    assert len(counts) > 60
    assert set(counts[12:]) <= {1, checks.ALWAYS}


def test_a_check_covers_more_asks_after_a_useful_check() -> None:
    """A check covers more asks of a class if the previous check of that class served more asks."""
    core = cluster(30)
    asked_about(core, in_turn(12, 6))
    counts = asked_about(core, in_turn(1, 30, "alone"))
    assert counts[0] == checks.ALWAYS
    assert len(counts) <= 4


@pytest.mark.pure
def test_the_usefulness_of_checks_is_recorded_for_few_classes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Beyond `MAX_SPARED` classes, the oldest class is treated as a new one."""
    core = cluster(30)
    monkeypatch.setattr(checks, "MAX_SPARED", 11)
    asked_about(core, in_turn(12, 6))
    assert asked_about(core, in_turn(1, 6, "again"))[0] == 6


@pytest.mark.pure
def test_the_results_of_a_node_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The results of released asks are dropped from a node."""
    core = cluster(2)
    monkeypatch.setattr(results, "SWEEP_RESULTS", 16)
    for number in range(results.SWEEP_RESULTS + 10):
        name = f"k{number}"
        answered(core, core.do(asks(ask("one", name, vcore=1, predicate=name))), lambda _, __: "no")
        core.do(releases(release("one", name)))
    partition = core.partition
    kept = {len(node.results) for node in partition.nodes.by_id.values()}
    assert max(kept) <= results.SWEEP_RESULTS


@pytest.mark.pure
def test_results_of_pending_asks_are_retained(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results of pending asks are kept beyond `SWEEP_RESULTS`, so that no check is repeated."""
    core = cluster(2)
    monkeypatch.setattr(results, "SWEEP_RESULTS", 16)
    count = results.SWEEP_RESULTS + 30
    core.do(nodes(*(node(f"n{number}", NodeAction.UPDATE, vcore=2 * count) for number in (1, 2))))
    wanted = [ask("one", f"k{number}", vcore=1, predicate=f"p{number}") for number in range(count)]
    pairs: list[tuple[str, str]] = []
    waiting = asked(core.do(asks(*wanted)))
    while waiting:
        check = waiting.pop(0)
        pairs += [(check.key, name) for name in check.nodes]
        assert len(pairs) <= 2 * count, "the RM is asked for ever"
        waiting += asked(core.send(refusing(check))) + asked(core.run())
    assert len(set(pairs)) == len(pairs) == 2 * count


def test_refusals_are_logged_at_most_every_15_seconds() -> None:
    """Refusals of an ask are logged at most once in 15 seconds, whatever number of checks it has."""
    core = cluster(1)
    wanted = [ask("one", f"k{number}", vcore=1, predicate=f"p{number}") for number in range(20)]
    answered(core, core.do(asks(*wanted)), lambda _, __: "no")
    for number in range(2, 5):
        answered(core, core.do(nodes(node(f"n{number}", vcore=10))), lambda _, __: "no")
    assert len(heard(core, "Unschedulable")) == len(wanted)
    details = listed(core.views.asks(PARTITION, "one"))
    assert {entry.message for item in details for entry in item.allocation_log} >= {"no"}


def test_a_reserved_ask_is_tried_when_an_assumed_ask_is_released(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A reserved ask that too many open checks block is tried when an assumed ask is released."""
    monkeypatch.setattr(owed, "MAX_ASSUMED", 1)
    core = cluster(1)
    core.do(nodes(node("drained", NodeAction.CREATE_DRAIN, vcore=20)))
    core.do(asks(ask("one", "filler", vcore=8)))
    core.do(asks(ask("one", "big", vcore=9, created=core.now - 10, predicate="big")))
    core.do(nodes(node("n2", vcore=5)))
    core.do(asks(ask("one", "small", vcore=1, predicate="small")))
    core.do(releases(release("one", "filler")))
    partition = core.partition
    assert list(assumed(partition.applications[AppId("one")])) == ["small"]
    core.do(releases(release("one", "small")))
    assert list(assumed(partition.applications[AppId("one")])) == ["big"]


def test_an_acceptance_after_a_refusal_wakes_the_asks() -> None:
    """The acceptance of a class on a node wakes an ask of the class that was refused there before."""
    core = cluster(1)
    wanted = [ask("one", "first", vcore=1, predicate="p"), ask("one", "plain", vcore=1)]
    wanted.append(ask("one", "last", vcore=1, priority=-1, predicate="p"))
    first, last = asked(core.do(asks(*wanted)))
    core.do(refusing(last))
    (again,) = asked(core.do(answering(first)))
    effects = core.do(answering(again))
    assert placed(effects) == [("one", "first", "n1")]
    assert [check.key for check in asked(effects)] == ["last"]


def test_a_repeated_capacity_voids_no_result() -> None:
    """An update with the same capacity voids no predicate result."""
    core = cluster(1)
    answered(core, core.do(asks(ask("one", "k", vcore=1, predicate="p"))), lambda _, __: "no")
    assert asked(core.do(nodes(node("n1", NodeAction.UPDATE, vcore=10)))) == []
    assert asked(core.do(nodes(node("n1", NodeAction.UPDATE, vcore=11)))) != []


def test_an_acceptance_of_a_further_node_with_another_assumed_ask_is_void() -> None:
    """An acceptance of a node other than the first is void if another ask is assumed there."""
    core = cluster(3)
    both = asks(*(ask("one", f"p{n}", vcore=1, predicate="p") for n in range(2)))
    (check,) = asked(core.do(both))
    (other,) = asked(core.do(asks(ask("one", "q0", vcore=1, predicate="q"))))
    (judged,) = asked(core.do(refusing(other, "n3")))
    assert (check.nodes, other.nodes, judged.nodes) == (["n1", "n2"], ["n3"], ["n1", "n2"])
    assert [key for _, key, _ in placed(core.do(answering(check)))] == ["p0", "p1"]
    assert placed(core.do(answering(judged))) == [("one", "q0", "n1")]
    effects = core.do(asks(ask("one", "q1", vcore=1, predicate="q")))
    assert (placed(effects), [check.nodes for check in asked(effects)]) == ([], [["n2"]])


def test_an_allocation_by_a_missed_deadline_voids_later_answers() -> None:
    """If an ask is allocated because a deadline was missed, later answers about its node are void."""
    core = Driver(writes=False)
    policy = PredicatePolicy(deadline=2.0, fail_mode=FailMode.OPEN)
    core.do(register(config("[{name: a}]"), predicates=policy))
    core.do(nodes(node("n1", vcore=10)), apps(app("one", "root.a")))
    (silent,) = asked(core.do(asks(ask("one", "a", vcore=1, predicate="a"))))
    core.do(NotePredicatesSent(rm_id=RmId("rm1"), check=silent.check))
    (spoken,) = asked(core.do(asks(ask("one", "b", vcore=1, predicate="b"))))
    assert placed(core.wait(2.0)) == [("one", "a", "n1")]
    (again,) = asked(core.do(answering(spoken)))
    assert (again.key, again.nodes) == ("b", ["n1"])
    assert placed(core.do(answering(again))) == [("one", "b", "n1")]


def test_a_refusal_for_a_released_ask_does_not_count() -> None:
    """After a refusal for a released ask, the RM is asked again for another ask of the class."""
    core = cluster(2)
    effects = core.do(asks(*(ask("one", f"k{n}", vcore=1, predicate="p") for n in range(2))))
    (check,) = asked(effects)
    core.do(releases(release("one", "k0")))
    effects = core.do(refusing(check))
    (again,) = asked(effects)
    assert (again.key, again.nodes) == ("k1", ["n2"])
    assert placed(core.do(answering(again))) == [("one", "k1", "n2")]
    (fresh,) = asked(core.do(asks(ask("one", "k2", vcore=1, predicate="p"))))
    assert fresh.nodes == ["n1"]
