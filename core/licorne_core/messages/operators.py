"""What operators do to applications, queues and nodes: commands, outcomes, marks, and checks of asks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from licorne_core.values.ids import AppId, PartitionName, QueuePath, RmId

APPLICATION_HELD: Final = "APPLICATION_HELD"
QUEUE_STOPPED: Final = "QUEUE_STOPPED"


class OperatorMark(NamedTuple):
    """An operator did something, at `time` in unix seconds."""

    by: str = ""
    """The caller's name."""
    time: float = 0.0
    message: str = ""
    """The reason, in the operator's words."""


UNKNOWN_MARK: Final = OperatorMark()
"""Stands for an act of which nothing was kept."""


class ApplicationMarks(NamedTuple):
    """What operators did to one application; a value without any of it stands for nothing."""

    hold: OperatorMark | None = None
    """The hold, if it is held."""
    change: OperatorMark | None = None
    """The last change of priority or queue that holds."""
    priority: int | None = None
    """The priority of all its asks; None for their own."""
    queue: QueuePath = QueuePath("")
    """The leaf that it was moved to; empty for the RM's choice."""


UNMARKED = ApplicationMarks()

Marks = Mapping[str, Mapping[tuple[PartitionName, Any], Any]]
"""What operators did to things, by the extension that knows them, their partition and their name.

It outlives the registration in which it was done. A thing of such a name has its mark from its beginning.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldApplication:
    """An operator holds an application, or resumes it."""

    rm_id: RmId
    partition: str
    app_id: AppId
    held: bool
    mark: OperatorMark


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeApplication:
    """An operator gives an application another priority, or one that waits another leaf.

    `priority` None leaves it, unless `reset_priority` gives each ask its own again. An empty `queue`
    leaves it where it is.
    """

    rm_id: RmId
    partition: str
    app_id: AppId
    priority: int | None = None
    reset_priority: bool = False
    queue: str = ""
    mark: OperatorMark


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationHeld:
    """An application is held, or is not any more. `changed` is False if it was so before.

    `asks` wait, and `allocations` go on.
    """

    rm_id: RmId
    changed: bool
    asks: int
    allocations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationChanged:
    """An application has these marks, and is in this queue. `changed` is False if it was so before."""

    rm_id: RmId
    changed: bool
    queue: QueuePath
    marks: ApplicationMarks


@dataclass(frozen=True, slots=True, kw_only=True)
class MarksEnded:
    """Marked applications are over for good, so that nothing of their marks is needed any more."""

    rm_id: RmId
    applications: Sequence[tuple[PartitionName, AppId]]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldCheck:
    """An operator holds the application."""

    app_id: AppId
    mark: OperatorMark

    code = APPLICATION_HELD
    passed = False

    def message(self) -> str:
        """The reason in one sentence, without the time of the mark."""
        return f"application {self.app_id} is held{told(self.mark)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppedQueueCheck:
    """An operator has stopped the application's queue, or one above it (spec § 4.2)."""

    queue: QueuePath
    mark: OperatorMark = UNKNOWN_MARK

    code = QUEUE_STOPPED
    passed = False

    def message(self) -> str:
        """The reason in one sentence."""
        return f"queue {self.queue} is stopped{told(self.mark)}"


def told(mark: OperatorMark) -> str:
    """The operator of a mark and the words for it, behind what was done."""
    by = f" by {mark.by}" if mark.by else " by an operator"
    return f'{by}: "{mark.message}"' if mark.message else by
