"""The oracle's queues, by their configuration."""

from dataclasses import dataclass, field
from functools import cache
from math import inf

from support.oracle.books import Amounts, AppRecord
from support.oracle.terms import LimitRecord


@dataclass
class QueueRecord:
    """A queue with the settings of its configuration.

    `brought` are sizes in tags of applications for a dynamic leaf; `template` are those of a parent for the
    dynamic leaves below it.
    """

    path: str
    is_leaf: bool
    managed: bool = True
    draining: bool = False
    guaranteed: Amounts = field(default_factory=dict)
    max: Amounts = field(default_factory=dict)
    max_apps: int = 0
    limits: list[LimitRecord] = field(default_factory=list)
    properties: dict[str, str] = field(default_factory=dict)
    template: "QueueRecord | None" = None
    brought: "QueueRecord | None" = None

    @property
    def parent(self) -> str:
        """The parent's path, empty for root."""
        return self.path.rpartition(".")[0]

    @property
    def removable(self) -> bool:
        """True if the queue is removed once it is empty (spec § 4.3)."""
        return self.path != "root" and (self.draining or not self.managed)

    @property
    def app_order(self) -> str:
        """How applications are ordered: fifo, fair, stateaware or strict."""
        return self.properties.get("application.sort.policy", "fifo")

    @property
    def priority_first(self) -> bool:
        """True if priority precedes fairness and time."""
        return self.properties.get("application.sort.priority", "enabled").lower() != "disabled"

    def priority_of(self, app: AppRecord, now: float) -> int:
        """The priority by which an application is ordered in this leaf; it rises with the age of its asks."""
        written = self.properties.get("ageing", "off")
        if written == "off":
            return app.priority()
        terms, _, most = written.partition(" max ")
        gain, _, every = terms.partition("/")
        oldest = min(ask.created for ask in app.asks.values())
        spans = max(0, int((now - oldest) // seconds(every)))
        bound = int(most or min(100 * int(gain), 2**31 - 1))
        return min(2**31 - 1, app.priority() + min(bound, int(gain) * spans))

    def opens_at(self, time: float) -> float:
        """The first time from that Unix time on at which asks may start in this leaf; hours are in UTC."""
        return self._next(time, is_open=True)

    def closes_at(self, time: float) -> float:
        """The first time from then on at which no asks may start; inf for none."""
        return self._next(time, is_open=False)

    def _next(self, time: float, *, is_open: bool) -> float:
        written = self.properties.get("opening.hours", "off")
        minute = int(time // 60)
        wait = _minutes_until(written, minute % 1440, is_open=is_open)
        return (minute + wait) * 60.0 if wait else time

    @property
    def backoff(self) -> int:
        """Number of asks without a node after which an application backs off, 0 for never."""
        return int(self.properties.get("application.unschedasks.backoff", "0"))

    @property
    def backoff_delay(self) -> float:
        """Length of a back-off in seconds."""
        written = self.properties.get("application.unschedasks.backoff.delay", "30s")
        return float(written.removesuffix("s"))

    @property
    def reservation_idle_timeout(self) -> float:
        """Seconds for which a node stays reserved for an ask that cannot use it."""
        return seconds(self.properties.get("reservation.idle.timeout", "2s"))

    @property
    def preemption_delay(self) -> float:
        """Minimum age in seconds of an ask for which others are preempted."""
        return seconds(self.properties.get("preemption.delay", "30s"))

    @property
    def half_life(self) -> float:
        """Seconds after which usage counts half for its children, 0 for no memory of usage."""
        written = self.properties.get("fairshare.half-life", "off")
        return 0.0 if written == "off" else seconds(written)

    @property
    def weight(self) -> float:
        """The divisor of the queue's decayed usage."""
        return float(self.properties.get("fairshare.weight", "1"))

    def priority_seen_outside(self, inside: int | None) -> int | None:
        """The queue's priority for its parent, None without waiting asks."""
        if inside is None or inside == -(2**31):
            return inside
        offset = int(self.properties.get("priority.offset", "0"))
        if self.properties.get("priority.policy") == "fence":
            return offset
        return max(-(2**31), min(2**31 - 1, inside + offset))


@cache
def _minutes_until(written: str, minute: int, *, is_open: bool) -> float:
    """Minutes from a minute of the day until hours such as ``08:00-12:00,22:00-06:00`` open, or close."""
    for wait in range(1440):
        there = (minute + wait) % 1440
        if is_open == (written == "off" or any(_has(span, there) for span in written.split(","))):
            return wait
    return inf


def _has(span: str, minute: int) -> bool:
    """True if a span such as ``22:00-06:00`` contains that minute of the day."""
    begin, end = (int(hours) * 60 + int(rest) for hours, rest in (t.split(":") for t in span.split("-")))
    return begin <= minute < end if begin < end else not end <= minute < begin


def seconds(written: str) -> float:
    """A duration as worlds write it: a number of milliseconds or seconds."""
    if written.endswith("ms"):
        return float(written.removesuffix("ms")) / 1000
    return float(written.removesuffix("s"))


@cache
def lineage(path: str) -> tuple[str, ...]:
    """The queue's path and those of its ancestors, root last."""
    parts = path.split(".")
    return tuple(".".join(parts[:count]) for count in range(len(parts), 0, -1))
