"""The life of an application: start, completion, failure, removal (§§ 5.1-5.4, 6)."""

from support.oracle.backfill import note_end, runs_of_users
from support.oracle.books import (
    ALLOCATED,
    PLACEHOLDER,
    PREEMPTING,
    RELEASING,
    REPLACED,
    TIMED_OUT,
    AllocationRecord,
    AppRecord,
    AskRecord,
    NodeRecord,
    add_to,
)
from support.oracle.domains import levels_of
from support.oracle.gangs import booked_placeholders, covers, end_of, has_time, unlink
from support.oracle.partition import PartitionOracle, look_again
from support.oracle.topology import note_lost

COMPLETING_SECONDS = 30.0
STARTING_SECONDS = 300.0
NO_STARTING_TAG = "application.stateaware.disable"

STOPPING_BOOKED = "releasing allocated placeholders on placeholder timeout"
STOPPING_PENDING = "releasing pending placeholders on placeholder timeout"
STOPPING_COMPLETE = "releasing placeholders on app complete"


def run(partition: PartitionOracle, app: AppRecord) -> None:
    """Run an application: a real allocation was made, or all placeholders exist."""
    app.state = "Running"
    partition.timers.cancel(("complete", app.app_id))


def note_start(partition: PartitionOracle, app: AppRecord, now: float) -> None:
    """Record that the application starts in a state-aware leaf, or has started (spec § 5.2)."""
    leaf = partition.queues[app.queue]
    if app.starts_until is not None:
        app.starts_until = None
    elif (
        app.state == "Accepted"
        and leaf.app_order == "stateaware"
        and not partition.as_fifo
        and app.tags.get(NO_STARTING_TAG) != "true"
    ):
        for other in partition.apps.values():
            if other.queue == app.queue:
                other.starts_until = None
        app.starts_until = now + STARTING_SECONDS


def note_placeholder(
    partition: PartitionOracle, app: AppRecord, now: float, *, decided: bool = False
) -> None:
    """Record a placed placeholder: its timeout begins, and the gang may be complete (§§ 6.3, 6.7).

    In a state-aware leaf the application starts when its gang is complete; before that it is tried as the
    oldest accepted one.
    """
    timer = ("placeholders", app.app_id)
    if timer not in partition.timers:
        partition.timers.set(timer, now + app.gang.timeout)
    complete = covers(app)
    if decided and (complete or app.starts_until is not None):
        note_start(partition, app, now)
    if app.state in ("Accepted", "Completing") and complete:
        run(partition, app)


# Ends


def drop_ask(app: AppRecord, key: str) -> None:
    """Remove a pending ask."""
    ask = app.asks.pop(key)
    end_of(ask, TIMED_OUT)
    if ask.placeholder:
        add_to(app.withdrawn, ask.size)


def end_allocation(
    partition: PartitionOracle, app: AppRecord, key: str, now: float, gone: NodeRecord | None = None
) -> None:
    """End an allocation, perhaps with its node. Its replacement is placed, or is pending again."""
    allocation = app.allocations[key]
    pair = app.pair_of(key)
    if pair is not None and not pair.linked:
        partition.put_back(app, pair.ask.key)
    del app.allocations[key]
    node = partition.nodes.get(allocation.node_id)
    if node is not None:
        node.changed(narrowed=False)
    if pair is not None and pair.linked:
        _take_place(partition, app, pair.ask.key, allocation, now)
    if allocation.ask.fate != REPLACED:
        _note_place(partition, app, allocation.ask, node or gone, now)
    end_of(allocation.ask, TIMED_OUT)


def _note_place(
    partition: PartitionOracle, app: AppRecord, ask: AskRecord, node: NodeRecord | None, now: float
) -> None:
    """Let the next ask of its task group use the place of a member that was lost with its node."""
    root, leaf = partition.queues["root"], partition.queues[app.queue]
    place = None if node is None else note_lost(app, ask, node, levels_of(root.properties))
    if place is not None:
        partition.places.append(place)
        seconds = int(leaf.properties.get("topology.swap-seconds", "300"))
        partition.timers.set(("place", f"{app.app_id} {ask.key}"), now + seconds)


def _take_place(
    partition: PartitionOracle, app: AppRecord, key: str, gone: AllocationRecord, now: float
) -> None:
    """Place the real ask instead of a placeholder, unless the node was removed."""
    pair = app.pairs.pop(key)
    node_id = gone.node_id if pair.node_id is None else pair.node_id
    if node_id not in partition.nodes:
        app.add(pair.ask)
        return
    gone.ask.fate = REPLACED
    partition.nodes[node_id].changed()
    partition.book(app, pair.ask, node_id, ALLOCATED, gone.requested, now)
    app.allocations[key].took, app.allocations[key].passed = True, gone.passed
    partition.tell_made(app, key)
    note_start(partition, app, now)
    run(partition, app)
    look_again(partition, partition.nodes[node_id], now)


