"""How long an RM takes to answer checks: from when the question was written to when it was read."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable

KEPT = 1_024
"""Messages with checks that are remembered at least; the oldest go if nobody answers them."""


class CheckTimes:
    """When the messages with checks of one registration were written."""

    def __init__(self) -> None:
        """None was."""
        # Of each message the number of its last check, which rises, and when it was written.
        self._written: list[tuple[int, float]] = []

    def written(self, last: int, now: float) -> None:
        """A message was written whose last check has that number; a repeated one counts once.

        `now` is in unix seconds.
        """
        if self._written and last <= self._written[-1][0]:
            return
        self._written.append((last, now))
        if len(self._written) > 2 * KEPT:
            del self._written[:KEPT]

    def answered(self, checks: Iterable[int], now: float) -> list[tuple[float, int]]:
        """How many of the answers that were read now took how many seconds, by their messages.

        One to a check that was never written is left out.
        """
        written = self._written
        counts: Counter[int] = Counter()
        for check in checks:
            counts[bisect_left(written, (check,))] += 1
        return [
            (max(0.0, now - written[place][1]), count)
            for place, count in counts.items()
            if place < len(written)
        ]
