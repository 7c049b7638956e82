"""A real ask that is too large for its placeholders waits for their end (spec §§ 6.4, 6.5a)."""

from collections.abc import Sequence

import pytest

from extensions.stops.building import kill
from licorne_core.messages.commands import Command, NodeAction, PredicatePolicy, TerminationType
from licorne_core.messages.effects import Effect
from licorne_core.messages.events.records import EventType
from licorne_core.model.apps.application import Application
from licorne_core.values.ids import AppId
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
    remove_apps,
)
from support.core.driver import Driver, asked, keys, records, released, states

INCOMPATIBLE = "cancel placeholder: resource incompatible"


def placeholder(key: str, memory: int = 1) -> Command:
    """Submit a placeholder of group g."""
    return asks(ask("job", key, placeholder=True, group="g", memory=memory))


def real(key: str, memory: int, *, predicate: str | None = None) -> Command:
    """Submit a real ask of group g."""
    return asks(ask("job", key, group="g", memory=memory, predicate=predicate))


def in_vain(*, wanted: int = 2, style: str = "Soft", tell: str = "large") -> Driver:
    """The gang `job` with placeholders p1 on n1 and p2 on n2, both too small for its real ask `tell`.

    Both nodes have room for the ask, and the gang times out after 60 seconds.
    """
    driver = Driver()
    driver.do(register(config("[{name: a}]")), nodes(node("n1", memory=4), node("n2", memory=4)))
    driver.do(apps(app("job", "root.a", gang={"memory": wanted}, style=style, timeout=60)))
    driver.do(placeholder("p1"), placeholder("p2"))
    assert told(driver.do(real(tell, 2))) == [("p1", INCOMPATIBLE), ("p2", INCOMPATIBLE)]
    assert counts(driver) == (2, 0)
    return driver


def told(effects: Sequence[Effect]) -> list[tuple[str, str]]:
    """The stops requested of the RM, each with its reason."""
    return [(key, message) for _, key, _, message in released(effects)]


def job(driver: Driver) -> Application:
    """The application `job`, which must exist."""
    return driver.partition.applications[AppId("job")]


def counts(driver: Driver) -> tuple[int, int]:
    """The numbers of open and of timed out placeholders of the group."""
    group = job(driver).gang.groups["g"]
    return group.open, group.timed_out


def test_each_cancelled_placeholder_is_stopped_once() -> None:
    """The RM is asked once to stop a cancelled placeholder, even after more large asks and the timeout."""
    driver = in_vain()
    driver.do(real("larger", 3))
    driver.wait(120)
    found = [record for record in records(driver) if record.type is EventType.REQUEST]
    assert [(record.object_id, record.resource) for record in found] == [
        ("p1", {"memory": 2}),
        ("p2", {"memory": 2}),
    ]


@pytest.mark.parametrize(
    "why",
    [
        TerminationType.STOPPED_BY_RM,
        TerminationType.PLACEHOLDER_REPLACED,
        TerminationType.PREEMPTED_BY_SCHEDULER,
    ],
)
def test_a_release_of_any_type_ends_a_cancelled_placeholder(why: TerminationType) -> None:
    """A release by the RM ends a cancelled placeholder, whatever the type of the release."""
    driver = in_vain()
    effects = driver.do(releases(release("job", "p1", why=why), release("job", "p2", why=why)))
    assert keys(effects) == ["large"]
    assert counts(driver) == (0, 2)


def test_a_cancelled_placeholder_that_fails_does_not_become_pending() -> None:
    """After a failure at the RM a cancelled placeholder is not pending again; its stop is still awaited."""
    driver = in_vain()
    failed = TerminationType.SCHEDULING_FAILED_ON_RM
    assert driver.do(releases(release("job", "p1", why=failed))) == []
    assert counts(driver) == (2, 0)


def test_a_release_without_a_key_ends_cancelled_placeholders() -> None:
    """One release without a key ends both placeholders, and keeps the ask."""
    driver = in_vain()
    effects = driver.do(releases(release("job", why=TerminationType.TIMEOUT)))
    assert keys(effects) == ["large"]


def test_the_removal_of_its_node_ends_a_cancelled_placeholder() -> None:
    """A cancelled placeholder ends with the removal of its node, without a confirmation."""
    driver = in_vain()
    driver.do(nodes(node("n1", NodeAction.DECOMISSION)))
    assert counts(driver) == (1, 1)
    driver.do(nodes(node("n3", memory=4)))
    assert keys(driver.do(nodes(node("n2", NodeAction.DECOMISSION)))) == ["large"]
    assert counts(driver) == (0, 2)


@pytest.mark.parametrize("style", ["Soft", "Hard"])
def test_an_unconfirmed_placeholder_of_a_running_gang_times_out(style: str) -> None:
    """If the RM never confirms its stop, a cancelled placeholder times out without a second request."""
    driver = in_vain(style=style)
    assert keys(driver.wait(59)) == []
    effects = driver.wait(1)
    assert (keys(effects), told(effects)) == (["large"], [])
    assert counts(driver) == (0, 2)
    driver.do(releases(release("job", "p1", why=TerminationType.TIMEOUT)))
    assert counts(driver) == (0, 2)


