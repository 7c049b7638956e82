"""A workload played by `licorne simulate` and by plain backfill (`reference_backfill.py`), job by job.

As in published results, jobs are stopped at their requested time, and left out if they ran for no time. A
request is at least a second, as 0 means none. Jobs of one second are in the order of their names.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from statistics import fmean
from typing import NamedTuple

from licorne_core.values.resources import VCORE
from licorne_server.lab.simulation.cluster import NodeKind
from licorne_server.lab.simulation.figures import SHORT
from licorne_server.lab.simulation.policies import POLICIES
from licorne_server.lab.simulation.rules import Division, Rules
from licorne_server.lab.simulation.runs import Run, Setup, TraceSource, play
from support.reference_backfill import Choice, Job, ShortestFirst, easy, played


class Difference(NamedTuple):
    """A job with different starts, in seconds from the first submission."""

    job: str
    size: int
    start: float | None
    right: int

    def __str__(self) -> str:
        """Both times as text."""
        found = "never" if self.start is None else f"at {self.start:.0f} s"
        return f"job {self.job} ({self.size} processors) starts {found}, in the reference at {self.right} s"


class Compared(NamedTuple):
    """The result of a comparison: the differing jobs, the earliest first, and figures of the reference."""

    run: Run
    differing: Sequence[Difference]
    wait_mean: float
    slowdown_mean: float


def compared(
    source: TraceSource,
    processors: int,
    *,
    nodes: int = 1,
    limit: int = 0,
    policy: str = "backfill-easy",
    until: int = 43_200,
) -> Compared:
    """Play the jobs under the policy on equal nodes, and under textbook backfill on the same processors.

    Jobs that have waited for `until` seconds return to the order of arrival; with 0 none does.
    """
    rules: Choice = ShortestFirst(until or inf) if policy == "backfill-shortest" else easy
    of_order = {"backfill.order.until": f"{until}s"}
    made = replace(POLICIES[policy], properties={**POLICIES[policy].properties, **of_order})
    source.jobs = [
        one._replace(requested=(end := max(1.0, one.requested or one.runtime)), runtime=min(one.runtime, end))
        for one in source.jobs
        if one.runtime
    ]
    kind = NodeKind(nodes, {VCORE: 1000 * (processors // nodes)})
    setup = Setup(nodes=[kind], rules=Rules(members=Division.PROCESSOR if nodes > 1 else None), limit=limit)
    run = play(source, setup, made, None)
    courses = sorted(run.outcome.courses, key=lambda one: (one.job.submit, one.job.job))
    begin = courses[0].job.submit
    jobs = [
        Job(
            number,
            round(one.job.submit - begin),
            one.job.amounts[VCORE] // 1000,
            one.job.declared,
            round(one.job.runtime),
            one.job.user,
        )
        for number, one in enumerate(courses)
    ]
    starts = played(jobs, processors // nodes * nodes, rules)
    differing = [
        Difference(
            one.job.job, job.size, None if one.start is None else one.start - begin, starts[job.number]
        )
        for job, one in zip(jobs, courses, strict=True)
        if one.start != begin + starts[job.number]
    ]
    differing.sort(key=lambda one: one.right if one.start is None else min(one.right, one.start))
    waits = [starts[job.number] - job.submit for job in jobs]
    waited = zip(waits, jobs, strict=True)
    slowdowns = [max(1.0, (wait + job.runtime) / max(SHORT, job.runtime)) for wait, job in waited]
    return Compared(run, differing, fmean(waits), fmean(slowdowns))
