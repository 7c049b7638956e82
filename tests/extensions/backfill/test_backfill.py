"""Capacity in time beside textbook backfill, on loads like those of batch systems."""

from statistics import mean

import pytest

from support.core.batch import Batch
from support.reference_backfill import Conservative, Job, Outcome, easy, first_come, load, outcome, played

PROCESSORS = 16

WAIT_TOLERANCE = 0.05
"""Part by which the mean wait over some loads may be longer than that of EASY."""

USE_TOLERANCE = 0.01
"""Part of the processors that may be used less than with EASY over some loads."""


def test_the_reference_backfills_by_hand() -> None:
    """Four processors: what first come, EASY and conservative do can be followed with a pencil."""
    jobs = [
        Job(1, 0, 3, 10, 10),
        Job(2, 1, 4, 10, 10),  # waits for all: shadow start 10
        Job(3, 2, 1, 9, 9),  # would end at 11
        Job(4, 3, 1, 7, 4),  # ends by 10
        Job(5, 4, 2, 10, 10),
    ]
    assert played(jobs, 4, first_come) == {1: 0, 2: 10, 3: 20, 4: 20, 5: 20}
    assert played(jobs, 4, easy) == {1: 0, 2: 10, 3: 20, 4: 3, 5: 20}
    conservative = Conservative()
    assert played(jobs, 4, conservative) == {1: 0, 2: 10, 3: 20, 4: 3, 5: 20}
    assert conservative.first_told == {1: 0, 2: 10, 3: 20, 4: 3, 5: 20}


def test_the_reference_lets_pass_what_leaves_enough_at_the_shadow_start() -> None:
    """A long job passes on the processors that the blocked one does not need, and no second one does."""
    jobs = [Job(1, 0, 3, 10, 10), Job(2, 1, 3, 5, 5), Job(3, 2, 1, 50, 50), Job(4, 3, 1, 50, 50)]
    assert played(jobs, 4, easy) == {1: 0, 2: 10, 3: 2, 4: 15}


@pytest.mark.worlds(first=0, one_in=6, size=20)
def test_the_reference_gains_by_backfill(part: range) -> None:
    """Over some loads waits are shorter than by first come, and conservative plans are kept."""
    waits: dict[str, list[float]] = {"first": [], "easy": [], "conservative": []}
    for seed in part:
        jobs, planned = load(seed), Conservative()
        for name, choose in (("first", first_come), ("easy", easy), ("conservative", planned)):
            waits[name].append(outcome(jobs, PROCESSORS, played(jobs, PROCESSORS, choose)).mean_wait)
        starts = played(jobs, PROCESSORS, Conservative())
        assert all(starts[number] <= told for number, told in planned.first_told.items())
    assert mean(waits["easy"]) < 0.7 * mean(waits["first"])
    assert mean(waits["conservative"]) < 0.7 * mean(waits["first"])


def compared(part: range, *, gangs: bool, jobs: int) -> None:
    """Over these loads the core is as good as EASY: utilisation and mean wait within the tolerances.

    Runtimes are overstated, so that most jobs end before the core expects it.
    """
    outcomes: dict[str, list[Outcome]] = {"core": [], "easy": []}
    for seed in part:
        some = load(seed, jobs=jobs)
        starts = Batch(PROCESSORS, backfill="easy", gangs=gangs).play(some)
        assert len(starts) == len(some), f"seed {seed}: {len(some) - len(starts)} jobs never start"
        outcomes["core"].append(outcome(some, PROCESSORS, starts))
        outcomes["easy"].append(outcome(some, PROCESSORS, played(some, PROCESSORS, easy)))
    waits = {name: mean(one.mean_wait for one in found) for name, found in outcomes.items()}
    used = {name: mean(one.utilisation for one in found) for name, found in outcomes.items()}
    assert waits["core"] <= waits["easy"] * (1 + WAIT_TOLERANCE), waits
    assert used["core"] >= used["easy"] - USE_TOLERANCE, used


@pytest.mark.worlds(first=0, one_in=6, size=20)
def test_truthful_jobs_start_as_textbook_easy_has_them(part: range) -> None:
    """With truthful runtimes, each job on one machine starts to the second when plain EASY starts it."""
    for seed in part:
        jobs = load(seed, truthful=True)
        starts = Batch(PROCESSORS, backfill="easy", gangs=False).play(jobs)
        assert starts == played(jobs, PROCESSORS, easy), seed


@pytest.mark.worlds(first=0, one_in=6, size=20)
def test_overstated_jobs_wait_no_longer_than_with_easy(part: range) -> None:
    """On one machine the core is as good as plain EASY."""
    compared(part, gangs=False, jobs=100)


@pytest.mark.worlds(first=0, one_in=12, size=20)
def test_overstated_gangs_wait_no_longer_than_with_easy(part: range) -> None:
    """On a machine for each member the core, which plans for nodes, is as good as plain EASY."""
    compared(part, gangs=True, jobs=60)
