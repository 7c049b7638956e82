"""An operator kills an application: it fails, and its RM is asked to stop its allocations (spec § 5.1)."""

from extensions.stops.building import kill
from licorne_core.extensions.stops.messages import ApplicationStopped
from licorne_core.messages.commands import BeginReplay, EndReplay, PredicatePolicy, TerminationType, Tick
from licorne_core.messages.effects import Effect, OperatorRefusal, OperatorRefused
from licorne_core.values.ids import RmId
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
)
from support.core.driver import Driver, asked, keys, messages, placed, preempted, refused, released, states

WHY = "too expensive"
TIMEOUT = TerminationType.TIMEOUT


def working(predicates: PredicatePolicy | None = None, tuning: Tuning | None = None) -> Driver:
    """A node of 10 cores, and the application `app` with two allocations of 4 cores and two asks."""
    driver = Driver(tuning=tuning)
    driver.do(register(config("[{name: a}]"), predicates=predicates), nodes(node("n1", vcore=10)))
    driver.do(apps(app("app", "root.a"), app("other", "root.a")))
    driver.do(asks(*(ask("app", f"k{i}", vcore=4) for i in range(4))))
    return driver


def outcome(effects: list[Effect]) -> ApplicationStopped:
    """The answer that the operator receives."""
    (found,) = [effect for effect in effects if isinstance(effect, ApplicationStopped)]
    return found


def test_a_killed_application_fails_after_its_allocations() -> None:
    """Asks are removed at once; the application has failed when the RM has stopped all allocations."""
    driver = working()
    effects = driver.do(kill("app", WHY))
    assert (outcome(effects).allocations, outcome(effects).asks) == (2, 2)
    assert messages(effects) == [("Failing", WHY)]
    assert {(key, why, text) for _, key, why, text in released(effects)} == {
        (f"k{i}", "TIMEOUT", WHY) for i in range(4)
    }
    queue = driver.queue("root.a")
    assert (queue.allocated, queue.pending) == ({"vcore": 8}, {})
    first = driver.do(releases(release("app", "k0", why=TIMEOUT)))
    assert (states(first, "app"), released(first)) == ([], [])
    last = driver.do(releases(release("app", "k1", why=TIMEOUT)))
    assert messages(last) == [("Failed", WHY)]
    assert driver.queue("root.a").allocated == {}


def test_a_kill_without_a_reason_has_a_default_message() -> None:
    """Without a reason the message says that an operator has stopped the application."""
    assert messages(working().do(kill("app")))[0] == ("Failing", "stopped by an operator")


def test_an_application_without_allocations_fails_at_once() -> None:
    """A killed application without allocations fails at once, and its id is free again."""
    driver = working()
    effects = driver.do(kill("other", WHY))
    assert messages(effects) == [("Failing", WHY), ("Failed", WHY)]
    assert not refused(driver.do(apps(app("other", "root.a"))))


def test_room_of_a_killed_application_is_free_after_the_rm_has_stopped_it() -> None:
    """Waiting asks use the room of an allocation only after the RM has stopped it."""
    driver = working()
    driver.do(asks(ask("other", "waits", vcore=4)))
    assert not placed(driver.do(kill("app")))
    assert keys(driver.do(releases(release("app", "k0", why=TIMEOUT)))) == ["waits"]


def test_a_second_kill_has_no_effect() -> None:
    """A second kill requests no stop; its answer has the number of allocations still being stopped."""
    driver = working()
    driver.do(kill("app"))
    driver.do(releases(release("app", "k0", why=TIMEOUT)))
    again = driver.do(kill("app"))
    assert (outcome(again).allocations, outcome(again).asks) == (1, 0)
    assert (messages(again), released(again)) == ([], [])


def test_a_failing_application_accepts_no_asks() -> None:
    """Further asks of a failing application are refused."""
    driver = working()
    driver.do(kill("app"))
    told = driver.do(asks(ask("app", "late", vcore=1)))
    assert refused(told) == {"late": "failed to find application app"}


def test_kills_of_ended_and_unknown_applications_are_refused() -> None:
    """The refusal says whether the application has ended or is unknown."""
    driver = working()
    driver.do(kill("other"))
    driver.do(apps(app("bad", "root.nowhere")))
    told = driver.do(*(kill(name) for name in ("other", "bad", "nobody")))
    found = [effect for effect in told if isinstance(effect, OperatorRefused)]
    assert [(one.refusal, one.reason) for one in found] == [
        (OperatorRefusal.APPLICATION_OVER, "application other is over: it is Failed"),
        (OperatorRefusal.APPLICATION_OVER, "application bad is over: it is Rejected"),
        (OperatorRefusal.NOT_FOUND, "application nobody not found in partition [rm1]default"),
    ]


