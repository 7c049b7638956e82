"""Outcome of a command or a turn, gathered by kind (spec § 1.6.8)."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from licorne_core.messages.commands import LargeCommand, TerminationType
from licorne_core.messages.effects import (
    AllocationRejection,
    AllocationsMade,
    AllocationsRejected,
    AllocationsReleased,
    ApplicationsUpdated,
    ApplicationUpdate,
    Effect,
    Release,
)
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import Request
from licorne_core.partitions.jobs import CommandJob, Job, Slice
from licorne_core.partitions.partition import Partition
from licorne_core.partitions.registry import Registry, Rm
from licorne_core.scheduling.calls import Call
from licorne_core.values.asks import Allocation
from licorne_core.values.ids import NodeId, RmId
from licorne_core.values.timers import Timer

KEEPING_ON_TIMEOUT = "releasing allocated placeholders on placeholder timeout"
PENDING_ON_TIMEOUT = "releasing pending placeholders on placeholder timeout"
ON_COMPLETION = "releasing placeholders on app complete"
INCOMPATIBLE = "cancel placeholder: resource incompatible"


def make_way(app: Application, placeholder: Request, request: Request) -> Release:
    """Release of a placeholder in favour of a real request (§ 6.5b)."""
    return Release(
        app_id=app.app_id,
        key=placeholder.key,
        termination=TerminationType.PLACEHOLDER_REPLACED,
        message=f"replacing allocationKey: {request.key}",
    )


def time_out(app: Application, request: Request, message: str) -> Release:
    """Release of a placeholder, or an ask, that has timed out."""
    return Release(app_id=app.app_id, key=request.key, termination=TerminationType.TIMEOUT, message=message)


class Notifications(ABC):
    """Notifications of an RM that an extension has collected about a partition."""

    @abstractmethod
    def effect(self, partition: Partition) -> Effect:
        """All notifications as one effect."""


class Outcome:
    """State changes, releases, allocations and rejections, in the order of sending.

    Releases are first: an allocation may replace a released one.
    """

    __slots__ = ("last_updates", "made", "notifications", "rejections", "released", "updates")

    def __init__(self) -> None:
        """Start empty."""
        self.updates: list[ApplicationUpdate] = []
        self.last_updates: list[ApplicationUpdate] = []
        """State changes that follow from the releases, sent after them."""
        self.made: dict[Partition, list[Allocation]] = {}
        self.rejections: list[AllocationRejection] = []
        self.released: dict[Partition, list[Release]] = {}
        self.notifications: dict[tuple[str, Partition], Notifications] = {}
        """Notifications by extensions, by their names and partitions."""

    def release(self, partition: Partition, release: Release) -> None:
        """Add a release for the RM."""
        self.released.setdefault(partition, []).append(release)

    def effects(self, rm_id: RmId, *, made_first: bool = False) -> list[Effect]:
        """Effects: one for each kind and partition.

        With `made_first` releases follow allocations: one turn may create and stop a placeholder, and the
        RM has to get the allocation first.
        """
        effects: list[Effect] = []
        if self.updates:
            effects.append(ApplicationsUpdated(rm_id=rm_id, updates=self.updates))
        released: list[Effect] = []
        for partition, releases in self.released.items():
            name = partition.name
            released.append(AllocationsReleased(rm_id=rm_id, partition=name, releases=releases))
        made: list[Effect] = []
        for partition, some in self.made.items():
            made.append(AllocationsMade(rm_id=rm_id, partition=partition.name, allocations=some))
        effects += [*made, *released] if made_first else [*released, *made]
        if self.rejections:
            effects.append(AllocationsRejected(rm_id=rm_id, rejections=self.rejections))
        if self.notifications:
            effects += [told.effect(partition) for (_, partition), told in self.notifications.items()]
        if self.last_updates:
            effects.append(ApplicationsUpdated(rm_id=rm_id, updates=self.last_updates))
        return effects


class TimerJob(Job):
    """The work of a partition's deadline that may take more than one tick."""

    def __init__(
        self, partition: Partition, timer: Timer, work: "Callable[[TimerJob], Iterator[int]]", now: float
    ) -> None:
        """Prepare the `work` of a due deadline."""
        self.partition = partition
        self.timer = timer
        self.outcome = Outcome()
        """The outcome of the current tick."""
        self._work = work
        super().__init__(now)

    def steps(self) -> Iterator[int]:
        """Do the work; see `Job`."""
        return self._work(self)


class Firing:
    """Due deadlines of one partition that fit into a slice."""

    __slots__ = ("again", "now", "outcome", "partition", "said", "slice")

    def __init__(self, partition: Partition, now: float, slice_: Slice) -> None:
        """Start without any work done."""
        self.partition = partition
        self.now = now
        self.slice = slice_
        self.outcome = Outcome()
        self.said: list[Effect] = []
        """Effects in addition to the outcome."""
        self.again: list[Timer] = []
        """Deadlines that continue in the next tick."""


class Deadline(NamedTuple):
    """The effect of a kind of deadline: one of two functions.

    `GO_ON` has neither: it continues unfinished work.
    """

    fire: Callable[[Firing, Timer], None] | None = None
    work: Callable[[TimerJob], Iterator[int]] | None = None
    """Work in steps, as there may be very much of it."""
    on_hold: bool = True
    """False if the work waits for the end of a hold: during a replay, applications have only a part of their
    requests, and must not fail or end because of that. Work that has begun is finished.
    """


Commands = Mapping[type, Callable[[Registry, Rm, Any, float], list[Effect]]]
"""Handlers of the commands of a registered RM, by type."""
Deadlines = Mapping[str, Deadline]
"""Deadlines by kind; those of an extension by its name."""


class Answered(NamedTuple):
    """Functions that process an answer of the RM for which `Call.asker` waits."""

    judged: Callable[[Partition, Any, Collection[NodeId], float, Outcome], None]
    """The RM refuses the given nodes, and accepts the others of the check."""
    overdue: Callable[[Partition, Call, float, Outcome], None]
    """The RM has not answered in time."""


Answers = Mapping[type, Answered]
"""Functions that process answers, by the type of `Call.asker`."""
Decisions = Mapping[type, Callable[[Partition, Any, float, Outcome], Sequence[Allocation] | None]]
"""Handlers of decisions that do not place a single ask, by type."""


class OutcomeJob(CommandJob):
    """A large command whose outcome is sent with each slice."""

    def __init__(self, command: LargeCommand, slice_size: int, now: float) -> None:
        """Begin a command; see `CommandJob`."""
        self.outcome = Outcome()
        super().__init__(command, slice_size, now)

    def tell(self) -> None:
        """Convert the outcome so far into effects."""
        self.effects += self.outcome.effects(self.command.rm_id)
        self.outcome = Outcome()

    def go_on(self, now: float, slice_: Slice) -> bool:
        """Do one slice, and send its outcome; True if it was the last."""
        is_over = super().go_on(now, slice_)
        self.tell()
        return is_over
