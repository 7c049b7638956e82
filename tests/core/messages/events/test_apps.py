"""Events of applications (spec §§ 5.1, 10.6, 12.1.4-5)."""

import pytest

from licorne_core.messages.effects import ApplicationsUpdated, Effect
from licorne_core.model.apps.states import TERMINATED_TIME
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
from support.core.driver import Driver, heard, refused_apps

OPS = "[{name: a, limits: [{limit: l, groups: [%s], maxresources: {memory: 9}}]}]"


def started(queues: str = "[{name: a}]") -> Driver:
    """A core with these queues and a node; earlier events are dropped."""
    driver = Driver()
    driver.do(register(config(queues)), nodes(node("n1", memory=4)))
    driver.facts.clear()
    return driver


def told(effects: list[Effect]) -> list[str]:
    """The state changes that were sent to the RM, in the form of events."""
    return [
        f"APP {update.app_id} SET APP_{update.state.upper()}: {update.message}"
        for effect in effects
        if isinstance(effect, ApplicationsUpdated)
        for update in effect.updates
    ]


def test_a_reload_that_changes_the_group_of_an_application_has_events() -> None:
    """A changed group has events of the link and of the moved usage; a kept group has none."""
    driver = started(OPS % "ops")
    driver.do(apps(app("app", "root.a", groups=["dev", "ops"])), asks(ask("app", "k", memory=1)))
    driver.facts.clear()
    driver.do(reload(config(OPS % "dev, ops")))
    assert heard(driver, "UG_APP_LINK", "UG_GROUP_RESOURCE") == []
    driver.do(reload(config(OPS % "dev")))
    assert heard(driver, "UG_APP_LINK", "UG_GROUP_RESOURCE") == [
        "USERGROUP ops REMOVE UG_GROUP_RESOURCE root.a memory=1",
        "USERGROUP ops REMOVE UG_APP_LINK app",
        "USERGROUP dev SET UG_APP_LINK app",
        "USERGROUP dev ADD UG_GROUP_RESOURCE root.a memory=1",
    ]


@pytest.mark.parametrize(
    "refused", [app("app", "root.b"), app("", "root.a"), app("app", "root.a", partition="none")]
)
def test_a_rejected_application_has_an_event_with_its_reason(refused: object) -> None:
    """A rejected application has exactly one event, APP_REJECT, with the reason sent to the RM."""
    driver = started()
    effects = driver.send(apps(refused))  # type: ignore[arg-type]
    (app_id, reason), *_ = refused_apps(effects).items()
    assert heard(driver) == [f"APP {app_id} SET APP_REJECT: {reason}"]


def test_events_and_updates_have_the_same_states() -> None:
    """Events and updates to the RM have the same states in the same order, from Accepted to Expired."""
    driver = started()
    effects = driver.do(apps(app("app", "root.a")), asks(ask("app", "k", memory=1)))
    effects += driver.do(releases(release("app")))
    effects += driver.wait(20.0)
    effects += driver.do(asks(ask("app", "k", memory=1)), releases(release("app")))
    effects += driver.wait(30.0 + TERMINATED_TIME)
    states = [line for line in heard(driver, "APP") if " SET APP_" in line]
    assert states == told(effects)
    assert [line.split()[3] for line in states] == [
        "APP_ACCEPTED:",
        "APP_RUNNING:",
        "APP_COMPLETING:",
        "APP_RUNNING:",
        "APP_COMPLETING:",
        "APP_COMPLETED:",
        "APP_EXPIRED:",
    ]
