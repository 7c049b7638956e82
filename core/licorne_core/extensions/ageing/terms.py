"""Ageing: the longer the oldest ask of an application waits, the higher the priority that orders it."""

from math import inf
from typing import NamedTuple


class Ageing(NamedTuple):
    """Terms of a leaf: a gain of `step` for each `every` seconds that an ask has waited, up to `most`."""

    step: int
    every: float
    most: int

    def bonus(self, created: float, now: float) -> tuple[int, float]:
        """The bonus of an ask that arrived at `created`, and the time of its next step, inf if there is none.

        Times are in unix seconds. The next step is always later than `now`.
        """
        steps = max(0, int((now - created) / self.every))
        # Rounding may make the quotient too small by one exactly at a step.
        if created + (steps + 1) * self.every <= now:
            steps += 1
        elif steps and created + steps * self.every > now:
            steps -= 1
        bonus = min(self.most, steps * self.step)
        return bonus, inf if bonus == self.most else created + (steps + 1) * self.every
