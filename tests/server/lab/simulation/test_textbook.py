"""`licorne simulate` starts each job at the time of textbook backfill."""

import pytest

from licorne_server.lab.simulation.runs import TraceSource
from licorne_server.lab.simulation.traces.model import Part, Trace, TraceJob
from support.reference_backfill import Job, load
from support.textbook import compared

PROCESSORS = 16


def source(*jobs: Job) -> TraceSource:
    """A trace of these jobs."""
    made = [
        TraceJob(
            job=f"{job.number:03}",
            submit=job.submit,
            runtime=job.runtime,
            requested=job.requested,
            user=job.user,
            parts=(Part(1, job.size),),
        )
        for job in jobs
    ]
    return TraceSource(Trace("made", made, splits=True))


def starts(processors: int, nodes: int, *jobs: tuple[int, int, int, int]) -> list[float | None]:
    """The starts of jobs, given by submission, size, requested time and run time."""
    made = (Job(number, *job) for number, job in enumerate(jobs))
    found = compared(source(*made), processors, nodes=nodes)
    assert not found.differing, found.differing[0]
    courses = found.run.outcome.courses
    return [None if one.start is None else one.start - courses[0].job.submit for one in courses]


def test_an_early_end_is_used_before_others_overtake() -> None:
    """A job that ends early lets the blocked one start earlier, and a long one may not overtake."""
    jobs = ((0, 5, 100, 100), (0, 5, 2_000, 4), (1, 10, 50, 50), (2, 5, 1_500, 1_500))
    for nodes in (1, 10):
        assert starts(10, nodes, *jobs) == [0, 0, 100, 150]


def test_a_gang_waits_for_busy_nodes_and_leaves_idle_ones() -> None:
    """Eight nodes are free earlier than declared; a long gang gets the six not needed by the blocked job."""
    jobs = ((0, 8, 50, 20), (0, 8, 100, 100), (1, 14, 50, 50), (10, 6, 1_000, 1_000))
    for nodes in (1, 20):
        assert starts(20, nodes, *jobs) == [0, 0, 100, 20]


@pytest.mark.parametrize(
    ("policy", "until"), [("backfill-easy", 0), ("backfill-shortest", 0), ("backfill-shortest", 60)]
)
@pytest.mark.parametrize("nodes", [1, 4, PROCESSORS])
def test_generated_loads_start_as_in_the_reference(nodes: int, policy: str, until: int) -> None:
    """With overstated runtimes, on one node and on many, no job starts at another time."""
    for seed in (1, 2):
        found = compared(source(*load(seed, jobs=80)), PROCESSORS, nodes=nodes, policy=policy, until=until)
        assert not found.differing, f"seed {seed}, {nodes} nodes: {found.differing[0]}"
