"""The counts of reasons agree with the explanations of all asks in random worlds, also while busy."""

from collections import Counter

import pytest

from licorne_core.extensions.budgets.messages import BudgetCheck
from licorne_core.messages.checks import RuleCheck
from licorne_core.messages.operators import StoppedQueueCheck
from licorne_core.messages.reasons import Check, LimitCheck, QueueCheck, RunningCheck
from licorne_core.messages.reports import WaitingAsks
from licorne_core.model.apps.requests import ASSUMED, TO_REPLACE, Request
from licorne_core.partitions.partition import Partition
from licorne_core.values.ids import AllocationKey, AppId, PartitionName, QueuePath
from licorne_core.views.census import REPLACES_PLACEHOLDER, WAITS_FOR_ANSWER, WAITS_FOR_TURN
from support.core.driver import Driver
from support.core.steps import last
from support.seeds import lively
from support.worlds import World
from support.worlds.playing import REST, Players

EVERY = 7
"""Steps between two comparisons, which may be between slices; each idle core is compared as well."""

Row = tuple[QueuePath, str, str]

NAMED = ("hours", "closed")
"""Checks of extensions that count their asks for each queue."""


def subject(check: Check) -> str:
    """The queue, user, group or budget of a check; empty for other checks."""
    match check:
        case QueueCheck() | StoppedQueueCheck():
            return check.queue
        case RuleCheck():
            return check.subject if check.kind in NAMED else ""
        case LimitCheck() | RunningCheck():
            return check.queue if check.kind == "queue" else f"{check.name} in {check.queue}"
        case BudgetCheck():
            return check.budget
        case _:
            return ""


def explained(driver: Driver, partition: Partition, request: Request) -> tuple[str, str]:
    """Code and subject of an ask by its explanation; two empty texts for an ask that does not wait."""
    if request.state is ASSUMED:
        return WAITS_FOR_ANSWER, ""
    if request.state in TO_REPLACE:
        return REPLACES_PLACEHOLDER, ""
    if not request.is_pending:
        return "", ""
    told = last(driver.views.explain(partition.name, request.ask.app_id, request.key))
    failed = next((check for check in told.checks if not check.passed), None)
    return (
        (WAITS_FOR_TURN, "")
        if told.verdict == "waiting" or failed is None
        else (failed.code, subject(failed))
    )


def agree(driver: Driver, name: PartitionName) -> Counter[str]:
    """Compare all rows with all explanations; return the number of asks by code."""
    partition = driver.scheduler.partitions[name]
    rows: list[WaitingAsks] = [row for row in driver.views.reasons(name) if row is not None]
    asks: Counter[Row] = Counter()
    wanted: dict[Row, Counter[str]] = {}
    for app in partition.applications.values():
        for request in app.requests.values():
            code, whose = explained(driver, partition, request)
            if code:
                place = (app.queue_path, code, whose)
                asks[place] += 1
                wanted.setdefault(place, Counter()).update(dict(request.ask.ask_class.items))
    assert {(row.queue, row.code, row.subject): row.asks for row in rows} == asks
    assert asks.total() == driver.views.partition(name).pending_asks
    for row in rows:
        assert row.resources == wanted[row.queue, row.code, row.subject], row
        has_causes = row.code in ("NO_NODE_FITS", "NEVER_FITS")
        assert sum(row.causes.values()) == (row.asks if has_causes else 0), row
        request = partition.applications[AppId(row.app_id)].requests[AllocationKey(row.key)]
        assert explained(driver, partition, request) == (row.code, row.subject), row
    return Counter({row.code: row.asks for row in rows})


def reasons_in(world: World) -> Counter[str]:
    """Play the world, and compare whenever it is idle and at every seventh step."""
    play = Players(Driver(sweep=10))
    seen: Counter[str] = Counter()
    for number, step in enumerate(world.steps):
        play.step(step)
        if step.command is REST or not number % EVERY:
            for name in play.driver.scheduler.partitions:
                seen += agree(play.driver, name)
    return seen


@pytest.mark.worlds(first=4_900_000, one_in=16)
def test_counts_of_reasons_equal_the_explanations(part: range) -> None:
    """Each waiting ask counts once, with its amounts, under the code and subject of its explanation."""
    seen: Counter[str] = Counter()
    for seed in part:
        try:
            seen += reasons_in(World(seed))
        except AssertionError as error:
            pytest.fail(f"world {seed}: {error}")
    assert seen.total() >= lively(len(part)), f"the worlds are too quiet: {seen}"
