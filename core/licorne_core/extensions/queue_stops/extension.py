"""Queues of one partition that operators have stopped."""

from collections.abc import Mapping
from typing import Any, Final

from licorne_core.points import Extension


class QueueStops(Extension):
    """The tree has who stopped which queue: a queue of such a path is stopped from its beginning."""

    def take_marks(self, marks: Mapping[str, Any]) -> None:
        """The tree has none of the queues yet."""
        self.context.tree.stopped.update(marks)

    def marks(self) -> Mapping[str, Any]:
        """Stops by path, of queues that are gone too."""
        return self.context.tree.stopped


KIND: Final = QueueStops
