"""What operators do: marks of it, and the checks of asks that it stops."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from licorne_core.values.ids import AppId, PartitionName, QueuePath

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


Marks = Mapping[str, Mapping[tuple[PartitionName, Any], Any]]
"""What operators did to things, by the extension that knows them, their partition and their name.

It outlives the registration in which it was done. A thing of such a name has its mark from its beginning.
"""


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
