"""Totals of a run by queue, and the summary made from them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from licorne_core.values.ids import PartitionName, bare_partition, rm_of
from licorne_core.values.resources import Resources
from licorne_server.lab.simulation.waits import Course, Waits, add_amounts, shares


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSummary:
    """Measures of a queue; of an RM if `queue` is empty, and of all RMs if `rm_id` is empty too.

    Waits are in seconds, None without asks; `waiting` is the number of asks at the end. `below_guarantee` is
    in seconds; for an RM and for all RMs it is the sum over queues. `lost` is in amounts times seconds.
    """

    rm_id: str
    partition: str
    queue: str
    asks: int
    placed: int
    withdrawn: int
    waiting: int
    wait_mean: float | None
    wait_p50: float | None
    wait_p99: float | None
    below_guarantee: float
    victims: int
    lost: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSummary:
    """Utilisation of a partition by resource, from 0 to 1."""

    rm_id: str
    partition: str
    utilisation: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Measures from `begin` to `end`, in unix seconds.

    `total` and `utilisation` are those of all RMs. The other rows are in order of their names, parents before
    children. `course` has the measures of the run over time.
    """

    begin: float
    end: float
    total: QueueSummary
    utilisation: Mapping[str, float]
    rms: tuple[QueueSummary, ...]
    partitions: tuple[PartitionSummary, ...]
    queues: tuple[QueueSummary, ...]
    course: Course


@dataclass(slots=True)
class Tally:
    """Running totals of a queue with its descendants, except `below`, which is only for the queue itself."""

    asks: int = 0
    placed: int = 0
    withdrawn: int = 0
    waiting: int = 0
    waits: Waits = field(default_factory=Waits)
    below: float = 0.0
    victims: int = 0
    lost: dict[str, float] = field(default_factory=dict)

    def add(self, other: "Tally") -> None:
        """Add the totals of another queue, except `below`."""
        self.asks += other.asks
        self.placed += other.placed
        self.withdrawn += other.withdrawn
        self.waiting += other.waiting
        self.waits = self.waits.plus(other.waits)
        self.victims += other.victims
        add_amounts(self.lost, other.lost)

    def row(self, rm_id: str = "", partition: str = "", queue: str = "") -> QueueSummary:
        """The totals as measures."""
        return QueueSummary(
            rm_id=rm_id,
            partition=partition,
            queue=queue,
            asks=self.asks,
            placed=self.placed,
            withdrawn=self.withdrawn,
            waiting=self.waiting,
            wait_mean=self.waits.mean,
            wait_p50=self.waits.quantile(0.5),
            wait_p99=self.waits.quantile(0.99),
            below_guarantee=self.below,
            victims=self.victims,
            lost=dict(sorted(self.lost.items())),
        )


class PartitionUse:
    """Use and capacity of a partition, in amounts times seconds."""

    __slots__ = ("capacity", "used")

    def __init__(self) -> None:
        """Start with nothing."""
        self.used: dict[str, float] = {}
        self.capacity: dict[str, float] = {}

    def add(self, used: Resources, capacity: Resources, seconds: float) -> None:
        """Add amounts for a duration in seconds."""
        add_amounts(self.used, used, seconds)
        add_amounts(self.capacity, capacity, seconds)

    def add_all(self, other: "PartitionUse") -> None:
        """Add the use and capacity of another partition."""
        add_amounts(self.used, other.used)
        add_amounts(self.capacity, other.capacity)

    @property
    def shares(self) -> dict[str, float]:
        """Utilisation by resource."""
        return shares(self.used, self.capacity)


class Totals(NamedTuple):
    """All totals, by partition and path; `still` has waits of waiting asks by the `id` of the tally."""

    tallies: Mapping[PartitionName, Mapping[str, Tally]]
    still: Mapping[int, Sequence[float]]
    usage: Mapping[PartitionName, PartitionUse]

    def summary(self, course: Course, now: float) -> Summary:
        """Make the summary up to `now`, in unix seconds."""
        total = Tally()
        everything = PartitionUse()
        rms: dict[str, Tally] = {}
        queues = []
        for name, path, tally in self._in_order():
            queues.append(tally.row(rm_of(name), bare_partition(name), path))
            for sums in (total, rms.setdefault(rm_of(name), Tally())):
                sums.below += tally.below
                if path == "root":
                    sums.add(tally)
        for usage in self.usage.values():
            everything.add_all(usage)
        return Summary(
            begin=course.begin,
            end=now,
            total=total.row(),
            utilisation=everything.shares,
            rms=tuple(tally.row(rm_id) for rm_id, tally in rms.items()),
            partitions=tuple(
                PartitionSummary(rm_id=rm_of(name), partition=bare_partition(name), utilisation=usage.shares)
                for name, usage in sorted(self.usage.items())
            ),
            queues=tuple(queues),
            course=course,
        )

    def _in_order(self) -> Iterator[tuple[PartitionName, str, Tally]]:
        """The totals of each queue, with those of its waiting asks."""
        for name in sorted(self.tallies):
            for path, known in sorted(self.tallies[name].items()):
                tally = Tally(below=known.below)
                tally.add(known)
                for seconds in self.still.get(id(known), ()):
                    tally.waiting += 1
                    tally.waits.add(seconds)
                yield name, path, tally