def settle(partition: PartitionOracle, app: AppRecord, now: float, *, real: bool) -> None:
    """Handle an end in the application: of a real allocation, an ask or a placeholder."""
    if not has_time(app):
        partition.timers.cancel(("placeholders", app.app_id))
    waiting = app.asks or app.pairs or app.assumed_keys()
    reals = [one for one in app.allocations.values() if not one.ask.placeholder]
    nothing = not (waiting or app.allocations)
    if app.state in ("Accepted", "Running"):
        if nothing or (real and not waiting and not reals):
            app.state = "Completing"
            app.starts_until = None
            partition.timers.set(("complete", app.app_id), now + COMPLETING_SECONDS)
    elif app.state == "Completing":
        if nothing and ("complete", app.app_id) not in partition.timers:
            leave(partition, app, now)
    elif app.state == "Resuming" and not app.allocations:
        app.state = "Accepted"
    elif app.state == "Failing" and not app.allocations:
        leave(partition, app, now)


def leave(partition: PartitionOracle, app: AppRecord, now: float) -> None:
    """Remove an application from which everything is gone."""
    partition.places = [place for place in partition.places if place.app is not app]
    del partition.apps[app.app_id]
    partition.timers.cancel(("complete", app.app_id))
    partition.timers.cancel(("placeholders", app.app_id))
    partition.clean_later(app.queue, now)


def remove(partition: PartitionOracle, app_id: str, now: float) -> None:
    """Remove an application with its contents, for the RM (spec § 5.1.3)."""
    app = partition.apps.get(app_id)
    if app is None:
        return
    for key in [*app.assumed_keys(), *app.matched_keys()]:
        partition.put_back(app, key)
    for key, allocation in app.allocations.items():
        partition.nodes[allocation.node_id].changed(narrowed=False)
        note_end(
            partition.runs,
            runs_of_users(partition.queues, partition.last_runs),
            partition.apps,
            app,
            allocation,
            now,
        )
        partition.tell_released(app, key, "STOPPED_BY_RM", f"Application {app_id} Removed")
    for pair in app.pairs.values():
        if pair.node_id is not None:
            partition.nodes[pair.node_id].changed(narrowed=False)
    leave(partition, app, now)


# Requests to stop


def stop(
    partition: PartitionOracle,
    app: AppRecord,
    key: str,
    message: str,
    *,
    preempted: bool = False,
    counts: bool = True,
) -> None:
    """Request the RM to stop an allocation, with or without a preempting ask.

    A placeholder that `counts` is timed out from then on, others once they have ended (spec § 6.5a).
    """
    pair = app.pair_of(key)
    if pair is not None:
        partition.put_back(app, pair.ask.key)
    allocation = app.allocations[key]
    allocation.state = PREEMPTING if preempted else RELEASING
    if counts:
        end_of(allocation.ask, TIMED_OUT)
    why = "PREEMPTED_BY_SCHEDULER" if preempted else "TIMEOUT"
    partition.tell_released(app, key, why, message)


def _stop_placeholders(partition: PartitionOracle, app: AppRecord, message: str) -> None:
    """Stop all placeholders that no real ask replaces; asks wait no longer for cancelled ones."""
    live = [key for key, one in app.allocations.items() if one.state == PLACEHOLDER]
    for key in live:
        stop(partition, app, key, message)
    for one in booked_placeholders(app):
        if app.pair_of(one.ask.key) is None:
            end_of(one.ask, TIMED_OUT)


def placeholders_overdue(partition: PartitionOracle, app: AppRecord, now: float) -> None:
    """Handle the timeout of placeholders (spec § 6.8)."""
    if app.state == "Accepted":
        app.state = "Failing" if app.gang.hard else "Resuming"
        app.starts_until = None
        app.terms = None
        partition.places = [place for place in partition.places if place.app is not app]
        _stop_placeholders(partition, app, STOPPING_BOOKED)
        _drop_and_tell(partition, app, reals=True)
    else:
        _stop_placeholders(partition, app, STOPPING_BOOKED)
        _drop_and_tell(partition, app, reals=False)
    if not booked_placeholders(app):
        settle(partition, app, now, real=False)


def _drop_and_tell(partition: PartitionOracle, app: AppRecord, *, reals: bool) -> None:
    """Drop asks in order and inform the RM: placeholders without a node, or all asks."""
    for key in [*app.assumed_keys(), *app.matched_keys()]:
        if reals or app.waiting_ask(key).placeholder:
            partition.put_back(app, key)
    linked = [pair.ask for pair in app.pairs.values()] if reals else []
    wanted = [*app.asks.values(), *linked]
    for ask in sorted(wanted, key=lambda ask: ask.place):
        if reals or ask.placeholder:
            if ask.key in app.pairs:
                cut(partition, app, ask.key)
            else:
                drop_ask(app, ask.key)
            partition.tell_released(app, ask.key, "TIMEOUT", STOPPING_PENDING)


def cut(partition: PartitionOracle, app: AppRecord, key: str) -> None:
    """Remove a linked real ask, and stop its placeholder without a replacement."""
    node_id = app.pairs[key].node_id
    unlink(app, key)
    if node_id is not None:
        partition.nodes[node_id].changed(narrowed=False)


def completing_is_over(partition: PartitionOracle, app: AppRecord, now: float) -> None:
    """Handle the end of the completing time; placeholders are ended first (spec § 6.9)."""
    _stop_placeholders(partition, app, STOPPING_COMPLETE)
    if not app.allocations:
        leave(partition, app, now)
