"""Learnt runtimes of one partition: the time within which four of five past runs of a leaf and shape ended.

They follow from commands and times alone, and reading one changes nothing, so that a report never changes a
decision.
"""

from bisect import bisect_left, insort
from collections import deque
from enum import StrEnum
from typing import Final

from licorne_core.model.apps.application import Application
from licorne_core.values.asks import Ask, Shape
from licorne_core.values.ids import QueuePath
from licorne_core.values.resources import Items
from licorne_core.values.tags import RUNTIME

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


# Looked up once: for every allocation, a lookup in the enumeration would cost as much as two calls.
_DECLARED: Final = Confidence.DECLARED
_LEARNT: Final = Confidence.LEARNT
_UNKNOWN: Final = Confidence.UNKNOWN


class _Runs:
    """The latest runs of one leaf and shape."""

    __slots__ = ("expected", "in_order", "latest")

    def __init__(self) -> None:
        """Start empty."""
        self.latest: deque[float] = deque()
        """Runtimes in seconds, the oldest first."""
        self.in_order: list[float] = []
        """The same runtimes, the shortest first."""
        self.expected: float | None = None
        """The least of these runtimes that four of five do not exceed; None if there are too few."""


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
        latest, in_order = runs.latest, runs.in_order
        if len(latest) == MOST_SAMPLES:
            del in_order[bisect_left(in_order, latest.popleft())]
        seconds = max(0.0, seconds)
        latest.append(seconds)
        insort(in_order, seconds)
        if len(in_order) >= FEWEST_SAMPLES:
            runs.expected = in_order[(4 * len(in_order) + 4) // 5 - 1]

    def expected(self, app: Application, ask: Ask) -> tuple[float | None, Confidence]:
        """The runtime of an ask in seconds: the declared or else the learnt runtime; None if unknown."""
        declared = app.declared_runtime(ask) if RUNTIME in ask.tags or RUNTIME in app.tags else None
        if declared is not None:
            return float(declared), _DECLARED
        runs = self._runs.get((app.queue_path, ask.ask_class.items))
        if runs is None or runs.expected is None:
            return None, _UNKNOWN
        return runs.expected, _LEARNT
