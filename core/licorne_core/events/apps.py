"""Facts about applications (spec §§ 4.12, 5.1, 10.6, 12.1.4-5)."""

from dataclasses import dataclass
from enum import Enum

from licorne_core.events.journal import EventChange, EventDetail, EventRecord, EventType
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

_DETAILS = {
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


@dataclass(frozen=True, slots=True)
class AppAdded:
    """An application was accepted into a queue; `group` is empty if it counts for none."""

    time: float
    app_id: AppId
    queue: QueuePath
    group: str

    @property
    def count(self) -> int:
        """2, or 3 with a group."""
        return 2 + bool(self.group)

    def records(self) -> list[EventRecord]:
        """APP_NEW add, QUEUE_APP add, UG_APP_LINK set."""
        added = EventChange.ADD
        records = [
            _of_app(self.time, self.app_id, added, EventDetail.APP_NEW),
            _in_queue(self.time, self.app_id, added, self.queue),
        ]
        if self.group:
            records.append(_link(self.time, self.app_id, EventChange.SET, self.group))
        return records


@dataclass(frozen=True, slots=True)
class AppLeft:
    """An application left its queue, removed or terminated."""

    time: float
    app_id: AppId
    queue: QueuePath
    group: str

    @property
    def count(self) -> int:
        """2, or 3 with a group."""
        return 2 + bool(self.group)

    def records(self) -> list[EventRecord]:
        """UG_APP_LINK remove, QUEUE_APP remove, APP remove (spec § 12.1.5)."""
        removed = EventChange.REMOVE
        records = [
            _in_queue(self.time, self.app_id, removed, self.queue),
            _of_app(self.time, self.app_id, removed, EventDetail.DETAILS_NONE),
        ]
        if self.group:
            records.insert(0, _link(self.time, self.app_id, removed, self.group))
        return records


@dataclass(frozen=True, slots=True)
class GroupChanged:
    """After a reload an application, with its usage (`used`), counts for another group.

    `before` and `after` name the groups; empty for none.
    """

    time: float
    app_id: AppId
    queue: QueuePath
    before: str
    after: str
    used: Resources

    @property
    def count(self) -> int:
        """From 1 to 4."""
        return (bool(self.before) + bool(self.after)) * (1 + bool(self.used))

    def records(self) -> list[EventRecord]:
        """UG_GROUP_RESOURCE and UG_APP_LINK remove, UG_APP_LINK set, UG_GROUP_RESOURCE add."""
        records = []
        if self.before:
            if self.used:
                records.append(self._usage(EventChange.REMOVE, self.before))
            records.append(_link(self.time, self.app_id, EventChange.REMOVE, self.before))
        if self.after:
            records.append(_link(self.time, self.app_id, EventChange.SET, self.after))
            if self.used:
                records.append(self._usage(EventChange.ADD, self.after))
        return records

    def _usage(self, change: EventChange, group: str) -> EventRecord:
        return EventRecord(
            type=EventType.USERGROUP,
            object_id=group,
            reference_id=self.queue,
            time=self.time,
            change=change,
            detail=EventDetail.UG_GROUP_RESOURCE,
            resource=self.used,
        )


@dataclass(slots=True, init=False)
class StateEntered:
    """An application entered a state; `message` is the event that led there, or a reason.

    Each has several, so that it is made as lean as the facts about asks.
    """

    time: float
    app_id: AppId
    state: str
    message: str

    def __init__(self, time: float, app_id: AppId, state: str, message: str) -> None:
        """Set the time in unix seconds, as for all facts."""
        self.time = time
        self.app_id = app_id
        self.state = state
        self.message = message

    @property
    def count(self) -> int:
        """One."""
        return 1

    def records(self) -> list[EventRecord]:
        """The state's event, set."""
        detail = _DETAILS[self.state]
        return [_of_app(self.time, self.app_id, EventChange.SET, detail, self.message)]


@dataclass(frozen=True, slots=True)
class MayRunChanged:
    """An accepted application may not start because of a bound, or may start again."""

    time: float
    app_id: AppId
    bound: Bound
    may_run: bool

    count = 1

    def records(self) -> list[EventRecord]:
        """APP_CANNOTRUN_QUEUE, APP_RUNNABLE_QUEUE, or the same with QUOTA."""
        detail = _MAY_RUN[self.bound, self.may_run]
        return [_of_app(self.time, self.app_id, EventChange.NONE, detail)]


def _of_app(
    time: float, app_id: AppId, change: EventChange, detail: EventDetail, message: str = ""
) -> EventRecord:
    return EventRecord(
        type=EventType.APP,
        object_id=app_id,
        time=time,
        change=change,
        detail=detail,
        message=message,
    )


def _in_queue(time: float, app_id: AppId, change: EventChange, queue: QueuePath) -> EventRecord:
    return EventRecord(
        type=EventType.QUEUE,
        object_id=queue,
        reference_id=app_id,
        time=time,
        change=change,
        detail=EventDetail.QUEUE_APP,
    )


def _link(time: float, app_id: AppId, change: EventChange, group: str) -> EventRecord:
    return EventRecord(
        type=EventType.USERGROUP,
        object_id=group,
        reference_id=app_id,
        time=time,
        change=change,
        detail=EventDetail.UG_APP_LINK,
    )
