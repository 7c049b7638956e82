"""An RM that plays a workload: it submits jobs at their times, and ends each after its run time.

A job is an application. Its members are asks; the members of a gang have placeholders first. After a
preemption a gang starts again as a whole; in any other job only the preempted member starts again. A gang
whose placeholders have timed out is submitted again after a pause, which grows each time, so that gangs that
have blocked each other do not collide again.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import ceil, inf
from typing import Final

from licorne_core.config import load
from licorne_core.messages.commands import (
    NewApplication,
    RegisterRm,
    ReleaseRequest,
    RemoveApplication,
    TerminationType,
    UpdateAllocations,
    UpdateApplications,
    UpdateNodes,
)
from licorne_core.messages.effects import (
    AllocationsMade,
    AllocationsRejected,
    AllocationsReleased,
    ApplicationsAnswered,
    ApplicationsUpdated,
    Effect,
    RegistrationFailed,
)
from licorne_core.scheduler import Scheduler
from licorne_core.values.asks import Allocation, Ask
from licorne_core.values.ids import AllocationKey, AppId, RmId, UserGroup
from licorne_core.values.resources import Resources
from licorne_core.values.slices import Tuning
from licorne_core.values.tags import RUNTIME
from licorne_server.lab.simulation.agenda import Agenda
from licorne_server.lab.simulation.cluster import NodeKind, updates_of
from licorne_server.lab.simulation.player import Player, Watcher
from licorne_server.lab.simulation.workload import Job

RM: Final = RmId("simulation")
DEFAULT_GANG_TIMEOUT: Final = 900.0
"""Seconds that a gang keeps the room of some of its members; equal to the default of the server."""
MAX_TIMEOUTS: Final = 1_000
"""Number of timeouts after which a gang is given up."""
FIRST_PAUSE: Final = 60.0
LONGEST_PAUSE: Final = 8 * 3600.0
"""Bounds of the seconds until a gang that has timed out is submitted again; the pause is random."""
PATIENCE: Final = 7 * 86_400.0
"""Seconds without an event of the RM after which waiting jobs are left waiting."""


class SimulationError(Exception):
    """The core has failed, or refuses a request of the RM; the text gives the reason."""


@dataclass(slots=True, eq=False)
class Course:
    """The course of a job. Times are in unix seconds, or None for the future.

    `start` is the time of the last start: all members ran from then until `end`.
    """

    job: Job
    start: float | None = None
    end: float | None = None
    submissions: int = 0
    timeouts: int = 0
    rejected: str = ""


@dataclass(slots=True, eq=False)
class _Live:
    """An application of a job, with its current asks and allocations."""

    course: Course
    app_id: AppId
    expected: int
    """Number of members that do not run yet."""
    keeping: int = 0
    """Number of allocated placeholders."""
    keys: dict[AllocationKey, None] = field(default_factory=dict)
    """Running members."""
    asks: dict[AllocationKey, Ask] = field(default_factory=dict)
    """Asks of members outside gangs, to be submitted again after a preemption."""
    retries: int = 0


@dataclass(slots=True)
class RunEnd:
    """The end of a run: each job's course, in order of submission, and the time of the end.

    `preempted` is the number of running members that were preempted.
    """

    courses: Sequence[Course]
    end: float
    preempted: int = 0
    rejections: Counter[str] = field(default_factory=Counter)


class Playing:
    """A core, and the simulated RM of a workload."""

    def __init__(
        self,
        jobs: Sequence[Job],
        nodes: Sequence[NodeKind],
        config: str,
        *,
        gang_timeout: float = DEFAULT_GANG_TIMEOUT,
        tuning: Tuning | None = None,
        watchers: Callable[[Scheduler], Sequence[Watcher]] = lambda _: (),
    ) -> None:
        """Register the RM and its nodes a moment before the first job.

        Raises:
            ConfigError: the configuration cannot be used.
            SimulationError: the core refuses it.
        """
        configuration = load(config, required=True)
        self._partition = configuration.partitions[0].name
        self._timeout = max(1, ceil(gang_timeout * 1000))
        self._courses = [Course(job) for job in jobs]
        self._live: dict[AppId, _Live] = {}
        self._paused: set[Course] = set()
        self._agenda = Agenda()
        self._outcome = RunEnd(self._courses, 0.0)
        scheduler = Scheduler(tuning=tuning)
        begin = jobs[0].submit if jobs else 0.0
        self._player = Player(scheduler, *watchers(scheduler), now=begin)
        for effect in self._player.feed(begin, RegisterRm(rm_id=RM, config=configuration)):
            if isinstance(effect, RegistrationFailed):
                raise SimulationError(effect.reason)
        self._player.feed(begin, UpdateNodes(rm_id=RM, nodes=list(updates_of(nodes, self._partition))))

    def run(self) -> RunEnd:
        """Play all jobs, until each has ended or nothing can change any more; to be called once.

        Raises:
            SimulationError: the core has failed.
        """
        player, waiting = self._player, iter(self._courses)
        upcoming = next(waiting, None)
        while upcoming is not None or self._live or self._paused:
            due = min(inf if upcoming is None else upcoming.job.submit, self._agenda.due)
            if not self._pass_time(due if due < inf else player.now + PATIENCE):
                continue
            if due == inf:
                break
            self._agenda.act_until(due)
            while upcoming is not None and upcoming.job.submit <= due:
                self._submit(upcoming)
                self._agenda.act()
                upcoming = next(waiting, None)
        if player.defects:
            raise SimulationError(f"the core has failed {player.defects} times")
        self._outcome.end = player.now
        return self._outcome

    def _pass_time(self, until: float) -> bool:
        """Run all turns until a time; returns False if an act of the RM is due earlier."""
        for effects in self._player.advance(until):
            self._hear(effects)
            self._agenda.act()
            if self._agenda.due < until:
                return False
        return True

    def _send(self, command: UpdateAllocations | UpdateApplications) -> None:
        self._hear(self._player.feed(self._player.now, command))

    # Acts of the RM.

    def _submit(self, course: Course) -> None:
        """Submit a job, for the first time or again."""
        job = course.job
        self._paused.discard(course)
        course.submissions += 1
        app_id = AppId(job.job if course.submissions == 1 else f"{job.job}#{course.submissions}")
        live = _Live(course, app_id, job.members)
        self._live[app_id] = live
        new = NewApplication(
            app_id=app_id,
            queue_name=job.queue,
            partition=self._partition,
            user=UserGroup(job.user, (job.group,)),
            tags={RUNTIME: str(job.declared)} if job.declared else {},
            execution_timeout=self._timeout if job.gang else 0,
            placeholder_ask=job.amounts if job.gang else {},
            gang_scheduling_style="Hard" if job.gang else "",
        )
        self._send(UpdateApplications(rm_id=RM, new=[new]))

    def _ask(self, live: _Live, *, placeholders: bool) -> None:
        job = live.course.job
        asks = []
        for number, group in enumerate(job.groups):
            for member in range(group.number):
                mark = "p" if placeholders else "m"
                ask = Ask(
                    AllocationKey(f"{live.app_id}/{mark}{number}-{member}"),
                    live.app_id,
                    group.ask_class,
                    priority=job.priority,
                    partition=self._partition,
                    allow_preempt_self=True,
                    allow_preempt_other=True,
                    placeholder=placeholders,
                    task_group=f"g{number}" if job.gang else "",
                )
                asks.append(ask)
                if not job.gang:
                    live.asks[ask.key] = ask
        self._send(UpdateAllocations(rm_id=RM, asks=asks))

    def _ask_again(self, live: _Live, key: AllocationKey) -> None:
        """Submit an ask for a member again after its preemption."""
        old = live.asks.pop(key, None)
        if old is None or live.app_id not in self._live:
            return
        live.retries += 1
        ask = Ask(
            AllocationKey(f"{key.partition('#')[0]}#{live.retries}"),
            live.app_id,
            old.ask_class,
            priority=old.priority,
            partition=old.partition,
            allow_preempt_self=True,
            allow_preempt_other=True,
        )
        live.asks[ask.key] = ask
        self._send(UpdateAllocations(rm_id=RM, asks=[ask]))

    def _end(self, live: _Live, keys: Sequence[AllocationKey]) -> None:
        """End members that have run for their time, unless they were preempted before."""
        ended = [key for key in keys if key in live.keys]
        if not ended or self._live.get(live.app_id) is not live:
            return
        for key in ended:
            del live.keys[key]
        self._release(live.app_id, ended, TerminationType.STOPPED_BY_RM)
        if not live.keys and not live.expected:
            live.course.end = self._player.now
            self._remove(live)

    def _remove(self, live: _Live) -> bool:
        """Remove an application; returns False if it was removed before."""
        if self._live.get(live.app_id) is not live:
            return False
        del self._live[live.app_id]
        removal = RemoveApplication(app_id=live.app_id, partition=self._partition)
        self._send(UpdateApplications(rm_id=RM, remove=[removal]))
        return True

    def _release(self, app_id: AppId, keys: Sequence[AllocationKey], why: TerminationType) -> None:
        releases = [
            ReleaseRequest(app_id=app_id, key=key, termination=why, partition=self._partition) for key in keys
        ]
        self._send(UpdateAllocations(rm_id=RM, releases=releases))

    def _timed_out(self, live: _Live) -> None:
        """Submit a gang again after a pause."""
        course = live.course
        if not self._remove(live):
            return
        course.timeouts += 1
        if course.timeouts < MAX_TIMEOUTS:
            dice = random.Random(f"{course.job.job} {course.timeouts}")
            longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(course.timeouts, 10))
            self._paused.add(course)
            pause = round(dice.uniform(1.0, longest), 3)
            self._agenda.at(self._player.now + pause, partial(self._submit, course))

    def _again(self, live: _Live) -> None:
        """Submit a gang again after it has lost a member."""
        if self._remove(live):
            self._submit(live.course)

    # Effects for the RM.

    def _hear(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case AllocationsMade():
                    for allocation in effect.allocations:
                        self._placed(allocation)
                case ApplicationsAnswered():
                    self._answered(effect)
                case AllocationsReleased():
                    self._released(effect)
                case ApplicationsUpdated():
                    for update in effect.updates:
                        live = self._live.get(update.app_id)
                        if live is not None and update.state == "Failed":
                            self._agenda.soon(partial(self._timed_out, live))
                case AllocationsRejected():
                    for rejected in effect.rejections:
                        self._reject(rejected.app_id, rejected.reason)
                case _:
                    pass

    def _answered(self, effect: ApplicationsAnswered) -> None:
        for app_id in effect.accepted:
            live = self._live[app_id]
            self._agenda.soon(partial(self._ask, live, placeholders=live.course.job.gang))
        for refused in effect.rejected:
            self._reject(refused.app_id, refused.reason)

    def _reject(self, app_id: AppId, reason: str) -> None:
        """Record that the job cannot run."""
        live = self._live.get(app_id)
        if live is None:
            return
        live.course.rejected = reason
        self._outcome.rejections[reason.replace(f"application {app_id}", "application", 1)] += 1
        self._agenda.soon(partial(self._remove, live))

    def _placed(self, allocation: Allocation) -> None:
        live = self._live.get(allocation.ask.app_id)
        if live is None:
            return
        job = live.course.job
        if allocation.ask.placeholder:
            live.keeping += 1
            if live.keeping == job.members:
                self._agenda.soon(partial(self._ask, live, placeholders=False))
            return
        live.keys[allocation.key] = None
        live.expected -= 1
        now = self._player.now
        if not live.expected:
            live.course.start = now
        if not job.gang:
            self._agenda.at(now + job.runtime, partial(self._end, live, (allocation.key,)))
        elif not live.expected:
            self._agenda.at(now + job.runtime, partial(self._end, live, tuple(live.keys)))

    def _released(self, effect: AllocationsReleased) -> None:
        """Confirm requested releases, then restart the victims."""
        confirm: dict[tuple[AppId, TerminationType], list[AllocationKey]] = {}
        victims: list[tuple[_Live, AllocationKey]] = []
        for release in effect.releases:
            live = self._live.get(release.app_id)
            why = release.termination
            if live is None or why is TerminationType.STOPPED_BY_RM:
                continue
            confirm.setdefault((release.app_id, why), []).append(release.key)
            if why is TerminationType.PREEMPTED_BY_SCHEDULER:
                victims.append((live, release.key))
        for (app_id, why), keys in confirm.items():
            self._agenda.soon(partial(self._confirm, app_id, keys, why))
        for live, key in victims:
            self._preempted(live, key)

    def _confirm(self, app_id: AppId, keys: Sequence[AllocationKey], why: TerminationType) -> None:
        if app_id in self._live:
            self._release(app_id, keys, why)

    def _preempted(self, live: _Live, key: AllocationKey) -> None:
        # A placeholder has done no work that could be lost.
        if key in live.keys:
            self._outcome.preempted += 1
            del live.keys[key]
            live.expected += 1
        if live.course.job.gang:
            self._agenda.soon(partial(self._again, live))
        else:
            self._agenda.soon(partial(self._ask_again, live, key))


def used(courses: Sequence[Course]) -> Iterator[tuple[float, float, Resources]]:
    """Start, end and amounts of the runs that were not lost."""
    for course in courses:
        if course.start is not None and course.end is not None:
            yield course.start, course.end, course.job.amounts
