"""Facts about queues and their limits (spec §§ 4.14, 10.9)."""

from dataclasses import dataclass

from licorne_core.events.journal import EventChange, EventDetail, EventRecord, EventType
from licorne_core.values.ids import QueuePath
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
