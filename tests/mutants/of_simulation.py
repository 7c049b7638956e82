"""Output of simulations of workloads: traces, waits, restarts."""

from mutants.defect import Defect
from mutants.operators import drop, never, swap

SIMULATION = (
    Defect(
        "cancelled-jobs-run",
        "swf:_job",
        never("_CANCELLED"),
        "a job that was cancelled before its start is played as one of no length",
        ("traces/test_formats",),
    ),
    Defect(
        "gangs-survive-victims",
        "Playing._preempted",
        drop("_again"),
        "a gang that has lost a member waits for it for ever",
        ("simulation/test_playing",),
    ),
    Defect(
        "slow-jobs-count-short",
        "figures:_slowdown",
        swap("max", "min"),
        "the slowdown of jobs is bounded from above",
        ("simulation/test_playing",),
        nth=1,
    ),
    Defect(
        "load-slows-down",
        "workload_of",
        swap("/", "*"),
        "with a higher load jobs come more slowly",
        ("simulation/test_workload",),
    ),
)
