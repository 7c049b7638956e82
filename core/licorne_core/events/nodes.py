"""Facts about nodes (spec § 7.8). Where the cluster's size changed, root's QUEUE_MAX says so."""

from dataclasses import dataclass

from licorne_core.events.journal import EventChange, EventDetail, EventRecord, EventType
from licorne_core.events.queues import size_record
from licorne_core.values.ids import AllocationKey, NodeId, QueuePath
from licorne_core.values.resources import EMPTY, Resources

_ROOT = QueuePath("root")


@dataclass(frozen=True, slots=True)
class NodeAdded:
    """A node was added; `cluster` is the sum of all capacities with it."""

    time: float
    node_id: NodeId
    capacity: Resources
    schedulable: bool
    cluster: Resources

    count = 3

    def records(self) -> list[EventRecord]:
        """NODE_SCHEDULABLE set, QUEUE_MAX set, NODE add (spec § 12.1.4)."""
        added = "Node added to the scheduler"
        none = EventDetail.DETAILS_NONE
        return [
            _schedulable(self.time, self.node_id, schedulable=self.schedulable),
            _cluster(self.time, self.cluster),
            _of_node(self.time, self.node_id, EventChange.ADD, none, self.capacity, added),
        ]


@dataclass(frozen=True, slots=True)
class NodeRemoved:
    """A node was removed; `cluster` is the sum of the capacities that are left."""

    time: float
    node_id: NodeId
    cluster: Resources

    count = 2

    def records(self) -> list[EventRecord]:
        """QUEUE_MAX set, NODE_DECOMISSION remove."""
        removed = "Node removed from the scheduler"
        detail = EventDetail.NODE_DECOMISSION
        return [
            _cluster(self.time, self.cluster),
            _of_node(self.time, self.node_id, EventChange.REMOVE, detail, EMPTY, removed),
        ]


@dataclass(frozen=True, slots=True)
class NodeResized:
    """A node has another capacity; `cluster` is the sum of all capacities with it."""

    time: float
    node_id: NodeId
    capacity: Resources
    cluster: Resources

    count = 2

    def records(self) -> list[EventRecord]:
        """NODE_CAPACITY set, QUEUE_MAX set."""
        detail = EventDetail.NODE_CAPACITY
        return [
            _of_node(self.time, self.node_id, EventChange.SET, detail, self.capacity),
            _cluster(self.time, self.cluster),
        ]


@dataclass(frozen=True, slots=True)
class SchedulableChanged:
    """A node became schedulable, or stopped being so."""

    time: float
    node_id: NodeId
    schedulable: bool

    count = 1

    def records(self) -> list[EventRecord]:
        """NODE_SCHEDULABLE set."""
        return [_schedulable(self.time, self.node_id, schedulable=self.schedulable)]


@dataclass(frozen=True, slots=True)
class OccupiedChanged:
    """The amounts changed that other schedulers use of a node; `occupied` are the new ones."""

    time: float
    node_id: NodeId
    occupied: Resources

    count = 1

    def records(self) -> list[EventRecord]:
        """NODE_OCCUPIED set."""
        detail = EventDetail.NODE_OCCUPIED
        return [_of_node(self.time, self.node_id, EventChange.SET, detail, self.occupied)]


@dataclass(frozen=True, slots=True)
class NodeReserved:
    """A node was reserved for an ask of that size (spec § 8.5)."""

    time: float
    node_id: NodeId
    key: AllocationKey
    size: Resources

    count = 1

    def records(self) -> list[EventRecord]:
        """NODE_RESERVATION add."""
        return [_reservation(self.time, self.node_id, self.key, EventChange.ADD, self.size)]


@dataclass(frozen=True, slots=True)
class ReservationEnded:
    """A node is not reserved for an ask any more, for whatever reason."""

    time: float
    node_id: NodeId
    key: AllocationKey
    size: Resources

    count = 1

    def records(self) -> list[EventRecord]:
        """NODE_RESERVATION remove."""
        return [_reservation(self.time, self.node_id, self.key, EventChange.REMOVE, self.size)]


def _of_node(
    time: float,
    node_id: NodeId,
    change: EventChange,
    detail: EventDetail,
    size: Resources = EMPTY,
    message: str = "",
) -> EventRecord:
    return EventRecord(
        type=EventType.NODE,
        object_id=node_id,
        time=time,
        change=change,
        detail=detail,
        message=message,
        resource=size,
    )


def _schedulable(time: float, node_id: NodeId, *, schedulable: bool) -> EventRecord:
    message = f"schedulable: {'true' if schedulable else 'false'}"
    detail = EventDetail.NODE_SCHEDULABLE
    return _of_node(time, node_id, EventChange.SET, detail, message=message)


def _reservation(
    time: float, node_id: NodeId, key: AllocationKey, change: EventChange, size: Resources
) -> EventRecord:
    return EventRecord(
        type=EventType.NODE,
        object_id=node_id,
        reference_id=key,
        time=time,
        change=change,
        detail=EventDetail.NODE_RESERVATION,
        resource=size,
    )


def _cluster(time: float, cluster: Resources) -> EventRecord:
    return size_record(time, _ROOT, EventDetail.QUEUE_MAX, cluster)
