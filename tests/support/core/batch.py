"""Plays jobs of a batch system on a core, in virtual time, and notes when each starts.

A job is an application: one ask on a machine of one node, or a gang with one member for each processor on a
machine of nodes with one processor each. The RM declares the runtimes that the jobs say, and releases
everything of a job at its end.
"""

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush

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
"""What happens with a job at a time; ends come first."""

REAL = "real-"
"""Begins the keys of real members of gangs."""

PLACEHOLDER_REPLACED = TerminationType.PLACEHOLDER_REPLACED


class Batch:
    """A core with one leaf, and jobs that come and end."""

    def __init__(self, processors: int, *, backfill: str, gangs: bool, told: bool = True) -> None:
        """A machine that nobody uses. Without `told` no runtime is declared."""
        self.driver = Driver(sweep=200)
        self.starts: dict[int, int] = {}
        """The start of each job so far, by its number, in seconds since the beginning."""
        self._gangs, self._told = gangs, told
        self._open: dict[str, Job] = {}
        self._missing: dict[str, int] = {}
        self._events: list[tuple[int, int, int, Job]] = []
        sizes = [1] * processors if gangs else [processors]
        some = [node(f"n{number:03}", cpu=size) for number, size in enumerate(sizes)]
        properties = f"{{backfill: '{backfill}'}}"
        self.driver.do(register(config("[{name: a}]", properties=properties)), nodes(*some))

    def play(self, jobs: Iterable[Job]) -> dict[int, int]:
        """Let all jobs come, start and end; return their starts."""
        for job in jobs:
            heappush(self._events, (job.submit, SUBMIT, job.number, job))
        while self._events:
            now = self._events[0][0]
            self.driver.wait(START + now - self.driver.now)
            ended, came = self._due(now)
            for job in ended:
                self.driver.send(remove_apps(f"job-{job.number}"))
            for job in came:
                self._submit(job)
            self._hear(self.driver.run(), now)
        return self.starts

    def _due(self, now: int) -> tuple[list[Job], list[Job]]:
        due: tuple[list[Job], list[Job]] = ([], [])
        while self._events and self._events[0][0] == now:
            _, kind, _, job = heappop(self._events)
            due[kind].append(job)
        return due

    def _submit(self, job: Job) -> None:
        name = f"job-{job.number}"
        tags = {"licorne/runtime": str(job.requested)} if self._told else {}
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
        name = f"job-{job.number}"
        return [
            ask(name, f"{kind}{number}", cpu=1, group="members", placeholder=placeholder)
            for number in range(job.size)
        ]

    def _hear(self, effects: Sequence[Effect], now: int) -> None:
        """Note starts. A whole gang of placeholders is replaced at once by its real members."""
        while effects:
            answers: list[Command] = []
            for name, key, _ in placed(effects):
                if key.startswith(REAL):
                    continue
                self._missing[name] -= 1
                if not self._missing[name]:
                    answers += self._start(self._open[name], now)
            for name, key, why, _ in released(effects):
                if why == PLACEHOLDER_REPLACED.name:
                    answers.append(releases(release(name, key, why=PLACEHOLDER_REPLACED)))
            effects = self.driver.do(*answers)

    def _start(self, job: Job, now: int) -> list[Command]:
        """The whole job has its room; what its RM sends next."""
        self.starts[job.number] = now
        heappush(self._events, (now + job.runtime, END, job.number, job))
        return [asks(*self._members(job, placeholder=False))] if self._gangs else []
