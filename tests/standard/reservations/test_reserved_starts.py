"""Reserved asks of applications that have not started yet (spec §§ 5.2, 8.6, 10.5)."""

from licorne_core.messages.commands import PredicatePolicy, Tick
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
    reload,
    remove_apps,
)
from support.core.driver import START, Driver, asked, placed, states

AWARE = config("[{name: a, properties: {application.sort.policy: stateaware}}, {name: f}]")
ONE_EACH = "limits: [{limit: one, users: ['*'], maxapplications: 1}]"


def reserving(text: str, *app_ids: str) -> Driver:
    """Two nodes that are more than half full, one of which is reserved for the first application."""
    driver = Driver()
    driver.do(register(text), nodes(node("n1", vcore=10), node("n2", vcore=10)))
    driver.do(apps(app("fill", "root.f", user="bob")))
    driver.do(asks(ask("fill", "f1", vcore=6), ask("fill", "f2", vcore=6)))
    driver.do(apps(*(app(app_id, "root.a") for app_id in app_ids)))
    driver.do(asks(ask(app_ids[0], "big", vcore=8)))
    driver.wait(3)
    assert driver.partition.applications[AppId(app_ids[0])].reserved
    return driver


def test_a_displaced_starting_application_can_be_removed() -> None:
    """A starting application can be removed, with its timer, after a reserved ask has started another."""
    driver = reserving(AWARE, "big", "older")
    assert placed(driver.do(asks(ask("older", "o1", created=START - 100, vcore=1))))
    driver.wait(1)
    made = placed(driver.do(releases(release("fill", "f1"), release("fill", "f2"))))
    assert [key for _, key, _ in made] == ["big"]
    driver.do(remove_apps("older"))
    driver.wait(400)
    assert list(driver.partition.applications) == ["big"]


def test_an_application_displaced_by_an_assumed_ask_can_be_removed() -> None:
    """An application can be removed after an assumed ask has made another one the starting application."""
    driver = Driver()
    driver.do(register(AWARE, predicates=PredicatePolicy(deadline=60.0)))
    driver.do(nodes(node("n1", vcore=9), node("n2", vcore=9)))
    driver.do(apps(app("assumed", "root.a"), app("older", "root.a")))
    effects = driver.do(asks(ask("assumed", "h", predicate="p", vcore=1)))
    (check,) = asked(effects)
    assert placed(driver.do(asks(ask("older", "o1", created=START - 100, vcore=1))))
    answer = answering(check)
    assert [key for _, key, _ in placed(driver.do(answer))] == ["h"]
    driver.do(remove_apps("older"))
    driver.wait(400)
    assert list(driver.partition.applications) == ["assumed"]


def test_a_removed_application_leaves_no_deadline_for_the_age_of_asks() -> None:
    """A removed application leaves no deadline for the age of its asks."""
    driver = Driver()
    for rm in ("rm1", "rm2"):
        driver.do(register(config("[{name: a}]"), rm=rm))
        driver.do(nodes(node("n1", vcore=10), node("n2", vcore=10), rm=rm))
        driver.do(apps(app("fill", "root.a"), app("x", "root.a"), rm=rm))
        driver.do(asks(ask("fill", "f1", vcore=6), ask("fill", "f2", vcore=6), rm=rm))
        driver.do(asks(ask("x", "k1", vcore=5), rm=rm))
    driver.wait(1)
    for rm in ("rm1", "rm2"):
        driver.do(asks(ask("x", "k2", vcore=6), rm=rm))
    driver.now = START + 2
    driver.send(Tick())
    driver.do(remove_apps("x", rm="rm2"))
    assert driver.wait(10) == []


def test_a_reserved_ask_respects_the_maximum_of_applications() -> None:
    """A maximum of applications blocks a reserved ask until another application of the user is removed."""
    driver = reserving(config("[{name: a}, {name: f}]", rest=ONE_EACH), "big", "small")
    driver.do(asks(ask("small", "s", vcore=1)))
    effects = driver.do(releases(release("fill", "f1"), release("fill", "f2")))
    assert placed(effects) == []
    summary = driver.explain("big", "big").summary
    assert "1 of 1 applications" in summary, summary
    effects = driver.do(remove_apps("small"))
    assert [key for _, key, _ in placed(effects)] == ["big"]
    assert states(effects, "big") == ["Running"]


def test_the_end_of_a_reservation_lets_another_application_start() -> None:
    """An application with a reservation counts as running until the reservation ends (§ 4.12)."""
    text = config("[{name: a, maxapplications: 1}, {name: f}]")
    driver = reserving(text, "big", "small")
    assert placed(driver.do(asks(ask("small", "s", vcore=1)))) == []
    made = placed(driver.do(releases(release("big", "big"))))
    assert [key for _, key, _ in made] == ["s"]


def test_an_application_that_backs_off_can_be_removed() -> None:
    """An application in a back-off can be removed, together with its reservation (§ 8.3a)."""
    properties = "{application.unschedasks.backoff: '1', application.unschedasks.backoff.delay: 9s}"
    driver = reserving(config(f"[{{name: a, properties: {properties}}}, {{name: f}}]"), "big")
    driver.do(asks(ask("big", "huge", vcore=9, priority=2), ask("big", "small", vcore=1)))
    assert "backs off" in driver.explain("big", "small").summary
    driver.do(remove_apps("big"))
    driver.wait(60)
    assert list(driver.partition.applications) == ["fill"]


def test_a_reserved_ask_is_tried_again_when_its_application_runs() -> None:
    """A reserved ask is tried again when its application has started."""
    driver = reserving(config("[{name: a}, {name: f}]", rest=ONE_EACH), "big", "small")
    driver.do(asks(ask("small", "s", vcore=1)))
    driver.do(releases(release("fill", "f1"), release("fill", "f2")))
    effects = driver.do(asks(ask("big", "placed", vcore=1, on_node="n2")))
    assert [key for _, key, _ in placed(effects)] == ["placed", "big"]


def test_a_raised_maximum_wakes_a_reserved_ask() -> None:
    """A reserved ask is placed when a reload raises the number of applications of its user."""
    driver = reserving(config("[{name: a}, {name: f}]", rest=ONE_EACH), "big", "small")
    driver.do(asks(ask("small", "s", vcore=1)))
    driver.do(releases(release("fill", "f1"), release("fill", "f2")))
    more = config("[{name: a}, {name: f}]", rest=ONE_EACH.replace("s: 1", "s: 2"))
    assert [key for _, key, _ in placed(driver.do(reload(more)))] == ["big"]
