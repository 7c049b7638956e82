"""Commands about applications, their outcomes, and their lasting marks."""

from dataclasses import dataclass
from typing import NamedTuple

from licorne_core.messages.commands import ExtensionCommand
from licorne_core.messages.effects import ExtensionEffect
from licorne_core.messages.operators import OperatorMark
from licorne_core.values.ids import AppId, PartitionName, QueuePath


class ApplicationMarks(NamedTuple):
    """Acts of operators on one application; `UNMARKED` if there are none."""

    hold: OperatorMark | None = None
    """Mark of the hold; None if the application is not held."""
    change: OperatorMark | None = None
    """Mark of the last change of priority or queue that is in force."""
    priority: int | None = None
    """The priority of all its asks; None if each has its own."""
    queue: QueuePath = QueuePath("")
    """The leaf to which the application was moved; empty if it was not moved."""


UNMARKED = ApplicationMarks()


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldApplication(ExtensionCommand):
    """An operator holds an application, or resumes it."""

    partition: str
    app_id: AppId
    held: bool
    mark: OperatorMark


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeApplication(ExtensionCommand):
    """An operator sets the priority of an application or, before it runs, moves it to another leaf.

    If `priority` is None the priority is not changed; with `reset_priority` each ask gets its own again. With
    an empty `queue` the application is not moved.
    """

    partition: str
    app_id: AppId
    priority: int | None = None
    reset_priority: bool = False
    queue: str = ""
    mark: OperatorMark


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationHeld(ExtensionEffect):
    """An application is held, or resumed. `changed` is False if nothing changed.

    `asks` wait, and `allocations` continue to run.
    """

    changed: bool
    asks: int
    allocations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationChanged(ExtensionEffect):
    """An application has these marks, and is in this queue. `changed` is False if nothing changed."""

    changed: bool
    queue: QueuePath
    marks: ApplicationMarks


@dataclass(frozen=True, slots=True, kw_only=True)
class MarksEnded(ExtensionEffect):
    """Marked applications have ended finally, so that their marks are obsolete."""

    applications: list[tuple[PartitionName, AppId]]
