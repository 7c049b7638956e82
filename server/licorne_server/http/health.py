"""Liveness, readiness, and the health of the scheduler (spec §§ 12.5, 14), whose verdict `reads` computes.

The heartbeat measures the lag of the event loop, so it reads the real clock.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping
from time import monotonic
from typing import NamedTuple

from aiohttp import web

from licorne.v1 import state_pb2 as pb
from licorne_core.values.counters import Histogram
from licorne_core.views import Concern
from licorne_server.http.stream import CALLER, MISSING_NAMES, JsonObject, send_json
from licorne_server.http.units import caller_address, message_json
from licorne_server.reads.findings import examined_for, own_findings
from licorne_server.reads.sources import SOURCES
from licorne_server.reads.verdict import in_one_line, is_live, is_ready
from licorne_server.telemetry.measures import WORK
from licorne_server.wire.errors import CallError


class Check(NamedTuple):
    """A check in the form of the older core's web page, with findings about some concerns."""

    name: str
    description: str
    concerns: tuple[str, ...]
    books: str = ""
    """The concern of an audit whose findings count for this check; empty for all findings about books."""

    def as_json(self, counting: Mapping[str, list[pb.Finding]]) -> JsonObject:
        """The check as JSON; it fails if it has findings. `counting` has findings that count, by concern."""
        found = [
            one.text
            for concern in self.concerns
            for one in counting.get(concern, ())
            if not self.books or one.name.endswith(f" {self.books}")
        ]
        return {
            "Name": self.name,
            "Succeeded": not found,
            "Description": self.description,
            "DiagnosisMessage": "; ".join(found),
        }


def _check(name: str, description: str, *concerns: str) -> Check:
    return Check(name, description, concerns)


def _books(name: str, description: str, concern: Concern) -> Check:
    return Check(name, description, ("books",), concern.value)


DATA, NEGATIVE = "Consistency of data", "Negative resources"
COORDINATION = "Coordination"
CHECKS = (
    _check("Scheduling errors", "no ask was rejected in the last 5 minutes", "rejections"),
    _check("Internal errors", "nothing has failed inside the scheduler", "server", "listener", "scheduling"),
    _check("Failed nodes", "every node has a partition", "nodes"),
    _books(NEGATIVE, "no total of a partition is below zero", Concern.NEGATIVE_PARTITION),
    _books(NEGATIVE, "no total of a node is below zero", Concern.NEGATIVE_NODE),
    _books(NEGATIVE, "nothing available on a node or in a partition is below zero", Concern.OVERFULL),
    _books(DATA, "a partition's capacity and usage are the sums of its nodes", Concern.PARTITION_SUM),
    _books(DATA, "a node's capacity is what is allocated, occupied and available", Concern.NODE_SUM),
    _books(
        NEGATIVE,
        "no total of an application, a queue, a user or a group is below zero",
        Concern.NEGATIVE_SHARE,
    ),
    _books(DATA, "an application has what its allocations and asks have", Concern.APPLICATION_SUM),
    _books(DATA, "a leaf has what its applications have, a parent what its queues", Concern.QUEUE_SUM),
    _books(DATA, "a user or a group with a limit has what its applications have", Concern.USER_SUM),
    _books("Reservation check", "every reservation is for an ask that waits", Concern.RESERVATION),
    _books(
        "Orphan allocation on node check",
        "every allocation on a node is one of an application",
        Concern.ORPHAN_ON_NODE,
    ),
    _books(
        "Orphan allocation on app check",
        "every allocation of an application is on its node",
        Concern.ORPHAN_IN_APPLICATION,
    ),
    _check("Resource managers", "every RM is connected, and reads what it is sent", "rm", "subscriber"),
    _check("Guarantees", "no queue waits for what it is guaranteed", "queue"),
    _check("Configuration", "what is configured could be read, and is kept", "configuration", "budgets"),
    _check("Storage", "journal and state directory are written", "journal", "disk"),
    _check("Memory", "there is memory for new work", "memory"),
    _check(COORDINATION, "the store of the deployment answers", "store"),
    _check(COORDINATION, "no member is missing", "member"),
    _check(COORDINATION, "no worker fails again and again", "worker"),
)
"""The checks; every finding belongs to one of them."""

GET_HEALTH = "/licorne.v1.State/GetHealth"


async def health(request: web.Request) -> web.StreamResponse:
    """The verdict on all members, or on the RM in `rm`; the books are audited first."""
    sources = request.app[SOURCES]
    asked = pb.GetHealthRequest(rm_id=request.query.get("rm", ""), audit=True)
    if asked.rm_id or sources.members is None:
        answer = await examined_for(sources, request[CALLER], asked)
    else:
        try:
            raw = await sources.call(
                GET_HEALTH, asked.SerializeToString(), request[CALLER], caller_address(request)
            )
        except CallError as error:
            raise web.HTTPServiceUnavailable(text=error.message) from None
        answer = pb.GetHealthResponse.FromString(raw)
        request[MISSING_NAMES] = list(answer.missing_members)
    counting = defaultdict[str, list[pb.Finding]](list)
    for one in answer.findings:
        if one.severity != "ok":
            counting[one.concern].append(one)
    return await send_json(
        request,
        {
            "Healthy": answer.severity == "ok",
            "HealthChecks": [check.as_json(counting) for check in CHECKS],
            "Severity": answer.severity,
            "Scope": answer.scope,
            "Time": answer.time,
            "Findings": list(map(message_json, answer.findings)),
        },
    )


BEAT_SECONDS = 0.25

PROBES = frozenset({"/livez", "/readyz"})
"""Paths of the probes, which need no identity."""


class Heartbeat:
    """A timer of the event loop that measures how late it fires."""

    delays: Histogram
    """Lags of the beats, in seconds."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        """Create the timer; `clock` returns monotonic seconds. The first beat follows `start`."""
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
        """Record the lag of this beat, and set the timer for the next."""
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


async def live(request: web.Request) -> web.Response:
    """Liveness, also while draining: 200 unless only a restart will help.

    The lag of the loop does not count: an answer proves that the loop runs. The thread of the watchdog
    detects stalls.
    """
    found = own_findings(request.app[SOURCES])
    return _probe(in_one_line(found), is_well=is_live(found))


async def ready(request: web.Request) -> web.Response:
    """Readiness for connections of RMs.

    The status is 200 even while the store does not answer, because connected RMs stay with this server.
    """
    found = own_findings(request.app[SOURCES])
    return _probe(in_one_line(found), is_well=is_ready(found))


def _probe(text: str, *, is_well: bool) -> web.Response:
    """The answer of a probe, with the findings in its only line."""
    return web.Response(text=f"{text}\n", status=200 if is_well else 503)
