"""Changed usage of applications in one partition, for extensions that track usage."""

from collections.abc import Mapping, Sequence

from licorne_core.model.apps.application import Application
from licorne_core.model.queues.queue import Queue


class Usage:
    """Applications whose usage may have changed since the last `take`.

    All changes of one command, or of one turn, have the same time.
    """

    tracking: int
    """Bits of the extensions that currently track usage; while it is 0, nothing is recorded."""
    time: float
    """Time of the last command or turn that changed usage, in unix seconds, while an extension tracks it."""

    def __init__(self, now: float) -> None:
        """Start without tracking extensions."""
        self.tracking = 0
        self.time = now
        self.touched: dict[Application, Queue] = {}
        """Applications with their leaves."""

    def track(self, bit: int, *, on: bool) -> None:
        """Start or stop recording changes for an extension."""
        self.tracking = self.tracking | bit if on else self.tracking & ~bit

    def take(self, now: float) -> tuple[Mapping[Application, Queue], Sequence[Queue]]:
        """Return and clear the applications whose usage changed at `now`, with their queues up to root."""
        touched, self.touched = self.touched, {}
        self.time = now
        queues: dict[Queue, None] = {}
        for leaf in touched.values():
            for queue in leaf.lineage:
                if queue in queues:
                    break
                queues[queue] = None
        return touched, list(queues)
