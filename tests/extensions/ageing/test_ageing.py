"""Ageing: an old ask of low priority precedes younger ones, without preemption (spec § 5.2)."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extensions.holds.building import change, hold
from licorne_core.config.properties import settings_of
from licorne_core.extensions.ageing.extension import TIMER
from licorne_core.extensions.ageing.terms import Ageing
from licorne_core.messages.commands import RemoveRm
from licorne_core.values.ids import AppId, PartitionName, RmId
from support.core.builders import (
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
from support.core.driver import START, Driver, keys, released
from support.core.steps import last

DEFAULT = PartitionName("[rm1]default")
AGEING = "ageing: 1/1m max 5"
LEAVES = "[{{name: a, properties: {{{0}}}}}, {{name: b}}]"


def waiting(properties: str, *, queue: str = "root.a", slots: int = 1) -> Driver:
    """A full cluster, and an application `old` with an ask of priority 0, in a leaf with these properties."""
    driver = Driver(reservations=False)
    driver.do(
        register(config(LEAVES.format(properties))),
        nodes(node("n1", vcore=slots)),
        apps(app("run", "root.b"), app("old", queue), app("young", "root.a"), app("other", "root.b")),
        asks(ask("run", "r", vcore=slots)),
        asks(ask("old", "o", vcore=1)),
    )
    return driver


def served(driver: Driver, seconds: float, rival: str = "young", priority: int = 2) -> list[str]:
    """The keys in the order of placement, after the rival has submitted an ask and the room is released."""
    driver.wait(seconds)
    driver.do(asks(ask(rival, "y", vcore=1, priority=priority)))
    return keys(driver.do(releases(release("run", "r"))))


def bonus(driver: Driver, app_id: str = "old") -> int:
    """The bonus that age adds to the priority of the application."""
    return driver.partition.applications[AppId(app_id)].bonus


@pytest.mark.parametrize(
    ("properties", "seconds", "priority", "first"),
    [
        (AGEING, 119.0, 2, "y"),
        (AGEING, 120.0, 2, "o"),
        (AGEING, 299.0, 5, "y"),
        (AGEING, 300.0, 5, "o"),
        (AGEING, 600.0, 6, "y"),
        ("ageing: 1/1s", 110.0, 100, "o"),
        ("ageing: 1/1s", 110.0, 101, "y"),
        ("ageing: 2147483647/1s, application.sort.policy: fair", 1.0, 2**31 - 1, "o"),
        ("", 600.0, 2, "y"),
        ("ageing: off", 600.0, 2, "y"),
    ],
)
def test_an_old_ask_precedes_an_ask_of_higher_priority(
    properties: str, seconds: float, priority: int, first: str
) -> None:
    """From this age on, and not before, an ask precedes one of higher priority, up to the bound."""
    assert served(waiting(properties), seconds, priority=priority) == [first]


def test_reports_have_the_age_bonus() -> None:
    """The report of an application and the explanation of its ask have the age bonus."""
    driver = waiting(AGEING)
    driver.wait(180.0)
    report, explained = driver.app("old"), driver.views.explain(DEFAULT, "old", "o")
    assert (report.max_priority, report.age_bonus, last(explained).age_bonus) == (0, 3, 3)
    assert driver.queue("root.a").priority == 3


@pytest.mark.parametrize(
    ("more", "priority", "first"),
    [("", 2, "o"), ("", 4, "y"), ("priority.offset: '10'", 12, "o"), ("priority.policy: fence", 1, "y")],
)
def test_queues_above_have_the_priority_with_the_bonus(more: str, priority: int, first: str) -> None:
    """The bonus and then the offset raise the priority of a leaf; a fence hides the bonus."""
    driver = waiting(", ".join(filter(None, (AGEING, more))))
    assert served(driver, 180.0, rival="other", priority=priority) == [first]


def test_the_bonus_is_that_of_the_oldest_pending_ask() -> None:
    """Once its oldest ask is placed, an application loses the bonus in the same turn."""
    driver = waiting(AGEING, slots=3)
    driver.wait(240.0)
    driver.do(asks(ask("old", "p", vcore=1)))
    assert served(driver, 60.0) == ["o", "y", "p"]
    assert bonus(driver) == 0


def test_age_counts_from_the_creation_of_the_ask() -> None:
    """An ask keeps its age when an RM replays it after a restart, during a hold, and after a move."""
    driver = Driver(reservations=False)
    driver.do(
        register(config(LEAVES.format(AGEING))),
        nodes(node("n1", vcore=1)),
        apps(app("run", "root.b"), app("old", "root.b"), app("young", "root.a")),
        asks(ask("run", "r", vcore=1)),
        asks(ask("old", "o", vcore=1, created=START - 100.0)),
        hold("old"),
    )
    driver.wait(20.0)
    assert bonus(driver) == 0
    driver.do(change("old", queue="root.a"))
    assert bonus(driver) == 2
    driver.do(hold("old", held=False))
    assert served(driver, 0.0) == ["o"]


def test_the_bonus_is_added_to_a_priority_set_by_an_operator() -> None:
    """An application with a priority of -10 and a bonus of 2 precedes an ask of -8, but not one of -7."""
    driver = waiting(AGEING)
    driver.do(change("old", priority=-10))
    assert served(driver, 120.0, priority=-7) == ["y"]
    driver = waiting(AGEING)
    driver.do(change("old", priority=-10))
    assert served(driver, 120.0, priority=-8) == ["o"]


def test_a_reload_of_ageing_takes_effect_at_once() -> None:
    """After a reload asks have their true age at once, and without ageing no state is kept."""
    driver = waiting("")
    partition = driver.partition
    driver.wait(200.0)
    assert TIMER not in partition.timers
    found = []
    for properties in (AGEING, "ageing: 7/100s", "ageing: 1/1s max 9", "ageing: off"):
        driver.do(reload(config(LEAVES.format(properties))))
        found.append((bonus(driver), TIMER in partition.timers))
    assert found == [(3, True), (14, True), (9, False), (0, False)]
    assert partition.applications[AppId("old")].interests == 0


def preempting(priority: int) -> Driver:
    """A queue below its guarantee with a waiting ask; running allocations of priority 3 may be preempted."""
    driver = Driver()
    leaves = "[{name: rich}, {name: poor, resources: {guaranteed: {vcore: 1}}, properties: {%s}}]"
    driver.do(
        register(config(leaves % "ageing: 300/1m max 300, preemption.delay: 1s")),
        nodes(node("n1", vcore=1)),
        apps(app("rich", "root.rich"), app("poor", "root.poor")),
        asks(ask("rich", "r", vcore=1, priority=3, policy="s")),
        asks(ask("poor", "p", vcore=1, priority=priority, policy="o")),
    )
    return driver


def test_a_removed_partition_leaves_no_ageing_state() -> None:
    """A removed partition leaves no state of an application and no deadline."""
    driver = waiting(AGEING)
    partition = driver.partition
    assert TIMER in partition.timers
    driver.do(RemoveRm(rm_id=RmId("rm1")))
    assert TIMER not in partition.timers


def test_the_bonus_gives_no_right_to_preempt() -> None:
    """An ask of priority 0 with a bonus of 300 preempts no allocation of priority 3."""
    driver = preempting(0)
    assert released(driver.wait(120.0)) == []
    assert bonus(driver, "poor") == 300
    (stopped,) = released(preempting(3).wait(60.0))
    assert stopped[:2] == ("rich", "r")


def test_the_bonus_does_not_protect_an_allocation_from_preemption() -> None:
    """An allocation that was placed by its age is stopped for a younger ask of higher priority."""
    driver = Driver(reservations=False)
    leaves = "[{name: a, properties: {%s}}, {name: b, resources: {guaranteed: {vcore: 1}}, properties: {%s}}]"
    driver.do(
        register(config(leaves % (AGEING, "preemption.delay: 1s"))),
        nodes(node("n1", vcore=1)),
        apps(app("run", "root.a"), app("old", "root.a"), app("young", "root.b")),
        asks(ask("run", "r", vcore=1)),
        asks(ask("old", "o", vcore=1, policy="s")),
    )
    driver.wait(300.0)
    driver.do(asks(ask("young", "y", vcore=1, priority=1, policy="o")))
    assert keys(driver.do(releases(release("run", "r")))) == ["o"]
    (stopped,) = released(driver.wait(60.0))
    assert stopped[:2] == ("old", "o")


@given(
    st.floats(1.0, 31_536_000.0),
    st.floats(-(2.0**33), 2.0**33),
    st.floats(0.0, 1e6),
)
def test_the_bonus_rises_at_the_announced_time(every: float, created: float, waited: float) -> None:
    """The next rise is later than now and adds exactly one gain, however times are rounded."""
    terms = Ageing(2, every, 2**31 - 1)
    now = created + waited
    have, at = terms.bonus(created, now)
    assert now < at < inf
    assert terms.bonus(created, at)[0] == have + 2
    assert terms.bonus(created, created - 1.0) == (0, created + every)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("1/1h max 50", Ageing(1, 3600.0, 50)),
        (" 10 / 30m ", Ageing(10, 1800.0, 1000)),
        ("2147483647/1s", Ageing(2**31 - 1, 1.0, 2**31 - 1)),
        ("Off", None),
    ],
)
def test_the_property_has_gain_duration_and_bound(text: str, terms: Ageing | None) -> None:
    """The property has a gain, a duration and a bound, which is a hundred gains by default."""
    assert settings_of({"ageing": text}).of("ageing") == terms
