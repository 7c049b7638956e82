"""Gangs as an RM sees them, in cases that no scenario file has (spec § 6)."""

from dataclasses import replace

import pytest

from licorne_core.messages.commands import (
    BeginReplay,
    EndReplay,
    Hold,
    NodeRefusal,
    PredicatePolicy,
    SetHold,
    TerminationType,
    Tick,
)
from licorne_core.messages.effects import AllocationsMade
from licorne_core.values.ids import AppId, NodeId, RmId
from licorne_core.values.slices import Tuning
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
    remove_apps,
)
from support.core.driver import START, Driver, asked, keys, released, states


def test_a_replacement_has_the_request_time_of_its_placeholder() -> None:
    """The request time of a replacement is that of its placeholder, not that of the real ask."""
    driver = Driver()
    driver.do(register(config("[{name: a}]")), nodes(node("n1", memory=1)))
    driver.do(apps(app("job", "root.a", gang={"memory": 1})))
    driver.do(asks(ask("job", "p", placeholder=True, group="g", memory=1)))
    driver.wait(7)
    driver.do(asks(ask("job", "r", group="g", memory=1)))
    why = TerminationType.PLACEHOLDER_REPLACED
    (made,) = driver.do(releases(release("job", "p", why=why)))
    assert isinstance(made, AllocationsMade)
    (allocation,) = made.allocations
    assert (allocation.key, allocation.placeholder_used) == ("r", True)
    assert (allocation.request_time, allocation.allocation_time) == (START, START + 7)


def test_a_replacement_voids_earlier_refusals_of_its_node() -> None:
    """After a replacement on the node of a placeholder, the RM is asked again about that node."""
    driver = Driver()
    driver.do(register(config("[{name: a}]"), predicates=PredicatePolicy(deadline=10)))
    driver.do(nodes(node("n1", memory=4)), apps(app("job", "root.a", gang={"memory": 1})))
    driver.do(asks(ask("job", "p", placeholder=True, group="g", memory=1)))
    (check,) = asked(driver.do(asks(ask("job", "x", predicate="x", memory=1))))
    refused = NodeRefusal(node_id=NodeId("n1"), reason="no")
    assert asked(driver.do(answering(check, [refused]))) == []
    driver.do(asks(ask("job", "r", group="g", memory=1)))
    why = TerminationType.PLACEHOLDER_REPLACED
    effects = driver.do(releases(release("job", "p", why=why)))
    assert keys(effects) == ["r"]
    (again,) = asked(effects)
    assert (again.key, again.nodes) == ("x", ["n1"])


def test_a_daemon_waits_for_the_end_of_a_replacement() -> None:
    """During a replacement on its node a daemon preempts nothing; afterwards it preempts the replacement."""
    driver = Driver()
    driver.do(register(config("[{name: a}]")), nodes(node("n1", memory=1)))
    driver.do(nodes(node("n2", memory=1)))
    driver.do(apps(app("job", "root.a", gang={"memory": 1}), app("sys", "root.a")))
    driver.do(asks(ask("job", "p", placeholder=True, group="g", memory=1)))
    driver.do(asks(ask("job", "r", group="g", policy="s", memory=1)))
    daemon = ask("sys", "d", priority=9, required_node="n1", policy="o", memory=1)
    assert released(driver.do(asks(daemon))) == []
    why = TerminationType.PLACEHOLDER_REPLACED
    effects = driver.do(releases(release("job", "p", why=why)))
    assert keys(effects) == ["r"]
    assert [(key, how) for _, key, how, _ in released(effects)] == [("r", "PREEMPTED_BY_SCHEDULER")]


def test_a_placeholder_is_replaced_once_the_rm_has_accepted_its_node() -> None:
    """A real ask that waits replaces its placeholder as soon as the RM accepts the placeholder's node."""
    driver = Driver()
    driver.do(register(config("[{name: a}]"), predicates=PredicatePolicy(deadline=10)))
    driver.do(nodes(node("n1", memory=4)), apps(app("job", "root.a", gang={"memory": 2})))
    driver.do(asks(ask("job", "other", memory=1)))
    kept = ask("job", "p", placeholder=True, group="g", predicate="x", memory=1)
    (check,) = asked(driver.do(asks(kept)))
    assert driver.do(asks(ask("job", "r", group="g", memory=1))) == []
    effects = driver.do(answering(check))
    assert keys(effects) == ["p"]
    assert [key for _, key, *_ in released(effects)] == ["p"]


