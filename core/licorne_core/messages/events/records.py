"""Records of events (spec § 12.1), and the facts that they are made of.

The core creates *facts*. A subscriber converts each to its records, the published events, in order. Most
facts are one record, made at the place of the change. The facts of asks and allocations have separate classes
(`allocations.py`), which cost almost nothing where decisions are made.
"""

from enum import Enum
from typing import Protocol

from licorne_core.values.resources import EMPTY, Resources

MAX_MESSAGE = 1024
"""Maximum characters of a retained message (spec § 12.1.1)."""


class EventType(Enum):
    """Kind of an event's subject; the values are those of the wire (spec § 1.4)."""

    REQUEST = 1
    APP = 2
    NODE = 3
    QUEUE = 4
    USERGROUP = 5


class EventChange(Enum):
    """Kind of change; the values are those of the wire."""

    NONE = 0
    SET = 1
    ADD = 2
    REMOVE = 3


class EventDetail(Enum):
    """Detail of the change; names and values are those of the wire (spec § 1.4)."""

    DETAILS_NONE = 0
    REQUEST_CANCEL = 100
    REQUEST_ALLOC = 101
    REQUEST_TIMEOUT = 102
    APP_ALLOC = 200
    APP_REQUEST = 201
    APP_REJECT = 202
    APP_NEW = 203
    APP_ACCEPTED = 204
    APP_RUNNING = 206
    APP_COMPLETING = 207
    APP_COMPLETED = 208
    APP_FAILING = 209
    APP_FAILED = 210
    APP_RESUMING = 211
    APP_EXPIRED = 212
    APP_CANNOTRUN_QUEUE = 213
    APP_RUNNABLE_QUEUE = 214
    APP_CANNOTRUN_QUOTA = 215
    APP_RUNNABLE_QUOTA = 216
    NODE_DECOMISSION = 300
    NODE_SCHEDULABLE = 302
    NODE_ALLOC = 303
    NODE_CAPACITY = 304
    NODE_OCCUPIED = 305
    NODE_RESERVATION = 306
    QUEUE_CONFIG = 400
    QUEUE_DYNAMIC = 401
    QUEUE_TYPE = 402
    QUEUE_MAX = 403
    QUEUE_GUARANTEED = 404
    QUEUE_APP = 405
    QUEUE_ALLOC = 406
    QUEUE_PREEMPTION = 407
    ALLOC_CANCEL = 500
    ALLOC_PREEMPT = 501
    ALLOC_TIMEOUT = 502
    ALLOC_REPLACED = 503
    ALLOC_NODEREMOVED = 504
    UG_USER_LIMIT = 600
    UG_GROUP_LIMIT = 601
    UG_APP_LINK = 602
    UG_USER_RESOURCE = 603
    UG_GROUP_RESOURCE = 604


class EventRecord:
    """A published event; `time` is in unix seconds, the meaning of ids depends on type (§ 12.1.2).

    A record is also a fact. It is never changed, so its amounts must not be running totals. It is not a
    dataclass, because several are made for every allocation that subscribers read. A message longer than
    `MAX_MESSAGE` is cut.
    """

    __slots__ = ("change", "detail", "message", "object_id", "reference_id", "resource", "time", "type")

    def __init__(
        self,
        time: float,
        type: EventType,
        object_id: str,
        change: EventChange = EventChange.NONE,
        detail: EventDetail = EventDetail.DETAILS_NONE,
        reference_id: str = "",
        message: str = "",
        resource: Resources = EMPTY,
    ) -> None:
        """Create the record from its fields."""
        self.type = type
        self.object_id = object_id
        self.time = time
        self.change = change
        self.detail = detail
        self.reference_id = reference_id
        self.message = message if len(message) <= MAX_MESSAGE else message[:MAX_MESSAGE]
        self.resource = resource

    def __repr__(self) -> str:
        """All fields, for failing tests and logs."""
        return (
            f"EventRecord({self.type.name}, {self.object_id!r}, {self.time!r}, "
            f"{self.change.name}, {self.detail.name}, {self.reference_id!r}, {self.message!r}, "
            f"{self.resource!r})"
        )

    @property
    def count(self) -> int:
        """One, the record itself."""
        return 1

    def records(self) -> "list[EventRecord]":
        """The record itself."""
        return [self]


class Fact(Protocol):
    """A change that the core has recorded. `count` is its number of records, without making them."""

    @property
    def time(self) -> float:
        """Time of the fact, in unix seconds."""
        ...

    @property
    def count(self) -> int:
        """Number of records that `records` returns, always the same."""
        ...

    def records(self) -> list[EventRecord]:
        """The published events, in the documented order."""
        ...
