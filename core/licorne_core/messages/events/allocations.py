"""Events of asks and allocations, victims among them (spec §§ 6.5, 8.3-8.4, 9, 12.1.3-4).

Facts of asks and allocations are created by the million. So their classes are not frozen, because freezing
takes time, and they define `__init__`, because that of a dataclass is never compiled.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from licorne_core.messages.events.apps import state_entered, usage_changed
from licorne_core.messages.events.records import EventChange, EventDetail, EventRecord, EventType
from licorne_core.values.asks import Allocation, Ask
from licorne_core.values.ids import AllocationKey, AppId, NodeId, QueuePath
from licorne_core.values.resources import Resources, describe


class Owner(NamedTuple):
    """Queue, user and group for which an allocation counts; the group is empty if there is none."""

    queue: QueuePath
    user: str
    group: str


@dataclass(slots=True, init=False)
class Asked:
    """A new ask is pending."""

    time: float
    ask: Ask

    def __init__(self, time: float, ask: Ask) -> None:
        """Set the fields; the time is in unix seconds."""
        self.time = time
        self.ask = ask

    @property
    def count(self) -> int:
        """The number of records: one."""
        return 1

    def records(self) -> list[EventRecord]:
        """The record APP_REQUEST add."""
        return [_of_ask(self.time, self.ask, EventChange.ADD, EventDetail.APP_REQUEST)]


@dataclass(slots=True, init=False)
class Placed:
    """An allocation was made or recovered. `started` is True if its application entered Running."""

    time: float
    allocation: Allocation
    owner: Owner
    started: bool

    def __init__(self, time: float, allocation: Allocation, owner: Owner, *, started: bool) -> None:
        """Set the fields; the time is in unix seconds."""
        self.time = time
        self.allocation = allocation
        self.owner = owner
        self.started = started

    @property
    def count(self) -> int:
        """The number of records: from 3 to 5."""
        return 3 + self.started + bool(self.owner.group)

    def records(self) -> list[EventRecord]:
        """NODE_ALLOC, APP_RUNNING, usage of user and group, APP_ALLOC (spec § 12.1.4)."""
        time, ask = self.time, self.allocation.ask
        records = [_on_node(time, self.allocation, EventChange.ADD)]
        if self.started:
            records.append(state_entered(time, ask.app_id, "Running", "runApplication"))
        records += _usage(time, self.owner, EventChange.ADD, ask.ask_class.resources)
        records.append(_of_ask(time, ask, EventChange.ADD, EventDetail.APP_ALLOC, self._passed()))
        return records

    def _passed(self) -> str:
        """A text about the claim that the allocation passed; empty if there is none."""
        passed = self.allocation.passed
        if passed is None:
            return ""
        return f"{passed.text}, which was planned for {passed.start:.0f}"


@dataclass(slots=True, init=False)
class Freed:
    """An allocation ended; `detail` is one of the details ALLOC_*.

    `completing` is True if its application then entered Completing, and `ask_gone` if the ask ended as well.
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
        """Set the fields; the time is in unix seconds."""
        self.time = time
        self.allocation = allocation
        self.owner = owner
        self.detail = detail
        self.completing = completing
        self.ask_gone = ask_gone

    @property
    def count(self) -> int:
        """The number of records: from 3 to 6."""
        return 3 + self.completing + self.ask_gone + bool(self.owner.group)

    def records(self) -> list[EventRecord]:
        """Usage of user and group, APP_COMPLETING, ALLOC_, NODE_ALLOC, REQUEST_CANCEL."""
        time, ask = self.time, self.allocation.ask
        records = _usage(time, self.owner, EventChange.REMOVE, ask.ask_class.resources)
        if self.completing:
            records.append(state_entered(time, ask.app_id, "Completing", "completeApplication"))
        records.append(_of_ask(time, ask, EventChange.REMOVE, self.detail))
        records.append(_on_node(time, self.allocation, EventChange.REMOVE))
        if self.ask_gone:
            records.append(cancelled(time, ask, EventDetail.REQUEST_CANCEL))
        return records


class BoundTexts(NamedTuple):
    """Texts of events for an ask that fits a limit again, and for one that exceeds the limit."""

    fits: str
    exceeds: str


USER_ROOM = BoundTexts("fits in the available user quota", "exceeds the available user quota")
"""Texts for the limits of a user and of the user's groups."""


def queue_room(path: QueuePath) -> BoundTexts:
    """Texts for the maxima of a leaf and of the queues above it."""
    return BoundTexts(f"has become schedulable in queue '{path}'", f"does not fit in queue '{path}'")


@dataclass(slots=True)
class RoomChanged:
    """An ask exceeds the `available` amounts of a limit; if they are None, it fits again.

    While a maximum is reached, the available amounts change with every allocation.
    """

    time: float
    ask: Ask
    room: BoundTexts
    available: Resources | None

    count = 1

    def records(self) -> list[EventRecord]:
        """REQUEST with the text of spec § 12.1.3."""
        text = self.room.fits
        if self.available is not None:
            wanted, available = describe(self.ask.ask_class.resources), describe(self.available)
            text = f"{self.room.exceeds} (requested {wanted}, available {available})"
        return [_request(self.time, self.ask, f"Request '{self.ask.key}' {text}")]


