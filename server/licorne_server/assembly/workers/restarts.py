"""The back-off of one worker's restarts. Callers pass the time in seconds."""

FIRST = 0.5
"""Seconds before the second start in a row; the first is at once, as others have taken its RMs."""

MOST = 30.0
"""Maximum seconds between two starts."""

MAX_DOUBLINGS = 16

HEALTHY = 60.0
"""Seconds of service after which earlier failures are forgiven."""

LOOP = 3
"""Failures in a row, without `HEALTHY` seconds of service between them, that count as a loop."""

HOPELESS = 6
"""Failures in a row of every worker after which the supervisor ends, unless a worker serves."""


class Restarts:
    """Counts the failures of one worker."""

    count: int
    """Restarts since the supervisor's start."""

    def __init__(self) -> None:
        """Start without a failure."""
        self.count = 0
        self._row = 0
        self._ready: float | None = None

    def ready(self, now: float) -> None:
        """Note that the worker serves, from `now` on."""
        self._ready = now

    def ended(self, now: float) -> float:
        """Note that the worker has ended; returns the seconds until its next start."""
        self.look(now)
        self._ready = None
        self._row += 1
        self.count += 1
        if self._row == 1:
            return 0.0
        return min(MOST, FIRST * 2.0 ** min(self._row - 2, MAX_DOUBLINGS))

    def look(self, now: float) -> None:
        """Forgive failures if the worker has served for `HEALTHY` seconds."""
        if self._ready is not None and now - self._ready >= HEALTHY:
            self._row = 0

    @property
    def looping(self) -> bool:
        """True if the worker restarts in a loop."""
        return self._row >= LOOP

    @property
    def hopeless(self) -> bool:
        """True if the worker does not serve, and has failed too often in a row."""
        return self._ready is None and self._row >= HOPELESS
