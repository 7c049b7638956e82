"""Registration with a configuration, and its update (spec §§ 1.6.2, 2.7, 13.1)."""

from dataclasses import replace

import pytest

from licorne_core.config import load
from licorne_core.messages.effects import Effect, RegistrationFailed
from support.core.builders import RM, app, apps, config, register, reload
from support.core.driver import Driver

RULES = config("[{name: a}, {name: b}]", rest="placementrules: [{name: fixed, value: a}]")
OTHER_RULES = RULES.replace("value: a", "value: b")
BROKEN_RULES = RULES.replace("name: fixed, value: a", "name: nosuchrule")


def queue_of(driver: Driver, app_id: str) -> str:
    """The queue of an application."""
    partition = driver.views.resolve(f"[{RM}]default")
    return driver.views.application(partition, app_id).queue


def only(effects: list[Effect]) -> Effect:
    """The single effect in the list."""
    assert len(effects) == 1
    return effects[0]


@pytest.mark.row(2)
def test_an_rm_without_a_configuration_has_the_default_of_the_scheduler() -> None:
    """An RM without a configuration has the default configuration that the scheduler was given."""
    driver = Driver(default_config=load(RULES))
    driver.do(register(""), apps(app("job")))
    assert queue_of(driver, "job") == "root.a"


@pytest.mark.parametrize("rm_id", ["", "a[b", "a]b"])
def test_an_rm_id_has_no_brackets_and_is_not_empty(rm_id: str) -> None:
    """An empty rmID, and one with a bracket, which delimits rmIDs in partition names, are refused."""
    failed = only(Driver().do(register(RULES, rm_id)))
    assert isinstance(failed, RegistrationFailed)
    assert "rmID" in failed.reason


@pytest.mark.row(55)
def test_an_update_replaces_or_keeps_the_extra_configuration() -> None:
    """An update with an extra configuration replaces the previous one; an update without one keeps it."""
    driver = Driver()
    driver.do(register(RULES, extra={"log.level": "INFO", "health.checkInterval": "1s"}))
    driver.do(reload(OTHER_RULES, extra={"log.level": "WARN"}), reload(RULES))
    assert driver.views.rms()[0].extra_config == {"log.level": "WARN"}
    driver.do(replace(reload(RULES), replaces_extra=True))
    assert driver.views.rms()[0].extra_config == {}


def test_a_refused_update_does_not_change_the_policy_group() -> None:
    """The policy group is that of the last accepted update, even of an update with the same text."""
    driver = Driver()
    driver.do(register(RULES))
    for text, group in ((BROKEN_RULES, ""), (RULES, "blue"), (BROKEN_RULES, "blue")):
        driver.do(replace(reload(text), policy_group="blue" if group else "red"))
        assert driver.views.rms()[0].policy_group == group
