"""Backfill compared with textbook backfill, on loads of batch systems."""

from collections.abc import Mapping, Sequence

import pytest

from licorne_core.config import load as configuration
from licorne_core.extensions.backfill.unplanned import LookBudget
from support.core.batch import Batch
from support.core.builders import config
from support.reference_backfill import Conservative, Job, easy, first_come, load, played

PROCESSORS = 16

MOST_WAITING = 16
"""The most jobs with a planned start under `conservative`; textbooks plan a start for every job."""


def test_the_reference_agrees_with_results_by_hand() -> None:
    """On four processors, first-come-first-served and EASY start jobs at the times computed by hand."""
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
    # The fourth job fits before the start of the third, and the fifth job only after the third has ended.
    jobs = [
        Job(1, 0, 3, 20, 20),
        Job(2, 0, 1, 10, 10),
        Job(3, 1, 4, 5, 5),
        Job(4, 2, 1, 10, 10),
        Job(5, 3, 1, 9, 9),
    ]
    assert played(jobs, 4, Conservative()) == {1: 0, 2: 0, 3: 20, 4: 10, 5: 25}
    assert Batch(4, backfill="conservative", gangs=False).play(jobs) == {1: 0, 2: 0, 3: 20, 4: 10, 5: 25}


SMALL: dict[str, tuple[int, str, str, list[int]]] = {
    "an end moves a start": (
        10,
        "easy",
        "0 5 100 100, 0 5 2000 4, 1 10 50 50, 2 5 1500 1500",
        [0, 0, 100, 150],
    ),
    "busy nodes are held": (
        20,
        "easy",
        "0 8 50 20, 0 8 100 100, 1 14 50 50, 10 6 1000 1000",
        [0, 0, 100, 20],
    ),
    "a gap is used": (10, "conservative", "0 6 100 100, 0 4 50 50, 1 10 50 50, 2 4 40 40", [0, 0, 100, 50]),
}
"""Processors, backfill, jobs (submitted, size, requested, runtime), and their starts with plain backfill."""


@pytest.mark.parametrize("gangs", [False, True])
@pytest.mark.parametrize("case", SMALL)
def test_few_jobs_start_at_the_times_computed_by_hand(case: str, gangs: bool) -> None:
    """Jobs start as with plain backfill, on one node and as gangs on nodes of one processor."""
    processors, backfill, text, right = SMALL[case]
    rows = [[int(word) for word in job.split()] for job in text.split(",")]
    jobs = [Job(number, row[0], row[1], row[2], row[3]) for number, row in enumerate(rows)]
    assert Batch(processors, backfill=backfill, gangs=gangs).play(jobs) == dict(enumerate(right))


def test_backfill_with_the_node_order_fair_is_noted() -> None:
    """Backfill with the node order `fair` is accepted with a note; other orders, and `off`, have no note."""
    found = [
        configuration(config("[{name: a}]", rest=f"nodesortpolicy: {order}", properties=backfill)).notes
        for order in ("fair", "auto", "binpacking")
        for backfill in ("{backfill: easy}", "{backfill: off}")
    ]
    assert [len(notes) for notes in found] == [1, 0, 0, 0, 0, 0]


def test_searches_after_ends_have_a_budget() -> None:
    """After work beyond the budget the next search waits until time has restored the budget."""
    budget = LookBudget()
    assert budget.has(100.0)
    budget.spend(30_000)
    assert [budget.has(100.0 + seconds) for seconds in (0.0, 0.3, 0.5)] == [False, False, True]


def plays_as_easy(part: range, *, gangs: bool, jobs: int, truthful: bool = False) -> None:
    """Check that in each of these loads every job starts in the same second as with plain EASY."""
    for seed in part:
        some = load(seed, jobs=jobs, truthful=truthful)
        starts = Batch(PROCESSORS, backfill="easy", gangs=gangs).play(some)
        agree(some, starts, played(some, PROCESSORS, easy), f"seed {seed}")


def agree(jobs: Sequence[Job], starts: Mapping[int, float], right: Mapping[int, int], where: str) -> None:
    """Check that all jobs start at the right times; the message names the earliest difference."""
    other = [job for job in jobs if starts.get(job.number) != right[job.number]]
    other.sort(key=lambda job: min(right[job.number], starts.get(job.number, right[job.number])))
    shown = [(job, starts.get(job.number), right[job.number]) for job in other[:1]]
    assert not other, f"{where}: first of {len(other)}, its start and the right one: {shown}"


@pytest.mark.worlds(first=2_000, one_in=8, size=20)
@pytest.mark.parametrize("truthful", [True, False])
def test_jobs_start_as_with_textbook_conservative_backfill(part: range, truthful: bool) -> None:
    """On one machine starts are equal to the second in loads with at most 16 waiting jobs."""
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
def test_truthful_jobs_start_as_with_textbook_easy(part: range) -> None:
    """On one machine with exact runtimes every job starts in the same second as with EASY."""
    plays_as_easy(part, gangs=False, jobs=100, truthful=True)


@pytest.mark.worlds(first=0, one_in=6, size=20)
def test_overstated_jobs_start_as_with_textbook_easy(part: range) -> None:
    """On one machine where most jobs end before their declared runtime, starts equal those of EASY."""
    plays_as_easy(part, gangs=False, jobs=100)


@pytest.mark.worlds(first=0, one_in=12, size=20)
def test_overstated_gangs_start_as_with_textbook_easy(part: range) -> None:
    """With one node for each member, where the core chooses the nodes to hold, starts equal those of EASY."""
    plays_as_easy(part, gangs=True, jobs=60)
