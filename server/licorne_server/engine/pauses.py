"""Pauses of the whole process while a copy is made: estimated, bounded and charged.

A pause grows with the memory of the process. So it is estimated before the copy is made, from the
seconds per byte of earlier ones. A copy with a pause above a bound is refused. The others are
charged: all together they take one part in a hundred of the time, after a small burst. A copy with
a longer pause than the burst is made once all before it are paid for, and is owed afterwards. So
other RMs keep their 99th percentile, however many plans are asked for.
"""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median_low
from time import monotonic, perf_counter

USUAL_RATE = 0.040 / 1024**3
"""Seconds for each byte of resident memory before any copy was made, as on a quiet machine."""

REMEMBERED = 5
REMEMBERED_SECONDS = 600.0
"""Number and age in seconds of the copies looked back at: a busy hour must not count for ever."""

PART = 0.01
"""The part of the time that all copies together may take."""

AT_ONCE = 0.05
"""Seconds that copies may take one behind the other before they are paid for."""


class Pauses:
    """Reckons, measures and charges the pauses of copies."""

    def __init__(
        self,
        most: float,
        resident: Callable[[], int],
        now: Callable[[], float] = monotonic,
        stopwatch: Callable[[], float] = perf_counter,
    ) -> None:
        """Bound a pause by `most` seconds; with 0 they are neither bounded nor charged.

        `resident` gives the memory of the process in bytes, `now` and `stopwatch` seconds.
        """
        self._most = most
        self._resident = resident
        self._now = now
        self._stopwatch = stopwatch
        # When the last copies were made, and the seconds that each took for a byte.
        self._taken: deque[tuple[float, float]] = deque(maxlen=REMEMBERED)
        # Seconds of pause that are not paid for yet, and since when that is so.
        self._debt = 0.0
        self._since = now()

    def reckoned(self) -> float:
        """The seconds that a copy would take now."""
        since = self._now() - REMEMBERED_SECONDS
        rates = [rate for time, rate in self._taken if time > since]
        # Of two the lower: one copy may have been made while something else had the processor.
        return self._resident() * median_low([USUAL_RATE, *rates])

    def problem(self) -> str:
        """The reason against a copy; empty if one may be made."""
        reckoned = self.reckoned()
        if not self._most or reckoned <= self._most:
            return ""
        # Rounded up: the process may grow until the operator has set it.
        needed = (int(reckoned * 100) + 1) / 100
        return (
            f"everybody would wait for {reckoned * 1e3:.0f} ms meanwhile, as the process has "
            f"{self._resident()} bytes, and --max-plan-pause is {self._most:g} s; "
            f"--max-plan-pause {needed:g} would allow the plan, at the cost of that wait"
        )

    def wait(self) -> float:
        """The seconds until the next copy may be made."""
        if not self._most:
            return 0.0
        self._pay()
        at_once = min(AT_ONCE, self._most)
        return max(0.0, self._debt + min(self.reckoned(), at_once) - at_once) / PART

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Measure the block as the making of a copy."""
        begin = self._stopwatch()
        try:
            yield
        finally:
            seconds = self._stopwatch() - begin
            self._pay()
            self._debt += seconds
            self._taken.append((self._since, seconds / max(1, self._resident())))

    def _pay(self) -> None:
        now = self._now()
        self._debt = max(0.0, self._debt - PART * (now - self._since))
        self._since = now
