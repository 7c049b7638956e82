"""Facts about asks and allocations (spec §§ 8.3-8.4, 12.1.3-4).

Their classes are not frozen, because they are made by the million and freezing takes time. Those of
every ask and allocation have an `__init__` of their own, as that of a dataclass is never compiled.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from licorne_core.events.journal import EventChange, EventDetail, EventRecord, EventType
from licorne_core.values.asks import Allocation, Ask
from licorne_core.values.ids import AppId, QueuePath
from licorne_core.values.resources import Resources, describe

_STARTED = "runApplication"
_COMPLETES = "completeApplication"


class Owner(NamedTuple):
    """Queue, user and group that an allocation counts for; empty for none."""

    queue: QueuePath
    user: str
    group: str


@dataclass(slots=True, init=False)
class Asked:
    """A new ask is pending."""

    time: float
    ask: Ask

    def __init__(self, time: float, ask: Ask) -> None:
        """Set the time in unix seconds, as for all facts."""
        self.time = time
        self.ask = ask

    @property
    def count(self) -> int:
        """One."""
        return 1

    def records(self) -> list[EventRecord]:
        """APP_REQUEST add."""
        return [_of_ask(self.time, self.ask, EventChange.ADD, EventDetail.APP_REQUEST)]


@dataclass(slots=True)
class Cancelled:
    """An ask is not wanted any more; `detail` is REQUEST_CANCEL or REQUEST_TIMEOUT."""

    time: float
    ask: Ask
    detail: EventDetail = EventDetail.REQUEST_CANCEL

    count = 1

    def records(self) -> list[EventRecord]:
        """Remove, with the detail."""
        return [_of_ask(self.time, self.ask, EventChange.REMOVE, self.detail)]


@dataclass(slots=True, init=False)
class Placed:
    """An allocation was made or taken over. `started`: its application entered Running with it."""

    time: float
    allocation: Allocation
    owner: Owner
    started: bool

    def __init__(self, time: float, allocation: Allocation, owner: Owner, *, started: bool) -> None:
        """Note the owner's usage."""
        self.time = time
        self.allocation = allocation
        self.owner = owner
        self.started = started

    @property
    def count(self) -> int:
        """From 3 to 5."""
        return 3 + self.started + bool(self.owner.group)

    def records(self) -> list[EventRecord]:
        """NODE_ALLOC, APP_RUNNING, usage of user and group, APP_ALLOC (spec § 12.1.4)."""
        time, ask = self.time, self.allocation.ask
        records = [_on_node(time, self.allocation, EventChange.ADD)]
        if self.started:
            records.append(_app_state(time, ask.app_id, EventDetail.APP_RUNNING, _STARTED))
        size = ask.ask_class.resources
        records += _usage(time, self.owner, EventChange.ADD, size)
        records.append(_of_ask(time, ask, EventChange.ADD, EventDetail.APP_ALLOC))
        return records


@dataclass(slots=True, init=False)
class Freed:
    """An allocation ended; `detail` is one of the ALLOC_ ones.

    `completing`: its application entered Completing with it. `ask_gone`: the ask ended as well.
    """

    time: float
    allocation: Allocation
    owner: Owner
    detail: EventDetail
    completing: bool
    ask_gone: bool

    def __init__(
        self,
        time: float,
        allocation: Allocation,
        owner: Owner,
        detail: EventDetail,
        *,
        completing: bool = False,
        ask_gone: bool = True,
    ) -> None:
        """Note the owner's last usage."""
        self.time = time
        self.allocation = allocation
        self.owner = owner
        self.detail = detail
        self.completing = completing
        self.ask_gone = ask_gone

    @property
    def count(self) -> int:
        """From 3 to 6."""
        return 3 + self.completing + self.ask_gone + bool(self.owner.group)

    def records(self) -> list[EventRecord]:
        """Usage of user and group, APP_COMPLETING, ALLOC_, NODE_ALLOC, REQUEST_CANCEL."""
        time, ask = self.time, self.allocation.ask
        size = ask.ask_class.resources
        records = _usage(time, self.owner, EventChange.REMOVE, size)
        if self.completing:
            records.append(_app_state(time, ask.app_id, EventDetail.APP_COMPLETING, _COMPLETES))
        records.append(_of_ask(time, ask, EventChange.REMOVE, self.detail))
        records.append(_on_node(time, self.allocation, EventChange.REMOVE))
        if self.ask_gone:
            records.append(_of_ask(time, ask, EventChange.REMOVE, EventDetail.REQUEST_CANCEL))
        return records


