"""The census of reasons, from recorded blockers, agrees with explanations in random worlds."""

from collections import Counter

import pytest

from licorne_core.messages.reports import Census
from licorne_core.values.ids import PartitionName
from licorne_core.views import Views
from licorne_core.views.census import REASONS, WAITS_FOR_TURN, stops, stops_all
from licorne_core.views.explain import checks_before_nodes, first_failing, subject_of
from support.core.driver import Driver
from support.core.steps import last
from support.seeds import lively
from support.worlds import World
from support.worlds.playing import REST, Players

FIRST = "the first that fails"
COMPARED = "compared"


def census_of(views: Views, partition: PartitionName) -> Census:
    """The census of the partition; the pauses during its computation are skipped."""
    (found,) = [step for step in views.census(partition) if step is not None]
    return found


def what_stops(driver: Driver, partition: PartitionName) -> Counter[str]:
    """Compare the census with the explanation of each ask; return the number of asks by code.

    The recorded blocker of an ask must be among the failed checks of its explanation. `FIRST` counts asks
    whose blocker is the first failed check, of `COMPARED` in total.
    """
    found = census_of(driver.views, partition)
    owner = driver.scheduler.partitions[partition]
    report = driver.views.partition(partition)
    assert sum(found.pending.values()) == report.pending_asks
    assert {code for _, code in found.pending} <= {*REASONS}
    first = compared = 0
    for app in owner.applications.values():
        for request in app.requests.values():
            if not request.is_pending or request.reservation is not None:
                continue
            told = last(driver.views.explain(partition, app.app_id, request.key))
            failed = [check.code for check in told.checks if not check.passed]
            asking = subject_of(app, request)
            checks = checks_before_nodes(owner.check_context, asking)
            stop = first_failing(owner.check_context, asking)
            assert stop == next((check for check in checks if not check.passed), None), request
            rests = request.key in app.backing_off
            to_all = stops_all(owner, app)
            code = to_all or "ASK_BACKS_OFF" if rests else stops(owner, app, request.group, to_all)
            assert code in (failed or [WAITS_FOR_TURN]), (request, failed, code)
            assert (app.queue_path, code) in found.pending
            first += code in (failed or [WAITS_FOR_TURN])[:1]
            compared += 1
    codes = Counter({code: count for (_, code), count in found.pending.items()})
    return codes + Counter({FIRST: first, COMPARED: compared})


def stopped_in(world: World) -> Counter[str]:
    """Play the world; whenever it is idle compare the census with explanations. Return the codes found."""
    play = Players(Driver(sweep=10))
    seen: Counter[str] = Counter()
    for step in world.steps:
        play.step(step)
        if step.command is REST:
            for partition in play.driver.scheduler.partitions:
                seen += what_stops(play.driver, partition)
    return seen


@pytest.mark.worlds(first=4_700_000, one_in=8)
def test_the_census_agrees_with_explanations(part: range) -> None:
    """The census names a failing check for each ask, and counts each ask once."""
    seen: Counter[str] = Counter()
    for seed in part:
        try:
            seen += stopped_in(World(seed))
        except AssertionError as error:
            pytest.fail(f"world {seed}: {error}")
    assert seen[COMPARED] >= lively(len(part)), f"the worlds are too quiet: {seen}"
    # A blocker remains recorded even if an earlier check would now block the ask as well.
    assert seen[FIRST] >= 0.9 * seen[COMPARED], f"{seen}"
