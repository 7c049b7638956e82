"""Seeded defects in simulations of workloads: traces, waits, restarts."""

from mutants.defect import Defect
from mutants.operators import drop, never, swap

SIMULATION = (
    Defect(
        "cancelled-jobs-run",
        "swf:_job",
        never("_CANCELLED"),
        "a job cancelled before its start is played with zero runtime",
        ("traces/test_formats",),
    ),
    Defect(
        "gangs-survive-victims",
        "Playing._preempted",
        drop("_again"),
        "a gang waits for ever for a member that was preempted",
        ("simulation/test_playing",),
    ),
    Defect(
        "slow-jobs-count-short",
        "figures:_slowdown",
        swap("max", "min"),
        "the slowdown of jobs has an upper bound instead of a lower one",
        ("simulation/test_playing",),
        nth=1,
    ),
    Defect(
        "load-slows-down",
        "workload_of",
        swap("/", "*"),
        "with a higher load jobs arrive more slowly",
        ("simulation/test_workload",),
    ),
)
