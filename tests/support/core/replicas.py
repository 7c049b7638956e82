"""Replicas of the core's state: one built from events alone, and one replayed by an RM.

Both must equal the core's state. An RM replays all of its objects.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from typing import Any

from licorne_core.config import submitted
from licorne_core.messages.commands import (
    BeginReplay,
    EndReplay,
    NodeAction,
    NodeUpdate,
    RegisterRm,
    UpdateAllocations,
    UpdateApplications,
    UpdateNodes,
)
from licorne_core.messages.effects import Effect
from licorne_core.messages.events.records import EventChange, EventDetail, EventRecord, EventType
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import RequestState
from licorne_core.model.nodes.node import Node
from licorne_core.partitions.partition import Partition
from licorne_core.values.asks import Allocation, Ask
from licorne_core.values.ids import AllocationKey, NodeId, RmId, bare_partition
from licorne_core.values.resources import Items, Resources, subtract, sum_of, without_zeros
from support.core import builders
from support.core.builders import apps, asks, nodes
from support.core.contents import allocations, assumed, pending, placed_elsewhere, replacing, waiting
from support.core.driver import Driver

Tally = Counter[tuple[str, ...]]
_SIGNS = {EventChange.ADD: 1, EventChange.SET: 1, EventChange.REMOVE: -1}
_USAGE = {EventDetail.UG_USER_RESOURCE: "user", EventDetail.UG_GROUP_RESOURCE: "group"}
_STATES = {
    EventDetail.APP_ACCEPTED: "Accepted",
    EventDetail.APP_RUNNING: "Running",
    EventDetail.APP_COMPLETING: "Completing",
    EventDetail.APP_RESUMING: "Resuming",
    EventDetail.APP_FAILING: "Failing",
}


class Listener:
    """The state derived from the events of one RM: totals, last values, and outcomes of asks."""

    def __init__(self) -> None:
        """Start without events."""
        self.several = False
        self.sums: Tally = Counter()
        self.last: dict[tuple[str, str], object] = {}
        self.asks: dict[tuple[str, str], str] = {}
        self.cancelled: set[tuple[str, str]] = set()

    def hear(self, records: Iterable[EventRecord]) -> None:
        """Process these records in order."""
        for record in records:
            match record.type:
                case EventType.QUEUE:
                    self._queue(record)
                case EventType.USERGROUP:
                    self._user_or_group(record)
                case EventType.NODE:
                    self._node(record)
                case EventType.APP:
                    self._app(record)
                case EventType.REQUEST if "are not matching placeholder" in record.message:
                    self._placeholder(record)

    def _add(self, sign: int, *key: str) -> None:
        self.sums[key] += sign

    def _queue(self, record: EventRecord) -> None:
        if record.detail is EventDetail.QUEUE_APP:
            sign = _SIGNS[record.change]
            self._add(sign, "member", record.object_id, record.reference_id)
        elif record.change is not EventChange.SET:
            self._add(_SIGNS[record.change], "queue", record.object_id)
        elif record.object_id == "root" and record.detail is EventDetail.QUEUE_MAX:
            self.last["cluster", ""] = record.resource

    def _user_or_group(self, record: EventRecord) -> None:
        sign, name, about = _SIGNS[record.change], record.object_id, record.reference_id
        kind = _USAGE.get(record.detail)
        if kind is not None:
            for resource, amount in record.resource.items():
                self.sums["usage", kind, name, about, resource] += sign * amount
        elif record.detail is EventDetail.UG_APP_LINK:
            self._add(sign, "link", name, about)

    def _node(self, record: EventRecord) -> None:
        name, detail = record.object_id, record.detail
        if detail is EventDetail.NODE_ALLOC:
            self._add(_SIGNS[record.change], "on node", name, record.reference_id)
        elif detail is EventDetail.NODE_RESERVATION:
            self._add(_SIGNS[record.change], "reserved", name, record.reference_id)
        elif detail is EventDetail.DETAILS_NONE and record.change is EventChange.ADD:
            self._add(1, "node", name)
            self.last["capacity", name] = without_zeros(record.resource)
        elif detail is EventDetail.NODE_DECOMISSION:
            self._add(-1, "node", name)
            for what in ("capacity", "occupied", "schedulable"):
                self.last.pop((what, name), None)
        elif detail is EventDetail.NODE_SCHEDULABLE:
            self.last["schedulable", name] = record.message
        elif detail in (EventDetail.NODE_CAPACITY, EventDetail.NODE_OCCUPIED):
            self.last[detail.name.removeprefix("NODE_").lower(), name] = record.resource

    def _app(self, record: EventRecord) -> None:
        name, key, detail = record.object_id, record.reference_id, record.detail
        if detail is EventDetail.APP_ALLOC or detail.name.startswith("ALLOC_"):
            self._add(_SIGNS[record.change], "allocation", name, key)
            if record.change is EventChange.REMOVE:
                self.cancelled.discard((name, key))
            self.asks[name, key] = "pending" if record.change is EventChange.REMOVE else "allocated"
        elif detail is EventDetail.APP_REQUEST:
            self.asks[name, key] = "pending"
        elif detail in (EventDetail.REQUEST_CANCEL, EventDetail.REQUEST_TIMEOUT):
            self.asks.pop((name, key), None)
        elif detail is EventDetail.APP_NEW:
            self.last["state", name] = "New"
        elif detail is EventDetail.DETAILS_NONE:
            self.last.pop(("state", name), None)
        elif detail in _STATES:
            self.last["state", name] = _STATES[detail]

    def _placeholder(self, record: EventRecord) -> None:
        which = (record.reference_id, record.object_id)
        assert which not in self.cancelled, f"{which} was cancelled before"
        self.cancelled.add(which)


def sums_of(partitions: Iterable[Partition]) -> Tally:
    """The totals of one RM's partitions, in the form of a listener."""
    sums: Tally = Counter()
    for partition in partitions:
        for queue in partition.tree.walk():
            sums["queue", queue.path] += 1
            sums.update(("member", queue.path, app_id) for app_id in queue.applications)
        for node in partition.nodes.by_id.values():
            sums["node", node.node_id] += 1
            sums.update(("reserved", node.node_id, key) for _, key in node.reservations)
        for app in partition.applications.values():
            names = [("user", app.user.user)] + ([("group", app.group)] if app.group else [])
            sums.update(("link", app.group, app.app_id) for _ in range(bool(app.group)))
            for key, allocation in told_allocations(app).items():
                sums["allocation", app.app_id, key] += 1
                sums["on node", allocation.node_id, key] += 1
                for (kind, name), (resource, amount) in product(names, sizes(allocation)):
                    sums["usage", kind, name, app.queue_path, resource] += amount
    return sums


