"""Ranges of expected starts, from the errors of earlier expectations.

An error is the ratio of the actual wait to the expected one. Four of five starts lie within a range. Its ends
are two quantiles of the latest errors of the same kind (leaf, amounts, and order of magnitude of the wait),
or of all errors if these are few. Which two depends on the number of earlier misses (adaptive conformal
inference, Gibbs and Candès 2021), so that the level also holds while loads change.
"""

from bisect import bisect_left
from collections import deque
from math import ceil, floor, log10
from typing import NamedTuple

from licorne_core.values.ids import QueuePath
from licorne_core.values.resources import Items

LEVEL = 0.8
"""Share of the starts that lie within their ranges."""

MOST_ERRORS = 128
"""Maximum number of errors of one kind, the latest; of all together, four times as many. Asks that wait at
the same time have similar errors: fewer would be those of a single backlog."""

MOST_KINDS = 2_000
"""Maximum number of kinds with errors; the one whose last error is the oldest is dropped."""

FEWEST_ERRORS = 10
"""Minimum number of errors for a range: fewer errors allow no range of 80 %."""

FEWEST_OWN = 40
"""Minimum number of errors of one kind for a range without those of others."""

GRACE = 120.0
"""Seconds that are added to both waits of an error, so that short waits make no large ratios."""

STEP = 0.02
"""Change by one miss of the share of misses that ranges allow for."""

FULL_STEP = 32
"""Most awaited starts with whole steps; with n times as many a step is an n-th. Their ranges have nearly the
same level, so that whole steps for the first of them, which are mostly hits, would change it too much."""


class Expected(NamedTuple):
    """The expected start of an ask, and the time of the expectation, both in unix seconds.

    `is_declared` is true for a shadow start by declared runtimes, which becomes no later while these hold:
    such starts have their own errors. Shadow starts by learnt runtimes share those of estimates.
    """

    queue: QueuePath
    items: Items
    is_declared: bool
    now: float
    start: float

    @property
    def wait(self) -> float:
        """The expected wait, with `GRACE`."""
        return max(0.0, self.start - self.now) + GRACE

    @property
    def kind(self) -> tuple[QueuePath, Items, bool, int]:
        """Starts of one kind have similar errors: those of short waits are several times as large."""
        return self.queue, self.items, self.is_declared, floor(log10(self.wait))


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

    def at(self, share: float) -> float:
        """The error that this share of the next errors will not exceed, between two errors in proportion."""
        position = min(max((len(self.in_order) + 1) * share - 1, 0.0), len(self.in_order) - 1)
        below = self.in_order[floor(position)]
        return below + (self.in_order[ceil(position)] - below) * (position - floor(position))


class Ranges:
    """The errors of one partition."""

    def __init__(self) -> None:
        """Start without errors."""
        self._errors: dict[tuple[QueuePath, Items, bool, int], _Errors] = {}
        self._all = {is_declared: _Errors(4 * MOST_ERRORS) for is_declared in (False, True)}
        self._missed = dict.fromkeys((False, True), 1 - LEVEL)
        """Share of the errors outside of the next range, by `is_declared`."""

    def range(self, expected: Expected) -> Range | None:
        """The range of a start, in whole seconds; None while there are too few errors."""
        errors = self._errors.get(expected.kind)
        if errors is None or len(errors.in_order) < FEWEST_OWN:
            errors = self._all[expected.is_declared]
        if len(errors.in_order) < FEWEST_ERRORS:
            return None
        outside = self._missed[expected.is_declared] / 2
        earliest, latest = (
            expected.now + max(0.0, errors.at(share) * expected.wait - GRACE)
            for share in (outside, 1 - outside)
        )
        return Range(floor(earliest), ceil(latest))

    def started(self, expected: Expected, start: float) -> None:
        """Learn the error of an ask that started at a time."""
        errors = self._errors.pop(expected.kind, None)
        if errors is None:
            errors = _Errors(MOST_ERRORS)
            if len(self._errors) >= MOST_KINDS:
                del self._errors[next(iter(self._errors))]
        self._errors[expected.kind] = errors
        error = (max(0.0, start - expected.now) + GRACE) / expected.wait
        errors.add(error)
        self._all[expected.is_declared].add(error)

    def judge(self, expected: Expected, reported: Range, start: float, awaited: int) -> None:
        """Adapt the level to a range and its start (inf if overdue), while so many starts are awaited."""
        is_missed = not reported.earliest <= start <= reported.latest
        step = STEP / max(1.0, awaited / FULL_STEP)
        missed = self._missed[expected.is_declared] + step * ((1 - LEVEL) - is_missed)
        self._missed[expected.is_declared] = min(1.0, max(0.0, missed))
