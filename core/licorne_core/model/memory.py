"""What has been used so far, as far as decisions remember it: decayed usage, and hours in a window.

Both are integrals of amounts over time. They change in closed form while an amount is constant, so an
account keeps a sum and its time, and moves on when its amounts change. Reading it changes nothing:
the same changes at the same times give the same sums.
"""

from collections.abc import Mapping
from math import expm1, floor, inf, log
from typing import Final

from licorne_core.messages.fairness import KeptHours
from licorne_core.values.ids import QueuePath
from licorne_core.values.resources import Resources
from licorne_core.values.windows import HOUR, HoursLimit, Span, window_at

MICROSECONDS: Final = 1_000_000

MOST_IDLE: Final = 10_000
"""Accounts without a queue, or of users without an allocation: beyond these the oldest are forgotten."""

BRIDGED: Final = 600.0
"""Longest time without a server, in seconds, for which usage counts as unchanged."""

_LN2: Final = log(2.0)


class Decayed:
    """Decayed usage: an amount that is used for a second counts 1, half of it after each half-life.

    The order of siblings goes by the sums of the last whole second (`at_step`), so that it changes once
    a second and in the same way for all.
    """

    __slots__ = ("amounts", "before", "half_life", "share", "step", "time", "values")

    amounts: dict[str, int]
    """Present usage by resource name, without zeros."""
    before: dict[str, float]
    """The sums of the whole second that `time` is in."""
    half_life: float
    """In seconds."""
    share: float
    """The sums of the second `step` against what is due, in hours; see `hours_of_due`."""
    step: int
    """The second of `share`; -1 for none."""
    time: float
    """Time of the sums, in unix seconds: the last change."""
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
        """The sums at a time from the last change on, if nothing changes until then."""
        passed = time - self.time
        if passed <= 0.0:
            return self.values
        lives = passed / self.half_life
        kept = 0.5**lives
        # The integral of what halves, exact for a moment as well as for years.
        gained = -expm1(-_LN2 * lives) * self.half_life / _LN2
        sums = {name: value * kept for name, value in self.values.items()}
        for name, amount in self.amounts.items():
            sums[name] = sums.get(name, 0.0) + amount * gained
        return sums

    def at_step(self, step: int) -> dict[str, float]:
        """The sums of a whole second, which is the present one."""
        return self.before if self.time > step else self.at(step)

    def follow(self, amounts: Mapping[str, int], now: float) -> None:
        """Note the present usage; it was the former one until now."""
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
    """Decayed usage as hours of what is due: the largest over the types that have a divisor.

    So usage of all that is due counts an hour for an hour. A type whose divisor is zero counts as it is.
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
    """The share that siblings are ordered by: a queue of weight 0 comes last, whatever it has used."""
    return share / weight if weight > 0.0 else inf


class HoursBudget:
    """Resource-hours that a queue may use in a window, in whole numbers: amounts times microseconds.

    `spent` is what was true at `time`; time alone may have changed it since (`changes_at`).
    """

    __slots__ = (
        "amount",
        "foreseen",
        "limit",
        "most",
        "path",
        "resource",
        "span",
        "spent",
        "time",
        "told",
        "used",
    )

    def __init__(self, path: QueuePath, limit: HoursLimit, now: float) -> None:
        """Start with nothing used. `path` is that of the queue."""
        self.path = path
        self.limit = limit
        self.resource = limit.resource
        self.most = _most(limit)
        """The limit, in amounts times microseconds."""
        self.amount = 0
        self.foreseen = 0
        """The largest amount with which nothing changes before its deadline (`HoursBook`)."""
        self.used = 0
        """In the window that `time` is in."""
        self.time = microseconds(now)
        self.span = window_at(limit.window, now)
        self.spent = self.used >= self.most
        self.told = False
        """`spent` as the last event has it."""

    def at(self, now: float) -> tuple[Span, int]:
        """The window of a time from the last change on, and what is used in it, if nothing changes."""
        time = max(self.time, microseconds(now))
        span, used, begin = self.span, self.used, self.time
        if time >= span.end * MICROSECONDS:
            span = window_at(self.limit.window, time / MICROSECONDS)
            used, begin = 0, max(begin, span.begin * MICROSECONDS)
        return span, used + self.amount * (time - begin)

    def follow(self, amount: int, now: float) -> bool:
        """Note the present usage, which was the former one until now; True if `spent` has changed."""
        return self.follow_at(amount, microseconds(now))

    def follow_at(self, amount: int, time: int) -> bool:
        """The same, at a time in microseconds: the hot path of queues that have budgets."""
        if time > self.time:
            if time < self.span.end * MICROSECONDS:
                self.used += self.amount * (time - self.time)
            else:
                self.span, self.used = self.at(time / MICROSECONDS)
            self.time = time
        self.amount = amount
        spent = self.used >= self.most
        changed = spent != self.spent
        self.spent = spent
        return changed

    def change(self, limit: HoursLimit, now: float) -> None:
        """Set another limit. What was used counts on, unless the windows are others."""
        self.follow(self.amount, now)
        if limit.window is not self.limit.window:
            self.span, self.used = window_at(limit.window, now), 0
        self.limit, self.most = limit, _most(limit)
        self.spent = self.used >= self.most

    def restore(self, kept: KeptHours, until: float) -> None:
        """Start from what was kept; what was in use then went on until a time, in unix seconds."""
        if kept.window is not self.limit.window:
            return
        self.time = kept.time
        self.span = window_at(self.limit.window, kept.time / MICROSECONDS)
        self.used, self.amount = kept.used, kept.amount
        self.follow(0, until)

    def kept(self, now: float) -> KeptHours:
        """What is to be remembered as of `now`; while nothing is in use, as of the last change."""
        if not self.amount:
            return KeptHours(self.time, self.used, 0, self.limit.window)
        return KeptHours(max(self.time, microseconds(now)), self.at(now)[1], self.amount, self.limit.window)

    def changes_at(self, amount: int) -> float | None:
        """When time alone changes `spent` while that amount is in use, in unix seconds; None for never."""
        if self.spent:
            return float(self.span.end)
        if amount <= 0:
            return None
        due = self.time + _up(self.most - self.used, amount)
        end = self.span.end * MICROSECONDS
        if due >= end:
            # The next window begins with nothing used.
            due = end + _up(self.most, amount)
        return due / MICROSECONDS


def _most(limit: HoursLimit) -> int:
    return limit.amount * HOUR * MICROSECONDS


def microseconds(time: float) -> int:
    """A time in unix seconds as microseconds."""
    return round(time * MICROSECONDS)


def _up(amount: int, divisor: int) -> int:
    return -(-amount // divisor)