def told_allocations(app: Application) -> dict[AllocationKey, Allocation]:
    """The allocations of an application that were sent to its RM."""
    unknown = assumed(app)
    return {key: made for key, made in allocations(app).items() if key not in unknown}


def sizes(allocation: Allocation) -> Items:
    """The amounts of an allocation by name."""
    return allocation.ask.ask_class.items


def last_of(partition: Partition) -> dict[tuple[str, str], object]:
    """The last values of an RM's only partition, in the form of a listener."""
    last: dict[tuple[str, str], object] = {}
    for node in partition.nodes.by_id.values():
        last["capacity", node.node_id] = without_zeros(partition.rm.core.floating.shown(node.capacity))
        last["schedulable", node.node_id] = f"schedulable: {str(node.schedulable).lower()}"
        last["occupied", node.node_id] = node.occupied
    for app in partition.applications.values():
        last["state", app.app_id] = app.state.value
    last["cluster", ""] = partition.rm.core.floating.shown(partition.nodes.total)
    return last


def cancelled_of(partition: Partition) -> set[tuple[str, str]]:
    """The placeholders that were too small for the real asks that wait for their end."""
    return {
        (app.app_id, placeholder.key)
        for app in partition.applications.values()
        for group in app.gang.groups.values()
        for placeholder in group.cancelled
    }


def stopping_of(partition: Partition) -> set[tuple[str, str]]:
    """The placeholders that are ending without a replacement."""
    return {
        (app.app_id, request.key)
        for app in partition.applications.values()
        for request in app.requests.values()
        if request.state is RequestState.RELEASING and request.partner is None
    }


def asks_of(partition: Partition) -> dict[tuple[str, str], str]:
    """The asks of an RM's only partition, pending or allocated."""
    asks: dict[tuple[str, str], str] = {}
    for app in partition.applications.values():
        waiting = (*pending(app), *assumed(app), *replacing(app))
        asks |= {(app.app_id, key): "pending" for key in waiting}
        asks |= {(app.app_id, key): "allocated" for key in told_allocations(app)}
    return asks


FORCED = "application.create.force"
"""The tag of replayed applications with allocations, which must not be rejected."""


