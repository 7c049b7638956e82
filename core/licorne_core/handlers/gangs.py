"""Gang scheduling: admission, replacement, and the time of placeholders (spec § 6)."""

from licorne_core.config.properties import AppSortPolicy
from licorne_core.events.journal import EventDetail
from licorne_core.events.preemption import PlaceholderIncompatible
from licorne_core.handlers.lifecycle import advance, after_gone, drop_ask
from licorne_core.handlers.outcome import (
    INCOMPATIBLE,
    KEEPING_ON_TIMEOUT,
    ON_COMPLETION,
    PENDING_ON_TIMEOUT,
    Outcome,
    Slice,
    make_way,
    time_out,
)
from licorne_core.handlers.predicates import roll_back, roll_back_all
from licorne_core.messages.commands import NewApplication
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.gang import Gang, GangEnd, GangStyle, placeholder_timeout
from licorne_core.model.apps.gang_rules import ON_TIMEOUT, Gone, PairEvent
from licorne_core.model.apps.requests import TO_REPLACE, Request, RequestState
from licorne_core.model.apps.states import AppEvent
from licorne_core.model.queues.queue import Queue
from licorne_core.partitions.agenda import AT_ONCE
from licorne_core.partitions.partition import Partition
from licorne_core.scheduling.predicates.checks import Assumed
from licorne_core.scheduling.replacing import Cancellation, Replacement
from licorne_core.values.errors import Refusal, Rejected
from licorne_core.values.ids import AppId
from licorne_core.values.resources import Resources, describe, fits_max_undefined, min_undefined
from licorne_core.values.timers import Due, Timer

RESERVATION_TIMEOUT = "ResourceReservationTimeout"
"""Message to the RM about a gang that timed out."""

_FIRST_COMES_FIRST = frozenset({AppSortPolicy.FIFO, AppSortPolicy.STATE_AWARE})


def gang_of(new: NewApplication, now: float) -> Gang:
    """Gang of a new application."""
    return Gang(
        new.placeholder_ask,
        GangStyle.of(new.gang_scheduling_style),
        placeholder_timeout(new.execution_timeout, new.tags, now),
    )


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
    if leaf.settings.app_sort not in _FIRST_COMES_FIRST:
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
    partition.journal.note(PlaceholderIncompatible(now, placeholder.ask, request.ask))
    outcome.release(partition, time_out(app, placeholder, INCOMPATIBLE))


def placeholders_overdue(
    partition: Partition, app: Application, now: float, outcome: Outcome, part: Slice
) -> None:
    """End the time of the application's placeholders, as `ON_TIMEOUT` says."""
    partition.pairs.end_cancelled(app)
    rule = ON_TIMEOUT.get((app.state, app.gang.style))
    if rule is None:
        return
    if app.assumed_count or app.replacing_count:
        for request in list(app.requests.values()):
            is_dropped = rule.drops_asks or request.ask.placeholder
            if request.state is RequestState.MATCHED or (
                request.state is RequestState.ASSUMED and is_dropped
            ):
                roll_back(partition, app, request, PairEvent.TOLD, now)
    if rule.event is not None:
        outcome.updates += advance(partition, app, rule.event, now, RESERVATION_TIMEOUT)
    dropped = [
        place.request
        for place in app.asks_in_order()
        if rule.drops_asks or (place.request.is_pending and place.request.ask.placeholder)
    ]
    rest = iter([*_keeping(app), *dropped])
    partition.stopping.end = GangEnd(app, app.state, rule.drops_asks, KEEPING_ON_TIMEOUT, rest)
    go_on(partition, now, outcome, part)


def time_to_complete(
    partition: Partition, app: Application, now: float, outcome: Outcome, part: Slice
) -> None:
    """The application completes, once placeholders that are left are gone as well (§ 6.9)."""
    if not app.placeholder_count:
        outcome.updates += advance(partition, app, AppEvent.COMPLETE, now)
        return
    roll_back_all(partition, app, PairEvent.TOLD, now)
    rest = iter(_keeping(app))
    partition.pairs.end_cancelled(app)
    partition.stopping.end = GangEnd(app, app.state, False, ON_COMPLETION, rest)
    go_on(partition, now, outcome, part)


def go_on(partition: Partition, now: float, outcome: Outcome, part: Slice) -> None:
    """Go on with a timeout or a completion, as far as the slice goes.

    Only requests that the application had at its beginning are stopped or dropped; later ones stay.
    If there is more than the slice may end, the partition has a deadline that comes before all
    others, and decides nothing until then.
    """
    end = partition.stopping.end
    assert end is not None, "there is a deadline as long as something is left"
    app: Application = end.app
    for request in part.take(end.rest):
        if app.requests.get(request.key) is request:
            _stop_or_drop(partition, end, request, now, outcome)
    if part.is_spent:
        partition.timers.set(Timer(Due.GO_ON), AT_ONCE)
        return
    partition.stopping.end = None
    if app.leaf is not None and app.state is end.state and not app.placeholder_count:
        # Whatever the timeout has begun is over: there is no end of a placeholder to wait for.
        outcome.last_updates += after_gone(partition, app, Gone.PLACEHOLDER, now)


def _keeping(app: Application) -> list[Request]:
    """Placeholders that keep room and are not being stopped yet."""
    if not app.placeholder_count:
        return []
    return [request for request in app.booked() if request.state is RequestState.PLACEHOLDER]


def _stop_or_drop(
    partition: Partition, end: GangEnd, request: Request, now: float, outcome: Outcome
) -> None:
    """Stop a placeholder that keeps room; drop one that does not, and an ask if asks go too."""
    app: Application = end.app
    is_ask = request.is_pending or request.state in TO_REPLACE
    if request.state is RequestState.PLACEHOLDER:
        partition.pairs.stop(app, request)
        outcome.release(partition, time_out(app, request, end.message))
    elif is_ask and (end.drops_asks or request.ask.placeholder):
        drop_ask(partition, app, request, now, EventDetail.REQUEST_TIMEOUT)
        outcome.release(partition, time_out(app, request, PENDING_ON_TIMEOUT))
