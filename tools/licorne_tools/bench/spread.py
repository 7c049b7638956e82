"""A figure with its spread: the least, the middle and the greatest of several runs."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import floor, log10
from statistics import median

SIGNIFICANT = 3


@dataclass(frozen=True, slots=True)
class Spread:
    """Of one measure over all runs."""

    min: float
    median: float
    max: float

    @classmethod
    def of(cls, values: Iterable[float]) -> "Spread":
        """That of some values, at least one."""
        known = sorted(values)
        return cls(known[0], median(known), known[-1])

    def quoted(self, shown: Callable[[float], str] | None = None) -> str:
        """``29.4 (28.9 to 30.1)``; the middle alone where all look the same, as of a single run."""
        least, middle, greatest = map(shown or brief, (self.min, self.median, self.max))
        return middle if least == greatest else f"{middle} ({least} to {greatest})"


def brief(value: float) -> str:
    """Three significant digits, and more of whole numbers: ``29.4``, ``1,234``, ``0.144``."""
    if value == int(value):
        return f"{int(value):,}"
    decimals = max(0, SIGNIFICANT - 1 - floor(log10(abs(value))))
    return f"{value:,.{decimals}f}"


def times(ratio: float) -> str:
    """A ratio: ``1.80``."""
    return f"{ratio:.2f}"
