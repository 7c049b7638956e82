"""Learnt runtimes of one partition: the time within which four of five past runs of a leaf and shape ended.

A partition has them only with backfill on. They follow from commands and times alone, and reading one changes
nothing, so that a report never changes a decision.
"""

from collections import deque
from enum import StrEnum

from licorne_core.values.asks import Shape
from licorne_core.values.ids import QueuePath
from licorne_core.values.resources import Items

MOST_SAMPLES = 64
"""Maximum number of recorded runs of one leaf and shape, the latest."""

MOST_SHAPES = 2_000
"""Maximum number of leaves and shapes with recorded runs; the one whose last end is the oldest is dropped."""

FEWEST_SAMPLES = 3
"""Minimum number of runs to learn from: a single run that failed early shows nothing about the next."""


class Confidence(StrEnum):
    """Basis of an expected runtime, or of a time that is computed from several runtimes."""

    DECLARED = "declared"
    """The RM declares the runtime with the ask."""
    LEARNT = "learnt"
    """Four of five past runs ended within it: with the median, every second planned start would be late."""
    UNKNOWN = "unknown"
    """There is no basis, and no number."""


class _Runs:
    """The latest runs of one leaf and shape."""

    __slots__ = ("expected", "latest")

    latest: deque[float]
    """Runtimes in seconds, the oldest first."""
    expected: float | None
    """The least of these runtimes that four of five do not exceed; None if it has to be derived again."""

    def __init__(self) -> None:
        """Start empty."""
        self.latest = deque(maxlen=MOST_SAMPLES)
        self.expected = None


class Runtimes:
    """The learnt runtimes of a partition."""

    _runs: dict[tuple[QueuePath, Items], _Runs]
    """Runs by leaf and amounts, without the required node; the entry with the oldest last end comes first."""

    def __init__(self) -> None:
        """Start without runs."""
        self._runs = {}
        self.version = 0
        """Rises whenever some expected runtime may have changed."""

    def learn(self, queue: QueuePath, shape: Shape, seconds: float) -> None:
        """Record a run of the leaf and shape that was not stopped before its end."""
        self.version += 1
        key = (queue, shape.items)
        runs = self._runs.pop(key, None)
        if runs is None:
            runs = _Runs()
            if len(self._runs) >= MOST_SHAPES:
                del self._runs[next(iter(self._runs))]
        self._runs[key] = runs
        runs.latest.append(max(0.0, seconds))
        runs.expected = None

    def expected(
        self, queue: QueuePath, shape: Shape, declared: float | None = None
    ) -> tuple[float | None, Confidence]:
        """The runtime of an ask in seconds: the declared or else the learnt runtime; None if unknown."""
        if declared is not None:
            return declared, Confidence.DECLARED
        runs = self._runs.get((queue, shape.items))
        if runs is None or len(runs.latest) < FEWEST_SAMPLES:
            return None, Confidence.UNKNOWN
        if runs.expected is None:
            runs.expected = sorted(runs.latest)[(4 * len(runs.latest) + 4) // 5 - 1]
        return runs.expected, Confidence.LEARNT
