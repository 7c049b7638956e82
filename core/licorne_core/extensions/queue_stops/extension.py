"""Queues of one partition that operators have stopped."""

from collections.abc import Mapping
from typing import Any, Final

from licorne_core.points import Extension


class QueueStops(Extension):
    """Restores stops: a new queue for whose path there is a stop is stopped from its creation."""

    def take_marks(self, marks: Mapping[str, Any]) -> None:
        """Restore the marks, before any of the queues exists."""
        self.context.tree.stopped.update(marks)

    def marks(self) -> Mapping[str, Any]:
        """Stops by path, including those of removed queues."""
        return self.context.tree.stopped


KIND: Final = QueueStops
