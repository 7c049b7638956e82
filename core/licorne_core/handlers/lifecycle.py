"""Consequences of an application's change of state: counts, timers, removal from its queue (spec § 5.1)."""

from collections.abc import Callable
from typing import Final

from licorne_core.handlers.outcome import Deadline, Deadlines, Firing
from licorne_core.messages.effects import ApplicationUpdate
from licorne_core.messages.events.allocations import Freed, Placed, cancelled
from licorne_core.messages.events.apps import app_left, state_entered
from licorne_core.messages.events.records import EventDetail
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.gang import ON_GONE, Gone, Left, PairEvent
from licorne_core.model.apps.requests import Request, ran
from licorne_core.model.apps.states import COMPLETING_TIME, SCHEDULABLE, AppEvent
from licorne_core.model.books import note_allocating
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.queue import Queue
from licorne_core.model.quotas import ApplicationTotals
from licorne_core.partitions.partition import Partition, forget_ended, remember_completed
from licorne_core.scheduling.order import count_raised
from licorne_core.values.app_states import AppState
from licorne_core.values.asks import Allocation
from licorne_core.values.ranking import NO_PRIORITY
from licorne_core.values.resources import charge, refund
from licorne_core.values.timers import Due, Timer

CLEANING_TIME = 10.0
"""Seconds until an empty queue that is draining or dynamic is removed (spec § 4.3)."""

# Looked up once: for every allocation, a lookup in the enumeration would cost as much as two calls.
_RUNNING: Final = AppState.RUNNING

_TERMINAL = frozenset({AppState.COMPLETED, AppState.FAILED})


def advance(
    partition: Partition,
    app: Application,
    event: AppEvent,
    now: float,
    message: str = "",
    *,
    noted: bool = True,
) -> list[ApplicationUpdate]:
    """Let the application follow the event; return the updates for the RM (§ 5.1.2).

    An event without a transition from the current state does nothing. Without `noted` the caller publishes
    the new state, together with other facts.
    """
    before = app.state
    if not app.enter(event, now):
        return []
    told = message or (app.failure if event is AppEvent.FAIL else "") or event.value
    if noted:
        partition.journal.note(state_entered(now, app.app_id, app.state.value, told))
    leaf = partition.leaf_of(app)
    _count_running(leaf, before, app.state)
    note_allocating(app)
    partition.dirty.mark_state(app)
    if before is AppState.COMPLETING:
        partition.timers.cancel(Timer(Due.COMPLETE, app.app_id))
    for extension in partition.points.state_entered if leaf.interests else ():
        extension.state_entered(leaf, app)
    if app.state is AppState.COMPLETING:
        partition.timers.set(Timer(Due.COMPLETE, app.app_id), now + COMPLETING_TIME)
    if app.state in _TERMINAL:
        app.finished_time = now
        if app.state is AppState.FAILED:
            leaf.counters.applications_failed += 1
            partition.counters.applications_failed += 1
        else:
            leaf.counters.applications_completed += 1
            partition.counters.applications_completed += 1
        unlink(partition, app, now)
        remember_completed(partition, app, now)
    return [ApplicationUpdate(app_id=app.app_id, state=app.state.value, time=now, message=told)]


def after_gone(
    partition: Partition, app: Application, gone: Gone, now: float, freed: Freed | None = None
) -> list[ApplicationUpdate]:
    """Let the application follow `ON_GONE` after the end of a request.

    `freed` is the fact of an allocation that ended; with it the start of completion is published.
    """
    end_placeholder_time(partition, app)
    event = ON_GONE.get((app.state, gone, what_is_left(app)))
    if app.state is AppState.COMPLETING and Timer(Due.COMPLETE, app.app_id) in partition.timers:
        event = None
    starts_to_complete = event is AppEvent.COMPLETE and app.state in SCHEDULABLE
    updates = []
    if starts_to_complete:
        updates = advance(partition, app, AppEvent.COMPLETE, now, noted=freed is None)
    if freed is not None:
        freed.completing = starts_to_complete
        partition.journal.note(freed)
    if event is not None and not starts_to_complete:
        updates = advance(partition, app, event, now)
    return updates


def end_placeholder_time(partition: Partition, app: Application) -> None:
    """Cancel the timeout of an application that has no booked or pending placeholders (spec § 6.7)."""
    if not (app.placeholder_count or app.gang.is_open):
        partition.timers.cancel(Timer(Due.PLACEHOLDERS, app.app_id))


