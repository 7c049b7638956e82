"""Response times of an RM to checks: from the question's write to the answer's read."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable

KEPT = 1_024
"""Messages with checks retained at least; the oldest go if they get no answers."""


class CheckTimes:
    """Write times of the messages with checks of one registration."""

    def __init__(self) -> None:
        """Start without messages."""
        # Of each message the number of its last check, which rises, and when it was written.
        self._written: list[tuple[int, float]] = []

    def written(self, last: int, now: float) -> None:
        """Record a message by the number of its last check; a repeated one counts once.

        `now` is in unix seconds.
        """
        if self._written and last <= self._written[-1][0]:
            return
        self._written.append((last, now))
        if len(self._written) > 2 * KEPT:
            del self._written[:KEPT]

    def answered(self, checks: Iterable[int], now: float) -> list[tuple[float, int]]:
        """Response times of the answers read now, as pairs of seconds and count, by message.

        An answer to a check that was never written is left out.
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
