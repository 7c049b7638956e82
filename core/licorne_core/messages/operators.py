"""Acts of operators: their marks, and the checks of the asks that they block."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from licorne_core.values.ids import AppId, PartitionName, QueuePath

APPLICATION_HELD: Final = "APPLICATION_HELD"
QUEUE_STOPPED: Final = "QUEUE_STOPPED"


class OperatorMark(NamedTuple):
    """The mark of an operator's act, at `time` in unix seconds."""

    by: str = ""
    """The caller's name."""
    time: float = 0.0
    message: str = ""
    """The reason, in the operator's words."""


UNKNOWN_MARK: Final = OperatorMark()
"""The mark of an act whose original mark was not retained."""


Marks = Mapping[str, Mapping[tuple[PartitionName, Any], Any]]
"""Marks of operators: by extension, then by partition and name of the object. A mark outlives the
registration in which it was made: a later object of that name is created with it.
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
        return f"application {self.app_id} is held{mark_text(self.mark)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppedQueueCheck:
    """An operator has stopped the application's queue, or one above it (spec § 4.2)."""

    queue: QueuePath
    mark: OperatorMark = UNKNOWN_MARK

    code = QUEUE_STOPPED
    passed = False

    def message(self) -> str:
        """The reason in one sentence."""
        return f"queue {self.queue} is stopped{mark_text(self.mark)}"


def mark_text(mark: OperatorMark) -> str:
    """The operator and the reason of a mark, to be put behind the description of the act."""
    by = f" by {mark.by}" if mark.by else " by an operator"
    return f'{by}: "{mark.message}"' if mark.message else by
