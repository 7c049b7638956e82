"""Registering with a configuration, and updating it (spec §§ 1.6.2, 2.7, 13.1)."""

from dataclasses import replace

import pytest

from licorne_core.config import load
from licorne_core.messages.effects import (
    ApplicationsAnswered,
    ConfigurationRefused,
    ConfigurationUpdated,
    Effect,
    Registered,
    RegistrationFailed,
)
from support.core.builders import RM, app, apps, config, register, reload
from support.core.driver import Driver

RULES = config("[{name: a}, {name: b}]", rest="placementrules: [{name: fixed, value: a}]")
OTHER_RULES = RULES.replace("value: a", "value: b")
BROKEN_RULES = RULES.replace("name: fixed, value: a", "name: nosuchrule")


def queue_of(driver: Driver, app_id: str) -> str:
    """Where an application was placed."""
    partition = driver.views.resolve(f"[{RM}]default")
    return driver.views.application(partition, app_id).queue


def only(effects: list[Effect]) -> Effect:
    """The one effect there is."""
    assert len(effects) == 1
    return effects[0]


@pytest.mark.row(2)
def test_without_a_configuration_the_default_one_is_in_force() -> None:
    """An RM that brings none gets queues by namespace tag."""
    driver = Driver()
    driver.do(register(""), apps(app("job", tags={"namespace": "ns1"})))
    assert queue_of(driver, "job") == "root.ns1"


@pytest.mark.row(2)
def test_the_server_can_have_a_default_of_its_own() -> None:
    """An RM without a configuration gets the one that the scheduler was given."""
    driver = Driver(default_config=load(RULES))
    driver.do(register(""), apps(app("job")))
    assert queue_of(driver, "job") == "root.a"


@pytest.mark.row(3)
def test_a_bad_configuration_fails_the_registration_only() -> None:
    """The call fails with its text and place; a good registration after it succeeds."""
    driver = Driver()
    failed = only(driver.do(register(BROKEN_RULES)))
    assert isinstance(failed, RegistrationFailed)
    assert failed.reason.startswith("registration of RM failed: ")
    assert "unknown rule name specified nosuchrule" in failed.reason
    assert failed.problems[0].line > 0
    assert driver.views.rms() == ()
    assert isinstance(only(driver.do(register(RULES))), Registered)


def test_a_bad_configuration_leaves_an_earlier_registration_alone() -> None:
    """Re-registration with a configuration that is refused drops nothing."""
    driver = Driver()
    driver.do(register(RULES), apps(app("job")), register(BROKEN_RULES))
    assert queue_of(driver, "job") == "root.a"


@pytest.mark.parametrize("rm_id", ["", "a[b", "a]b"])
def test_an_rm_needs_a_name_that_partitions_can_carry(rm_id: str) -> None:
    """Brackets delimit the RM in partition names, so an rmID has none; nor is it empty."""
    failed = only(Driver().do(register(RULES, rm_id)))
    assert isinstance(failed, RegistrationFailed)
    assert "rmID" in failed.reason


@pytest.mark.row(54)
def test_broken_rules_leave_the_old_ones_in_force() -> None:
    """An update with broken placement rules fails, and applications are placed as before."""
    driver = Driver()
    driver.do(register(RULES))
    refused = only(driver.do(reload(BROKEN_RULES)))
    assert isinstance(refused, ConfigurationRefused)
    assert refused.reason.startswith("update of configuration failed: ")
    driver.do(apps(app("job")))
    assert queue_of(driver, "job") == "root.a"


@pytest.mark.row(55)
def test_the_same_configuration_again_changes_nothing_but_the_extra_one() -> None:
    """An unchanged checksum is a success without a change; the extra configuration still counts."""
    driver = Driver()
    driver.do(register(RULES))
    updated = only(driver.do(reload(RULES, extra={"log.level": "DEBUG"})))
    assert updated == ConfigurationUpdated(rm_id=updated.rm_id, changed=False)
    assert driver.views.rms()[0].extra_config == {"log.level": "DEBUG"}


@pytest.mark.row(55)
def test_the_extra_configuration_stays_where_the_queues_are_refused() -> None:
    """It is applied first, and an update that fails later does not take it back (spec § 13.1)."""
    driver = Driver()
    driver.do(register(RULES), reload(BROKEN_RULES, extra={"log.level": "WARN"}))
    assert driver.views.rms()[0].extra_config == {"log.level": "WARN"}


@pytest.mark.row(55)
def test_an_update_replaces_the_extra_configuration_or_leaves_it() -> None:
    """A map that comes along is the whole of it from then on; without one nothing changes."""
    driver = Driver()
    driver.do(register(RULES, extra={"log.level": "INFO", "health.checkInterval": "1s"}))
    driver.do(reload(OTHER_RULES, extra={"log.level": "WARN"}), reload(RULES))
    assert driver.views.rms()[0].extra_config == {"log.level": "WARN"}


def test_a_refused_update_does_not_change_the_policy_group() -> None:
    """The policy group is that of the last update that was taken, with a new text or without."""
    driver = Driver()
    driver.do(register(RULES))
    for text, group in ((BROKEN_RULES, ""), (RULES, "blue"), (BROKEN_RULES, "blue")):
        driver.do(replace(reload(text), policy_group="blue" if group else "red"))
        assert driver.views.rms()[0].policy_group == group


@pytest.mark.row(168)
def test_an_update_moves_the_rules() -> None:
    """New rules place the next application; the checksum that is shown is the new one."""
    driver = Driver()
    driver.do(register(RULES))
    before = driver.views.rms()[0].checksum
    updated = only(driver.do(reload(OTHER_RULES)))
    assert updated == ConfigurationUpdated(rm_id=updated.rm_id, changed=True)
    effects = driver.do(apps(app("job")))
    assert isinstance(effects[0], ApplicationsAnswered)
    assert queue_of(driver, "job") == "root.b"
    assert driver.views.rms()[0].checksum != before
