"""Events of nodes, and of queues and their limits (spec §§ 4.14, 7.8, 10.9).

A change of the cluster's size sets root's QUEUE_MAX. `cluster` is that size: the sum of all capacities.
"""

from licorne_core.messages.events.records import EventChange, EventDetail, EventRecord, EventType
from licorne_core.values.ids import AllocationKey, NodeId, QueuePath
from licorne_core.values.resources import Resources

_ROOT = QueuePath("root")


def node_added(
    time: float, node_id: NodeId, capacity: Resources, cluster: Resources, *, schedulable: bool
) -> list[EventRecord]:
    """NODE_SCHEDULABLE set, QUEUE_MAX set, NODE add (spec § 12.1.4)."""
    return [
        schedulable_changed(time, node_id, schedulable=schedulable),
        queue_max_changed(time, _ROOT, cluster),
        EventRecord(
            time,
            EventType.NODE,
            node_id,
            EventChange.ADD,
            message="Node added to the scheduler",
            resource=capacity,
        ),
    ]


def node_removed(time: float, node_id: NodeId, cluster: Resources) -> list[EventRecord]:
    """QUEUE_MAX set, NODE_DECOMISSION remove."""
    return [
        queue_max_changed(time, _ROOT, cluster),
        EventRecord(
            time,
            EventType.NODE,
            node_id,
            EventChange.REMOVE,
            EventDetail.NODE_DECOMISSION,
            message="Node removed from the scheduler",
        ),
    ]


def node_resized(time: float, node_id: NodeId, capacity: Resources, cluster: Resources) -> list[EventRecord]:
    """NODE_CAPACITY set, QUEUE_MAX set."""
    return [
        EventRecord(
            time, EventType.NODE, node_id, EventChange.SET, EventDetail.NODE_CAPACITY, resource=capacity
        ),
        queue_max_changed(time, _ROOT, cluster),
    ]


def schedulable_changed(time: float, node_id: NodeId, *, schedulable: bool) -> EventRecord:
    """NODE_SCHEDULABLE set."""
    message = f"schedulable: {'true' if schedulable else 'false'}"
    return EventRecord(
        time, EventType.NODE, node_id, EventChange.SET, EventDetail.NODE_SCHEDULABLE, message=message
    )


def operator_acted(time: float, of: EventType, name: str, text: str) -> EventRecord:
    """NODE or QUEUE set, without details; `text` describes the act of an operator."""
    return EventRecord(time, of, name, EventChange.SET, message=text)


def occupied_changed(time: float, node_id: NodeId, occupied: Resources) -> EventRecord:
    """NODE_OCCUPIED set, with the total of the foreign allocations on the node."""
    return EventRecord(
        time, EventType.NODE, node_id, EventChange.SET, EventDetail.NODE_OCCUPIED, resource=occupied
    )


def reservation_changed(
    time: float, node_id: NodeId, key: AllocationKey, size: Resources, change: EventChange
) -> EventRecord:
    """NODE_RESERVATION add, or remove, for an ask of this size (spec § 8.5)."""
    detail = EventDetail.NODE_RESERVATION
    return EventRecord(time, EventType.NODE, node_id, change, detail, key, resource=size)


def queue_changed(time: float, path: QueuePath, change: EventChange, *, managed: bool) -> EventRecord:
    """QUEUE add, or remove, with the detail QUEUE_DYNAMIC if no configuration names the queue."""
    detail = EventDetail.DETAILS_NONE if managed else EventDetail.QUEUE_DYNAMIC
    return EventRecord(time, EventType.QUEUE, path, change, detail)


def queue_type_changed(time: float, path: QueuePath, *, is_leaf: bool) -> EventRecord:
    """QUEUE_TYPE set."""
    message = f"leaf queue: {'true' if is_leaf else 'false'}"
    return EventRecord(time, EventType.QUEUE, path, EventChange.SET, EventDetail.QUEUE_TYPE, message=message)


def queue_max_changed(time: float, path: QueuePath, size: Resources) -> EventRecord:
    """QUEUE_MAX set; an empty size means no maximum."""
    return EventRecord(time, EventType.QUEUE, path, EventChange.SET, EventDetail.QUEUE_MAX, resource=size)


def queue_guaranteed_changed(time: float, path: QueuePath, size: Resources) -> EventRecord:
    """QUEUE_GUARANTEED set; an empty size means no guarantee."""
    return EventRecord(
        time, EventType.QUEUE, path, EventChange.SET, EventDetail.QUEUE_GUARANTEED, resource=size
    )


def limit_changed(time: float, kind: str, name: str, path: QueuePath, size: Resources | None) -> EventRecord:
    """UG_USER_LIMIT or UG_GROUP_LIMIT set, for the `kind` ``user`` or ``group``; removed if size is None."""
    detail = EventDetail.UG_USER_LIMIT if kind == "user" else EventDetail.UG_GROUP_LIMIT
    if size is None:
        return EventRecord(time, EventType.USERGROUP, name, EventChange.REMOVE, detail, path)
    return EventRecord(time, EventType.USERGROUP, name, EventChange.SET, detail, path, resource=size)
