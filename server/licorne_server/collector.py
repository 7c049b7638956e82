"""The interpreter's settings for a process that serves: garbage collection, and turns of threads.

The garbage collector runs only when there is nothing else to do.

A full pass over a million asks takes 170 ms (performance § 4). The times in here are the
process's own, not those of the server's clock: what is measured is real work.
"""

import gc
import sys
import time

YOUNG = 10_000
"""New objects after which the youngest generation is collected."""

OLD = 1_000
"""Collections of a generation after which the next older one is collected too."""

SWITCH_SECONDS = 0.0005
"""How long the loop waits for a thread that computes, such as one that reads a configuration. It
waits again after each call of the system, several times for one allocation; Python's own 5 ms would
be a tenth of a second soon."""

QUIET_SECONDS = 30.0
WORTH = 10_000
"""Commands and turns since the last pass that make another one worth while."""


class Collector:
    """Makes full passes in idle moments only."""

    def __init__(self, quiet: float = QUIET_SECONDS) -> None:
        """Leave at least `quiet` seconds between two passes. Nothing is changed before `start`."""
        self._quiet = quiet
        self._last_pass = 0.0
        self._last_work = 0
        self.passes = 0
        """Full passes that were made."""
        self.seconds = 0.0
        """Seconds that they took, during which the loop stood still."""

    def start(self) -> None:
        """Exempt what start-up has made from collection, and make automatic full passes rare.

        The loop gets the interpreter from other threads after `SWITCH_SECONDS`.
        """
        gc.collect()
        gc.freeze()
        gc.set_threshold(YOUNG, OLD, OLD)
        sys.setswitchinterval(SWITCH_SECONDS)
        self._last_pass = time.monotonic()

    def idle(self, work: int) -> None:
        """Make a pass if it is worth while: the engine is idle, and has done `work` so far."""
        now = time.monotonic()
        if work - self._last_work < WORTH or now - self._last_pass < self._quiet:
            return
        self._last_pass, self._last_work = now, work
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self.passes += 1
        self.seconds += time.monotonic() - now
