"""Liveness, readiness, and self-diagnosis of the scheduler (spec §§ 12.5, 14).

The heartbeat measures the lag of the event loop, so it reads the real clock.
"""

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from time import monotonic
from typing import NamedTuple

from aiohttp import web

from licorne_core.messages.commands import Hold
from licorne_core.values.counters import Histogram
from licorne_core.values.errors import NotFound
from licorne_core.values.ids import PartitionName
from licorne_core.views import Concern, Views
from licorne_core.views.partitions import RmReport
from licorne_server.engine.journal.records import JournalState
from licorne_server.http.merging import Parts, parts_of
from licorne_server.http.stream import JsonObject, made, send_json
from licorne_server.http.units import rms_named
from licorne_server.reads.sources import SOURCES, Status
from licorne_server.store.coordination.ownership import Ownership
from licorne_server.store.coordination.workers import known_workers
from licorne_server.telemetry.measures import WORK

RECENT_SECONDS = 300.0
"""Seconds for which a rejected ask counts. In the older core it counts for ever: after one mistake of
an RM the scheduler looks ill until its next start."""

_MINUTES = f"{RECENT_SECONDS / 60:.0f} minutes"

SHOWN = 10
"""Findings that a diagnosis names, at most."""

STEP = 128
"""Nodes without a partition that are read in one step."""

DATA = "Consistency of data"
NEGATIVE = "Negative resources"
CHECKS = {
    Concern.NEGATIVE_PARTITION: (NEGATIVE, "no total of a partition is below zero"),
    Concern.NEGATIVE_NODE: (NEGATIVE, "no total of a node is below zero"),
    Concern.OVERFULL: (NEGATIVE, "nothing available on a node or in a partition is below zero"),
    Concern.PARTITION_SUM: (DATA, "a partition's capacity and usage are the sums of its nodes"),
    Concern.NODE_SUM: (DATA, "a node's capacity is what is allocated, occupied and available"),
    Concern.NEGATIVE_SHARE: (
        NEGATIVE,
        "no total of an application, a queue, a user or a group is below zero",
    ),
    Concern.APPLICATION_SUM: (DATA, "an application has what its allocations and asks have"),
    Concern.QUEUE_SUM: (DATA, "a leaf has what its applications have, a parent what its queues"),
    Concern.USER_SUM: (DATA, "a user or a group with a limit has what its applications have"),
    Concern.RESERVATION: ("Reservation check", "every reservation is for an ask that waits"),
    Concern.ORPHAN_ON_NODE: (
        "Orphan allocation on node check",
        "every allocation on a node is one of an application",
    ),
    Concern.ORPHAN_IN_APPLICATION: (
        "Orphan allocation on app check",
        "every allocation of an application is on its node",
    ),
}


class Found:
    """Findings of a check: their number, and the first few in words."""

    def __init__(self) -> None:
        """Start without findings."""
        self.count = 0
        self.texts: list[str] = []

    def add(self, text: str) -> None:
        """Add one finding."""
        self.count += 1
        if len(self.texts) < SHOWN:
            self.texts.append(text)

    def diagnosis(self) -> str:
        """The findings in one text, empty for none."""
        more = self.count - len(self.texts)
        return "; ".join([*self.texts, f"and {more} more"] if more else self.texts)


class Check(NamedTuple):
    """One check and its findings."""

    name: str
    description: str
    found: Found

    def as_json(self) -> JsonObject:
        """The check as the older core's web page reads it."""
        return {
            "Name": self.name,
            "Succeeded": not self.found.count,
            "Description": self.description,
            "DiagnosisMessage": self.found.diagnosis(),
        }


async def health(request: web.Request) -> web.StreamResponse:
    """All checks, made anew, of all RMs or of the RM that `rm` names."""
    sources = request.app[SOURCES]
    rm_id = request.query.get("rm", "")
    rms = rms_named(sources.views, rm_id)
    parts = None if rm_id else await parts_of(request, _read_checks)
    steps = _steps(sources.views, rms, sources.status, sources.now())

    def answer(checks: list[Check]) -> JsonObject:
        checks += _of_journal(sources.journal)
        checks += _of_deployment(sources.ownership, parts)
        for others in () if parts is None else (*parts.before, *parts.after):
            _add(checks, others)
        healthy = not any(check.found.count for check in checks)
        return {"Healthy": healthy, "HealthChecks": [check.as_json() for check in checks]}

    return await send_json(request, made(steps, answer))


def _of_journal(journal: JournalState | None) -> list[Check]:
    """The check of a server that writes a journal."""
    if journal is None:
        return []
    found = Found()
    if journal.problem:
        found.add(f"it is not written any more: {journal.problem}")
    return [Check("Journal", "the journal of commands is written", found)]


COORDINATION = "Coordination"


def _of_deployment(ownership: Ownership, parts: Parts | None) -> list[Check]:
    """The checks of a member: its store, the owners of RMs, and the other members if all were asked."""
    if ownership.store is None:
        return []
    store, owners, answers, workers = Found(), Found(), Found(), Found()
    if problem := ownership.problem():
        store.add(problem)
    known = ownership.snapshot()
    for rm_id, record in known.rms.items():
        if record.owner and record.owner not in known.members:
            owners.add(f"the member of RM {rm_id} is gone")
    for worker in known_workers(known):
        if worker.looping:
            workers.add(f"worker {worker.worker} has been restarted {worker.restarts} times")
    for member in () if parts is None else parts.missing:
        answers.add(f"member {member.name} does not answer")
    return [
        Check(COORDINATION, "the store of the deployment answers", store),
        Check(COORDINATION, "every RM has a member", owners),
        Check(COORDINATION, "every member answers", answers),
        Check(COORDINATION, "no worker fails again and again", workers),
    ]


