"""Backfill compared with textbook backfill, on loads like those of batch systems."""

from collections.abc import Mapping, Sequence

import pytest

from licorne_core.config import load as configuration
from licorne_core.extensions.backfill.unplanned import LookBudget
from support.core.batch import Batch
from support.core.builders import config
from support.reference_backfill import Conservative, Job, easy, first_come, load, played

PROCESSORS = 16

MOST_WAITING = 16
"""Jobs that hold a start with `conservative`: with more the others have none, unlike in textbooks."""


def test_the_reference_backfills_by_hand() -> None:
    """Four processors: the results of first-come-first-served and EASY can be checked by hand."""
    jobs = [
        Job(1, 0, 3, 10, 10),
        Job(2, 1, 4, 10, 10),  # waits for all: shadow start 10
        Job(3, 2, 1, 9, 9),  # would end at 11
        Job(4, 3, 1, 7, 4),  # ends by 10
        Job(5, 4, 2, 10, 10),
    ]
    assert played(jobs, 4, first_come) == {1: 0, 2: 10, 3: 20, 4: 20, 5: 20}
    assert played(jobs, 4, easy) == {1: 0, 2: 10, 3: 20, 4: 3, 5: 20}
    # A long job passes on the processors that the blocked one does not need, and no second one does.
    jobs = [Job(1, 0, 3, 10, 10), Job(2, 1, 3, 5, 5), Job(3, 2, 1, 50, 50), Job(4, 3, 1, 50, 50)]
    assert played(jobs, 4, easy) == {1: 0, 2: 10, 3: 2, 4: 15}
    assert played(jobs, 4, Conservative()) == {1: 0, 2: 10, 3: 2, 4: 15}
    # The fourth one fits before the start of the third, and the fifth one only after its end.
    jobs = [
        Job(1, 0, 3, 20, 20),
        Job(2, 0, 1, 10, 10),
        Job(3, 1, 4, 5, 5),
        Job(4, 2, 1, 10, 10),
        Job(5, 3, 1, 9, 9),
    ]
    assert played(jobs, 4, Conservative()) == {1: 0, 2: 0, 3: 20, 4: 10, 5: 25}
    assert Batch(4, backfill="conservative", gangs=False).play(jobs) == {1: 0, 2: 0, 3: 20, 4: 10, 5: 25}


def test_beside_backfill_nodes_that_stay_spread_are_noted() -> None:
    """Backfill with the node order `fair` is accepted, with a note; with any other, or off, there is none."""
    found = [
        configuration(config("[{name: a}]", rest=f"nodesortpolicy: {order}", properties=backfill)).notes
        for order in ("fair", "auto", "binpacking")
        for backfill in ("{backfill: easy}", "{backfill: off}")
    ]
    assert [len(notes) for notes in found] == [1, 0, 0, 0, 0, 0]


def test_looks_after_ends_have_a_budget() -> None:
    """More work than that at one time has to wait until as much is paid back."""
    budget = LookBudget()
    assert budget.has(100.0)
    budget.spend(30_000)
    assert [budget.has(100.0 + seconds) for seconds in (0.0, 0.3, 0.5)] == [False, False, True]


def plays_as_easy(part: range, *, gangs: bool, jobs: int, truthful: bool = False) -> None:
    """In each of these loads every job starts to the second when plain EASY starts it."""
    for seed in part:
        some = load(seed, jobs=jobs, truthful=truthful)
        starts = Batch(PROCESSORS, backfill="easy", gangs=gangs).play(some)
        agree(some, starts, played(some, PROCESSORS, easy), f"seed {seed}")


def agree(jobs: Sequence[Job], starts: Mapping[int, float], right: Mapping[int, int], where: str) -> None:
    """All jobs start when they should; the earliest that does not is named."""
    other = [job for job in jobs if starts.get(job.number) != right[job.number]]
    other.sort(key=lambda job: min(right[job.number], starts.get(job.number, right[job.number])))
    shown = [(job, starts.get(job.number), right[job.number]) for job in other[:1]]
    assert not other, f"{where}: first of {len(other)}, its start and the right one: {shown}"


@pytest.mark.worlds(first=2_000, one_in=8, size=20)
@pytest.mark.parametrize("truthful", [True, False])
def test_jobs_start_as_conservative_backfill_has_them(part: range, truthful: bool) -> None:
    """On one machine, as long as each job that waits may hold a start."""
    compared = 0
    for seed in part:
        some = load(seed, jobs=50, truthful=truthful)
        right = played(some, PROCESSORS, Conservative())
        waiting = [sum(one.submit <= job.submit < right[one.number] for one in some) for job in some]
        if max(waiting) <= MOST_WAITING:
            compared += 1
            starts = Batch(PROCESSORS, backfill="conservative", gangs=False).play(some)
            agree(some, starts, right, f"seed {seed}")
    assert compared >= len(part) // 2


@pytest.mark.worlds(first=0, one_in=6, size=20)
def test_truthful_jobs_start_as_textbook_easy_has_them(part: range) -> None:
    """On one machine, with truthful runtimes."""
    plays_as_easy(part, gangs=False, jobs=100, truthful=True)


@pytest.mark.worlds(first=0, one_in=6, size=20)
def test_overstated_jobs_start_as_textbook_easy_has_them(part: range) -> None:
    """On one machine, where most jobs end before the core expects it."""
    plays_as_easy(part, gangs=False, jobs=100)


@pytest.mark.worlds(first=0, one_in=12, size=20)
def test_overstated_gangs_start_as_textbook_easy_has_them(part: range) -> None:
    """On a machine for each member, where the core has to choose which nodes it holds."""
    plays_as_easy(part, gangs=True, jobs=60)
