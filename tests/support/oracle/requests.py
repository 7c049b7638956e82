"""What asks, existing allocations and releases do to a partition (spec §§ 1.6.11, 5.3, 11.3)."""

from licorne_core.asks import Ask
from licorne_core.commands import ReleaseRequest, TerminationType
from support.oracle.books import (
    AllocationRecord,
    Amounts,
    AppRecord,
    AskRecord,
    ReservationRecord,
)
from support.oracle.partition import PartitionOracle


def take_ask(partition: PartitionOracle, ask: Ask, now: float) -> None:
    """Take an ask, or an allocation that exists already."""
    size = {name: value for name, value in ask.ask_class.resources.items() if value}
    if not size or min(size.values()) < 0:
        return
    if "foreign" in ask.tags:
        _take_foreign(partition, ask, size)
        return
    app = partition.apps.get(ask.app_id)
    if app is None:
        return
    if ask.key in app.assumed_keys():
        changes = ask.node_id is not None or size != app.allocations[ask.key].ask.size
        if not changes:
            return
        partition.put_back(app, ask.key)
    if ask.key in app.allocations:
        _resize_allocation(partition, app.allocations[ask.key], size)
    elif ask.node_id is not None:
        if ask.node_id in partition.nodes:
            record = app.asks.pop(ask.key, None) or _new_ask(app, ask, size, now)
            record.size = size
            record.reservation = None
            app.allocations[ask.key] = AllocationRecord(record, ask.node_id)
            partition.nodes[ask.node_id].changed()
            _start(partition, app, "Running")
            partition.put_back_unfitting(partition.nodes[ask.node_id])
    elif ask.key in app.asks:
        _resize(partition, app, app.asks[ask.key], size)
    else:
        app.add(_new_ask(app, ask, size, now))
        _start(partition, app, "Accepted" if app.state in ("New", "Accepted") else "Running")


def _resize(partition: PartitionOracle, app: AppRecord, ask: AskRecord, size: Amounts) -> None:
    """A pending ask of another size; the node that is reserved for it must be able to hold it."""
    if ask.size == size:
        return
    del app.asks[ask.key]
    ask.size = size
    ask.attempted = False
    app.add(ask)
    kept = ask.reservation
    if kept is not None:
        stays = ask.required_node is not None or partition.nodes[kept.node_id].holds(size)
        # Another one from then on, if another class: answers about the old size mean nothing to it.
        ask.reservation = ReservationRecord(kept.node_id, kept.since) if stays else None


def _resize_allocation(
    partition: PartitionOracle, allocation: AllocationRecord, size: Amounts
) -> None:
    if allocation.ask.size != size:
        allocation.ask.size = size
        partition.nodes[allocation.node_id].changed()
        partition.put_back_unfitting(partition.nodes[allocation.node_id])


def _new_ask(app: AppRecord, ask: Ask, size: Amounts, now: float) -> AskRecord:
    created = now if ask.create_time is None else ask.create_time
    app.submitted = min(app.submitted, created)
    app.arrivals += 1
    required, predicate = ask.ask_class.required_node, ask.ask_class.predicate
    return AskRecord(ask.key, size, ask.priority, created, app.arrivals, required, predicate)


def _start(partition: PartitionOracle, app: AppRecord, state: str) -> None:
    app.state = state
    partition.timers.cancel(("complete", app.app_id))


def _take_foreign(partition: PartitionOracle, ask: Ask, size: Amounts) -> None:
    if ask.node_id in partition.nodes:
        _drop_foreign(partition, ask.key)
        partition.nodes[ask.node_id].foreign[ask.key] = size
        partition.nodes[ask.node_id].changed()
        partition.put_back_unfitting(partition.nodes[ask.node_id])


def _drop_foreign(partition: PartitionOracle, key: str) -> None:
    for node in partition.nodes.values():
        if node.foreign.pop(key, None) is not None:
            node.changed(narrowed=False)


def release(partition: PartitionOracle, request: ReleaseRequest, now: float) -> None:
    """Free what the request names; TIMEOUT leaves asks alone (spec § 1.6.11)."""
    app = partition.apps.get(request.app_id)
    if not request.app_id:
        _drop_foreign(partition, request.key)
    elif app is not None:
        _release_of(partition, app, request, now)


def _release_of(
    partition: PartitionOracle, app: AppRecord, request: ReleaseRequest, now: float
) -> None:
    """What is assumed is an ask to the RM, and a release means it as such."""
    for key in app.assumed_keys():
        if request.key in ("", key):
            partition.put_back(app, key)
    if request.termination is TerminationType.SCHEDULING_FAILED_ON_RM:
        _ask_back(partition, app, request.key)
    else:
        _free(partition, app, request, now)


def _ask_back(partition: PartitionOracle, app: AppRecord, key: str) -> None:
    """The RM could not run it: the ask waits again, behind its equals."""
    if key in app.allocations and app.state in ("Accepted", "Running"):
        app.arrivals += 1
        allocation = app.allocations.pop(key)
        partition.nodes[allocation.node_id].changed(narrowed=False)
        allocation.ask.arrival = app.arrivals
        allocation.ask.told = allocation.ask.attempted = False
        app.add(allocation.ask)


def _free(partition: PartitionOracle, app: AppRecord, request: ReleaseRequest, now: float) -> None:
    had = len(app.asks) + len(app.allocations)
    for key in [request.key] if request.key else [*app.asks, *app.allocations]:
        allocation = app.allocations.pop(key, None)
        if allocation is not None:
            partition.nodes[allocation.node_id].changed(narrowed=False)
        if request.termination is not TerminationType.TIMEOUT:
            app.asks.pop(key, None)
    if len(app.asks) + len(app.allocations) < had:
        partition.settle(app, now)
