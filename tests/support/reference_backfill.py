"""Plain backfill on identical processors: first come, EASY, shortest first, and conservative.

Each policy recomputes everything whenever a job arrives or ends. It does not depend on the core. Times are in
whole seconds.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, inf, log
from random import Random


@dataclass(frozen=True, slots=True)
class Job:
    """A job that needs `size` processors at the same time.

    It declares `requested` seconds, and runs for `runtime` seconds, which are never more.
    """

    number: int
    submit: int
    size: int
    requested: int
    runtime: int
    user: str = ""


@dataclass(frozen=True, slots=True)
class Running:
    """A job and its start."""

    job: Job
    start: int

    @property
    def end(self) -> int:
        """The time of its end."""
        return self.start + self.job.runtime

    @property
    def told_end(self) -> int:
        """The latest time of its end, by its declared runtime."""
        return self.start + self.job.requested


Choice = Callable[[int, int, Sequence[Job], Sequence[Running]], list[Job]]
"""Returns the jobs that start at a time, given the processors, waiting jobs in order of arrival, and running
jobs."""


def played(jobs: Iterable[Job], processors: int, choose: Choice) -> dict[int, int]:
    """The start of each job by its number; at equal times ends precede arrivals, and these precede starts."""
    coming = sorted(jobs, key=lambda job: (job.submit, job.number), reverse=True)
    waiting: list[Job] = []
    running: list[Running] = []
    starts: dict[int, int] = {}
    while coming or waiting:
        now = min([job.submit for job in coming[-1:]] + [one.end for one in running])
        running = [one for one in running if one.end > now]
        while coming and coming[-1].submit <= now:
            waiting.append(coming.pop())
        for job in choose(now, processors, waiting, running):
            waiting.remove(job)
            running.append(Running(job, now))
            starts[job.number] = now
            assert sum(one.job.size for one in running) <= processors
    return starts


def first_come(now: int, processors: int, waiting: Sequence[Job], running: Sequence[Running]) -> list[Job]:
    """Start jobs in order, up to the first that does not fit."""
    free = processors - sum(one.job.size for one in running)
    started: list[Job] = []
    for job in waiting:
        if job.size > free:
            break
        started.append(job)
        free -= job.size
    return started


def easy(
    now: int,
    processors: int,
    waiting: Sequence[Job],
    running: Sequence[Running],
    order: Callable[[Job], float] = lambda job: 0,
) -> list[Job]:
    """EASY: other jobs may overtake the first blocked job if they do not delay its shadow start.

    They end by then, or leave enough processors at that time. They are tried in the `order`.
    """
    started = first_come(now, processors, waiting, running)
    if len(started) == len(waiting):
        return started
    held = [*running, *(Running(job, now) for job in started)]
    first, *others = waiting[len(started) :]
    shadow = shadow_start(first, processors, held)
    free = processors - sum(one.job.size for one in held)
    spare = processors - sum(one.job.size for one in held if one.told_end > shadow) - first.size
    for job in sorted(others, key=order):
        ends_by_then = now + job.requested <= shadow
        if job.size <= free and (ends_by_then or job.size <= spare):
            started.append(job)
            free -= job.size
            spare -= 0 if ends_by_then else job.size
    return started


class ShortestFirst:
    """EASY, where the jobs with the shortest expected runtime overtake first.

    The expected runtime is the mean of the last two jobs of its user, at most the declared one. A job that
    has waited for `until` seconds precedes all others that overtake, in order of arrival.
    """

    def __init__(self, until: float = inf) -> None:
        """Start without known runtimes."""
        self._until = until
        self._seen: list[Running] = []
        self._ran: dict[str, list[int]] = {}

    def __call__(
        self, now: int, processors: int, waiting: Sequence[Job], running: Sequence[Running]
    ) -> list[Job]:
        """The jobs that start."""
        for one in self._seen:
            if one.end <= now:
                self._ran.setdefault(one.job.user, []).append(one.job.runtime)
        started = easy(now, processors, waiting, running, lambda job: self._order(job, now))
        self._seen = [*running, *(Running(job, now) for job in started)]
        return started

    def _order(self, job: Job, now: int) -> float:
        if now - job.submit >= self._until:
            return -1.0
        ran = self._ran.get(job.user, [])[-2:]
        return min(job.requested, sum(ran) / 2) if len(ran) == 2 else job.requested


class Conservative:
    """Conservative backfill: every waiting job has a planned start that no other may delay.

    A new job gets the earliest time at which enough processors are free for its requested seconds, in view of
    all running jobs and planned starts. After each change the first job that can start earlier does so, then
    the first one again, until there is none.
    """

    def __init__(self) -> None:
        """Start without planned starts."""
        self._starts: dict[int, int] = {}

    def __call__(
        self, now: int, processors: int, waiting: Sequence[Job], running: Sequence[Running]
    ) -> list[Job]:
        """The jobs that start."""
        held = {job: self._starts[job.number] for job in waiting if job.number in self._starts}

        def earliest(job: Job) -> int:
            others = [Running(other, start) for other, start in held.items() if other is not job]
            return earliest_start(job, now, processors, [*running, *others])

        while moved := next((job for job in held if earliest(job) < held[job]), None):
            held[moved] = earliest(moved)
        for job in waiting:
            if job not in held:
                held[job] = earliest(job)
        self._starts = {job.number: start for job, start in held.items()}
        return [job for job in waiting if held[job] == now]


def earliest_start(job: Job, now: int, processors: int, others: Sequence[Running]) -> int:
    """The first time with enough free processors for the requested seconds, by the declared ends."""

    def free(time: int) -> int:
        return processors - sum(one.job.size for one in others if one.start <= time < one.told_end)

    for time in sorted({now, *(one.told_end for one in others if one.told_end > now)}):
        begins = [one.start for one in others if time < one.start < time + job.requested]
        if all(free(moment) >= job.size for moment in (time, *begins)):
            return time
    raise AssertionError(f"{job} is larger than the machine")


def shadow_start(job: Job, processors: int, running: Iterable[Running]) -> int:
    """The time at which enough processors are free for a blocked job, by the declared ends."""
    free = processors - sum(one.job.size for one in running)
    for one in sorted(running, key=lambda one: one.told_end):
        free += one.job.size
        if free >= job.size:
            return one.told_end
    raise AssertionError(f"{job} is larger than the machine")


@dataclass(frozen=True, slots=True)
class Outcome:
    """Figures of a played load."""

    utilisation: float
    """The used part of the processors, from the first arrival to the last end."""
    mean_wait: float
    """The mean of all jobs, in seconds."""


def outcome(jobs: Sequence[Job], processors: int, starts: Mapping[int, float]) -> Outcome:
    """The figures of a load with these starts."""
    begin = min(job.submit for job in jobs)
    end = max(starts[job.number] + job.runtime for job in jobs)
    used = sum(job.size * job.runtime for job in jobs)
    waits = [starts[job.number] - job.submit for job in jobs]
    return Outcome(used / (processors * (end - begin)), sum(waits) / len(waits))


def load(seed: int, *, jobs: int = 100, processors: int = 16, truthful: bool = False) -> list[Job]:
    """A load like those of batch systems: many small and short jobs, few large and long ones.

    Sizes are mostly powers of two, runtimes spread over two decades, arrivals come in waves, and the load is
    nine tenths of the processors. Unless `truthful`, most declared runtimes are too large, and rounded up to
    few values.
    """
    random = Random(seed)
    drawn = [(_size(random, processors), round(exp(random.uniform(0, log(100))))) for _ in range(jobs)]
    pause = sum(size * runtime for size, runtime in drawn) / (0.9 * processors * jobs)
    made: list[Job] = []
    now = 0.0
    for number, (size, runtime) in enumerate(drawn):
        rush = 0.5 if number // 20 % 2 else 1.5
        now += random.expovariate(1 / (pause * rush))
        requested = runtime if truthful else _requested(random, runtime)
        made.append(Job(number, round(now), size, requested, runtime, f"u{size % 5}"))
    return made


def _size(random: Random, processors: int) -> int:
    size = round(exp(random.uniform(0, log(processors))))
    if random.random() < 0.75:
        size = 1 << (size.bit_length() - 1)
    return min(size, processors)


def _requested(random: Random, runtime: int) -> int:
    if random.random() < 0.2:
        return runtime
    stated = runtime * random.uniform(1, 5)
    return next(value for value in (10, 30, 60, 120, 300, 500) if value >= stated)
