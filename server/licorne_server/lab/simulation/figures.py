"""Figures of a simulated run, by job: waiting times, and the use of the cluster.

A job *waits* from its submission to its end, except for its run time: time lost to preemption counts as wait.
Jobs that still wait at the end of the run count with their wait so far. The *bounded slowdown* is the time
from submission to end divided by the run time, where run times below ten seconds count as ten. It is at least
1. *Utilisation* is the work of runs that were not lost, between the first and the last submission, divided by
the capacity of the nodes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import fmean
from typing import Final

from licorne_core.values.resources import Resources
from licorne_server.lab.simulation.playing import Course, RunEnd, used
from licorne_server.lab.simulation.summary import Summary

SHORT: Final = 10.0
"""Run times below this number of seconds count as this number in a slowdown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Figures of a run: seconds, shares from 0 to 1, and lost work in amounts of `resource` times seconds.

    `resource` is the resource that the jobs need most, relative to capacity; utilisation refers to it.
    `makespan` is from the first submission to the last end.
    """

    jobs: int
    ended: int
    waiting: int
    rejected: int
    wait_mean: float
    wait_p50: float
    wait_p99: float
    slowdown_mean: float
    resource: str
    utilisation: float
    below_guarantee: float
    preempted: int
    gang_timeouts: int
    lost_work: float
    makespan: float


def figures_of(outcome: RunEnd, capacity: Resources, summary: Summary) -> Figures:
    """The figures of a run that was measured by `summary`."""
    played = [course for course in outcome.courses if not course.rejected]
    waits = sorted(_wait(course, outcome.end) for course in played) or [0.0]
    ends = [course.end for course in played if course.end is not None]
    begin = outcome.courses[0].job.submit if outcome.courses else outcome.end
    last = outcome.courses[-1].job.submit if outcome.courses else outcome.end
    resource = _most_needed(played, capacity)
    return Figures(
        jobs=len(outcome.courses),
        ended=len(ends),
        waiting=len(played) - len(ends),
        rejected=len(outcome.courses) - len(played),
        wait_mean=fmean(waits),
        wait_p50=quantile(waits, 0.5),
        wait_p99=quantile(waits, 0.99),
        slowdown_mean=fmean(_slowdown(course, outcome.end) for course in played) if played else 1.0,
        resource=resource,
        utilisation=_utilisation(played, begin, last, resource, capacity),
        below_guarantee=summary.total.below_guarantee,
        preempted=outcome.preempted,
        gang_timeouts=sum(course.timeouts for course in played),
        lost_work=summary.total.lost.get(resource, 0.0),
        makespan=max(ends, default=begin) - begin,
    )


def recorded_waits(courses: Iterable[Course]) -> list[float]:
    """Waits in the recorded system, sorted, of the jobs whose recorded wait is known."""
    return sorted(course.job.waited for course in courses if course.job.waited >= 0)


def quantile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that is at least as large as this share of all values."""
    return ordered[max(0, ceil(share * len(ordered)) - 1)]


def _wait(course: Course, now: float) -> float:
    job = course.job
    if course.end is None:
        return round(now - job.submit, 3)
    # Rounded to milliseconds, as sums of unix seconds are not more precise.
    return round(max(0.0, course.end - job.submit - job.runtime), 3)


def _slowdown(course: Course, now: float) -> float:
    job = course.job
    end = now if course.end is None else course.end
    return max(1.0, (end - job.submit) / max(SHORT, job.runtime))


def _most_needed(courses: Sequence[Course], capacity: Resources) -> str:
    needed: dict[str, float] = {}
    for course in courses:
        for group in course.job.groups:
            for name, amount in group.ask_class.items:
                needed[name] = needed.get(name, 0.0) + amount * group.number * course.job.runtime
    shares: Mapping[str, float] = {
        name: needed[name] / capacity[name] for name in needed if capacity.get(name)
    }
    return max(sorted(shares), key=shares.__getitem__, default="vcore")


def _utilisation(
    courses: Sequence[Course], begin: float, end: float, resource: str, capacity: Resources
) -> float:
    if end <= begin or not capacity.get(resource):
        return 0.0
    area = sum(
        max(0.0, min(stopped, end) - max(started, begin)) * amounts.get(resource, 0)
        for started, stopped, amounts in used(courses)
    )
    return area / ((end - begin) * capacity[resource])
