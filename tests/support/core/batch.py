"""Runs jobs of a batch system on a core, in virtual time, and records the start of each job.

A job is an application: one ask on a machine of one node, or a gang with one member for each processor on a
machine whose nodes have one processor each. The RM declares the runtimes of the jobs, and releases all
allocations of a job at its end.
"""

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from math import inf

from licorne_core.messages.commands import Command, TerminationType
from licorne_core.messages.effects import Effect
from licorne_core.values.asks import Ask
from support.core.builders import (
    app,
    apps,
    ask,
    asks,
    config,
    node,
    nodes,
    register,
    release,
    releases,
    remove_apps,
)
from support.core.driver import START, Driver, placed, released
from support.reference_backfill import Job

END, SUBMIT = 0, 1
"""The kinds of events; at equal times ends come first."""

REAL = "real-"
"""The beginning of the keys of real members."""

MOST_IDLE = 3600.0
"""Seconds without an event after which waiting jobs are given up."""

PLACEHOLDER_REPLACED = TerminationType.PLACEHOLDER_REPLACED


class Batch:
    """A core with one leaf, and jobs that start and end."""

    def __init__(
        self, processors: int, *, backfill: str, gangs: bool, told: bool = True, rack: int = 0
    ) -> None:
        """An empty machine. Without `told` no runtime is declared.

        With `rack` this number of nodes forms a rack, and each gang has to fit in one rack.
        """
        self.driver = Driver(sweep=200)
        self.starts: dict[int, float] = {}
        """The start of each job so far, by its number, in seconds since the beginning."""
        self._gangs, self._told, self._rack = gangs, told, rack
        self._open: dict[str, Job] = {}
        self._missing: dict[str, int] = {}
        self._events: list[tuple[float, int, int, Job]] = []
        sizes = [1] * processors if gangs else [processors]
        some = [
            node(f"n{number:03}", attributes={"rack": str(number // rack)} if rack else {}, cpu=size)
            for number, size in enumerate(sizes)
        ]
        properties = f"{{backfill: '{backfill}', topology.levels: rack}}"
        self.driver.do(register(config("[{name: a}]", properties=properties)), nodes(*some))

    def play(self, jobs: Iterable[Job]) -> dict[int, float]:
        """Submit, start and end all jobs; return their starts.

        Jobs that have not started an hour after the last event never start.
        """
        for job in jobs:
            heappush(self._events, (job.submit, SUBMIT, job.number, job))
        last = 0.0
        while self._events or self._missing:
            now = self._next()
            if now > last + MOST_IDLE:
                break
            self.driver.now = START + now
            if self._events and self._events[0][0] <= now:
                last = now
                self._happen(now)
            self._hear(self.driver.run(), now)
        return self.starts

    def _next(self) -> float:
        """The earlier of the next event and the core's next deadline; infinite for none."""
        deadline = self.driver.scheduler.next_deadline()
        times = [time for time, *_ in self._events[:1]]
        if deadline is not None:
            times.append(max(deadline, self.driver.now) - START)
        return min(times, default=inf)

    def _happen(self, now: float) -> None:
        """Submit and end all jobs that are due, ends first."""
        while self._events and self._events[0][0] <= now:
            _, kind, _, job = heappop(self._events)
            if kind == END:
                self.driver.send(remove_apps(_name(job)))
            else:
                self._submit(job)

    def _submit(self, job: Job) -> None:
        name = _name(job)
        tags = {"licorne/runtime": str(job.requested)} if self._told else {}
        if self._rack:
            tags["licorne/topology"] = "required=rack"
        gang = {"cpu": job.size} if self._gangs else None
        self.driver.send(apps(app(name, "root.a", tags=tags, gang=gang)))
        self._open[name] = job
        self._missing[name] = job.size if self._gangs else 1
        if self._gangs:
            self.driver.send(asks(*self._members(job, placeholder=True)))
        else:
            self.driver.send(asks(ask(name, "k", cpu=job.size)))

    def _members(self, job: Job, *, placeholder: bool) -> Sequence[Ask]:
        kind = "p" if placeholder else REAL
        name = _name(job)
        return [
            ask(name, f"{kind}{number}", cpu=1, group="members", placeholder=placeholder)
            for number in range(job.size)
        ]

    def _hear(self, effects: Sequence[Effect], now: float) -> None:
        """Record starts. Once all its placeholders are placed, a gang's real members replace them."""
        while effects:
            answers: list[Command] = []
            for name, key, _ in placed(effects):
                if key.startswith(REAL):
                    continue
                self._missing[name] -= 1
                if not self._missing[name]:
                    del self._missing[name]
                    answers += self._start(self._open[name], now)
            for name, key, why, _ in released(effects):
                if why == PLACEHOLDER_REPLACED.name:
                    answers.append(releases(release(name, key, why=PLACEHOLDER_REPLACED)))
            effects = self.driver.do(*answers)

    def _start(self, job: Job, now: float) -> list[Command]:
        """Record the start of a job, and return its RM's next commands."""
        self.starts[job.number] = now
        heappush(self._events, (now + job.runtime, END, job.number, job))
        return [asks(*self._members(job, placeholder=False))] if self._gangs else []


def _name(job: Job) -> str:
    """The names of jobs sort by their numbers, because applications of equal age are tried by name."""
    return f"job-{job.number:05}"
