"""One budget of resource-hours, in whole numbers; its usage has a closed form while an amount is constant."""

from typing import Final

from licorne_core.extensions.hours.messages import HoursLimit, KeptHours
from licorne_core.values.ids import QueuePath
from licorne_core.values.windows import HOUR, Span, window_at

MICROSECONDS: Final = 1_000_000


class HoursBudget:
    """Resource-hours that a queue may use in a window, in whole numbers: amounts times microseconds.

    `spent` is true as of `time`; time alone may have changed it since (`changes_at`).
    """

    __slots__ = (
        "amount",
        "foreseen",
        "limit",
        "most",
        "path",
        "published",
        "resource",
        "span",
        "spent",
        "time",
        "used",
    )

    def __init__(self, path: QueuePath, limit: HoursLimit, now: float) -> None:
        """Start without usage; `path` is that of the queue."""
        self.path = path
        self.limit = limit
        self.resource = limit.resource
        self.most = _most(limit)
        """The limit, in amounts times microseconds."""
        self.amount = 0
        self.foreseen = 0
        """The largest amount in use at which `spent` does not change before its deadline (`HoursBook`)."""
        self.used = 0
        """Usage in the window that contains `time`."""
        self.time = microseconds(now)
        self.span = window_at(limit.window, now)
        self.spent = self.used >= self.most
        self.published = False
        """The value of `spent` in the last event."""

    def at(self, now: float) -> tuple[Span, int]:
        """The window that contains `now`, and the usage in it, if nothing changes after the last change."""
        time = max(self.time, microseconds(now))
        span, used, begin = self.span, self.used, self.time
        if time >= span.end * MICROSECONDS:
            span = window_at(self.limit.window, time / MICROSECONDS)
            used, begin = 0, max(begin, span.begin * MICROSECONDS)
        return span, used + self.amount * (time - begin)

    def follow(self, amount: int, now: float) -> bool:
        """Set the current usage; the former usage lasted until now. True if `spent` has changed."""
        return self.follow_at(amount, microseconds(now))

    def follow_at(self, amount: int, time: int) -> bool:
        """Do the same as `follow`, at a time in microseconds: the hot path of queues with budgets."""
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
        """Set another limit. Usage is retained, unless the kind of window changes."""
        self.follow(self.amount, now)
        if limit.window is not self.limit.window:
            self.span, self.used = window_at(limit.window, now), 0
        self.limit, self.most = limit, _most(limit)
        self.spent = self.used >= self.most

    def restore(self, kept: KeptHours, until: float) -> None:
        """Restore retained usage; amounts in use at its time count as used until `until`, in unix seconds."""
        if kept.window is not self.limit.window:
            return
        self.time = kept.time
        self.span = window_at(self.limit.window, kept.time / MICROSECONDS)
        self.used, self.amount = kept.used, kept.amount
        self.follow(0, until)

    def kept(self, now: float) -> KeptHours:
        """Usage to retain as of `now`; while nothing is in use, as of the last change."""
        if not self.amount:
            return KeptHours(self.time, self.used, 0, self.limit.window)
        return KeptHours(max(self.time, microseconds(now)), self.at(now)[1], self.amount, self.limit.window)

    def changes_at(self, amount: int) -> float | None:
        """Time at which `spent` changes by itself with `amount` in use, in unix seconds, or None."""
        if self.spent:
            return float(self.span.end)
        if amount <= 0:
            return None
        due = self.time + _up(self.most - self.used, amount)
        end = self.span.end * MICROSECONDS
        if due >= end:
            # The next window begins without usage.
            due = end + _up(self.most, amount)
        return due / MICROSECONDS


def _most(limit: HoursLimit) -> int:
    return limit.amount * HOUR * MICROSECONDS


def microseconds(time: float) -> int:
    """A time in unix seconds as microseconds."""
    return round(time * MICROSECONDS)


def _up(amount: int, divisor: int) -> int:
    return -(-amount // divisor)
