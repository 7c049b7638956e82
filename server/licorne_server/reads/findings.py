"""Findings about this server: each rule of the verdict (`verdict.py`) is defined here, and nowhere else."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial

from licorne.v1 import state_pb2 as pb
from licorne_core.messages.commands import Hold
from licorne_core.values.errors import NotFound
from licorne_core.values.ids import PartitionName, RmId, rm_of
from licorne_core.values.rm_caps import MemoryShortage
from licorne_server.process.clock import Clock, Periodic
from licorne_server.process.fair import walked
from licorne_server.reads.sources import RmFigures, Sources, Status
from licorne_server.reads.verdict import OF_MEMBER, SERVER, Finding, Severity, health_message
from licorne_server.security.access import Caller
from licorne_server.store.coordination.ownership import Ownership, known_workers

DEGRADED, DOWN = Severity.DEGRADED, Severity.DOWN

LOOK_SECONDS = 5.0
"""Seconds between two examinations without a request."""

REJECTION_SECONDS = 300.0
"""Seconds for which a rejected ask counts. In the older core a rejected ask counts forever, so that one
mistake of an RM makes the scheduler unhealthy until its next start."""

BACKLOG_SECONDS = 30.0
"""Seconds that a message for an RM may wait before the RM counts as not reading."""

NAMED = 3
"""Maximum number of items that a sentence names; the others are counted."""


def named(names: Iterable[str]) -> str:
    """``a, b, c and 2 more``."""
    known = list(names)
    more = f" and {len(known) - NAMED:,} more" if len(known) > NAMED else ""
    return ", ".join(known[:NAMED]) + more


def of_status(status: Status) -> Iterator[Finding]:
    """The findings in the status of the server."""
    if status.failure:
        yield Finding(DOWN, status.failed, status.failure)
    if status.stall:
        yield Finding(DOWN, SERVER, status.stall)
    if not status.started:
        yield Finding(DEGRADED, SERVER, "the server is starting", "start")
    if status.draining:
        yield Finding(DEGRADED, SERVER, "the server is draining", "drain")


def own_findings(sources: Sources) -> list[Finding]:
    """Findings that an unauthenticated probe may see: none names an RM or quotes a file."""
    found = (one for one in _of_process(sources) if one.concern in OF_MEMBER or one.concern == "store")
    return [sources.verdicts.settled(one, sources.now()) for one in found]


def _of_process(sources: Sources) -> Iterator[Finding]:
    yield from of_status(sources.status)
    yield from _of_store(sources.ownership)
    if sources.journal is not None and sources.journal.problem:
        yield Finding(DEGRADED, "journal", f"the journal is not written any more: {sources.journal.problem}")
    for concern, text in sources.troubles():
        yield Finding(DEGRADED, concern, text)


def _of_store(ownership: Ownership) -> Iterator[Finding]:
    problem = ownership.problem()
    if not problem:
        return
    rms = sum(bool(record.owner) for record in ownership.snapshot().rms.values())
    count = f"{rms:,} RM{'' if rms == 1 else 's'}"
    if ownership.may_decide():
        yield Finding(DEGRADED, "store", f"{problem}; {count} can get no other member")
    else:
        yield Finding(DOWN, "store", f"{problem}: nothing is scheduled, {count} wait{'s' * (rms == 1)}")


def _of_members(ownership: Ownership) -> Iterator[Finding]:
    known, missed = ownership.snapshot(), [one for one in ownership.gone.items() if not one[1].is_over]
    left = defaultdict[str, list[str]](list)
    for rm_id, record in known.rms.items() if missed else ():
        left[record.owner].append(rm_id)
    for member_id, gone in missed:
        member = gone.member
        at = f" at {member.address}" if member.address not in ("", member.name) else ""
        rms = f"; without a member: {named(sorted(left[member_id]))}" if left[member_id] else ""
        text = f"member {member.name}{at} is gone{rms}"
        yield Finding(DEGRADED, "member", text, member.name, "", gone.since)
    for worker in known_workers(known):
        if worker.looping:
            text = f"worker {worker.worker} has been restarted {worker.restarts} times"
            yield Finding(DEGRADED, "worker", text, str(worker.worker))


def _of_rm(figures: RmFigures, now: float) -> Iterator[Finding]:
    rm_id = figures.rm_id
    if not figures.connected:
        yield Finding(DEGRADED, "rm", f"RM {rm_id} is not connected", rm_id, rm_id, figures.since)
    if figures.outbox_age >= BACKLOG_SECONDS:
        text = f"RM {rm_id} does not read: {figures.outbox_messages:,} messages wait for it"
        yield Finding(DEGRADED, "subscriber", text, rm_id, rm_id, now - figures.outbox_age)
    if figures.measures.is_refused:
        text = f"the last configuration of RM {rm_id} was refused; the one before it is in force"
        yield Finding(DEGRADED, "configuration", text, rm_id, rm_id)


def _of_partition(sources: Sources, name: PartitionName, now: float) -> Iterator[Finding | None]:
    views, rm_id = sources.views, rm_of(name)
    holds = views.holds(name)
    if holds:
        why = ", ".join(hold.value for hold in holds)
        until = " until its RM registers again" if Hold.DEFECT in holds else ""
        yield Finding(DOWN, "scheduling", f"nothing is scheduled in {name}{until}: {why}", name, rm_id)
    yield None
    rejected = views.counters(name).rejection_time
    if rejected and now - rejected < REJECTION_SECONDS:
        minutes = f"{REJECTION_SECONDS / 60:.0f} minutes"
        text = f"an ask was rejected in {name} in the last {minutes}"
        yield Finding(DEGRADED, "rejections", text, name, rm_id)
    for path in views.below_guarantee(name):
        text = f"queue {path} has less than its guarantee, and asks in it wait"
        yield None if path is None else Finding(DEGRADED, "queue", text, f"{name} {path}", rm_id)


def findings(sources: Sources) -> Iterator[Finding | None]:
    """All findings here; the reader may pause at every None."""
    now, figures = sources.now(), sources.figures()
    yield from _of_process(sources)
    if figures.shortage:
        what = "new" if figures.shortage == MemoryShortage.NEW else "all"
        yield Finding(DEGRADED, "memory", f"memory is short: {what} work is refused")
    yield from _of_members(sources.ownership)
    for budget in sources.budgets():
        if any(value < 0 for value in budget.unassigned.values()):
            yield Finding(DEGRADED, "budgets", f"budget {budget.name} is overdrawn", budget.name)
    for one in figures.rms:
        yield from _of_rm(one, now)
        yield None
    for rm in sources.views.rms():
        if rm.failed_nodes:
            text = f"nodes of RM {rm.rm_id} are for partitions that are not there: {named(rm.failed_nodes)}"
            yield Finding(DEGRADED, "nodes", text, rm.rm_id, rm.rm_id)
        for name in rm.partitions:
            with suppress(NotFound):
                yield from _of_partition(sources, name, now)
    if sources.audits is not None:
        for (name, concern), texts in sources.audits.found.items():
            text = f"the books of {name} disagree: {texts}"
            yield Finding(DEGRADED, "books", text, f"{name} {concern.value}", rm_of(name))


async def examined(sources: Sources, peer: str) -> tuple[Finding, ...]:
    """Examine the server in the time slices of a peer; returns the verdict, the worst finding first."""
    verdicts = sources.verdicts
    async with verdicts.lock:
        found = verdicts.concluded(findings(sources), sources.now())
        verdicts.latest = tuple(await walked(found, partial(sources.time_slices.slice, peer)))
        return verdicts.latest


async def examined_for(
    sources: Sources, caller: Caller, request: pb.GetHealthRequest
) -> pb.GetHealthResponse:
    """The verdict as a caller may see it; raises NotFound for an unknown RM."""
    rm_id = RmId(request.rm_id)
    if rm_id:
        sources.views.rm(rm_id)
    if request.audit and sources.audits is not None:
        await sources.audits.audit(rm_id or None)
    found = await examined(sources, caller.peer)
    sees = partial(sources.access.may_read, caller)
    member = "" if sources.members is None else sources.members.name
    return health_message(found, sees, rm_id, member, sources.now())


class Examinations(Periodic):
    """Examines the server every `LOOK_SECONDS`, and records the time since which each finding is true."""

    def __init__(self, sources: Sources, clock: Clock) -> None:
        """Idle until `start`."""
        super().__init__("examinations", clock, LOOK_SECONDS)
        self._sources = sources

    async def _work(self) -> float:
        await examined(self._sources, "examinations")
        return (self._clock.now() // LOOK_SECONDS + 1) * LOOK_SECONDS