def test_a_gang_does_not_time_out_during_a_replay() -> None:
    """A timeout during a replay, in which more members may arrive, is delayed until its end."""
    driver = Driver()
    driver.do(register(config("[{name: a}]")), nodes(node("n1", memory=1)))
    driver.do(apps(app("job", "root.a", gang={"memory": 2}, style="Hard", timeout=10)))
    driver.do(asks(ask("job", "p", placeholder=True, group="g", memory=1)))
    driver.do(BeginReplay(rm_id=RmId(RM)))
    assert states(driver.wait(30), "job") == []
    driver.do(EndReplay(rm_id=RmId(RM), nodes=0, applications=0, allocations=0))
    assert states(driver.wait(1), "job") == ["Failing"]


def test_no_application_completes_during_a_replay() -> None:
    """During a replay asks may still arrive, so no application completes."""
    driver = Driver()
    driver.do(register(config("[{name: a}]")), nodes(node("n1", memory=1)))
    driver.do(apps(app("job", "root.a")), asks(ask("job", "x", memory=1)))
    driver.do(releases(release("job", "x")))
    hold = SetHold(rm_id=RmId(RM), hold=Hold.DRAINING, on=True)
    driver.do(hold)
    assert states(driver.wait(60), "job") == []
    driver.do(replace(hold, on=False))
    assert states(driver.wait(1), "job") == ["Completed"]


def test_pending_placeholders_time_out_after_others_are_replaced() -> None:
    """The timeout of pending placeholders continues after placed ones were replaced early (spec § 6.8)."""
    driver = Driver()
    driver.do(register(config("[{name: a}]")), nodes(node("n1", memory=1)))
    driver.do(apps(app("job", "root.a", gang={"memory": 2}, timeout=10)))
    kept = [ask("job", key, placeholder=True, group="g", memory=1) for key in ("p1", "p2")]
    driver.do(asks(*kept))
    driver.do(asks(ask("job", "r", group="g", memory=1)))
    why = TerminationType.PLACEHOLDER_REPLACED
    assert keys(driver.do(releases(release("job", "p1", why=why)))) == ["r"]
    told = [(key, how) for _, key, how, _ in released(driver.wait(10))]
    assert told == [("p2", "TIMEOUT")]


def test_the_timeout_is_cancelled_with_the_last_pending_placeholder() -> None:
    """If the last pending placeholder is placed or withdrawn, later placeholders have a new timeout."""
    driver = Driver()
    driver.do(register(config("[{name: a}]")), nodes(node("n1", memory=2)))
    driver.do(apps(app("job", "root.a", gang={"memory": 3}, timeout=10)))
    driver.do(asks(ask("job", "p1", placeholder=True, group="g", memory=2)))
    driver.do(asks(ask("job", "p2", placeholder=True, group="g", memory=1)))
    driver.do(releases(release("job", "p1")), releases(release("job", "p2")))
    driver.wait(5)
    driver.do(asks(ask("job", "p3", placeholder=True, group="g", memory=1)))
    assert released(driver.wait(9)) == []
    assert [key for _, key, *_ in released(driver.wait(1))] == ["p3"]


@pytest.mark.parametrize(
    ("style", "after"),
    [("Soft", ["Resuming", "Accepted"]), ("Hard", ["Failing", "Failed"])],
)
def test_the_timeout_of_a_gang_without_allocations_ends_at_once(style: str, after: list[str]) -> None:
    """If no placeholder of a gang is placed at its timeout, the application changes its state at once."""
    driver = Driver()
    driver.do(register(config("[{name: a}]")), nodes(node("n1", memory=1)))
    driver.do(apps(app("job", "root.a", gang={"memory": 3}, style=style, timeout=10)))
    driver.do(asks(ask("job", "p1", placeholder=True, group="g", memory=1)))
    driver.do(asks(ask("job", "p2", placeholder=True, group="g", memory=2)))
    driver.do(releases(release("job", "p1")))
    effects = driver.wait(10)
    assert states(effects, "job") == after
    assert [(key, how) for _, key, how, _ in released(effects)] == [("p2", "TIMEOUT")]
    assert states(effects[-1:], "job") == after[1:], "it ends before its releases are told"


