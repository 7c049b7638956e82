"""Queues of one partition that operators have stopped."""

from collections.abc import Mapping
from typing import Any, Final

from licorne_core.points import Extension


class QueueStops(Extension):
    """The tree has the marks of stopped queues: a new queue of such a path is stopped from its creation."""

    def take_marks(self, marks: Mapping[str, Any]) -> None:
        """Take the marks; none of the queues exists yet."""
        self.context.tree.stopped.update(marks)

    def marks(self) -> Mapping[str, Any]:
        """Stops by path, those of removed queues included."""
        return self.context.tree.stopped


KIND: Final = QueueStops