class Other(NamedTuple):
    """A check of another member."""

    name: str
    description: str
    failed: bool
    diagnosis: str


def _read_checks(body: bytes) -> list[Other]:
    """The checks in the answer of another member; raises ValueError, KeyError or TypeError for others."""
    return [
        Other(
            str(one["Name"]),
            str(one["Description"]),
            one["Succeeded"] is not True,
            str(one["DiagnosisMessage"]),
        )
        for one in json.loads(body)["HealthChecks"]
    ]


def _add(checks: list[Check], others: Iterable[Other]) -> None:
    """Add the findings of another member to the same checks, each once."""
    known = {(check.name, check.description): check for check in checks}
    for name, description, failed, diagnosis in others:
        check = known.get((name, description))
        if check is None:  # the member has another version
            checks.append(check := Check(name, description, Found()))
        if failed and diagnosis not in check.found.texts:
            check.found.add(diagnosis)


def _steps(
    views: Views, rms: tuple[RmReport, ...], status: Status, now: float
) -> Iterator[list[Check] | None]:
    """The checks, after a None for each step, where a slice may end."""
    by_concern = {concern: Found() for concern in Concern}
    rejected, failed, lost = Found(), Found(), Found()
    if status.failure:
        failed.add(status.failure)
    for rm in rms:
        halted = False
        for number, node_id in enumerate(rm.failed_nodes):
            if not number % STEP:
                yield None
            lost.add(f"node {node_id} of RM {rm.rm_id} is for a partition that is not there")
        for name in rm.partitions:
            yield None
            with suppress(NotFound):
                for finding in views.audit(name):
                    if finding is None:
                        yield None
                    else:
                        by_concern[finding.concern].add(finding.text)
                _look_for_rejected(views, name, now, rejected)
                halted = halted or Hold.DEFECT.value in views.partition(name).holds
        if halted:
            failed.add(f"RM {rm.rm_id} is not scheduled until it registers again")
    yield [
        Check("Scheduling errors", f"no ask was rejected in the last {_MINUTES}", rejected),
        Check("Internal errors", "nothing has failed inside the scheduler", failed),
        Check("Failed nodes", "every node has a partition", lost),
        *(Check(*CHECKS[concern], found) for concern, found in by_concern.items()),
    ]


def _look_for_rejected(views: Views, partition: PartitionName, now: float, found: Found) -> None:
    counters = views.counters(partition)
    ago = now - counters.rejection_time
    if counters.rejection_time and ago < RECENT_SECONDS:
        found.add(f"partition {partition} rejected an ask {max(0.0, ago):.0f} s ago")


BEAT_SECONDS = 0.25

PROBES = frozenset({"/livez", "/readyz"})
"""Paths of the probes, which need no identity."""


class Heartbeat:
    """A timer of the event loop that measures how late it fires."""

    delays: Histogram
    """Lags of the beats, in seconds."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        """`clock` gives seconds that never go back. The first beat comes after `start`."""
        self._clock = clock
        self._last = clock()
        self._worst = 0.0
        self.delays = Histogram(WORK)
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to beat in the running loop."""
        self._last = self._clock()
        self._timer = asyncio.get_running_loop().call_later(BEAT_SECONDS, self.beat)

    def stop(self) -> None:
        """Stop beating."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def beat(self) -> None:
        """Note the lag of this beat, and set the timer for the next."""
        late = max(0.0, self.silence() - BEAT_SECONDS)
        self._worst = max(self._worst, late)
        self.delays.observe(late)
        self.stop()
        self.start()

    def silence(self) -> float:
        """Seconds since the last beat."""
        return self._clock() - self._last

    def worst_lag(self) -> float:
        """Largest lag of a beat since the last call, in seconds."""
        worst = max(self._worst, self.silence() - BEAT_SECONDS, 0.0)
        self._worst = 0.0
        return worst


def ill(status: Status) -> str:
    """The reason for a restart of the server; empty for none.

    The lag of the loop does not count: an answer proves that the loop runs. The thread of the watchdog
    detects stalls.
    """
    return status.failure or status.stall


def unready(status: Status) -> str:
    """The reason against sending RMs here; empty if the server is ready."""
    if not status.started:
        return "starting"
    return "draining" if status.draining else ill(status)


async def live(request: web.Request) -> web.Response:
    """Liveness, also while draining: 200 and ``ok`` or ``degraded``, or 503 and the problem."""
    return _verdict(request, ill(request.app[SOURCES].status))


async def ready(request: web.Request) -> web.Response:
    """Readiness for connections of RMs: 200 and ``ok`` or ``degraded``, or 503 and the problem."""
    return _verdict(request, unready(request.app[SOURCES].status))


def _verdict(request: web.Request, reason: str) -> web.Response:
    """While ownership cannot change the server serves what it has, so that neither probe fails.

    Nor does a journal that has stopped make a probe fail.
    """
    sources = request.app[SOURCES]
    problem = sources.ownership.problem()
    if not problem and sources.journal is not None and sources.journal.problem:
        problem = f"journal stopped: {sources.journal.problem}"
    well = f"degraded: {problem}" if problem else "ok"
    return web.Response(text=f"{reason or well}\n", status=503 if reason else 200)