def what_is_left(app: Application) -> Left:
    """Kinds of the remaining requests, which decide about the state; assumed asks count as asks."""
    booked = app.allocation_count - app.assumed_count
    if len(app.requests) == booked == app.placeholder_count:
        return Left.PLACEHOLDERS if booked else Left.NOTHING
    return Left.MORE if booked else Left.ASKS


def allocation_made(
    partition: Partition, leaf: Queue, app: Application, allocation: Allocation, now: float
) -> list[ApplicationUpdate]:
    """Record an allocation made by the core: its application runs now (§ 5.1.1)."""
    partition.counters.allocations_made += 1
    leaf.counters.allocations_made += 1
    for extension in partition.points.served if leaf.interests else ():
        extension.served(leaf, app, allocation, now)
    return placed(partition, app, allocation, now)


def placed(
    partition: Partition, app: Application, allocation: Allocation, now: float
) -> list[ApplicationUpdate]:
    """Start an application whose allocation was booked, and publish both.

    A gang starts to run once all its placeholders keep room (spec § 6.7). Their timeout (§ 6.3) begins
    with the first that keeps room, and runs as long as any is booked or open: a pending placeholder
    must not wait forever.
    """
    updates: list[ApplicationUpdate] = []
    runs = True
    if allocation.ask.placeholder:
        runs = app.gang.is_complete(app.placeholder_allocated)
        timer = Timer(Due.PLACEHOLDERS, app.app_id)
        if timer not in partition.timers:
            partition.timers.set(timer, now + app.gang.timeout)
    if runs and app.state is not _RUNNING:
        updates = advance(partition, app, AppEvent.RUN, now, noted=False)
    # The hot path: `Meter.change` is written out here.
    meter = partition.meter
    account = meter.accounts.get(app.owner) or meter.account_of(app.owner)
    time = meter.last = max(meter.last, round((now - meter.since) * 1e6))
    amounts, moments = account.amounts, account.moments
    for name, value in allocation.ask.ask_class.items:
        amounts[name] = amounts.get(name, 0) + value
        moments[name] = moments.get(name, 0) + value * time
    if allocation.passed is not None:
        partition.counters.allocations_passing += 1
        account.of_passing().change(allocation.ask.ask_class.items, time)
    journal = partition.journal
    if journal.on:
        journal.facts.append(Placed(now, allocation, app.owner, started=bool(updates)))
    return updates


def note_freed(
    partition: Partition,
    app: Application,
    allocation: Allocation,
    detail: EventDetail,
    now: float,
    *,
    ask_gone: bool = True,
) -> None:
    """Publish that an allocation ended, for the reason `detail` (see `Freed`)."""
    partition.ledger.released(app.app_id, allocation.key, now)
    partition.meter.end(app.owner, allocation, allocation.allocation_time, now, preempted=False)
    fact = Freed(now, allocation, app.owner, detail, ask_gone=ask_gone)
    partition.journal.note(fact)


def note_ended(partition: Partition, app: Application, request: Request, now: float) -> None:
    """Learn the runtime of an allocation that its RM ends, and notify the extensions of its application."""
    seconds = ran(request, now)
    if seconds is not None:
        partition.runtimes.learn(app.queue_path, request.ask.ask_class.shape, seconds)
    if app.interests:
        for extension in partition.points.ended:
            extension.ended(app, request, now)


def drop_ask(
    partition: Partition,
    app: Application,
    request: Request,
    now: float,
    detail: EventDetail = EventDetail.REQUEST_CANCEL,
) -> None:
    """Drop an ask that was withdrawn or has timed out: a pending one, or one linked to a placeholder."""
    if request.is_pending:
        partition.asks.drop(app, request, now)
    else:
        partition.pairs.part(app, request, PairEvent.DROPPED, now)
    partition.journal.note(cancelled(now, request.ask, detail))


def unlink(partition: Partition, app: Application, now: float) -> None:
    """Remove an application without asks and allocations from its queue and its partition."""
    leave_leaf(partition, app, now)
    partition.escalation.forget(app)
    if app.interests:
        for extension in partition.points.app_gone:
            extension.app_gone(app)
    del partition.applications[app.app_id]
    partition.tally.dropped(app.state.value)
    partition.tally.in_units.pop(app.app_id, None)
    app.tally = ApplicationTotals()
    app.leaf, app.quotas = None, ()
    app.forget_groups()
    partition.rm.holdings.application_removed(app.footprint)
    partition.timers.cancel(Timer(Due.COMPLETE, app.app_id))
    partition.timers.cancel(Timer(Due.PLACEHOLDERS, app.app_id))
    partition.journal.note_all(app_left(now, app.app_id, app.queue_path, app.group))


