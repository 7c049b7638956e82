"""Expected starts of pending asks: held shadow starts, and a simple estimate for all others."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Final

from licorne_core.extensions.backfill import NAME
from licorne_core.extensions.backfill.projection import NO_GUESS, Projection
from licorne_core.extensions.backfill.ranges import LEVEL, Expected, Ranges
from licorne_core.extensions.backfill.shadow_start import ShadowStart, start_by
from licorne_core.extensions.backfill.shadows import Shadows, StartCounters
from licorne_core.messages.reasons import QUOTA_CODES
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import Request
from licorne_core.model.runtimes import Confidence
from licorne_core.partitions.partition import Partition
from licorne_core.scheduling.checks import ASK_RULES
from licorne_core.scheduling.waiting.blockers import Timed
from licorne_core.values.ids import AllocationKey, AppId, QueuePath
from licorne_core.values.resources import Resources, charge
from licorne_core.views.explain import obstacle, subject_of
from licorne_core.views.fields import Added, Moment

__all__ = ["CalendarEntry", "Confidence", "ExpectedStart", "StartCounters", "StartSample"]

_FORESEEN: Final = {*QUOTA_CODES.values()}.union(
    *(rule.codes for rule in ASK_RULES if rule.parks is not None and issubclass(rule.parks, Timed))
)
"""Codes of obstacles whose end an estimate may foresee."""

PAUSE = 200
"""Number of applications that are examined before the reader may pause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedStart:
    """The expected start of an ask; `starts_at` is 0.0 if unknown.

    `confidence` is a `Confidence`. `first_told` is the start as first published, 0.0 without a shadow start.
    `start_by` is the latest requested start, 0.0 for none. `asks_ahead` is above 0 if there is no estimate
    because so many asks are ahead; `unasked` is true for an estimate with a predicate about which the RM was
    not asked. With a probability of `level` percent the ask starts from `earliest` to `latest`; all three are
    0 if too few starts were observed.
    """

    starts_at: Moment
    confidence: str
    first_told: Moment = 0.0
    start_by: Moment = 0.0
    asks_ahead: int = 0
    unasked: bool = False
    earliest: Moment = 0.0
    latest: Moment = 0.0
    level: int = 0

    @property
    def is_late(self) -> bool:
        """True if the expected start is later than requested."""
        return 0.0 < self.start_by < self.starts_at


@dataclass(frozen=True, slots=True, kw_only=True)
class StartSample:
    """A pending ask with its expected start, None if unknown.

    `behind` is the position of the next sample.
    """

    app_id: AppId
    key: AllocationKey
    behind: int
    expected: Expected | None


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


def calendar(
    partition: Partition, queue: str = "", now: float = 0.0, ranges: Ranges | None = None
) -> Iterator[CalendarEntry]:
    """The held shadow starts of a queue and its descendants, or of all queues; the earliest first.

    They have ranges, as of `now` (unix seconds), from the errors in `ranges`.
    """
    shadows = [shadow for shadow in _of(partition).shadows if _is_in(shadow.app.queue_path, queue)]
    found = [
        _entry(shadow, _in_range(shadow.app, shadow.request, _held(shadow), now, ranges))
        for shadow in shadows
    ]
    yield from sorted(found, key=lambda entry: (entry.start.starts_at, entry.app_id, entry.key))


def expected_start(
    partition: Partition, app_id: str, key: str, now: float, ranges: Ranges | None = None
) -> Iterator[ExpectedStart | None]:
    """Expected start of a pending ask, as of `now` (unix seconds), with a range from the errors in `ranges`.

    None marks a possible pause of the reader. The last item is the start; it is missing for an ask that is
    not pending, and without backfill.
    """
    app = partition.applications.get(AppId(app_id))
    request = None if app is None else app.requests.get(AllocationKey(key))
    if app is None or request is None or not request.is_pending:
        return
    for start in _expected_start(partition, app, request, now):
        yield start and _in_range(app, request, start, now, ranges)


def start_sample(partition: Partition, at: int, now: float) -> Iterator[StartSample | None]:
    """The expected start of a pending ask of the first application, from position `at` on, that has one.

    None marks a possible pause of the reader. There is no sample without backfill or pending asks.
    """
    applications = list(partition.applications.values()) if _of(partition).is_on else []
    for place in range(at, at + len(applications)):
        app = applications[place % len(applications)]
        group = next((group for group in app.groups.values() if group.waiting), None)
        if group is not None:
            request, expected = group.first().request, None
            for start in _expected_start(partition, app, request, now):
                if start is None:
                    yield None
                elif start.starts_at:
                    expected = _expected(app, request, start, now)
            behind = (place + 1) % len(applications)
            yield StartSample(app_id=app.app_id, key=request.key, behind=behind, expected=expected)
            return
        if not (place + 1) % PAUSE:
            yield None


def start_of(partition: Partition, app_id: AppId, key: AllocationKey) -> Iterator[float]:
    """The start time of an ask in unix seconds: inf while it is pending, None if it does not exist."""
    app = partition.applications.get(app_id)
    request = None if app is None else app.requests.get(key)
    if request is not None and request.is_pending:
        yield inf
    elif request is not None and request.allocation is not None:
        yield request.allocation.allocation_time


def _expected(app: Application, request: Request, start: ExpectedStart, now: float) -> Expected:
    is_declared = start.first_told > 0.0 and start.confidence == Confidence.DECLARED
    return Expected(app.queue_path, request.ask.ask_class.items, is_declared, now, start.starts_at)


def _in_range(
    app: Application, request: Request, start: ExpectedStart, now: float, ranges: Ranges | None
) -> ExpectedStart:
    if ranges is None or not start.starts_at:
        return start
    found = ranges.range(_expected(app, request, start, now))
    return (
        start
        if found is None
        else replace(start, earliest=found.earliest, latest=found.latest, level=round(LEVEL * 100))
    )


def _expected_start(
    partition: Partition, app: Application, request: Request, now: float
) -> Iterator[ExpectedStart | None]:
    own = _of(partition)
    if not own.is_on:
        return
    shadow = _shadow_of(own.shadows, app, request)
    if shadow is not None:
        yield _held(shadow)
        return
    found = obstacle(partition.check_context, subject_of(app, request))
    time_tells = found is None or found.code in _FORESEEN
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
    """The live counters, for immediate reading only."""
    yield _of(partition).shadows.counters


def _of(partition: Partition) -> Any:
    """The `PartitionStarts`, which reports must not import."""
    return partition.points.named(NAME)


def _is_in(path: str, queue: str) -> bool:
    return not queue or path == queue or path.startswith(f"{queue}.")


def _shadow_of(shadows: Shadows, app: Application, request: Request) -> ShadowStart | None:
    """The shadow start of the ask, or of the gang of which it is a placeholder."""
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


def _entry(shadow: ShadowStart, start: ExpectedStart) -> CalendarEntry:
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
        start=start,
        asks=asks,
        requested=requested,
        nodes=len(shadow.places),
        since=shadow.since,
    )


FIELDS = {
    # True if blocked asks hold shadow starts.
    "partition": (Added("backfill", bool, lambda own, _: own.is_on),),
}
LISTS = {
    "calendar": calendar,
    "expected_start": expected_start,
    "start_counters": start_counters,
    "start_of": start_of,
    "start_sample": start_sample,
}
