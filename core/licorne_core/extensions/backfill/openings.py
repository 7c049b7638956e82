"""Times at which asks of a leaf may start: its openings and closings (`Extension.opens`)."""

from collections.abc import Iterator
from math import inf
from typing import Final

from licorne_core.extensions.backfill.start_sets import Gate
from licorne_core.model.queues.queue import Queue
from licorne_core.scheduling.rules import CheckContext

MOST_CHANGES: Final = 128
"""Maximum number of openings and closings for which a start is planned; later ones are not searched."""

CHANGES_AT_ONE: Final = 2
"""Number of these that are derived at the cost of 1 (`start_search.py`)."""


class Openings:
    """The times at which leaves of one partition open and close for asks."""

    def __init__(self, context: CheckContext) -> None:
        """Ask the extensions of the context."""
        self._context = context

    def at(self, leaf: Queue, time: float) -> tuple[bool, float]:
        """Whether asks of the leaf may start at the time, and until when that holds at least."""
        end = inf
        for extension in self._context.opens:
            is_open, until = extension.opens(leaf, time)
            if not is_open:
                return False, until
            end = min(end, until)
        return True, end

    def is_open(self, leaf: Queue) -> bool:
        """True if asks may start in the leaf now."""
        return self.at(leaf, self._context.claims.now)[0]

    def gate(self, leaf: Queue, now: float, before: float) -> Gate | None:
        """The times `before` another at which asks of the leaf may start, as of `now`; None for any."""
        times, is_open = [-inf], list[bool]()
        for one, until in self._changes(leaf, now, before):
            is_open.append(one)
            if until < before or not one:
                times.append(until)
        if len(times) > len(is_open):
            is_open.append(False)
        self._context.claims.work += len(times) // CHANGES_AT_ONE
        return None if all(is_open) else Gate(times, is_open)

    def _changes(self, leaf: Queue, time: float, before: float) -> Iterator[tuple[bool, float]]:
        for _ in range(MOST_CHANGES):
            is_open, time = self.at(leaf, time)
            yield is_open, time
            if time >= before:
                return


def waits(gate: Gate | None, start: float) -> bool:
    """True if the gate is closed at some time until the start, which therefore waits for an opening."""
    steps = () if gate is None else zip(gate.times, gate.is_open, strict=True)
    return any(time <= start and not is_open for time, is_open in steps)
