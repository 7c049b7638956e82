"""When waiting asks are expected to start: held shadow starts, and a plain guess for all others."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from licorne_core.extensions.backfill import NAME
from licorne_core.extensions.backfill.projection import NO_GUESS, Projection
from licorne_core.extensions.backfill.runtimes import Confidence
from licorne_core.extensions.backfill.shadows import Shadows, ShadowStart, StartCounters, start_by
from licorne_core.messages.reasons import QUOTA_CODES
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import Request
from licorne_core.partitions.partition import Partition
from licorne_core.values.ids import AllocationKey, AppId, QueuePath
from licorne_core.values.resources import Resources, charge
from licorne_core.views.explain import obstacle, subject_of
from licorne_core.views.fields import Added, Moment

__all__ = ["CalendarEntry", "Confidence", "ExpectedStart", "StartCounters"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedStart:
    """When an ask is expected to start, `starts_at` 0.0 for unknown.

    `confidence` is a `Confidence`. `first_told` is 0.0 for an ask without a shadow start, `start_by`
    0.0 for one that wants no latest start. `asks_ahead` is above 0 if so many asks are ahead that there is
    no guess; `unasked` is true for a guess where the RM judges nodes, and was not asked about them.
    """

    starts_at: Moment
    confidence: str
    first_told: Moment = 0.0
    start_by: Moment = 0.0
    asks_ahead: int = 0
    unasked: bool = False

    @property
    def is_late(self) -> bool:
        """True if it is later than the ask wants."""
        return 0.0 < self.start_by < self.starts_at


@dataclass(frozen=True, slots=True, kw_only=True)
class CalendarEntry:
    """A gang, or an ask (`key`), that has held a shadow start `since` a time."""

    app_id: AppId
    key: str
    queue: QueuePath
    start: ExpectedStart
    asks: int
    requested: Resources
    nodes: int
    since: Moment


def calendar(partition: Partition, queue: str = "") -> Iterator[CalendarEntry]:
    """The held shadow starts of a queue and those below it, or all; the earliest first."""
    entries = [_entry(shadow) for shadow in _of(partition).shadows]
    found = [entry for entry in entries if _is_in(entry.queue, queue)]
    yield from sorted(found, key=lambda entry: (entry.start.starts_at, entry.app_id, entry.key))


def expected_start(partition: Partition, app_id: str, key: str, now: float) -> Iterator[ExpectedStart | None]:
    """When a pending ask is expected to start, from `now` on, in unix seconds.

    There is a None wherever the reader may pause. The end has the start, or nothing for an ask that
    is not pending, and where backfill is off.
    """
    own = _of(partition)
    app = partition.applications.get(AppId(app_id))
    request = None if app is None else app.requests.get(AllocationKey(key))
    if own.runtimes is None or app is None or request is None or not request.is_pending:
        return
    shadow = _shadow_of(own.shadows, app, request)
    if shadow is not None:
        yield _held(shadow)
        return
    found = obstacle(partition.check_context, subject_of(app, request))
    time_tells = found is None or found.code in QUOTA_CODES.values()
    for guess in (
        Projection(partition, own.shadows, own.ends, app, request, now).steps() if time_tells else (NO_GUESS,)
    ):
        if guess is None:
            yield None
        else:
            starts_at, by = guess.start or 0.0, start_by(app, request)
            judges = partition.rm.predicates is not None and request.ask.ask_class.predicate is not None
            yield ExpectedStart(
                starts_at=starts_at,
                confidence=guess.confidence,
                start_by=by,
                asks_ahead=guess.ahead,
                unasked=judges and starts_at > 0.0,
            )


def start_counters(partition: Partition) -> Iterator[StartCounters]:
    """The live counters; read, do not keep."""
    yield _of(partition).shadows.counters


def _of(partition: Partition) -> Any:
    """The `PartitionStarts`, which stand above reports."""
    return partition.points.named(NAME)


def _is_in(path: str, queue: str) -> bool:
    return not queue or path == queue or path.startswith(f"{queue}.")


def _shadow_of(shadows: Shadows, app: Application, request: Request) -> ShadowStart | None:
    """The shadow start of the ask, or of the gang that it is a placeholder of."""
    for shadow in shadows:
        is_of_gang = shadow.is_gang and app.gang.has_member(request.ask)
        if shadow.request is request or (shadow.app is app and is_of_gang):
            return shadow
    return None


def _held(shadow: ShadowStart) -> ExpectedStart:
    return ExpectedStart(
        starts_at=shadow.start,
        confidence=shadow.confidence,
        first_told=shadow.first_told,
        start_by=shadow.start_by,
    )


def _entry(shadow: ShadowStart) -> CalendarEntry:
    app, request = shadow.app, shadow.request
    is_gang = app.gang.has_member(request.ask)
    asks, requested = 1, dict(request.ask.ask_class.items)
    if is_gang:
        members = [group for group in app.groups.values() if group.key[2]]
        asks, requested = sum(group.waiting for group in members), {}
        for group in members:
            charge(requested, tuple((name, value * group.waiting) for name, value in group.ask_class.items))
    return CalendarEntry(
        app_id=app.app_id,
        key="" if is_gang else request.key,
        queue=app.queue_path,
        start=_held(shadow),
        asks=asks,
        requested=requested,
        nodes=len(shadow.nodes),
        since=shadow.since,
    )


FIELDS = {
    # True if blocked asks hold shadow starts.
    "partition": (Added("backfill", bool, lambda own, _: own.runtimes is not None),),
}
LISTS = {"calendar": calendar, "expected_start": expected_start, "start_counters": start_counters}
