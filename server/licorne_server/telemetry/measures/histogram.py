"""Histograms. Counting a value costs a search among some bounds, and no more.

Also here:

* gRPC calls by method and status, under the names of common gRPC dashboards.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

OLDER = (0.0001, 0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
"""The bounds that the older core's histograms have, in seconds."""

WORK = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, *OLDER[4:])
"""Bounds for durations of the server's work, in seconds; those of the older core are among them."""

WAITS = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0),
    *(60.0, 300.0, 900.0, 3600.0),
)
"""Bounds for waiting times, in seconds."""


class Histogram:
    """Number of values up to each bound, and their sum."""

    __slots__ = ("_counts", "bounds", "total")

    total: float
    """The sum of all values."""

    def __init__(self, bounds: Sequence[float]) -> None:
        """Start without values; the bounds rise."""
        self.bounds = tuple(bounds)
        self.total = 0.0
        self._counts = [0] * (len(self.bounds) + 1)

    def observe(self, value: float, times: int = 1) -> None:
        """Count a value, `times` times."""
        self._counts[bisect_left(self.bounds, value)] += times
        self.total += value * times

    @property
    def count(self) -> int:
        """Number of values."""
        return sum(self._counts)

    def cumulative(self) -> list[int]:
        """Number of values up to each bound, and in all."""
        return list(accumulate(self._counts))

    def add(self, other: "Histogram") -> None:
        """Add the values of another histogram with the same bounds."""
        self._counts = [one + more for one, more in zip(self._counts, other._counts, strict=True)]
        self.total += other.total

    def coarser(self, bounds: Sequence[float]) -> "Histogram":
        """The same values by fewer bounds, all of which are among its own."""
        other = Histogram(bounds)
        other.total = self.total
        other._counts = [0] * (len(bounds) + 1)
        for bound, count in zip((*self.bounds, float("inf")), self._counts, strict=True):
            other._counts[bisect_left(other.bounds, bound)] += count
        return other


class Method(NamedTuple):
    """A method that is served; there are as many as there are handlers."""

    service: str
    name: str
    type: str
    """``unary``, or ``bidi_stream`` or ``server_stream``."""

    @classmethod
    def of(cls, path: str, type: str) -> "Method":
        """From the path of a call, ``/package.Service/Name``."""
        service, _, name = path.removeprefix("/").rpartition("/")
        return cls(service, name, type)


class Calls:
    """Counts calls; a stream is one call, however long it is."""

    def __init__(self) -> None:
        """Start without calls."""
        self.started: Counter[Method] = Counter()
        self.handled: Counter[tuple[Method, str]] = Counter()
        """Calls that are over, by the name of their status."""
        self.seconds: dict[Method, Histogram] = {}
        """Durations of unary calls."""

    def begin(self, method: Method) -> None:
        """Count the begin of a call."""
        self.started[method] += 1

    def end(self, method: Method, code: str, seconds: float) -> None:
        """A call is over, with the status of that name."""
        self.handled[method, code] += 1
        if method.type == "unary":
            histogram = self.seconds.get(method)
            if histogram is None:
                histogram = self.seconds[method] = Histogram(WAITS)
            histogram.observe(seconds)
