"""Predicate checks: the RM judges nodes for its asks, and no pass waits for it (spec § 8.4)."""

import pytest

from licorne_core.messages.commands import (
    AnswerPredicates,
    NodeAction,
    NotePredicatesSent,
    PredicateAnswer,
    PredicatePolicy,
    TerminationType,
)
from licorne_core.standard.predicates import owed, results
from licorne_core.values.errors import InvariantBroken
from licorne_core.values.ids import AppId, RmId
from licorne_core.views.audit.invariants import check_partition
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
    remove_apps,
)
from support.core.driver import Driver, asked, heard, placed, refused, released
from support.core.steps import last

ONE_LEAF = config("[{name: a}]")
POLICY = PredicatePolicy(deadline=2.0)
RM = RmId("rm1")


def cluster(
    count: int = 3,
    policy: PredicatePolicy = POLICY,
    queues: str = "[{name: a}]",
    *,
    reservations: bool = True,
) -> Driver:
    """Nodes of 10 thousandths of a core, and an application `one` of an RM that judges nodes."""
    core = Driver(reservations=reservations)
    core.do(register(config(queues), predicates=policy))
    core.do(nodes(*(node(f"n{number}", vcore=10) for number in range(1, count + 1))))
    core.do(apps(app("one", "root.a")))
    return core


def test_a_repeated_ask_is_still_assumed() -> None:
    """S1: an assumed ask that is sent again causes no new check, and its open check still counts."""
    core = cluster()
    said = asks(ask("one", "k", vcore=4, predicate="p"))
    (check,) = asked(core.do(said))
    assert core.do(said) == []
    assert placed(core.do(answering(check))) == [("one", "k", "n1")]


@pytest.mark.parametrize("changed", [False, True])
def test_a_result_is_valid_while_its_node_is_unchanged(*, changed: bool) -> None:
    """Another ask of the class is placed without a check on an accepted further node that is unchanged."""
    core = cluster()
    (check,) = asked(core.do(asks(ask("one", "k1", vcore=1, predicate="p"))))
    (check,) = asked(core.do(refusing(check, "n1")))
    assert check.nodes == ["n2", "n3"]
    assert placed(core.do(answering(check))) == [("one", "k1", "n2")]
    if changed:
        core.do(nodes(node("n3", NodeAction.UPDATE, vcore=11)))
    effects = core.do(asks(ask("one", "k2", vcore=1, predicate="p")))
    assert placed(effects) == ([] if changed else [("one", "k2", "n3")])
    assert [check.nodes for check in asked(effects)] == ([["n3"]] if changed else [])


def test_the_deadline_of_a_check_starts_when_it_is_written() -> None:
    """The deadline of a check counts from the time at which the check is written to the stream."""
    core = Driver(writes=False, reservations=False)
    core.do(register(ONE_LEAF, predicates=POLICY))
    core.do(nodes(node("n1", vcore=10)), apps(app("one", "root.a")))
    effects = core.do(*(asks(ask("one", f"k{n}", vcore=1, predicate=f"p{n}")) for n in range(3)))
    first, second, third = asked(effects)
    assert placed(core.wait(60)) == []
    core.do(NotePredicatesSent(rm_id=RM, check=second.check))
    core.do(answering(first))
    assert (asked(core.wait(1.9)), asked(core.wait(0.2))) == ([], [])
    explain = core.views.explain
    (partition,) = core.scheduler.partitions
    verdicts = [last(explain(partition, "one", f"k{n}")).verdict for n in range(3)]
    assert verdicts == ["allocated", "pending", "assumed"]
    assert placed(core.do(answering(third))) == [("one", "k2", "n1")]


def test_a_missing_answer_is_no_refusal() -> None:
    """A missing answer is explained as such, and has no event of a refusal."""
    core = cluster(1, reservations=False)
    core.do(asks(ask("one", "k", vcore=4, predicate="p")))
    core.wait(3)
    (partition,) = core.scheduler.partitions
    assert "1 no answer in time" in last(core.views.explain(partition, "one", "k")).summary
    assert heard(core, "Unschedulable") == []


def test_an_rm_that_misses_deadlines_is_sent_few_checks() -> None:
    """After a missed deadline an RM is sent few checks at a time, until it answers one."""
    core = cluster(40, reservations=False)
    each = [ask("one", f"k{n}", vcore=1, predicate=f"p{n}") for n in range(60)]
    assert len(asked(core.do(asks(*each)))) == len(each)
    for _ in range(10):
        effects = core.wait(POLICY.deadline)
        assert len(asked(effects)) <= owed.MAX_ASSUMED_IN_SILENCE
    last = asked(core.wait(POLICY.deadline + results.RETRY_TIME))[-1]
    assert len(asked(core.do(answering(last)))) == len(each) - owed.MAX_ASSUMED_IN_SILENCE


