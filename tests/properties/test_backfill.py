"""Capacity in time beside textbook backfill, on loads like those of batch systems."""

from statistics import mean

import pytest

from support.reference_backfill import Conservative, Job, easy, first_come, load, outcome, played

PROCESSORS = 16


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
