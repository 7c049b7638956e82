"""Events of applications (spec §§ 4.12, 5.1, 10.6, 12.1.4-5)."""

from enum import Enum

from licorne_core.messages.events.records import EventChange, EventDetail, EventRecord, EventType
from licorne_core.values.ids import AppId, QueuePath
from licorne_core.values.resources import Resources


class Bound(Enum):
    """Kind of limit on an accepted application: queues, or limits of users and groups."""

    QUEUE = "queue"
    QUOTA = "quota"


_MAY_RUN = {
    (Bound.QUEUE, False): EventDetail.APP_CANNOTRUN_QUEUE,
    (Bound.QUEUE, True): EventDetail.APP_RUNNABLE_QUEUE,
    (Bound.QUOTA, False): EventDetail.APP_CANNOTRUN_QUOTA,
    (Bound.QUOTA, True): EventDetail.APP_RUNNABLE_QUOTA,
}

_STATES = {
    "Accepted": EventDetail.APP_ACCEPTED,
    "Running": EventDetail.APP_RUNNING,
    "Completing": EventDetail.APP_COMPLETING,
    "Completed": EventDetail.APP_COMPLETED,
    "Failing": EventDetail.APP_FAILING,
    "Failed": EventDetail.APP_FAILED,
    "Resuming": EventDetail.APP_RESUMING,
    "Rejected": EventDetail.APP_REJECT,
    "Expired": EventDetail.APP_EXPIRED,
}


def app_added(time: float, app_id: AppId, queue: QueuePath, group: str) -> list[EventRecord]:
    """APP_NEW add, QUEUE_APP add, UG_APP_LINK set; the last one only if `group` is not empty."""
    records = [
        EventRecord(time, EventType.APP, app_id, EventChange.ADD, EventDetail.APP_NEW),
        EventRecord(time, EventType.QUEUE, queue, EventChange.ADD, EventDetail.QUEUE_APP, app_id),
    ]
    if group:
        records.append(_link(time, app_id, EventChange.SET, group))
    return records


def app_left(time: float, app_id: AppId, queue: QueuePath, group: str) -> list[EventRecord]:
    """UG_APP_LINK remove, QUEUE_APP remove, APP remove (spec § 12.1.5) for a removed or ended application."""
    removed = EventChange.REMOVE
    return [
        *([_link(time, app_id, removed, group)] if group else ()),
        EventRecord(time, EventType.QUEUE, queue, removed, EventDetail.QUEUE_APP, app_id),
        EventRecord(time, EventType.APP, app_id, removed),
    ]


def app_moved(
    time: float, app_id: AppId, left: tuple[QueuePath, str], entered: tuple[QueuePath, str]
) -> list[EventRecord]:
    """UG_APP_LINK and QUEUE_APP remove, QUEUE_APP add, UG_APP_LINK set; each side is a queue and a group."""
    records = app_left(time, app_id, *left)[:-1]
    return records + app_added(time, app_id, *entered)[1:]


def operator_acted(time: float, app_id: AppId, state: str, message: str) -> list[EventRecord]:
    """The current state's event again, with the operator's act as message; none for a new application."""
    return [state_entered(time, app_id, state, message)] if state in _STATES else []


def group_changed(
    time: float, app_id: AppId, queue: QueuePath, before: str, after: str, used: Resources
) -> list[EventRecord]:
    """UG_GROUP_RESOURCE and UG_APP_LINK remove, UG_APP_LINK set, UG_GROUP_RESOURCE add.

    After a reload the application with its usage counts for another group. An empty name means no group.
    """
    detail = EventDetail.UG_GROUP_RESOURCE
    records = []
    if before:
        if used:
            records.append(usage_changed(time, detail, before, queue, EventChange.REMOVE, used))
        records.append(_link(time, app_id, EventChange.REMOVE, before))
    if after:
        records.append(_link(time, app_id, EventChange.SET, after))
        if used:
            records.append(usage_changed(time, detail, after, queue, EventChange.ADD, used))
    return records


def usage_changed(
    time: float, detail: EventDetail, name: str, queue: QueuePath, change: EventChange, size: Resources
) -> EventRecord:
    """UG_USER_RESOURCE or UG_GROUP_RESOURCE (`detail`) add, or remove."""
    return EventRecord(time, EventType.USERGROUP, name, change, detail, queue, resource=size)


def state_entered(time: float, app_id: AppId, state: str, message: str) -> EventRecord:
    """The event of the entered state, set; `message` is its cause: an application event, or a reason."""
    return EventRecord(time, EventType.APP, app_id, EventChange.SET, _STATES[state], message=message)


def may_run_changed(time: float, app_id: AppId, bound: Bound, *, may_run: bool) -> EventRecord:
    """APP_CANNOTRUN_QUEUE or APP_RUNNABLE_QUEUE of an accepted application, or the same for QUOTA."""
    return EventRecord(time, EventType.APP, app_id, detail=_MAY_RUN[bound, may_run])


def _link(time: float, app_id: AppId, change: EventChange, group: str) -> EventRecord:
    return EventRecord(time, EventType.USERGROUP, group, change, EventDetail.UG_APP_LINK, app_id)
