"""Replacements, and the timeout of placeholders (spec §§ 6.5, 6.8)."""

from collections.abc import Iterator, Sequence
from typing import Final

from licorne_core.handlers.assumed import roll_back_all
from licorne_core.handlers.gangs import end_if_none_left, still_has, stop_kept
from licorne_core.handlers.lifecycle import advance, drop_ask
from licorne_core.handlers.outcome import (
    INCOMPATIBLE,
    KEEPING_ON_TIMEOUT,
    PENDING_ON_TIMEOUT,
    Deadline,
    Deadlines,
    Decisions,
    Outcome,
    TimerJob,
    make_way,
    time_out,
)
from licorne_core.messages.effects import RESERVATION_TIMEOUT
from licorne_core.messages.events.allocations import placeholder_incompatible
from licorne_core.messages.events.records import EventDetail
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.gang import ON_TIMEOUT, PairEvent
from licorne_core.model.apps.requests import Request, RequestState, is_ask, place_of
from licorne_core.partitions.partition import Partition
from licorne_core.scheduling.predicates import Assumed
from licorne_core.scheduling.replacing import Replacement
from licorne_core.standard.placeholders.search import Cancellation
from licorne_core.values.slices import PART, put_in_order
from licorne_core.values.timers import Due


def _replace(partition: Partition, found: Replacement, now: float, outcome: Outcome) -> None:
    """Stop the placeholder of the real ask; if necessary, ask the RM about the node first (§ 6.5)."""
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


def _cancel(partition: Partition, found: Cancellation, now: float, outcome: Outcome) -> None:
    """Stop a placeholder that is too small for the real ask (spec § 6.5a)."""
    app, request, placeholder = found
    partition.pairs.cancel(app, placeholder)
    partition.journal.note(placeholder_incompatible(now, placeholder.ask, request.ask))
    outcome.release(partition, time_out(app, placeholder, INCOMPATIBLE))


def _overdue(job: TimerJob) -> Iterator[int]:
    """Apply the timeout of the application's placeholders, by `ON_TIMEOUT`.

    Only requests from before the timeout are stopped or dropped; later ones remain.
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
    # The RM may have changed or removed the application since the last step.
    rule = ON_TIMEOUT.get((app.state, app.gang.style))
    if rule is None or app.leaf is None:
        return
    if rule.event is not None:
        # The application continues without a gang, or fails.
        app.gang.end_terms()
        for room in list(app.gang.rooms):
            room.end()
        job.outcome.updates += advance(partition, app, rule.event, job.now, RESERVATION_TIMEOUT)
    state, had = app.state, list(app.requests.values())
    yield from stop_kept(job, app, had, KEEPING_ON_TIMEOUT)
    yield from _drop(job, app, had, only_placeholders=not rule.drops_asks)
    end_if_none_left(job, app, state)


def _drop(
    job: TimerJob, app: Application, had: Sequence[Request], *, only_placeholders: bool
) -> Iterator[int]:
    """Drop the pending placeholders in `had`, or all pending asks in it, in the order of the pass."""

    def may_go(request: Request) -> bool:
        return (request.ask.placeholder or not only_placeholders) and is_ask(request)

    asks = yield from put_in_order(had, place_of, may_go)
    for number, request in enumerate(asks, 1):
        waits = request.is_pending or request.state is RequestState.LINKED
        if waits and still_has(app, request):
            drop_ask(job.partition, app, request, job.now, EventDetail.REQUEST_TIMEOUT)
            job.outcome.release(job.partition, time_out(app, request, PENDING_ON_TIMEOUT))
            yield 1
        elif not number % PART:
            yield 1


DECISIONS: Final[Decisions] = {Replacement: _replace, Cancellation: _cancel}
DEADLINES: Final[Deadlines] = {Due.PLACEHOLDERS: Deadline(work=_overdue, on_hold=False)}
