"""Learnt runtimes of one partition: the median of what ran in a leaf with the same amounts.

A partition has them only where backfill is on. They follow from commands and times alone, and asking for one
changes nothing, so that a report never changes a decision.
"""

from collections import deque
from enum import StrEnum

from licorne_core.values.asks import Shape
from licorne_core.values.ids import QueuePath
from licorne_core.values.resources import Items

MOST_SAMPLES = 64
"""Runs of one leaf and shape that are remembered, the latest ones."""

MOST_MEDIANS = 2_000
"""Leaves and shapes with remembered runs; the one that nothing ended in for longest is forgotten."""

FEWEST_SAMPLES = 3
"""Runs before there is a median: one that failed at once says nothing of the next."""


class Confidence(StrEnum):
    """What an expected runtime, or a time that follows from several, rests on."""

    DECLARED = "declared"
    """The RM says it."""
    LEARNT = "learnt"
    """The median of what ran."""
    UNKNOWN = "unknown"
    """Nothing: there is no number."""


class _Runs:
    """The latest runs of one leaf and shape."""

    __slots__ = ("latest", "median")

    latest: deque[float]
    """In seconds, the oldest first."""
    median: float | None
    """None if it has to be found anew."""

    def __init__(self) -> None:
        """Start empty."""
        self.latest = deque(maxlen=MOST_SAMPLES)
        self.median = None


class Runtimes:
    """The learnt runtimes of a partition."""

    _runs: dict[tuple[QueuePath, Items], _Runs]
    """By leaf and amounts, without the required node; the one that ended longest ago comes first."""

    def __init__(self) -> None:
        """Know nothing."""
        self._runs = {}
        self.version = 0
        """Rises whenever some runtime may be expected to be another one."""

    def learn(self, queue: QueuePath, shape: Shape, seconds: float) -> None:
        """An allocation of the leaf and shape ran for so long, and was not stopped before its end."""
        self.version += 1
        key = (queue, shape.items)
        runs = self._runs.pop(key, None)
        if runs is None:
            runs = _Runs()
            if len(self._runs) >= MOST_MEDIANS:
                del self._runs[next(iter(self._runs))]
        self._runs[key] = runs
        runs.latest.append(max(0.0, seconds))
        runs.median = None

    def expected(
        self, queue: QueuePath, shape: Shape, declared: float | None = None
    ) -> tuple[float | None, Confidence]:
        """The runtime of an ask in seconds, None if unknown: the declared one, or else the median.

        The median of an even number of runs is the longer one of the two in the middle.
        """
        if declared is not None:
            return declared, Confidence.DECLARED
        runs = self._runs.get((queue, shape.items))
        if runs is None or len(runs.latest) < FEWEST_SAMPLES:
            return None, Confidence.UNKNOWN
        if runs.median is None:
            runs.median = sorted(runs.latest)[len(runs.latest) // 2]
        return runs.median, Confidence.LEARNT
