"""S1, S4: a repeated message has no further effect; a release without a key is for one application."""

from dataclasses import replace
from typing import Any

import pytest

from licorne_core.messages.commands import (
    AnswerPredicates,
    Command,
    TerminationType,
    UpdateAllocations,
    UpdateApplications,
    UpdateConfiguration,
    UpdateNodes,
)
from licorne_core.model.apps.requests import RequestState
from support.core.builders import release, releases
from support.core.driver import Driver
from support.core.replicas import digest
from support.worlds import World
from support.worlds.playing import REST, TURN, Players

REPEATED = (
    AnswerPredicates,
    UpdateAllocations,
    UpdateApplications,
    UpdateConfiguration,
    UpdateNodes,
)


def books(driver: Driver) -> dict[str, Any]:
    """The books of all partitions, by name."""
    return {name: digest(known) for name, known in driver.scheduler.partitions.items()}


def send_twice(driver: Driver, command: Command) -> None:
    """Send the command twice, and check that the repetition changes nothing.

    Releases are sent one by one, since a real ask that replaces a released placeholder is a new object for
    the next release. For the same reason a release of all keys for a timeout is sent once.
    """
    if isinstance(command, UpdateAllocations) and command.releases:
        for release in command.releases:
            alone = replace(command, releases=[release])
            if release.key or release.termination is not TerminationType.TIMEOUT:
                send_twice_as_it_is(driver, alone)
            else:
                driver.send(alone)
    else:
        send_twice_as_it_is(driver, command)


def send_twice_as_it_is(driver: Driver, command: Command) -> None:
    """Send the unchanged command twice, and check that the books are equal afterwards."""
    driver.send(command)
    once = books(driver)
    driver.send(command)
    assert books(driver) == once, f"{command} is not the same twice"


@pytest.mark.worlds(first=9_000_000, one_in=10)
def test_a_repeated_message_has_no_effect(part: range) -> None:
    """Items, releases, configurations and answers that are sent a second time change nothing."""
    for seed in part:
        driver = Driver()
        players = Players(driver)
        for now, command in World(seed).steps:
            driver.now = now
            for reply in players.due():
                send_twice(driver, reply)
            if isinstance(command, REPEATED):
                send_twice(driver, command)
            else:
                players.send(command)


@pytest.mark.worlds(first=9_500_000, one_in=20)
def test_a_release_without_a_key_is_for_one_application(part: range) -> None:
    """Only the named application loses its allocations, and unless the type is TIMEOUT also its asks.

    After a TIMEOUT, real asks that wait for the end of a placeholder are allocated.
    """
    for seed in part:
        driver = Driver()
        for now, command in World(seed).steps:
            driver.now = now
            if command is REST:
                driver.run(TURN)
            else:
                driver.send(command)
        for name, partition in list(driver.scheduler.partitions.items()):
            for number, app_id in enumerate(list(partition.applications)):
                why = TerminationType.TIMEOUT if number % 2 else TerminationType.STOPPED_BY_RM
                before = books(driver)
                requests = partition.applications[app_id].requests.values()
                linked = sorted(r.key for r in requests if r.state is RequestState.LINKED)
                driver.send(releases(release(app_id, why=why, partition=name), rm=partition.rm_id))
                after = books(driver)
                path, _, _, pending, _ = before[name]["apps"].pop(app_id)
                kept = pending if why is TerminationType.TIMEOUT else []
                found = after[name]["apps"].pop(app_id, (path, {}, {}, [], []))[3:]
                left = (sorted({*kept} - {*linked}), linked if kept else [])
                assert found == left, f"{app_id} in {path}"
                assert after[name]["apps"] == before[name]["apps"], f"without {app_id}"
                others = {other: after[other] for other in after if other != name}
                assert others == {other: before[other] for other in before if other != name}
