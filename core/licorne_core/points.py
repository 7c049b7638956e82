"""The points at which a feature takes part: `Extension`, which each of `licorne_core/extensions` extends.

The kernel calls the extensions of a partition, and names none of them. They are asked in the order of the
table in `extensions/__init__.py`, at every point; nothing that they say is merged or weighted. An
extension that keeps something of an application sets its bit in the application's `interests`, and keeps
the rest by itself: where the bits are 0 the kernel asks nobody. The kernel's neutral words for what they
have to say are named at each point.
"""

from collections.abc import Iterator, Sequence

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import Request
from licorne_core.model.queues.queue import Queue
from licorne_core.scheduling.waiting.dirty import Dirty
from licorne_core.values.timers import Timer, Timers


class Extension:
    """A feature of one partition. A point that is left as it is here means nothing to the feature.

    A feature's settings are those of its `keys.py`, which the configuration reads: they are
    `queue.settings.of(NAME)`.
    """

    __slots__ = ("bit", "dirty", "name", "timers")

    def __init__(self, name: str, bit: int, dirty: Dirty, timers: Timers[Timer]) -> None:
        """Of a new partition. `bit` is its own in `interests`."""
        self.name = name
        self.bit = bit
        self.dirty = dirty
        """Where it tells what has to be tried, or ranked, anew."""
        self.timers = timers
        """Of the partition: `Timer(Due.EXTENSION, name=...)` is the one of this extension."""

    # Life of applications and requests

    def joined(self, app: Application, leaf: Queue) -> None:
        """An application without asks is in a leaf from now on."""

    def follow(self, app: Application, leaf: Queue, now: float) -> Iterator[int]:
        """Follow the settings of the leaf that the application is in, or moves to, in steps of a job."""
        return iter(())

    def entered(self, app: Application, request: Request, now: float) -> None:
        """A request of an application of interest is pending, or pending again, and counted as such."""

    def left(self, app: Application, now: float) -> None:
        """A request of an application of interest is not pending any more, as its state says."""

    def gone(self, app: Application) -> None:
        """An application of interest has ended, or its partition has: keep nothing of it."""

    # Time

    def on_deadline(self, now: float, most: int) -> int:
        """The extension's timer is due: do at most so much; return how much was done."""
        return 0

    def settle(self, now: float, most: int) -> None:
        """Follow the time before everything that waits is looked at, at most so much."""

    # Order: one extension at the most sets `app.bonus`, by `scheduling.order.raise_by`

    # Reports

    def recount(self, app: Application, pending: Sequence[Request], *, settled: bool) -> None:
        """Derive all that is kept of the application anew, and compare.

        It may be behind in the middle of a command, which is then not `settled`.

        Raises:
            InvariantBroken: something differs.
        """


Kinds = Sequence[tuple[str, type[Extension]]]
"""Extensions by their names, in the order of the table."""


def made(kinds: Kinds, dirty: Dirty, timers: Timers[Timer]) -> tuple[Extension, ...]:
    """The extensions of a new partition, in the order of the table."""
    return tuple(kind(name, 1 << number, dirty, timers) for number, (name, kind) in enumerate(kinds))
