"""The server's records of one RM: in the terms of the ledger, and as a digest."""

from typing import Any, NamedTuple

from licorne_core.model.apps.application import Application
from licorne_core.model.nodes.node import Node
from licorne_core.partitions.partition import Partition
from licorne_core.scheduler import Scheduler
from licorne_core.values.ids import RmId, bare_partition
from support.core.contents import allocations, assumed, pending, waiting
from support.wire.items import Amounts, amounts
from support.wire.tracks import Held, Occupied, Standing


class Books(NamedTuple):
    """The states of nodes, applications and allocations by id; keys are pairs with the application's id."""

    partitions: frozenset[str]
    nodes: dict[str, Standing]
    apps: dict[str, str]
    keys: dict[tuple[str, str], Held]
    foreign: dict[str, Occupied]


def partitions_of(scheduler: Scheduler, rm_id: str) -> list[Partition]:
    """The partitions of an RM, in order."""
    known = scheduler.partitions
    return [known[name] for name in sorted(known) if known[name].rm_id == RmId(rm_id)]


def books_of(scheduler: Scheduler, rm_id: str) -> Books:
    """All records that the ledger of an RM must agree with."""
    books = Books(frozenset(bare_partition(p.name) for p in partitions_of(scheduler, rm_id)), {}, {}, {}, {})
    for partition in partitions_of(scheduler, rm_id):
        for node in partition.nodes.by_id.values():
            books.nodes[node.node_id] = Standing(node.schedulable, amounts(dict(node.capacity)))
        for app in partition.applications.values():
            books.apps[app.app_id] = app.state.value
            books.keys.update(_keys(app))
        for key, holder in partition.foreign.items():
            items = holder.foreign[key].ask.ask_class.items
            books.foreign[key] = Occupied(holder.node_id, items)
    return books


def _keys(app: Application) -> dict[tuple[str, str], Held]:
    held: dict[tuple[str, str], Held] = {
        (app.app_id, key): Held(
            "",
            ask.ask_class.items,
            ask.priority,
            ask.ask_class.required_node or "",
            ask.placeholder,
        )
        for key, ask in pending(app).items()
    }
    unknown = assumed(app)
    for key, allocation in allocations(app).items():
        ask = allocation.ask
        # An assumed ask is pending for the RM until the RM agrees.
        held[app.app_id, key] = Held(
            "" if key in unknown else allocation.node_id,
            ask.ask_class.items,
            ask.priority,
            ask.ask_class.required_node or "",
            ask.placeholder,
        )
    return held


def digest(scheduler: Scheduler, rm_id: str) -> dict[str, Any]:
    """The records of an RM except counters: equal before and after commands that must change nothing."""
    report = next((rm for rm in scheduler.views.rms() if rm.rm_id == rm_id), None)
    return {
        "registration": report and (report.checksum, dict(report.extra_config)),
        "partitions": {p.name: _partition(p) for p in partitions_of(scheduler, rm_id)},
    }


def _partition(partition: Partition) -> dict[str, Any]:
    return {
        "holds": [hold.value for hold in partition.holds],
        "queues": {
            queue.path: (
                queue.state,
                queue.settings,
                queue.is_leaf,
                _amounts(queue.max or {}),
                _amounts(queue.guaranteed or {}),
                _amounts(queue.allocated),
                _amounts(queue.pending),
                sorted(queue.applications),
            )
            for queue in partition.tree.walk()
        },
        "applications": {app_id: _app(app) for app_id, app in partition.applications.items()},
        "nodes": {node_id: _node(node) for node_id, node in partition.nodes.by_id.items()},
        "completed": sorted(partition.completed),
        "rejected": sorted(partition.rejected),
        "users": _trackers(partition.limits.users),
        "groups": _trackers(partition.limits.groups),
    }


def _app(app: Application) -> Any:
    return (
        app.queue_path,
        app.state.value,
        app.submission_time,
        [(place.request.key, place.request.ask.ask_class, place.create_time) for place in waiting(app)],
        [(made.key, made.node_id, made.request_time) for made in allocations(app).values()],
        _keys(app),
    )


def _node(node: Node) -> Any:
    return (
        node.schedulable,
        dict(node.attributes),
        [_amounts(of) for of in (node.capacity, node.allocated, node.occupied, node.available)],
        sorted((held.ask.app_id, held.key) for held in node.allocations),
        sorted(node.foreign),
    )


def _trackers(book: Any) -> Any:
    return {
        name: {path: _amounts(tracker.usage) for path, tracker in trackers.items()}
        for name, trackers in book.items()
    }


def _amounts(resources: Any) -> Amounts:
    return amounts(dict(resources))
