"""Somebody who only hears what happened, and keeps books of it: the core's must be the same.

Events name no partition, so an RM with several of them is only compared in what adds up.
"""

from collections import Counter
from collections.abc import Iterable
from itertools import product

from licorne_core.events.journal import EventChange, EventDetail, EventRecord, EventType
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import RequestState
from licorne_core.partitions.partition import Partition
from licorne_core.values.asks import Allocation
from licorne_core.values.ids import AllocationKey
from licorne_core.values.resources import Items, without_zeros
from support.core.requests import allocations, assumed, pending, replacing

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
    """The books of one RM's events: what adds up, what was heard last, what became of asks."""

    def __init__(self) -> None:
        """Nothing was heard yet."""
        self.several = False
        self.sums: Tally = Counter()
        self.last: dict[tuple[str, str], object] = {}
        self.asks: dict[tuple[str, str], str] = {}
        self.cancelled: set[tuple[str, str]] = set()

    def hear(self, records: Iterable[EventRecord]) -> None:
        """Take these into the books, in order."""
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
        elif record.object_id == "root":
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
        elif detail is EventDetail.DETAILS_NONE:
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
    """What the partitions of one RM have, as a listener would have added it up."""
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
    """The allocations of an application that its RM knows."""
    unknown = assumed(app)
    return {key: made for key, made in allocations(app).items() if key not in unknown}


def sizes(allocation: Allocation) -> Items:
    """The amounts of an allocation by name."""
    return allocation.ask.ask_class.items


def last_of(partition: Partition) -> dict[tuple[str, str], object]:
    """What an RM's only partition has, as a listener would have heard it last."""
    last: dict[tuple[str, str], object] = {}
    for node in partition.nodes.by_id.values():
        last["capacity", node.node_id] = without_zeros(node.capacity)
        last["schedulable", node.node_id] = f"schedulable: {str(node.schedulable).lower()}"
        last["occupied", node.node_id] = node.occupied
    for app in partition.applications.values():
        last["state", app.app_id] = app.state.value
    last["cluster", ""] = partition.nodes.total
    return last


def cancelled_of(partition: Partition) -> set[tuple[str, str]]:
    """The placeholders that real asks wait for, as they were too small for one."""
    return {
        (app.app_id, placeholder.key)
        for app in partition.applications.values()
        for group in app.gang.groups.values()
        for placeholder in group.cancelled
    }


def stopping_of(partition: Partition) -> set[tuple[str, str]]:
    """The placeholders that end, and whose place nobody takes."""
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
