"""Facts about victims of preemption, and about placeholders that had to go (spec §§ 6.5, 9)."""

from dataclasses import dataclass

from licorne_core.events.journal import EventChange, EventDetail, EventRecord, EventType
from licorne_core.values.asks import Ask
from licorne_core.values.ids import NodeId, QueuePath
from licorne_core.values.resources import Resources, describe


@dataclass(frozen=True, slots=True)
class VictimPreempted:
    """The RM was asked to stop an allocation (`victim`) for an ask of `queue` (`by`)."""

    time: float
    victim: Ask
    by: Ask
    queue: QueuePath

    count = 1

    def records(self) -> list[EventRecord]:
        """REQUEST about the victim (spec § 9.4.8)."""
        text = f"Preempted by {self.by.key} from application {self.by.app_id} in {self.queue}"
        return [_request(self.time, self.victim, text)]


@dataclass(frozen=True, slots=True)
class VictimOfQuota:
    """The RM was asked to stop an allocation because `queue` exceeds its new maximum."""

    time: float
    victim: Ask
    queue: QueuePath

    count = 1

    def records(self) -> list[EventRecord]:
        """REQUEST about the victim (spec § 9.6)."""
        text = f"Preempted by Quota change enforcement process in {self.queue}"
        return [_request(self.time, self.victim, text)]


@dataclass(frozen=True, slots=True)
class NoVictimsOnRequiredNode:
    """An ask does not fit on the node that it requires, and nothing there may be stopped for it."""

    time: float
    ask: Ask
    node_id: NodeId

    count = 1

    def records(self) -> list[EventRecord]:
        """REQUEST about the ask (spec § 9.5)."""
        text = (
            f"Unschedulable request '{self.ask.key}' with required node '{self.node_id}', "
            "no preemption victim found"
        )
        return [_request(self.time, self.ask, text)]


@dataclass(frozen=True, slots=True)
class QuotaPreempted:
    """The new maximum of a queue was enforced, as far as there were allocations to stop.

    `preemptable` was to be stopped, and the victims have `claimed`. Out of the `selected` possible
    victims, `preempted` many were stopped.
    """

    time: float
    queue: QueuePath
    max: Resources
    preemptable: Resources
    claimed: Resources
    selected: int
    preempted: int

    count = 1

    def records(self) -> list[EventRecord]:
        """QUEUE_PREEMPTION set, with the maximum (spec § 9.6)."""
        text = (
            f"Quota Preemption results summary: preemptable resources: {describe(self.preemptable)}"
            f", claimed resources: {describe(self.claimed)}, selected victims: {self.selected}"
            f", preempted victims: {self.preempted}"
        )
        record = EventRecord(
            type=EventType.QUEUE,
            object_id=self.queue,
            time=self.time,
            change=EventChange.SET,
            detail=EventDetail.QUEUE_PREEMPTION,
            message=text,
            resource=self.max,
        )
        return [record]


@dataclass(frozen=True, slots=True)
class PlaceholderIncompatible:
    """A placeholder has to go because a `real` ask of its task group wants more than it has."""

    time: float
    placeholder: Ask
    real: Ask

    count = 1

    def records(self) -> list[EventRecord]:
        """REQUEST about the placeholder, with the size of the real ask (spec §§ 6.5a, 12.1.3)."""
        kept, size = self.placeholder, self.real.ask_class.resources
        text = (
            f"Task group '{kept.task_group}' in application '{kept.app_id}': "
            f"allocation resources '{describe(size)}' are not matching "
            f"placeholder '{describe(kept.ask_class.resources)}' allocation with ID '{kept.key}'"
        )
        return [_request(self.time, kept, text, size)]


def _request(time: float, ask: Ask, message: str, size: Resources | None = None) -> EventRecord:
    """An event about an ask, with the ask's own size unless another is given."""
    return EventRecord(
        type=EventType.REQUEST,
        object_id=ask.key,
        reference_id=ask.app_id,
        time=time,
        message=message,
        resource=ask.ask_class.resources if size is None else size,
    )