@pytest.mark.parametrize(
    ("style", "entered", "after"),
    [("Soft", "Resuming", "Accepted"), ("Hard", "Failing", "Failed")],
)
def test_the_ask_of_an_incomplete_gang_is_dropped_at_timeout(style: str, entered: str, after: str) -> None:
    """If no stop is confirmed before the timeout, the ask is dropped, and the gang ends as its style says."""
    driver = in_vain(wanted=9, style=style)
    effects = driver.wait(60)
    pending = "releasing pending placeholders on placeholder timeout"
    assert (told(effects), states(effects, "job")) == ([("large", pending)], [entered])
    assert counts(driver) == (0, 2)
    confirmed = (release("job", key, why=TerminationType.TIMEOUT) for key in ("p1", "p2"))
    assert states(driver.do(releases(*confirmed)), "job") == [after]


def test_the_removal_of_the_application_ends_cancelled_placeholders() -> None:
    """The RM is asked to stop them at once, and a new application of the same id is not affected."""
    driver = in_vain()
    removed = "Application job Removed"
    assert told(driver.do(remove_apps("job"))) == [("p1", removed), ("p2", removed)]
    driver.do(apps(app("job", "root.a")))
    assert keys(driver.do(real("large", 2))) == ["large"]


def test_an_operator_ends_an_application_with_cancelled_placeholders() -> None:
    """A killed application drops its ask, and ends when the RM has stopped its last placeholder."""
    driver = in_vain()
    effects = driver.do(kill("job", "enough"))
    assert (told(effects), states(effects, "job")) == ([("large", "enough")], ["Failing"])
    assert states(driver.wait(300), "job") == []
    confirmed = (release("job", key, why=TerminationType.TIMEOUT) for key in ("p1", "p2"))
    assert states(driver.do(releases(*confirmed)), "job") == ["Failed"]


def test_an_application_without_asks_completes_after_its_cancelled_placeholders() -> None:
    """After its ask was released an application completes with the end of its last placeholder."""
    driver = in_vain()
    assert driver.do(releases(release("job", "large"))) == []
    confirmed = (release("job", key, why=TerminationType.TIMEOUT) for key in ("p1", "p2"))
    assert states(driver.do(releases(*confirmed)), "job") == ["Completing"]


def test_later_asks_do_not_wait_for_cancelled_placeholders_of_a_completion() -> None:
    """Asks after a completion do not wait for placeholders whose stop was not yet confirmed."""
    driver = Driver()
    driver.do(register(config("[{name: a}]")), nodes(node("n1", memory=9)))
    driver.do(apps(app("job", "root.a", gang={"memory": 2}, timeout=600)))
    driver.do(placeholder("p1"), placeholder("p2"), real("small", 1))
    replaced = releases(release("job", "p1", why=TerminationType.PLACEHOLDER_REPLACED))
    assert keys(driver.do(replaced)) == ["small"]
    assert told(driver.do(real("large", 2))) == [("p2", INCOMPATIBLE)]
    driver.do(releases(release("job", "large")))
    assert states(driver.do(releases(release("job", "small"))), "job") == ["Completing"]
    assert (released(driver.wait(30)), counts(driver)) == ([], (0, 1))
    assert keys(driver.do(real("late", 2))) == ["late"]


def test_an_ask_waits_for_a_placeholder_that_is_placed_later() -> None:
    """A placeholder that is placed later is replaced by the ask, or cancelled if it is too small."""
    driver = in_vain()
    effects = driver.do(placeholder("p3", 1))
    assert (keys(effects), told(effects)) == (["p3"], [("p3", INCOMPATIBLE)])
    effects = driver.do(placeholder("p4", 2))
    assert told(effects) == [("p4", "replacing allocationKey: large")]
    assert counts(driver) == (4, 0)


def test_a_placeholder_with_an_open_check_does_not_block_a_cancellation() -> None:
    """While one ask is assumed for a placeholder, a larger ask cancels the other placeholder."""
    driver = Driver()
    driver.do(register(config("[{name: a}]"), predicates=PredicatePolicy(deadline=10)))
    driver.do(nodes(node("n1", memory=9)))
    driver.do(apps(app("job", "root.a", gang={"memory": 2}, timeout=60)))
    driver.do(placeholder("p1"), placeholder("p2"))
    (check,) = asked(driver.do(real("small", 1, predicate="x")))
    assert told(driver.do(real("large", 2))) == [("p2", INCOMPATIBLE)]
    assert told(driver.do(answering(check))) == [("p1", "replacing allocationKey: small")]
    driver.do(releases(release("job", "p2", why=TerminationType.TIMEOUT)))
    replaced = releases(release("job", "p1", why=TerminationType.PLACEHOLDER_REPLACED))
    assert keys(driver.do(replaced)) == ["small", "large"]
