"""Measured load of each RM, by which members balance."""

from collections.abc import Callable, Mapping
from math import exp

from licorne_core.values.ids import RmId

MEMORY_SECONDS = 120.0
"""Time constant of the mean: the load of an idle RM falls to a third in this time."""


class Load:
    """CPU of each RM over the last minutes, in cores.

    The process's CPU is divided in proportion to the engine's work for each RM: the work around
    it, reading and writing messages, grows with that.
    """

    def __init__(
        self,
        worked: Callable[[], Mapping[RmId, float]],
        cpu: Callable[[], float],
        elapsed: Callable[[], float],
    ) -> None:
        """`worked` gives the engine's seconds for each RM since the start, `cpu` those of the process.

        `elapsed` gives seconds of a monotonic clock.
        """
        self._worked, self._cpu, self._elapsed = worked, cpu, elapsed
        self._time, self._used = elapsed(), cpu()
        self._seen: dict[RmId, float] = {}
        self._mean: dict[RmId, float] = {}

    def __call__(self) -> Mapping[RmId, float]:
        """The present means of the RMs that are served here."""
        worked = self._worked()
        now, used = self._elapsed(), self._cpu()
        seconds = now - self._time
        if seconds <= 0:
            return self._mean
        new = {rm_id: max(0.0, spent - self._seen.get(rm_id, 0.0)) for rm_id, spent in worked.items()}
        cores_per_second = (used - self._used) / seconds / (sum(new.values()) or 1.0)
        keep = exp(-seconds / MEMORY_SECONDS)
        self._mean = {
            rm_id: keep * self._mean.get(rm_id, 0.0) + (1 - keep) * spent * cores_per_second
            for rm_id, spent in new.items()
        }
        self._time, self._used, self._seen = now, used, dict(worked)
        return self._mean
