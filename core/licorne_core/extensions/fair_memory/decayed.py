"""Decayed usage: past usage, of which older parts count less.

Decayed usage is an integral of amounts over time. While an amount is constant it has a closed form: so an
account has a sum and the time of the sum, and is advanced only when its amounts change. Reading it changes
nothing: the same changes at the same times give the same sums.
"""

from collections.abc import Mapping
from math import expm1, floor, inf, log
from typing import Final

from licorne_core.values.resources import Resources
from licorne_core.values.windows import HOUR

_LN2: Final = log(2.0)


class Decayed:
    """Decayed usage: each second of use counts its amount, and half of that after each half-life.

    The order of siblings uses the sums of the last whole second (`at_step`), so that it changes once a
    second, and for all siblings at the same time.
    """

    __slots__ = ("amounts", "before", "half_life", "share", "step", "time", "values")

    amounts: dict[str, int]
    """Current usage by resource name, without zeros."""
    before: dict[str, float]
    """The sums at the start of the second that contains `time`."""
    half_life: float
    """Half-life in seconds."""
    share: float
    """The sums at second `step`, in hours of use of the entitlement; see `hours_of_due`."""
    step: int
    """The second of `share`; -1 before the first."""
    time: float
    """Time of the sums, in unix seconds: the time of the last change."""
    values: dict[str, float]
    """Sums by resource name, in amounts times seconds."""

    def __init__(self, half_life: float, now: float) -> None:
        """Start without usage."""
        self.amounts = {}
        self.before = {}
        self.half_life = half_life
        self.share = 0.0
        self.step = -1
        self.time = now
        self.values = {}

    def at(self, time: float) -> dict[str, float]:
        """The sums at `time` if usage does not change until then; never earlier than the last change."""
        passed = time - self.time
        if passed <= 0.0:
            return self.values
        lives = passed / self.half_life
        kept = 0.5**lives
        # The integral of the decay, accurate for short times as well as for years.
        gained = -expm1(-_LN2 * lives) * self.half_life / _LN2
        sums = {name: value * kept for name, value in self.values.items()}
        for name, amount in self.amounts.items():
            sums[name] = sums.get(name, 0.0) + amount * gained
        return sums

    def at_step(self, step: int) -> dict[str, float]:
        """The sums of a whole second, which has to be the current one."""
        return self.before if self.time > step else self.at(step)

    def follow(self, amounts: Mapping[str, int], now: float) -> None:
        """Set the current usage; the former usage lasted until now."""
        used = {name: value for name, value in amounts.items() if value}
        if used != self.amounts:
            self._move_on(now)
            self.amounts = used

    def halve_in(self, half_life: float, now: float) -> None:
        """Set another half-life from now on."""
        if half_life != self.half_life:
            self._move_on(now)
            self.half_life = half_life
            self.step = -1

    def _move_on(self, now: float) -> None:
        step = floor(now)
        if step > self.time:
            self.before = self.at(step)
        self.values = self.at(now)
        self.time = max(now, self.time)


def hours_of_due(sums: Mapping[str, float], divisors: Resources) -> float:
    """Decayed usage as hours of the entitlement: the largest over the types that have a divisor.

    So one hour of use of the whole entitlement counts 1. If a divisor is zero, usage is not divided.
    """
    highest = 0.0
    for name, value in sums.items():
        divisor = divisors.get(name)
        if divisor is not None:
            hours = (value / divisor if divisor > 0 else value) / HOUR
            if hours > highest:
                highest = hours
    return highest


def weighted(share: float, weight: float) -> float:
    """The share that orders siblings: a queue of weight 0 is last, whatever its usage."""
    return share / weight if weight > 0.0 else inf