def test_a_completing_application_can_be_killed() -> None:
    """A killed application that is completing changes to running, then to failing, as states allow."""
    driver = working()
    driver.do(releases(release("app")))
    assert driver.app("app").state == "Completing"
    assert [state for state, _ in messages(driver.do(kill("app")))] == [
        "Running",
        "Failing",
        "Failed",
    ]
    assert driver.wait(60) == []


def test_assumed_asks_of_a_killed_application_are_dropped() -> None:
    """The answer to an open check of a killed application allocates nothing."""
    driver = working(PredicatePolicy(deadline=10))
    driver.do(releases(release("app")))
    (check,) = asked(driver.do(asks(ask("app", "judged", vcore=1, predicate="p"))))
    assert outcome(driver.do(kill("app"))).asks == 1
    assert not placed(driver.do(answering(check)))


def gang() -> Driver:
    """The gang `job`: p1 is about to be replaced by r1, p2 is allocated, and p3 is pending."""
    driver = Driver()
    driver.do(register(config("[{name: a}]")), nodes(node("n1", vcore=2)))
    driver.do(apps(app("job", "root.a", gang={"vcore": 3})))
    holders = (ask("job", f"p{i}", placeholder=True, group="g", vcore=1) for i in (1, 2, 3))
    driver.do(asks(*holders))
    driver.do(asks(ask("job", "r1", group="g", vcore=1)))
    return driver


def test_a_kill_ends_the_replacement_of_a_placeholder() -> None:
    """The real ask is removed, and the placeholder that it was to replace ends."""
    driver = gang()
    effects = driver.do(kill("job", WHY))
    assert (outcome(effects).allocations, outcome(effects).asks) == (2, 2)
    told = [(key, why) for _, key, why, _ in released(effects)]
    assert sorted(told) == [("p2", "TIMEOUT"), ("p3", "TIMEOUT"), ("r1", "TIMEOUT")]
    confirmed = driver.do(
        releases(
            release("job", "p1", why=TerminationType.PLACEHOLDER_REPLACED),
            release("job", "p2", why=TIMEOUT),
        )
    )
    assert not placed(confirmed)
    assert messages(confirmed) == [("Failed", WHY)]


def test_a_present_victim_is_not_stopped_twice() -> None:
    """A kill does not request the stop of a victim that is already being stopped."""
    driver, victim = preempted(rich_asks=2)
    effects = driver.do(kill("rich"))
    assert outcome(effects).allocations == 2
    assert victim not in {key for _, key, _, _ in released(effects)}


def test_a_large_application_is_killed_in_slices() -> None:
    """Between the slices no tick has an effect, and the answer has the totals of all slices."""
    driver = working(tuning=Tuning(slice_size=1))
    effects = driver.begin(kill("app"))
    slices = 1
    while (rest := driver.rest) is not None:
        assert driver.send(Tick()) == []
        slices += 1
        effects += driver.begin(rest)
    assert slices > 3
    assert (outcome(effects).allocations, outcome(effects).asks) == (2, 2)


def test_a_kill_during_a_replay_refuses_later_allocations() -> None:
    """Allocations that exist at the kill are stopped, and allocations replayed later are refused."""
    driver = working()
    driver.send(BeginReplay(rm_id=RmId(RM)))
    assert outcome(driver.do(kill("app"))).allocations == 2
    told = driver.do(asks(ask("app", "k9", vcore=1, on_node="n1")))
    assert refused(told) == {"k9": "failed to find application app"}
    driver.do(EndReplay(rm_id=RmId(RM), nodes=0, applications=0, allocations=1))
    last = driver.do(releases(*(release("app", key, why=TIMEOUT) for key in ("k0", "k1"))))
    assert states(last, "app") == ["Failed"]


def test_explain_names_the_kill_of_an_allocation() -> None:
    """An allocation of a killed application is reported as stopping because of the operator."""
    driver = working()
    driver.do(kill("app"))
    report = driver.explain("app", "k0")
    assert report.verdict == "stopping"
    assert report.summary.endswith("an operator has stopped its application")
