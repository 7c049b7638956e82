"""Ranges of expected starts, from the errors of earlier expectations.

An error is the ratio of the actual wait to the expected one. Four of five starts lie within a range. Its ends
are two of the latest errors for the same leaf and amounts, or of all errors if these are few. Which two
depends on the number of earlier misses (adaptive conformal inference, Gibbs and Candès 2021), so that the
level also holds while loads change.
"""

from bisect import bisect_left
from collections import deque
from math import ceil, floor
from typing import NamedTuple

from licorne_core.values.ids import QueuePath
from licorne_core.values.resources import Items

LEVEL = 0.8
"""Share of the starts that lie within their ranges."""

MOST_ERRORS = 64
"""Maximum number of errors of one leaf and amounts, the latest; of all together, four times as many."""

MOST_KINDS = 2_000
"""Maximum number of leaves and amounts with errors; the one whose last error is the oldest is dropped."""

FEWEST_ERRORS = 10
"""Minimum number of errors for a range: fewer errors allow no range of 80 %."""

GRACE = 60.0
"""Seconds that are added to both waits of an error, so that short waits make no large ratios."""

STEP = 0.02
"""Change by one miss of the share of misses that ranges allow for."""

FULL_STEP = 32
"""Most awaited starts with whole steps; with n times as many a step is an n-th. Their ranges have nearly the
same level, so that whole steps for the first of them, which are mostly hits, would change it too much."""


class Expected(NamedTuple):
    """The expected start of an ask, and the time of the expectation, both in unix seconds.

    `is_held` distinguishes shadow starts from estimates; each kind has its own errors.
    """

    queue: QueuePath
    items: Items
    is_held: bool
    now: float
    start: float


class Range(NamedTuple):
    """The earliest and the latest start, in unix seconds."""

    earliest: float
    latest: float


class _Errors:
    """The latest errors of one kind, also in order."""

    __slots__ = ("in_order", "latest", "most")

    def __init__(self, most: int) -> None:
        self.most = most
        self.latest: deque[float] = deque()
        self.in_order: list[float] = []

    def add(self, error: float) -> None:
        if len(self.latest) == self.most:
            del self.in_order[bisect_left(self.in_order, self.latest.popleft())]
        self.latest.append(error)
        self.in_order.insert(bisect_left(self.in_order, error), error)


class Ranges:
    """The errors of one partition."""

    def __init__(self) -> None:
        """Start without errors."""
        self._errors: dict[tuple[QueuePath, Items, bool], _Errors] = {}
        self._all = {is_held: _Errors(4 * MOST_ERRORS) for is_held in (False, True)}
        self._missed = dict.fromkeys((False, True), 1 - LEVEL)
        """Share of the errors outside of the next range, for estimates and for shadow starts."""

    def range(self, expected: Expected) -> Range | None:
        """The range of a start, in whole seconds; None while there are too few errors."""
        errors = self._errors.get((expected.queue, expected.items, expected.is_held))
        if errors is None or len(errors.in_order) < FEWEST_ERRORS:
            errors = self._all[expected.is_held]
        count, outside = len(errors.in_order), self._missed[expected.is_held] / 2
        if count < FEWEST_ERRORS:
            return None
        first = max(0, floor((count + 1) * outside) - 1)
        last = min(count - 1, ceil((count + 1) * (1 - outside)) - 1)
        wait = max(0.0, expected.start - expected.now) + GRACE
        earliest, latest = (
            expected.now + max(0.0, errors.in_order[at] * wait - GRACE) for at in (first, last)
        )
        return Range(floor(earliest), ceil(latest))

    def started(self, expected: Expected, start: float) -> None:
        """Learn the error of an ask that started at a time."""
        is_held, wait = expected.is_held, max(0.0, expected.start - expected.now)
        key = (expected.queue, expected.items, is_held)
        errors = self._errors.pop(key, None)
        if errors is None:
            errors = _Errors(MOST_ERRORS)
            if len(self._errors) >= MOST_KINDS:
                del self._errors[next(iter(self._errors))]
        self._errors[key] = errors
        error = (max(0.0, start - expected.now) + GRACE) / (wait + GRACE)
        errors.add(error)
        self._all[is_held].add(error)

    def judge(self, expected: Expected, told: Range, start: float, awaited: int) -> None:
        """Adapt the level to a range and its start (inf if overdue), while so many starts are awaited."""
        is_missed, step = not told.earliest <= start <= told.latest, STEP / max(1.0, awaited / FULL_STEP)
        missed = self._missed[expected.is_held] + step * ((1 - LEVEL) - is_missed)
        self._missed[expected.is_held] = min(1.0, max(0.0, missed))