def test_an_application_completes_after_its_pending_placeholders_time_out() -> None:
    """An application whose members have ended completes when its pending placeholders time out."""
    driver = Driver()
    driver.do(register(config("[{name: a}]")), nodes(node("n1", memory=1)))
    driver.do(apps(app("job", "root.a", gang={"memory": 3}, timeout=10)))
    driver.do(asks(ask("job", "p1", placeholder=True, group="g", memory=1)))
    driver.do(asks(ask("job", "p2", placeholder=True, group="g", memory=2)))
    driver.do(asks(ask("job", "r", group="g", memory=1)))
    driver.do(releases(release("job", "p1", why=TerminationType.PLACEHOLDER_REPLACED)))
    driver.do(releases(release("job", "r")))
    assert states(driver.wait(10), "job") == ["Completing"]


def test_the_maximum_is_enforced_after_a_larger_replacement() -> None:
    """A resized real ask replaces its placeholder even above the maximum, which is enforced later."""
    driver = Driver()
    leaf = "{name: a, resources: {max: {memory: 3}}, properties: {quota.preemption.delay: 5s}}"
    text = config(f"[{leaf}]", rest="preemption: {quotapreemptionenabled: true}")
    driver.do(register(text), nodes(node("n1", memory=9)))
    driver.do(apps(app("job", "root.a", gang={"memory": 1}), app("other", "root.a")))
    driver.do(asks(ask("job", "p", placeholder=True, group="g", memory=1)))
    driver.do(asks(*[ask("other", key, policy="s", memory=1) for key in ("x", "y")]))
    driver.do(asks(ask("job", "r", group="g", memory=1)))
    driver.do(asks(ask("job", "r", group="g", memory=2)))
    why = TerminationType.PLACEHOLDER_REPLACED
    assert keys(driver.do(releases(release("job", "p", why=why)))) == ["r"]
    told = [(key, how) for _, key, how, _ in released(driver.wait(10))]
    assert told == [("x", "PREEMPTED_BY_SCHEDULER")]


def a_gang_in_slices(count: int, *, fits: int, style: str = "Soft") -> Driver:
    """A gang at its timeout, with `fits` of `count` placeholders placed; a step stops at most two."""
    driver = Driver(tuning=Tuning(timeout_size=2))
    driver.do(register(config("[{name: a}]")), nodes(node("n1", memory=fits)))
    driver.do(apps(app("job", "root.a", gang={"memory": count + 1}, style=style, timeout=10)))
    each = [ask("job", f"p{number}", placeholder=True, group="g", memory=1) for number in range(count)]
    driver.do(asks(*each))
    driver.now += 10
    return driver


@pytest.mark.parametrize("style", ["Soft", "Hard"])
@pytest.mark.parametrize("fits", [1, 4, 7])
def test_a_timeout_of_many_placeholders_is_sliced(style: str, fits: int) -> None:
    """Each tick requests the stop of at most two placeholders, in order, until all are requested."""
    driver = a_gang_in_slices(7, fits=fits, style=style)
    told: list[tuple[str, str, str, str]] = []
    ticks = 0
    while (deadline := driver.scheduler.next_deadline()) is not None and deadline <= driver.now:
        one = released(driver.send(Tick(decisions=16)))
        assert len(one) <= 2
        told += one
        ticks += 1
    assert [key for _, key, *_ in told] == [f"p{number}" for number in range(7)]
    assert ticks >= 4


def test_nothing_is_decided_during_a_timeout() -> None:
    """An ask that arrives during a timeout waits for the end of the timeout, and replaces no placeholder."""
    driver = a_gang_in_slices(5, fits=5)
    assert len(released(driver.send(Tick(decisions=16)))) == 2
    driver.send(asks(ask("job", "r", group="g", memory=1)))
    told = released(driver.run())
    assert [(key, why) for _, key, why, _ in told] == [(f"p{n}", "TIMEOUT") for n in (2, 3, 4)]


