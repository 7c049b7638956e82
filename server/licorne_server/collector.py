"""The garbage collector, kept out of the way (performance § 4: a full pass over a million asks
takes 170 ms): it runs when there is nothing else to do.
"""

import gc
import time

YOUNG = 10_000
OLD = 1_000
QUIET_SECONDS = 30.0
WORTH = 10_000
"""Commands and turns since the last pass that make another one worth while."""


class Collector:
    """Full passes in idle moments only."""

    def __init__(self, quiet: float = QUIET_SECONDS) -> None:
        """Nothing is changed before `start`; at least `quiet` seconds lie between two passes."""
        self._quiet = quiet
        self._last_pass = 0.0
        self._last_work = 0

    def start(self) -> None:
        """Set aside what start-up has made, and make full passes rare."""
        gc.collect()
        gc.freeze()
        gc.set_threshold(YOUNG, OLD, OLD)
        self._last_pass = time.monotonic()

    def idle(self, work: int) -> None:
        """The engine has nothing to do; `work` is how much it has done so far."""
        now = time.monotonic()
        if work - self._last_work < WORTH or now - self._last_pass < self._quiet:
            return
        self._last_pass, self._last_work = now, work
        gc.unfreeze()
        gc.collect()
        gc.freeze()