def test_the_number_of_asks_that_wait_for_answers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asks beyond `MAX_ASSUMED` remain pending until an answer arrives."""
    monkeypatch.setattr(owed, "MAX_ASSUMED", 2)
    core = cluster()
    effects = core.do(asks(*(ask("one", f"k{n}", vcore=1, predicate="p") for n in range(3))))
    (check,) = asked(effects)
    (partition,) = core.scheduler.partitions
    verdicts = [last(core.views.explain(partition, "one", f"k{n}")).verdict for n in range(3)]
    assert verdicts == ["assumed", "assumed", "pending"]
    assert [key for _, key, _ in placed(core.do(answering(check)))] == ["k0", "k1", "k2"]


def test_an_rm_that_answers_quickly_is_sent_more_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound on assumed asks rises while the RM answers quickly although many checks are open."""
    monkeypatch.setattr(owed, "MAX_ASSUMED", 4)
    core = cluster(40, reservations=False)
    checks = asked(core.do(asks(*(ask("one", f"k{n}", vcore=1, predicate=f"p{n}") for n in range(39)))))
    assert len(checks) == 4
    core.wait(POLICY.deadline * owed.QUICK_PART * 2 / (4 * owed.MORE_WHILE_QUICK))
    more = [asked(core.do(answering(check))) for check in checks[:3]]
    assert [*map(len, more)] == [1, 1, 4 * owed.MORE_WHILE_QUICK - 3]
    core.wait(POLICY.deadline / 2)
    assert asked(core.do(answering(checks[3]))) == []


def test_answers_to_single_checks_do_not_raise_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers to checks that were sent one by one do not raise the bound on assumed asks."""
    monkeypatch.setattr(owed, "MAX_ASSUMED", 4)
    core = cluster(40, reservations=False)
    for burst in range(2):
        for n in range(8):
            (check,) = asked(
                core.do(asks(ask("one", f"{burst} lone {n}", vcore=1, predicate=f"{burst} {n}")))
            )
            core.do(answering(check))
        keys = [f"{burst} burst {n}" for n in range(8)]
        checks = asked(core.do(asks(*(ask("one", key, vcore=1, predicate=key) for key in keys))))
        assert len(checks) == 4
        while checks:
            checks += asked(core.do(answering(checks.pop(0))))


def test_asks_without_a_predicate_are_placed_at_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asks without a predicate are placed, however many asks wait for answers."""
    monkeypatch.setattr(owed, "MAX_ASSUMED", 1)
    core = cluster()
    core.do(asks(*(ask("one", f"k{n}", vcore=1, predicate="p") for n in range(2))))
    assert placed(core.do(asks(ask("one", "plain", vcore=1)))) == [("one", "plain", "n2")]