def cancelled(time: float, ask: Ask, detail: EventDetail) -> EventRecord:
    """REQUEST_CANCEL or REQUEST_TIMEOUT, remove: the ask was withdrawn, or timed out, by `detail`."""
    return _of_ask(time, ask, EventChange.REMOVE, detail)


def allocation_resized(time: float, owner: Owner, grown: Resources, shrunk: Resources) -> list[EventRecord]:
    """Usage of user and group, added first and then removed, because an allocation has changed its size."""
    return [
        record
        for size, change in ((grown, EventChange.ADD), (shrunk, EventChange.REMOVE))
        if size
        for record in _usage(time, owner, change, size)
    ]


def failed_on_rm(time: float, ask: Ask, failures: int, until: float) -> EventRecord:
    """REQUEST: the RM failed to run the ask this number of times in a row; its back-off ends at `until`."""
    times = "once" if failures == 1 else f"{failures} times in a row"
    delay = f"{until - time:.3f}".rstrip("0").rstrip(".")
    return _request(
        time, ask, f"Request '{ask.key}' failed at the RM {times} and is tried again in {delay} s"
    )


def predicates_refused(time: float, ask: Ask, reasons: Mapping[str, int]) -> EventRecord:
    """REQUEST: the RM refused nodes for the ask; `reasons` has numbers of nodes by reason (spec § 8.4)."""
    causes = "; ".join(f"{reason} ({times}x)" for reason, times in sorted(reasons.items()))
    return _request(time, ask, f"Unschedulable request '{ask.key}': {causes};")


def no_victims_on_required_node(time: float, ask: Ask, node_id: NodeId) -> EventRecord:
    """REQUEST: no allocation may be stopped on the node that the ask requires (spec § 9.5)."""
    text = f"Unschedulable request '{ask.key}' with required node '{node_id}', no preemption victim found"
    return _request(time, ask, text)


def victim_preempted(
    time: float, victim: Ask, key: AllocationKey, app_id: AppId, queue: QueuePath
) -> EventRecord:
    """REQUEST: the RM was asked to stop the victim for an ask of the queue (spec § 9.4.8)."""
    return _request(time, victim, f"Preempted by {key} from application {app_id} in {queue}")


def checkpoint_in_future(time: float, ask: Ask, checkpoint: float) -> EventRecord:
    """REQUEST: the RM reported a checkpoint in the future; the current time is used instead."""
    late = f"{checkpoint - time:.3f}".rstrip("0").rstrip(".")
    return _request(time, ask, f"Checkpoint lies {late} s in the future and is taken as now")


def victim_of_quota(time: float, victim: Ask, queue: QueuePath) -> EventRecord:
    """REQUEST: the RM was asked to stop the victim, because the queue exceeds its maximum (spec § 9.6)."""
    return _request(time, victim, f"Preempted by Quota change enforcement process in {queue}")


def victim_of_drain(time: float, victim: Ask, node_id: NodeId) -> EventRecord:
    """REQUEST: the RM was asked to stop the victim, because an operator drains its node."""
    return _request(time, victim, f"Preempted to drain node {node_id}")


def placeholder_incompatible(time: float, placeholder: Ask, real: Ask) -> EventRecord:
    """REQUEST: a real ask of the task group wants more than the placeholder has (§§ 6.5a, 12.1.3)."""
    size = real.ask_class.resources
    text = (
        f"Task group '{placeholder.task_group}' in application '{placeholder.app_id}': "
        f"allocation resources '{describe(size)}' are not matching "
        f"placeholder '{describe(placeholder.ask_class.resources)}' allocation with ID '{placeholder.key}'"
    )
    return _request(time, placeholder, text, size)


def _of_ask(
    time: float, ask: Ask, change: EventChange, detail: EventDetail, message: str = ""
) -> EventRecord:
    size = ask.ask_class.resources
    return EventRecord(time, EventType.APP, ask.app_id, change, detail, ask.key, message, size)


def _on_node(time: float, allocation: Allocation, change: EventChange) -> EventRecord:
    node_id, key, size = allocation.node_id, allocation.key, allocation.ask.ask_class.resources
    return EventRecord(time, EventType.NODE, node_id, change, EventDetail.NODE_ALLOC, key, resource=size)


def _request(time: float, ask: Ask, message: str, size: Resources | None = None) -> EventRecord:
    """An event about an ask, with the ask's size unless another size is given."""
    size = ask.ask_class.resources if size is None else size
    return EventRecord(
        time, EventType.REQUEST, ask.key, reference_id=ask.app_id, message=message, resource=size
    )


def _usage(time: float, owner: Owner, change: EventChange, size: Resources) -> list[EventRecord]:
    queue, user, group = owner
    records = [usage_changed(time, EventDetail.UG_USER_RESOURCE, user, queue, change, size)]
    if group:
        records.append(usage_changed(time, EventDetail.UG_GROUP_RESOURCE, group, queue, change, size))
    return records
