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
    """A placeholder of group g is submitted."""
    return asks(ask("job", key, placeholder=True, group="g", memory=memory))


def real(key: str, memory: int, *, predicate: str | None = None) -> Command:
    """A real ask of group g is submitted."""
    return asks(ask("job", key, group="g", memory=memory, predicate=predicate))


def in_vain(*, wanted: int = 2, style: str = "Soft", tell: str = "large") -> Driver:
    """The gang `job` holds room with p1 on n1 and p2 on n2, but the ask `tell` is too large for it.

    Both nodes have room for it, and the gang times out 60 seconds later.
    """
    driver = Driver()
    driver.do(register(config("[{name: a}]")), nodes(node("n1", memory=4), node("n2", memory=4)))
    driver.do(apps(app("job", "root.a", gang={"memory": wanted}, style=style, timeout=60)))
    driver.do(placeholder("p1"), placeholder("p2"))
    assert told(driver.do(real(tell, 2))) == [("p1", INCOMPATIBLE), ("p2", INCOMPATIBLE)]
    assert counts(driver) == (2, 0)
    return driver


def told(effects: Sequence[Effect]) -> list[tuple[str, str]]:
    """The stops requested of the RM, with the reason."""
    return [(key, message) for _, key, _, message in released(effects)]


def job(driver: Driver) -> Application:
    """The application, while it exists."""
    return driver.partition.applications[AppId("job")]


def counts(driver: Driver) -> tuple[int, int]:
    """The numbers of open and of timed out placeholders of the group."""
    group = job(driver).gang.groups["g"]
    return group.open, group.timed_out


def test_each_cancelled_placeholder_is_stopped_once() -> None:
    """This holds when more large asks are submitted, and after the timeout."""
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
def test_a_release_of_any_kind_is_an_end(why: TerminationType) -> None:
    """The RM may stop a placeholder for a reason of its own, or with another type."""
    driver = in_vain()
    effects = driver.do(releases(release("job", "p1", why=why), release("job", "p2", why=why)))
    assert keys(effects) == ["large"]
    assert counts(driver) == (0, 2)


def test_a_placeholder_being_stopped_does_not_become_pending() -> None:
    """A failure of the RM to run it is no end: its stop is still to be confirmed."""
    driver = in_vain()
    failed = TerminationType.SCHEDULING_FAILED_ON_RM
    assert driver.do(releases(release("job", "p1", why=failed))) == []
    assert counts(driver) == (2, 0)


def test_a_release_of_all_allocations_is_an_end() -> None:
    """One release without a key ends both placeholders, and keeps the ask."""
    driver = in_vain()
    effects = driver.do(releases(release("job", why=TerminationType.TIMEOUT)))
    assert keys(effects) == ["large"]


def test_the_loss_of_a_node_is_an_end() -> None:
    """A placeholder on a removed node has ended, without a confirmation."""
    driver = in_vain()
    driver.do(nodes(node("n1", NodeAction.DECOMISSION)))
    assert counts(driver) == (1, 1)
    driver.do(nodes(node("n3", memory=4)))
    assert keys(driver.do(nodes(node("n2", NodeAction.DECOMISSION)))) == ["large"]
    assert counts(driver) == (0, 2)


@pytest.mark.parametrize("style", ["Soft", "Hard"])
def test_a_running_gang_waits_until_its_timeout(style: str) -> None:
    """The RM never confirms: a cancelled placeholder counts as timed out, and is not requested again."""
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
def test_an_incomplete_gang_drops_the_ask(style: str, entered: str, after: str) -> None:
    """It times out while the RM is silent: the ask is dropped, and the gang ends by its style."""
    driver = in_vain(wanted=9, style=style)
    effects = driver.wait(60)
    pending = "releasing pending placeholders on placeholder timeout"
    assert (told(effects), states(effects, "job")) == ([("large", pending)], [entered])
    assert counts(driver) == (0, 2)
    confirmed = (release("job", key, why=TerminationType.TIMEOUT) for key in ("p1", "p2"))
    assert states(driver.do(releases(*confirmed)), "job") == [after]


def test_removing_the_application_ends_all() -> None:
    """The placeholders are released at once, and a new application of the id starts afresh."""
    driver = in_vain()
    removed = "Application job Removed"
    assert told(driver.do(remove_apps("job"))) == [("p1", removed), ("p2", removed)]
    driver.do(apps(app("job", "root.a")))
    assert keys(driver.do(real("large", 2))) == ["large"]


def test_an_operator_ends_an_application_that_waits() -> None:
    """The ask is dropped; the placeholders are being stopped already, and the last of them ends it."""
    driver = in_vain()
    effects = driver.do(kill("job", "enough"))
    assert (told(effects), states(effects, "job")) == ([("large", "enough")], ["Failing"])
    assert states(driver.wait(300), "job") == []
    confirmed = (release("job", key, why=TerminationType.TIMEOUT) for key in ("p1", "p2"))
    assert states(driver.do(releases(*confirmed)), "job") == ["Failed"]


def test_an_application_whose_ask_is_withdrawn_completes_without_its_placeholders() -> None:
    """After the end of the last placeholder nothing is left."""
    driver = in_vain()
    assert driver.do(releases(release("job", "large"))) == []
    confirmed = (release("job", key, why=TerminationType.TIMEOUT) for key in ("p1", "p2"))
    assert states(driver.do(releases(*confirmed)), "job") == ["Completing"]


def test_the_end_of_a_completion_is_the_end_of_the_wait() -> None:
    """The work is done before the RM confirms: later asks do not wait for the placeholders."""
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


def test_a_placeholder_that_comes_meanwhile_is_waited_for() -> None:
    """It holds room for the ask, or is cancelled like the others."""
    driver = in_vain()
    effects = driver.do(placeholder("p3", 1))
    assert (keys(effects), told(effects)) == (["p3"], [("p3", INCOMPATIBLE)])
    effects = driver.do(placeholder("p4", 2))
    assert told(effects) == [("p4", "replacing allocationKey: large")]
    assert counts(driver) == (4, 0)


def test_a_placeholder_whose_node_the_rm_judges_is_no_obstacle() -> None:
    """One ask is matched to a placeholder, and a larger one cancels the other meanwhile."""
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