def test_asks_blocked_by_open_checks_cause_no_back_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asks blocked by too many open checks cause no back-off, but may do so later (§ 8.3a)."""
    monkeypatch.setattr(owed, "MAX_ASSUMED", 1)
    core = cluster(queues="[{name: a, properties: {application.unschedasks.backoff: '1'}}]")
    (partition,) = core.scheduler.partitions
    core.do(apps(app("two", "root.a")))
    core.do(asks(ask("one", "nowhere", vcore=1, required_node="gone", predicate="q")))
    core.do(asks(ask("two", "assumed", vcore=1, predicate="p")))
    assert asked(core.do(asks(ask("one", "behind", vcore=1, predicate="q")))) == []
    assert "backs off" not in last(core.views.explain(partition, "one", "behind")).summary
    core.do(releases(release("two", "assumed")))
    assert "backs off" in last(core.views.explain(partition, "one", "behind")).summary


@pytest.mark.parametrize("how", ["release", "all", "resize", "place", "failed", "node", "app"])
def test_the_rm_may_change_an_assumed_ask(how: str) -> None:
    """The RM may release, resize or place an assumed ask, or remove its node; the RM is sent no release."""
    core = cluster(2)
    (check,) = asked(core.do(asks(ask("one", "k", vcore=4, predicate="p"))))
    why = TerminationType.SCHEDULING_FAILED_ON_RM
    match how:
        case "release":
            effects = core.do(releases(release("one", "k")))
        case "all":
            effects = core.do(releases(release("one")))
        case "resize":
            effects = core.do(asks(ask("one", "k", vcore=5, predicate="p")))
        case "place":
            effects = core.do(asks(ask("one", "k", vcore=4, on_node="n2", predicate="p")))
        case "failed":
            effects = core.do(releases(release("one", "k", why=why)))
        case "node":
            effects = core.do(nodes(node("n1", NodeAction.DECOMISSION)))
        case _:
            effects = core.do(remove_apps("one"))
    assert released(effects) == []
    assert placed(effects) == ([("one", "k", "n2")] if how == "place" else [])
    again = asked(effects)
    late = core.do(answering(check))
    if how in ("release", "all", "app"):
        assert (again, placed(late)) == ([], [])
    elif how in ("resize", "failed", "node"):
        (check,) = again or [check]
        assert [key for _, key, _ in placed([*late, *core.do(answering(check))])] == ["k"]


def test_a_reservation_ends_when_the_rm_refuses_the_node() -> None:
    """A node is reserved before the RM is asked; the reservation ends if the RM refuses the node."""
    core = cluster(2)
    core.do(asks(*(ask("one", f"small{n}", vcore=4, on_node=f"n{n}") for n in (1, 2))))
    core.do(asks(ask("one", "k", vcore=8, predicate="p")))
    (check,) = asked(core.wait(2))
    assert (check.allocate, check.nodes) == (False, ["n1"])
    partition = core.partition
    (second,) = asked(core.do(refusing(check, "n1")))
    assert (second.allocate, second.nodes) == (False, ["n2"])
    core.do(answering(second))
    assert [node_id for node_id, n in partition.nodes.by_id.items() if n.reservations] == ["n2"]
    (third,) = asked(core.do(releases(release("one", "small2"))))
    assert (third.allocate, third.nodes[0]) == (True, "n2")
    assert placed(core.do(answering(third))) == [("one", "k", "n2")]


def test_an_unexpected_answer_is_ignored() -> None:
    """Unknown numbers of checks, repeated answers, and nodes that are not in the check are ignored."""
    core = cluster()
    (check,) = asked(core.do(asks(ask("one", "k", vcore=4, predicate="p"))))
    assert core.do(AnswerPredicates(rm_id=RM, answers=[PredicateAnswer(99)])) == []
    made = core.do(refusing(check, "elsewhere"))
    assert placed(made) == [("one", "k", "n1")]
    assert core.do(refusing(check, "n1")) == []


def test_an_rm_without_predicates_is_not_asked() -> None:
    """If an RM registers without a predicate policy, asks are placed without a check (spec § 8.11)."""
    core = Driver()
    core.do(register(ONE_LEAF), nodes(node("n1", vcore=10)), apps(app("one", "root.a")))
    effects = core.do(asks(ask("one", "k", vcore=4, predicate="p")))
    assert (placed(effects), asked(effects)) == ([("one", "k", "n1")], [])
    assert refused(effects) == {}


def test_a_refusal_of_a_former_reservation_is_void() -> None:
    """A refusal for a former reservation does not end the present one."""
    core = Driver()
    core.do(
        register(ONE_LEAF, predicates=POLICY),
        nodes(node("n0", NodeAction.CREATE_DRAIN, vcore=10), node("n1", vcore=10)),
        apps(app("one", "root.a")),
        asks(ask("one", "filler", vcore=7)),
    )
    old = asks(ask("one", "big", vcore=7, created=core.now - 10, predicate="p"))
    (check,) = asked(core.do(old))
    core.do(asks(ask("one", "daemon", vcore=1, required_node="n1")))
    core.do(refusing(check, "n1"))
    partition = core.partition
    assert [key for owner in partition.applications.values() for key in owner.reserved] == ["big"]


def test_unparking_an_ask_unparks_its_application(monkeypatch: pytest.MonkeyPatch) -> None:
    """When an ask in a parked application is unparked, the application is unparked as well."""
    monkeypatch.setattr(owed, "MAX_ASSUMED", 1)
    core = cluster(1, queues="[{name: a, properties: {application.unschedasks.backoff: '1'}}]")
    asked_for = [ask("one", key, vcore=1, predicate=key) for key in ("first", "second")]
    core.do(asks(*asked_for, ask("one", "big", vcore=100)))
    partition = core.partition
    parked = partition.applications[AppId("one")]
    assert parked.blocker is not None
    core.send(releases(release("one", "big")))
    assert parked.blocker is None


def test_the_audit_finds_assumed_asks_without_a_check() -> None:
    """An assumed ask without an open check, which would wait for ever, is a finding."""
    core = cluster()
    (check,) = asked(core.do(asks(ask("one", "k", vcore=4, predicate="p"))))
    partition = core.partition
    check_partition(partition)
    partition.calls.close(check.check)
    with pytest.raises(InvariantBroken, match="k of one assumed on n1> waits for no answer"):
        check_partition(partition)