def asked_about(style: str = "Hard") -> Driver:
    """A gang during its timeout: one placeholder is placed, one pending again; the RM is asked about two."""
    driver = Driver(tuning=Tuning(timeout_size=1))
    driver.do(register(config("[{name: a}]"), predicates=PredicatePolicy(deadline=100)))
    driver.do(nodes(node("n1", memory=9)))
    driver.do(apps(app("job", "root.a", gang={"memory": 8}, style=style, timeout=10)))
    driver.do(asks(ask("job", "p", placeholder=True, group="g", memory=1)))
    doubtful = [
        ask("job", f"q{number}", placeholder=True, group="g", memory=1, predicate="x") for number in range(3)
    ]
    driver.do(asks(*doubtful))
    driver.now += 10
    (job,) = driver.partition.applications.values()
    assert job.assumed_count == 3
    assert driver.send(Tick()) == []
    assert job.assumed_count == 2
    return driver


def test_the_removal_of_an_application_cancels_its_timeout() -> None:
    """If an application is removed before the first stop of its timeout, no stop is requested."""
    driver = asked_about()
    assert states(driver.send(remove_apps("job")), "job") == ["Completing"]
    assert driver.run() == []
    assert driver.partition.job is None


def test_an_application_running_at_the_first_stop_loses_only_placeholders() -> None:
    """If the application runs at the first stop of the timeout, only its placeholders end."""
    driver = asked_about()
    driver.send(asks(ask("job", "r", memory=1, on_node="n1"), ask("job", "x", memory=20)))
    effects = driver.run()
    assert states(effects, "job") == []
    assert [key for _, key, *_ in released(effects)] == ["p", "q0", "q1", "q2"]
    assert {*driver.partition.applications[AppId("job")].requests} >= {"r", "x"}


def test_asks_that_arrive_during_a_timeout_are_kept() -> None:
    """An application that continues without its gang loses only the asks that it had at the timeout."""
    driver = a_gang_in_slices(5, fits=1)
    assert len(released(driver.send(Tick(decisions=16)))) == 2
    driver.send(asks(ask("job", "late", memory=1)))
    driver.run()
    known = driver.partition.applications[AppId("job")]
    assert list(known.requests) == ["p0", "late"]


def test_asks_released_during_a_timeout_cause_no_message() -> None:
    """An ask that the RM releases during the timeout is removed without a message."""
    driver = a_gang_in_slices(6, fits=1)
    driver.send(Tick(decisions=16))
    driver.send(releases(release("job", "p4")))
    assert [key for _, key, *_ in released(driver.run())] == ["p2", "p3", "p5"]


def test_an_application_removed_during_its_timeout_leaves_no_state() -> None:
    """If an application is removed during its timeout, a new application of its id has none of that state."""
    driver = a_gang_in_slices(6, fits=1)
    driver.send(Tick(decisions=16))
    driver.send(remove_apps("job"))
    driver.send(apps(app("job", "root.a")))
    assert keys(driver.do(asks(ask("job", "p4", memory=1)))) == ["p4"]


def test_a_hard_gang_fails_when_stops_are_confirmed_early() -> None:
    """A hard gang fails even if its stops are confirmed before its pending asks are dropped."""
    driver = a_gang_in_slices(6, fits=1, style="Hard")
    driver.send(Tick(decisions=16))
    driver.send(releases(release("job", "p0", why=TerminationType.TIMEOUT)))
    assert states(driver.run(), "job")[-1] == "Failed"


def test_a_soft_gang_continues_when_stops_are_confirmed_early() -> None:
    """A soft gang continues, and does not complete, if its stops are confirmed before asks are dropped."""
    driver = a_gang_in_slices(6, fits=1)
    driver.send(Tick(decisions=16))
    went = driver.send(releases(release("job", "p0", why=TerminationType.TIMEOUT)))
    assert states(went, "job") == ["Accepted"]
    assert states(driver.run(), "job") == []
