"""Facts about nodes, and about queues and their limits (spec §§ 4.14, 7.8, 10.9).

Where the cluster's size changed, root's QUEUE_MAX says so.
"""

from dataclasses import dataclass

from licorne_core.events.journal import EventChange, EventDetail, EventRecord, EventType
from licorne_core.values.ids import AllocationKey, NodeId, QueuePath
from licorne_core.values.resources import EMPTY, Resources


@dataclass(frozen=True, slots=True)
class QueueAdded:
    """A queue was added."""

    time: float
    path: QueuePath
    managed: bool

    count = 1

    def records(self) -> list[EventRecord]:
        """QUEUE add, with the detail QUEUE_DYNAMIC if no configuration names it."""
        return [_of_queue(self.time, self.path, EventChange.ADD, _origin(self.managed))]


@dataclass(frozen=True, slots=True)
class QueueRemoved:
    """A queue was removed."""

    time: float
    path: QueuePath
    managed: bool

    count = 1

    def records(self) -> list[EventRecord]:
        """QUEUE remove, with the detail that it was added with."""
        return [_of_queue(self.time, self.path, EventChange.REMOVE, _origin(self.managed))]


@dataclass(frozen=True, slots=True)
class QueueTypeChanged:
    """A leaf became a parent, or a parent a leaf."""

    time: float
    path: QueuePath
    is_leaf: bool

    count = 1

    def records(self) -> list[EventRecord]:
        """QUEUE_TYPE set."""
        message = f"leaf queue: {'true' if self.is_leaf else 'false'}"
        detail = EventDetail.QUEUE_TYPE
        return [_of_queue(self.time, self.path, EventChange.SET, detail, message)]


@dataclass(frozen=True, slots=True)
class QueueMaxChanged:
    """A queue has another maximum; empty for none."""

    time: float
    path: QueuePath
    size: Resources

    count = 1

    def records(self) -> list[EventRecord]:
        """QUEUE_MAX set."""
        return [size_record(self.time, self.path, EventDetail.QUEUE_MAX, self.size)]


@dataclass(frozen=True, slots=True)
class QueueGuaranteedChanged:
    """A queue has another guarantee; empty for none."""

    time: float
    path: QueuePath
    size: Resources

    count = 1

    def records(self) -> list[EventRecord]:
        """QUEUE_GUARANTEED set."""
        return [size_record(self.time, self.path, EventDetail.QUEUE_GUARANTEED, self.size)]


@dataclass(frozen=True, slots=True)
class LimitSet:
    """A limit of a user or group in a queue is new or changed; `kind` is ``user`` or ``group``."""

    time: float
    kind: str
    name: str
    path: QueuePath
    size: Resources

    count = 1

    def records(self) -> list[EventRecord]:
        """UG_USER_LIMIT or UG_GROUP_LIMIT set."""
        set_, size = EventChange.SET, self.size
        return [_of_limit(self.time, self.kind, self.name, self.path, set_, size)]


@dataclass(frozen=True, slots=True)
class LimitRemoved:
    """The limit of a user or group in a queue was removed; `kind` is ``user`` or ``group``."""

    time: float
    kind: str
    name: str
    path: QueuePath

    count = 1

    def records(self) -> list[EventRecord]:
        """UG_USER_LIMIT or UG_GROUP_LIMIT remove."""
        removed = EventChange.REMOVE
        return [_of_limit(self.time, self.kind, self.name, self.path, removed, EMPTY)]


def size_record(time: float, path: QueuePath, detail: EventDetail, size: Resources) -> EventRecord:
    """The event that tells a queue's maximum or guarantee."""
    return EventRecord(
        type=EventType.QUEUE,
        object_id=path,
        time=time,
        change=EventChange.SET,
        detail=detail,
        resource=size,
    )


def _origin(managed: bool) -> EventDetail:
    return EventDetail.DETAILS_NONE if managed else EventDetail.QUEUE_DYNAMIC


def _of_queue(
    time: float, path: QueuePath, change: EventChange, detail: EventDetail, message: str = ""
) -> EventRecord:
    return EventRecord(
        type=EventType.QUEUE,
        object_id=path,
        time=time,
        change=change,
        detail=detail,
        message=message,
    )


def _of_limit(
    time: float, kind: str, name: str, path: QueuePath, change: EventChange, size: Resources
) -> EventRecord:
    user = kind == "user"
    return EventRecord(
        type=EventType.USERGROUP,
        object_id=name,
        reference_id=path,
        time=time,
        change=change,
        detail=EventDetail.UG_USER_LIMIT if user else EventDetail.UG_GROUP_LIMIT,
        resource=size,
    )


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