def digest(partition: Partition) -> dict[str, Any]:
    """Usage, pending asks, and the place of everything."""
    known = partition.applications.values()
    return {
        "queues": {
            queue.path: (
                _less(queue.allocated, [one for app in here for one in _assumed(app)]),
                _more(queue.pending, [one for app in here for one in _unknown(app)]),
            )
            for queue in partition.tree.walk()
            for here in [[app for app in known if _is_in(app, queue.path)]]
            if queue.allocated or queue.pending
        },
        "apps": {
            app.app_id: (
                app.queue_path,
                _less(sum_of([app.allocated, app.placeholder_allocated]), _assumed(app)),
                _more(app.pending_total, _unknown(app)),
                sorted([*pending(app), *assumed(app), *replacing(app)]),
                sorted(allocations(app).keys() - assumed(app).keys()),
            )
            for app in known
        },
        "nodes": {
            node.node_id: (
                node.schedulable,
                _more(node.available, [one.ask for one in node.allocations if one in unknown]),
                sorted((a.ask.app_id, a.key) for a in node.allocations if a not in unknown),
            )
            for unknown in [{one for app in known for one in _booked_unknown(app)}]
            for node in partition.nodes.by_id.values()
        },
    }


def _assumed(app: Application) -> list[Ask]:
    """The assumed requests, which are booked in their queues, and pending for the RM."""
    return [one.ask for one in assumed(app).values()]


def _unknown(app: Application) -> list[Ask]:
    """The requests that are pending for the RM only: assumed and replacing ones."""
    return _assumed(app) + [request.ask for request in replacing(app).values()]


def _booked_unknown(app: Application) -> list[Allocation]:
    """The requests that are booked on a node, and pending for the RM."""
    return [*assumed(app).values(), *placed_elsewhere(app).values()]


def _is_in(app: Application, path: str) -> bool:
    return app.queue_path == path or app.queue_path.startswith(f"{path}.")


def _less(total: Resources, asks: Iterable[Ask]) -> dict[str, int]:
    left = subtract(total, sum_of(one.ask_class.resources for one in asks))
    return {name: value for name, value in left.items() if value}


def _more(total: Resources, asks: Iterable[Ask]) -> dict[str, int]:
    both = sum_of([total, *(one.ask_class.resources for one in asks)])
    return {name: value for name, value in both.items() if value}


def replay(driver: Driver, rm: str, config: str) -> list[Effect]:
    """Register again and replay everything, between begin and end; return the effects."""
    rm_id = RmId(rm)
    all_told = [_truth(p) for p in driver.scheduler.partitions.values() if p.rm_id == rm_id]
    driver.send(RegisterRm(rm_id=rm_id, config=submitted(config)))
    driver.send(BeginReplay(rm_id=rm_id))
    effects = [effect for commands in all_told for command in commands for effect in driver.send(command)]
    driver.send(
        EndReplay(
            rm_id=rm_id,
            nodes=sum(len(fleet.nodes) for fleet, _, _ in all_told),
            applications=sum(len(submitted.new) for _, submitted, _ in all_told),
            allocations=sum(len(known.asks) for _, _, known in all_told),
        )
    )
    return effects


def _truth(partition: Partition) -> tuple[UpdateNodes, UpdateApplications, UpdateAllocations]:
    """The RM's nodes, its applications, and their asks and allocations."""
    rm, name = partition.rm_id, bare_partition(partition.name)
    known = partition.applications.values()
    fleet = [_told_node(node, name) for node in partition.nodes.by_id.values()]
    submitted = [_told_app(here, name) for here in known]
    wanted = [one.ask for holder in partition.nodes.by_id.values() for one in holder.foreign.values()]
    for here in known:
        wanted += [
            _told(one.ask, one.request_time, one.node_id, name)
            for key, one in allocations(here).items()
            if key not in assumed(here)
        ]
        wanted += [_told(place.request.ask, place.create_time, None, name) for place in waiting(here)]
    return nodes(*fleet, rm=rm), apps(*submitted, rm=rm), asks(*wanted, rm=rm)


def _told_node(known: Node, partition: str) -> NodeUpdate:
    """A node as an RM replays it."""
    action = NodeAction.CREATE if known.schedulable else NodeAction.CREATE_DRAIN
    return builders.node(
        known.node_id,
        action,
        partition=partition,
        attributes=known.attributes,
        size=known.capacity,
    )


def _told_app(known: Application, partition: str) -> Any:
    """An application with allocations as an RM replays it: it is forced."""
    user = known.user
    new = builders.app(
        known.app_id,
        known.queue_path,
        user=user.user,
        groups=user.groups,
        partition=partition,
        tags={FORCED: "true"} if known.gang.is_wanted else {},
    )
    return replace(new, placeholder_ask=known.gang.placeholder_ask)


def _told(known: Ask, created: float, node_id: NodeId | None, partition: str) -> Ask:
    """An ask as an RM replays it."""
    return Ask(
        key=known.key,
        app_id=known.app_id,
        ask_class=known.ask_class,
        priority=known.priority,
        create_time=created,
        node_id=node_id,
        partition=partition,
        placeholder=known.placeholder,
        task_group=known.task_group,
    )
