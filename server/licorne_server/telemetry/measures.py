"""Measures of a running server: histograms, counts of gRPC calls, and the figures of one RM.

Adding a value costs one binary search among a few bounds. The measures of an RM outlive its registrations,
and are deleted with the RM.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from licorne_core.messages.effects import (
    AllocationRejection,
    AllocationsRejected,
    ApplicationRejection,
    ApplicationsAnswered,
    ConfigurationRefused,
    ConfigurationUpdated,
    Effect,
    NodeRejection,
    NodesAnswered,
)
from licorne_core.values.asks import Allocation
from licorne_core.values.counters import Counters, Histogram
from licorne_core.values.errors import Refusal
from licorne_core.values.ids import PartitionName

OLDER = (0.0001, 0.001, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
"""Bounds of the older core's histograms, in seconds."""

WORK = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, *OLDER[4:])
"""Bounds for durations of the server's work, in seconds; they include the bounds of the older core."""

WAITS = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0),
    *(60.0, 300.0, 900.0, 3600.0),
)
"""Bounds for waiting times, in seconds."""


class Method(NamedTuple):
    """A served method. There are as many methods as handlers, so the number of labels is bounded."""

    service: str
    name: str
    type: str
    """``unary``, ``bidi_stream`` or ``server_stream``."""

    @classmethod
    def of(cls, path: str, type: str) -> "Method":
        """The method with the path ``/package.Service/Name``."""
        service, _, name = path.removeprefix("/").rpartition("/")
        return cls(service, name, type)


class Calls:
    """Counts calls; a stream is one call."""

    def __init__(self) -> None:
        """Start without calls."""
        self.started: Counter[Method] = Counter()
        self.handled: Counter[tuple[Method, str]] = Counter()
        """Ended calls, by method and name of status."""
        self.seconds: dict[Method, Histogram] = {}
        """Durations of unary calls."""

    def begin(self, method: Method) -> None:
        """Count the beginning of a call."""
        self.started[method] += 1

    def end(self, method: Method, code: str, seconds: float) -> None:
        """Count the end of a call, with the name of its status."""
        self.handled[method, code] += 1
        if method.type == "unary":
            histogram = self.seconds.get(method)
            if histogram is None:
                histogram = self.seconds[method] = Histogram(WAITS)
            histogram.observe(seconds)


KEPT = 1_024
"""Number of messages with unanswered checks that are always retained; older ones may be dropped."""