@dataclass(slots=True)
class Resized:
    """A running allocation has another size; `grown` and `shrunk` hold amounts above zero."""

    time: float
    owner: Owner
    grown: Resources
    shrunk: Resources

    @property
    def count(self) -> int:
        """Number of records: one for the user and one for the group, for each direction."""
        return (bool(self.grown) + bool(self.shrunk)) * (1 + bool(self.owner.group))

    def records(self) -> list[EventRecord]:
        """The usage of user and group that came, then that which went."""
        records = []
        for size, change in ((self.grown, EventChange.ADD), (self.shrunk, EventChange.REMOVE)):
            if size:
                records += _usage(self.time, self.owner, change, size)
        return records


@dataclass(slots=True)
class QueueRoomChanged:
    """An ask does not fit into its queue's headroom (`available`); with None, it fits again."""

    time: float
    ask: Ask
    queue: QueuePath
    available: Resources | None

    count = 1

    def records(self) -> list[EventRecord]:
        """REQUEST with the text of spec § 12.1.3."""
        key, wanted = self.ask.key, describe(self.ask.ask_class.resources)
        if self.available is None:
            text = f"Request '{key}' has become schedulable in queue '{self.queue}'"
        else:
            text = (
                f"Request '{key}' does not fit in queue '{self.queue}' "
                f"(requested {wanted}, available {describe(self.available)})"
            )
        return [_request(self.time, self.ask, text)]


@dataclass(slots=True)
class UserQuotaChanged:
    """An ask exceeds its user's or group's headroom (`available`); with None, it fits again."""

    time: float
    ask: Ask
    available: Resources | None

    count = 1

    def records(self) -> list[EventRecord]:
        """REQUEST with the text of spec § 12.1.3."""
        key, wanted = self.ask.key, describe(self.ask.ask_class.resources)
        if self.available is None:
            text = f"Request '{key}' fits in the available user quota"
        else:
            text = (
                f"Request '{key}' exceeds the available user quota "
                f"(requested {wanted}, available {describe(self.available)})"
            )
        return [_request(self.time, self.ask, text)]


@dataclass(slots=True)
class FailedOnRm:
    """The RM failed to run an allocation of the ask, `failures` times in a row.

    The ask is not tried before `until`, in unix seconds.
    """

    time: float
    ask: Ask
    failures: int
    until: float

    count = 1

    def records(self) -> list[EventRecord]:
        """REQUEST, with the failures in a row and the length of the back-off."""
        times = "once" if self.failures == 1 else f"{self.failures} times in a row"
        delay = f"{self.until - self.time:.3f}".rstrip("0").rstrip(".")
        text = f"Request '{self.ask.key}' failed at the RM {times} and is tried again in {delay} s"
        return [_request(self.time, self.ask, text)]


@dataclass(slots=True)
class PredicatesRefused:
    """The RM refused nodes for an ask; `reasons` has the number of nodes by reason."""

    time: float
    ask: Ask
    reasons: Mapping[str, int]

    count = 1

    def records(self) -> list[EventRecord]:
        """REQUEST with the text of spec § 8.4, reasons by name."""
        causes = "; ".join(f"{reason} ({times}x)" for reason, times in sorted(self.reasons.items()))
        text = f"Unschedulable request '{self.ask.key}': {causes};"
        return [_request(self.time, self.ask, text)]


def _of_ask(time: float, ask: Ask, change: EventChange, detail: EventDetail) -> EventRecord:
    return EventRecord(
        type=EventType.APP,
        object_id=ask.app_id,
        reference_id=ask.key,
        time=time,
        change=change,
        detail=detail,
        resource=ask.ask_class.resources,
    )


def _on_node(time: float, allocation: Allocation, change: EventChange) -> EventRecord:
    return EventRecord(
        type=EventType.NODE,
        object_id=allocation.node_id,
        reference_id=allocation.key,
        time=time,
        change=change,
        detail=EventDetail.NODE_ALLOC,
        resource=allocation.ask.ask_class.resources,
    )


def _app_state(time: float, app_id: AppId, detail: EventDetail, message: str) -> EventRecord:
    return EventRecord(
        type=EventType.APP,
        object_id=app_id,
        time=time,
        change=EventChange.SET,
        detail=detail,
        message=message,
    )


def _request(time: float, ask: Ask, message: str) -> EventRecord:
    return EventRecord(
        type=EventType.REQUEST,
        object_id=ask.key,
        reference_id=ask.app_id,
        time=time,
        message=message,
        resource=ask.ask_class.resources,
    )


def _usage(time: float, owner: Owner, change: EventChange, size: Resources) -> list[EventRecord]:
    names = [(owner.user, EventDetail.UG_USER_RESOURCE)]
    if owner.group:
        names.append((owner.group, EventDetail.UG_GROUP_RESOURCE))
    return [
        EventRecord(
            type=EventType.USERGROUP,
            object_id=name,
            reference_id=owner.queue,
            time=time,
            change=change,
            detail=detail,
            resource=size,
        )
        for name, detail in names
    ]