def leave_leaf(partition: Partition, app: Application, now: float) -> None:
    """Remove an application without allocations and waits from its leaf."""
    leaf = partition.leaf_of(app)
    _count_running(leaf, app.state, AppState.COMPLETED)
    partition.dirty.mark(leaf.lineage)
    partition.limits.leave(app)
    partition.dirty.forget_app(app)
    for extension in partition.points.departed if leaf.interests else ():
        extension.departed(leaf, app)
    del leaf.applications[app.app_id]
    if app.pending_count:
        for queue in leaf.lineage:
            refund(queue.pending, tuple(app.pending_total.items()))
        leaf.priorities.remove_all(app.priorities)
        count_raised(leaf, app.raised, NO_PRIORITY)
        partition.dirty.mark_leaf(leaf)
    clean_later(partition, leaf, now)


def enter_leaf(partition: Partition, app: Application, leaf: Queue) -> None:
    """Move an application that has left its leaf into another one, with all its pending asks."""
    app.leaf, app.queue_path = leaf, leaf.path
    leaf.applications[app.app_id] = app
    partition.limits.join(app, leaf)
    if app.pending_count:
        for queue in leaf.lineage:
            charge(queue.pending, tuple(app.pending_total.items()))
        leaf.priorities.add_all(app.priorities)
        count_raised(leaf, NO_PRIORITY, app.raised)
    _count_running(leaf, AppState.COMPLETED, app.state)
    partition.dirty.mark_state(app)


def rebook(partition: Partition, app: Application, change: Callable[[], None]) -> int:
    """Call `change`, which replaces quotas of the application; return the number of examined reservations.

    In the quotas that the application leaves or enters, other amounts have to be left free (§ 9.4.8).
    """
    reserved = partition.wakeups.reserved
    held = [reserved.holder(reservation).request.promise for reservation in reserved]
    promises = [
        promise
        for promise in held
        if promise is not None and not promise.is_paused
        if promise.app is app or app in promise.outstanding.values()
    ]
    for promise in promises:
        promise.unbook()
    change()
    for promise in promises:
        promise.book()
    return len(held)


def clean_later(partition: Partition, leaf: Queue, now: float) -> None:
    """Schedule a cleaning if the leaf, or a queue above it, is to be removed once it is empty."""
    if any(queue.may_be_removed for queue in leaf.lineage):
        timer = Timer(Due.CLEAN_QUEUES)
        if timer not in partition.timers:
            partition.timers.set(timer, now + CLEANING_TIME)


def look_again(partition: Partition, node: Node, now: float) -> None:
    """Notify extensions of a closed node that was added, or on which an allocation was added or spared."""
    if node.closed is not None:
        for extension in partition.points.closed_node_changed:
            extension.closed_node_changed(node, now)


def _expire(partition: Partition, app: Application, now: float) -> list[ApplicationUpdate]:
    """Expire an application and notify the RM (§ 5.1.2), unless its id was reused."""
    app.enter(AppEvent.EXPIRE, now)
    if app.app_id in partition.applications:
        return []
    event = AppEvent.EXPIRE.value
    state = app.state.value
    partition.journal.note(state_entered(now, app.app_id, state, event))
    return [ApplicationUpdate(app_id=app.app_id, state=state, time=now, message=event)]


def _count_running(leaf: Queue, before: AppState, after: AppState) -> None:
    """Update the counts of running applications in the queues."""
    change = (after is _RUNNING) - (before is _RUNNING)
    for queue in leaf.lineage if change else ():
        queue.running_applications += change


def _expired(firing: Firing, timer: Timer) -> None:
    """End the listing of an ended application."""
    partition, due, app_id = firing.partition, timer.due, timer.app_id
    firing.outcome.updates += _expire(partition, forget_ended(partition, due, app_id), firing.now)


DEADLINES: Final[Deadlines] = {
    Due.EXPIRE: Deadline(_expired),
    Due.EXPIRE_REJECTED: Deadline(_expired),
}
