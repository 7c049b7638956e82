"""Gang scheduling: admission, replacement, the time of placeholders, and the end of one (spec § 6).

`free` ends any allocation: a real request that waits for the end of its placeholder takes its place.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from licorne_core.config.schema import AppSortPolicy
from licorne_core.handlers.assumed import assume, roll_back, roll_back_all
from licorne_core.handlers.lifecycle import advance, after_gone, allocation_made, drop_ask, look_again
from licorne_core.handlers.outcome import (
    INCOMPATIBLE,
    KEEPING_ON_TIMEOUT,
    ON_COMPLETION,
    PENDING_ON_TIMEOUT,
    Deadline,
    Deadlines,
    Decisions,
    Outcome,
    TimerJob,
    make_way,
    time_out,
)
from licorne_core.handlers.victims import end_stay
from licorne_core.messages.commands import NewApplication
from licorne_core.messages.effects import RESERVATION_TIMEOUT
from licorne_core.messages.events.allocations import Freed, placeholder_incompatible
from licorne_core.messages.events.records import EventDetail
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.gang import (
    DEFAULT_TIMEOUT,
    ON_TIMEOUT,
    Gang,
    GangStyle,
    Gone,
    PairEvent,
    PairStep,
)
from licorne_core.model.apps.requests import Request, RequestEvent, RequestState, is_ask, place_of
from licorne_core.model.apps.states import AppEvent
from licorne_core.model.queues.queue import Queue
from licorne_core.partitions.partition import Partition
from licorne_core.scheduling.gang_placement import GangPlacement, MemberPlacement
from licorne_core.scheduling.measures import Candidate
from licorne_core.scheduling.predicates import Assumed
from licorne_core.scheduling.replacing import Cancellation, Replacement
from licorne_core.values.app_states import AppState
from licorne_core.values.asks import Allocation
from licorne_core.values.errors import Refusal, Rejected
from licorne_core.values.ids import AppId
from licorne_core.values.resources import Resources, describe, fits_max_undefined, min_undefined
from licorne_core.values.rule_kinds import tag_value
from licorne_core.values.slices import PART, put_in_order
from licorne_core.values.timers import Due

LEAST_TIMEOUT = 0.001
"""Seconds left to placeholders that arrive after their timeout."""

CREATION_TAG = "yunikorn.apache.org/creationTime"
"""The tag of an application with the unix seconds from which the timeout counts."""

_MAX_MILLISECONDS = (2**63 - 1) // 1_000_000


def gang_of(partition: Partition, new: NewApplication, now: float) -> Gang:
    """Gang of a new application."""
    units = partition.points.units_by(new.tags)
    return Gang(
        new.placeholder_ask,
        GangStyle.of(new.gang_scheduling_style),
        placeholder_timeout(new.execution_timeout, new.tags, now),
        partition.points.terms_by(new.tags),
        units,
    )


def placeholder_timeout(milliseconds: int, tags: Mapping[str, str], now: float) -> float:
    """Seconds that placeholders are kept: the configured time, less the time spent (§ 5.4).

    The time counts from the application's creation, as its tag says it in unix seconds.
    """
    timeout = DEFAULT_TIMEOUT
    if 0 < milliseconds <= _MAX_MILLISECONDS:
        timeout = milliseconds / 1000
    created = tag_value(tags, CREATION_TAG)
    if created.isascii() and created.isdigit() and len(created) < 18:
        timeout -= max(0.0, now - int(created))
    return max(LEAST_TIMEOUT, timeout)


def check_terms(partition: Partition, app_id: AppId, gang: Gang) -> None:
    """Refuse a gang in units with placeholders, and terms that an extension does not allow."""
    if gang.units is not None and gang.is_wanted:
        raise Rejected(
            f"application {app_id} has {gang.units.asked_by} and a placeholderAsk: "
            f"{gang.units.no_placeholders}",
            Refusal.GANG_NOT_POSSIBLE,
        )
    for extension in partition.points.joining:
        extension.joining(app_id, gang)


def check_gang(app_id: AppId, leaf: Queue, leaf_max: Resources | None, gang: Gang) -> None:
    """Refuse a gang with negative amounts, or that its queue could never run (§ 6.1).

    `leaf_max` is the maximum of the leaf with the application's own tags.
    """
    for name, value in gang.placeholder_ask.items():
        if value < 0:
            raise Rejected(
                f"application {app_id} has a negative placeholderAsk: {name} of {value}",
                Refusal.INVALID,
            )
    if leaf.settings.app_sort is AppSortPolicy.FAIR:
        raise Rejected(
            f"queue {leaf.path} cannot run application {app_id} with task group request: "
            "unsupported sort type",
            Refusal.GANG_NOT_POSSIBLE,
        )
    largest = leaf_max or {}
    for queue in leaf.lineage[1:-1]:
        largest = min_undefined(largest, queue.max or {})
    if not fits_max_undefined(largest, gang.placeholder_ask):
        raise Rejected(
            f"queue {leaf.path} cannot fit application {app_id}: task group request "
            f"{describe(gang.placeholder_ask)} larger than max queue allocation "
            f"{describe(largest)}",
            Refusal.GANG_NOT_POSSIBLE,
        )


def place_whole(partition: Partition, found: GangPlacement, now: float, outcome: Outcome) -> list[Allocation]:
    """Book all members of a gang; the RM has accepted each of the nodes, if it has a say."""
    leaf, app = found.leaf, found.app
    return [_place(partition, (leaf, app, request, node), now, outcome) for request, node in found.members]


def place_member(
    partition: Partition, found: MemberPlacement, now: float, outcome: Outcome
) -> list[Allocation]:
    """Book one member of a gang that was placed before; none if the RM is asked first."""
    leaf, app, request, node, room = found
    candidate = (leaf, app, request, node)
    if partition.predicates.is_needed(request.ask.ask_class, node):
        if room is not None:
            room.hold_for(request)
        assume(partition, candidate, now)
        return []
    allocation = _place(partition, candidate, now, outcome)
    if room is not None:
        room.end()
    return [allocation]


def _place(partition: Partition, candidate: Candidate, now: float, outcome: Outcome) -> Allocation:
    leaf, app, _, _ = candidate
    allocation = partition.allocations.allocate(candidate, now)
    outcome.updates += allocation_made(partition, leaf, app, allocation, now)
    return allocation


def replace(partition: Partition, found: Replacement, now: float, outcome: Outcome) -> None:
    """Stop the placeholder for the real ask; where the RM has a say it is asked first (§ 6.5)."""
    app, request, node = found.app, found.request, found.node
    predicates = partition.predicates
    if not predicates.is_needed(request.ask.ask_class, node, allocate=found.elsewhere):
        partition.pairs.link(found, now)
        outcome.release(partition, make_way(app, found.placeholder, request))
        return
    if found.elsewhere:
        check = predicates.ask(request, node)
    else:
        check = predicates.ask_to_reserve(request, node)
    partition.pairs.match(found, now)
    predicates.wait(check, Assumed(app, request, node))


def cancel(partition: Partition, found: Cancellation, now: float, outcome: Outcome) -> None:
    """Stop a placeholder that is too small for the real ask (spec § 6.5a)."""
    app, request, placeholder = found
    partition.pairs.cancel(app, placeholder)
    partition.journal.note(placeholder_incompatible(now, placeholder.ask, request.ask))
    outcome.release(partition, time_out(app, placeholder, INCOMPATIBLE))


def placeholders_overdue(job: TimerJob) -> Iterator[int]:
    """End the time of the application's placeholders, as `ON_TIMEOUT` says.

    Only requests that the application had at the beginning are stopped or dropped; later ones stay.
    """
    partition = job.partition
    app = partition.applications[job.timer.app_id]
    partition.placeholders.end_cancelled(app)
    rule = ON_TIMEOUT.get((app.state, app.gang.style))
    if rule is None:
        return
    drops_asks = rule.drops_asks

    def goes(request: Request) -> bool:
        matched = request.state is RequestState.MATCHED
        return matched or drops_asks or request.ask.placeholder

    yield from roll_back_all(job, partition, app, PairEvent.TOLD, goes)
    # The RM may have changed or removed the application meanwhile.
    rule = ON_TIMEOUT.get((app.state, app.gang.style))
    if rule is None or app.leaf is None:
        return
    if rule.event is not None:
        # It goes on without a gang, or fails.
        app.gang.end_terms()
        for room in list(app.gang.rooms):
            room.end()
        job.outcome.updates += advance(partition, app, rule.event, job.now, RESERVATION_TIMEOUT)
    state, had = app.state, list(app.requests.values())
    yield from _stop_kept(job, app, had, KEEPING_ON_TIMEOUT)
    yield from _drop(job, app, had, only_placeholders=not rule.drops_asks)
    _end(job, app, state)


def time_to_complete(job: TimerJob) -> Iterator[int]:
    """The application completes, once placeholders that are left are gone as well (§ 6.9)."""
    partition = job.partition
    app = partition.applications[job.timer.app_id]
    state = app.state
    if app.placeholder_count:
        yield from roll_back_all(job, partition, app, PairEvent.TOLD)
        if app.state is not state or app.leaf is None:
            return
        partition.placeholders.end_cancelled(app)
        yield from _stop_kept(job, app, list(app.requests.values()), ON_COMPLETION)
        _end(job, app, state)
    else:
        job.outcome.updates += advance(partition, app, AppEvent.COMPLETE, job.now)


def _stop_kept(job: TimerJob, app: Application, had: Sequence[Request], message: str) -> Iterator[int]:
    """Stop the placeholders that keep room."""
    for number, request in enumerate(had if app.placeholder_count else (), 1):
        if request.state is RequestState.PLACEHOLDER and _has(app, request):
            job.partition.pairs.stop(app, request)
            job.outcome.release(job.partition, time_out(app, request, message))
            yield 1
        elif not number % PART:
            yield 1


def _drop(
    job: TimerJob, app: Application, had: Sequence[Request], *, only_placeholders: bool
) -> Iterator[int]:
    """Drop the asks for placeholders, or all asks, in the order of the pass."""

    def may_go(request: Request) -> bool:
        return (request.ask.placeholder or not only_placeholders) and is_ask(request)

    asks = yield from put_in_order(had, place_of, may_go)
    for number, request in enumerate(asks, 1):
        waits = request.is_pending or request.state is RequestState.LINKED
        if waits and _has(app, request):
            drop_ask(job.partition, app, request, job.now, EventDetail.REQUEST_TIMEOUT)
            job.outcome.release(job.partition, time_out(app, request, PENDING_ON_TIMEOUT))
            yield 1
        elif not number % PART:
            yield 1


def _has(app: Application, request: Request) -> bool:
    """True if the request has not ended meanwhile."""
    return app.requests.get(request.key) is request


def _end(job: TimerJob, app: Application, state: AppState) -> None:
    """Whatever the deadline has begun is over if there is no end of a placeholder to wait for."""
    if app.leaf is not None and app.state is state and not app.placeholder_count:
        updates = after_gone(job.partition, app, Gone.PLACEHOLDER, job.now)
        job.outcome.last_updates += updates


def end(
    partition: Partition,
    app: Application,
    request: Request,
    detail: EventDetail,
    now: float,
    outcome: Outcome,
) -> None:
    """Free an allocation; `detail` is published.

    The application completes, fails or goes on as the tables of `gang` say.
    """
    freed = free(partition, app, request, detail, now, outcome)
    outcome.updates += after_gone(partition, app, what_went(request), now, freed)


def what_went(request: Request) -> Gone:
    """Kind of a booked request that goes."""
    return Gone.PLACEHOLDER if request.ask.placeholder else Gone.REAL


def free(
    partition: Partition,
    app: Application,
    request: Request,
    detail: EventDetail,
    now: float,
    outcome: Outcome,
    *,
    with_node: bool = False,
) -> Freed | None:
    """Free an allocation; `with_node` if its node goes as well.

    A real request that waits for the end of the placeholder takes its place (spec §§ 6.6, 6.12).
    Otherwise return the fact to publish, which is not noted yet.
    """
    if request.state is RequestState.NOTICED:
        end_stay(partition, request)
    heir = _heir(partition, app, request, now, with_node=with_node)
    kept = request.allocation
    assert kept is not None, f"{request!r} is booked"
    freed = Freed(now, kept, app.owner, detail)
    partition.ledger.released(app.app_id, request.key, now)
    preempted = request.state is RequestState.PREEMPTING
    begin = kept.allocation_time
    if preempted and request.checkpoint is not None:
        begin = max(begin, request.checkpoint)
    partition.meter.end(app.owner, kept.ask.ask_class.items, begin, now, preempted=preempted)
    if heir is None:
        if app.interests:
            for extension in partition.points.freed:
                extension.freed(app, request, now)
            for extension in partition.points.ended if detail is EventDetail.ALLOC_CANCEL else ():
                extension.ended(app, request, now)
        partition.allocations.release(app, request)
        return freed
    partition.journal.note(freed)
    allocation = partition.pairs.take_place(app, *heir, now)
    outcome.made.setdefault(partition, []).append(allocation)
    leaf = partition.leaf_of(app)
    outcome.updates += allocation_made(partition, leaf, app, allocation, now)
    # The RM may have resized it while it waited for its place.
    for extension in partition.points.grown:
        extension.grown(leaf, now)
    look_again(partition, partition.nodes.by_id[allocation.node_id], now)
    return None


def _heir(
    partition: Partition, app: Application, request: Request, now: float, *, with_node: bool
) -> tuple[Request, PairStep] | None:
    """The real request that takes the place of a placeholder; if it cannot, it waits again."""
    heir = request.partner
    if heir is None:
        return None
    event = PairEvent.PLACE_LOST if with_node and _shares_node(request, heir) else PairEvent.ENDED
    if heir.state is RequestState.MATCHED:
        roll_back(partition, app, heir, event, now)
        return None
    step = partition.pairs.step(heir, event)
    if step.real is RequestEvent.CONFIRM:
        return heir, step
    partition.pairs.part(app, heir, event, now)
    return None


def _shares_node(placeholder: Request, request: Request) -> bool:
    kept, own = placeholder.allocation, request.allocation
    return own is None or (kept is not None and own.node_id == kept.node_id)


DECISIONS: Final[Decisions] = {
    GangPlacement: place_whole,
    MemberPlacement: place_member,
    Replacement: replace,
    Cancellation: cancel,
}
DEADLINES: Final[Deadlines] = {
    Due.COMPLETE: Deadline(work=time_to_complete, on_hold=False),
    Due.PLACEHOLDERS: Deadline(work=placeholders_overdue, on_hold=False),
}
