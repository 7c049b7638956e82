"""Commands about applications, their outcomes, and the marks that stay of them."""

from dataclasses import dataclass
from typing import NamedTuple

from licorne_core.messages.commands import ExtensionCommand
from licorne_core.messages.effects import ExtensionEffect
from licorne_core.messages.operators import OperatorMark
from licorne_core.values.ids import AppId, PartitionName, QueuePath


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


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldApplication(ExtensionCommand):
    """An operator holds an application, or resumes it."""

    partition: str
    app_id: AppId
    held: bool
    mark: OperatorMark


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeApplication(ExtensionCommand):
    """An operator gives an application another priority, or one that waits another leaf.

    `priority` None leaves it, unless `reset_priority` gives each ask its own again. An empty `queue`
    leaves it where it is.
    """

    partition: str
    app_id: AppId
    priority: int | None = None
    reset_priority: bool = False
    queue: str = ""
    mark: OperatorMark


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationHeld(ExtensionEffect):
    """An application is held, or is not any more. `changed` is False if it was so before.

    `asks` wait, and `allocations` go on.
    """

    changed: bool
    asks: int
    allocations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationChanged(ExtensionEffect):
    """An application has these marks, and is in this queue. `changed` is False if it was so before."""

    changed: bool
    queue: QueuePath
    marks: ApplicationMarks


@dataclass(frozen=True, slots=True, kw_only=True)
class MarksEnded(ExtensionEffect):
    """Marked applications are over for good, so that nothing of their marks is needed any more."""

    applications: list[tuple[PartitionName, AppId]]