class CheckTimes:
    """The times when messages with checks were written, during one registration."""

    def __init__(self) -> None:
        """Start without messages."""
        # For each message: the number of its last check, in ascending order, and its write time.
        self._written: list[tuple[int, float]] = []

    def written(self, last: int, now: float) -> None:
        """Record a message by the number of its last check; a repeated message counts once.

        `now` is in unix seconds.
        """
        if self._written and last <= self._written[-1][0]:
            return
        self._written.append((last, now))
        if len(self._written) > 2 * KEPT:
            del self._written[:KEPT]

    def answered(self, checks: Iterable[int], now: float) -> list[tuple[float, int]]:
        """Response times of the answers handled now, by message, as pairs of seconds and number of answers.

        An answer to a check that was never written is ignored.
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


ITEMS = ("node", "application", "allocation")
"""Kinds of items that may be rejected; an ask is an allocation without a node."""

RESULTS = ("changed", "unchanged", "refused")
"""Results of a new configuration."""


_Rejection = NodeRejection | ApplicationRejection | AllocationRejection


class Effort:
    """Counters of a partition at the end of its last turn."""

    __slots__ = ("searching", "tried", "work")

    def __init__(self) -> None:
        """Start with all counters at 0."""
        self.tried = self.work = self.searching = 0


class RmMeasures:
    """The histograms and counters of one RM. Times are in seconds."""

    allocation: Histogram
    """Times from reading an ask to putting its allocation into the outbox."""
    turn: Histogram
    """Durations of turns of the RM's partitions, including the routing of their effects."""
    trying: Histogram
    """Durations of tries: each is a share of its turn, in proportion to work."""
    searching: Histogram
    """Durations of searches for victims: each is a share of its turn, in proportion to work."""
    answers: Histogram
    """Times from writing a check to handling its answer."""
    sending: Histogram
    """Waiting times in the outbox, of the oldest message of each batch."""
    configuring: Histogram
    """Times from reading a configuration until it was in force or refused."""
    rejections: Counter[tuple[str, Refusal]]
    """Rejected items, by kind and code."""
    configurations: Counter[str]
    """Configurations, by result."""
    is_refused: bool
    """True if the last configuration was refused, so that an older one is in force."""
    connections: int
    """Number of times that the RM has connected while it had no open stream."""
    checks: CheckTimes
    """The times when the checks of this registration were written."""

    def __init__(self) -> None:
        """Start without values."""
        self.allocation = Histogram(WAITS)
        self.turn = Histogram(WORK)
        self.trying = Histogram(WORK)
        self.searching = Histogram(WORK)
        self.answers = Histogram(WAITS)
        self.sending = Histogram(WAITS)
        self.configuring = Histogram(WAITS)
        self.rejections = Counter()
        self.configurations = Counter()
        self.is_refused = False
        self.connections = 0
        self.checks = CheckTimes()
        self._efforts: dict[PartitionName, Effort] = {}

    def renew(self) -> None:
        """Start over after a new registration, with checks numbered from 1 and counters from 0."""
        self.checks = CheckTimes()
        self.is_refused = False
        self._efforts.clear()

    def allocated(self, allocations: Sequence[Allocation], now: float) -> None:
        """Record allocations put into the outbox, except those made by the RM itself.

        Asks of one message have the same read time, so most consecutive allocations have equal times.
        """
        times = 0
        last = -1.0
        for allocation in allocations:
            ask = allocation.ask
            if ask.node_id is None and ask.read_time:
                if ask.read_time != last:
                    if times:
                        self.allocation.observe(max(0.0, now - last), times)
                    last, times = ask.read_time, 0
                times += 1
        if times:
            self.allocation.observe(max(0.0, now - last), times)

    def turned(self, partition: PartitionName, counters: Counters, spent: float) -> None:
        """Record a turn of `spent` seconds, with the counters of the partition at its end.

        The core reads no clock. So the duration of the turn is divided among tries and searches for victims
        in proportion to their work.
        """
        self.turn.observe(spent)
        before = self._efforts.get(partition)
        if before is None or counters.work < before.work:
            before = self._efforts[partition] = Effort()
        work = counters.work - before.work
        tried = counters.asks_tried - before.tried
        searching = counters.search_work - before.searching
        before.work, before.tried = counters.work, counters.asks_tried
        before.searching = counters.search_work
        if tried:
            self.trying.observe(spent * (work - searching) / work / tried, tried)
        if searching:
            self.searching.observe(spent * searching / work)

    def told(self, effect: Effect) -> None:
        """Record an effect sent to the RM."""
        match effect:
            case NodesAnswered():
                self._rejected("node", effect.rejected)
            case ApplicationsAnswered():
                self._rejected("application", effect.rejected)
            case AllocationsRejected():
                self._rejected("allocation", effect.rejections)
            case ConfigurationUpdated():
                self._configured("changed" if effect.changed else "unchanged")
            case ConfigurationRefused():
                self._configured("refused")
            case _:
                pass

    def _rejected(self, item: str, rejections: Iterable[_Rejection]) -> None:
        for rejection in rejections:
            self.rejections[item, rejection.code] += 1

    def answered(self, checks: Iterable[int], now: float) -> None:
        """Record the answers to checks handled now."""
        for seconds, times in self.checks.answered(checks, now):
            self.answers.observe(seconds, times)

    def _configured(self, result: str) -> None:
        self.configurations[result] += 1
        self.is_refused = result == "refused"
