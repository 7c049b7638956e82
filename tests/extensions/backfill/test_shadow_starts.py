"""Shadow starts on random loads: published starts are kept, and all jobs start in the end."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from licorne_core.extensions.backfill.extension import starts_of
from licorne_core.messages.effects import Effect
from support.core.batch import Batch
from support.core.driver import START
from support.reference_backfill import Job, first_come, outcome, played

NODES, RACK = 6, 3


class Told(Batch):
    """A core that plays jobs, with the first published start of each."""

    def __init__(self, *, gangs: bool, backfill: str = "easy", rack: int = 0) -> None:
        """With gangs, six nodes of one processor each; otherwise one node of six."""
        super().__init__(NODES, backfill=backfill, gangs=gangs, rack=rack)
        self.told: dict[int, float] = {}

    def _submit(self, job: Job) -> None:
        self._told = job.requested > 0
        super()._submit(job)

    def _hear(self, effects: Sequence[Effect], now: float) -> None:
        super()._hear(effects, now)
        for shadow in starts_of(self.driver.partition).shadows:
            number = int(shadow.app.app_id.removeprefix("job-"))
            self.told.setdefault(number, shadow.first_told - START)


def stream(seed: int, stretch: float = 1.0) -> list[Job]:
    """Short jobs of one processor that leave little room free, and some wide ones.

    Jobs run up to `stretch` times longer, or shorter, than declared.
    """
    rng = Random(seed)
    jobs, now = [], 0
    for number in range(rng.randint(8, 20)):
        now += rng.choice([0, 0, 1, 2, 3])
        size = rng.randint(2, NODES) if number and rng.random() < 0.15 else 1
        said = rng.choice([2, 3, 5, 10, 10, 10, 15])
        runs = max(1, round(said * stretch ** rng.uniform(-1, 1)))
        jobs.append(Job(number, now, size, said, runs))
    return jobs


def play(jobs: Sequence[Job], *, gangs: bool, backfill: str = "easy", rack: int = 0) -> Told:
    """Play all jobs on a new machine; with `rack`, jobs are cut to the size of a rack."""
    batch = Told(gangs=gangs, backfill=backfill, rack=rack)
    batch.play([replace(job, size=min(job.size, rack or job.size)) for job in jobs])
    return batch


@pytest.mark.worlds(first=0, one_in=8)
@pytest.mark.parametrize("backfill", ["easy", "conservative"])
@pytest.mark.parametrize(
    ("gangs", "rack"), [(False, 0), (True, 0), (True, RACK)], ids=["asks", "gangs", "racks"]
)
def test_a_published_start_is_kept_if_runtimes_are_true(
    part: range, gangs: bool, rack: int, backfill: str
) -> None:
    """Whatever is submitted later, an ask, a gang, or a gang in a rack starts by its first published time."""
    held = 0
    for seed in part:
        batch = play(stream(seed), gangs=gangs, backfill=backfill, rack=rack)
        late = {n: (batch.starts.get(n), told) for n, told in batch.told.items() if batch.starts[n] > told}
        assert not late, f"seed {seed}: started, told {late}"
        held += len(batch.told)
    assert held >= len(part) // 3


@pytest.mark.worlds(first=500_000, one_in=20)
@pytest.mark.parametrize("gangs", [False, True], ids=["asks", "gangs"])
def test_all_jobs_start_although_runtimes_are_wrong(part: range, gangs: bool) -> None:
    """If jobs run up to twice as long as declared, or half as long, every job starts in the end."""
    for seed in part:
        jobs = stream(seed, stretch=2.0)
        assert play(jobs, gangs=gangs).starts.keys() == {job.number for job in jobs}, f"seed {seed}"


@pytest.mark.worlds(first=700_000, one_in=20)
def test_an_ask_without_a_runtime_delays_no_published_start(part: range) -> None:
    """In loads where a quarter of the jobs declares no runtime, all published starts are kept."""
    for seed in part:
        jobs = stream(seed)
        silent = Random(seed).sample(range(len(jobs)), len(jobs) // 4)
        batch = play([replace(job, requested=0) if job.number in silent else job for job in jobs], gangs=True)
        for number, told in batch.told.items():
            assert batch.starts[number] <= told, f"seed {seed}: job {number}"


@pytest.mark.worlds(first=900_000, one_in=20)
def test_backfill_does_not_lower_the_utilisation(part: range) -> None:
    """Over all loads together the utilisation is at least that of first-come-first-served."""
    with_backfill = plain = 0.0
    for seed in part:
        jobs = stream(seed)
        with_backfill += outcome(jobs, NODES, play(jobs, gangs=False).starts).utilisation
        plain += outcome(jobs, NODES, played(jobs, NODES, first_come)).utilisation
    assert with_backfill >= plain
