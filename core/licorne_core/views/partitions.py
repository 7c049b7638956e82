"""RMs and partitions in numbers, with counters, pending asks and placement rules (spec § 12.4)."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Generic, TypeVar

from licorne_core.config.rules import rules_in_force
from licorne_core.messages.kept import Kept
from licorne_core.messages.reports import Census, Metered, PlacementReport, WaitingAsks
from licorne_core.model.meter import Meter
from licorne_core.partitions.partition import Partition
from licorne_core.partitions.registry import Registry, Rm
from licorne_core.values.counters import Counters
from licorne_core.values.errors import NotFound, shown
from licorne_core.values.ids import NodeId, PartitionName, RmId, bare_partition
from licorne_core.values.resources import Resources
from licorne_core.values.rm_caps import RmCaps, RmCounts
from licorne_core.values.slices import in_runs
from licorne_core.views.audit.recount import Finding, audit
from licorne_core.views.census import Standing, census, standing, waiting_by_code
from licorne_core.views.fields import Moment, Of, lists
from licorne_core.views.reasons import waiting_asks

Name = TypeVar("Name", bound=str)


class InOrder(Generic[Name]):
    """Names as they were at one moment, sorted while they are read.

    A None precedes the first name wherever the reader may pause.
    """

    count: int
    """Number of all names, including those that do not fit."""

    def __init__(self, names: Iterable[Name], fits: Callable[[Name], bool] | None = None) -> None:
        """Use the names for which `fits` is True, or all names without `fits`."""
        self._names = list(names)
        self._fits = fits
        self.count = len(self._names)

    def __iter__(self) -> Iterator[Name | None]:
        """All fitting names, in order."""
        return self.behind("")

    def behind(self, last: str) -> Iterator[Name | None]:
        """Fitting names after `last`, which need not be in the list."""
        fits = self._fits
        if not last:
            return in_runs(self._names, fits=fits)
        return in_runs(self._names, fits=lambda name: name > last and (fits is None or fits(name)))


_of_rm = Of[Rm, None]()


@dataclass(frozen=True, slots=True, kw_only=True)
class RmReport:
    """A registered RM and its configuration.

    The maps are the RM's own and not copies, because all RMs together may have millions of entries. A map may
    be replaced, but is never changed.
    """

    rm_id: RmId
    version: str
    policy_group: str
    build_info: Mapping[str, str] = _of_rm(lambda rm: rm.build_info)
    registered_time: Moment
    session: int
    partitions: tuple[PartitionName, ...] = _of_rm(lambda rm: tuple(rm.partitions))
    config: str = _of_rm(lambda rm: rm.configuration.text)
    checksum: str = _of_rm(lambda rm: rm.configuration.checksum)
    extra_config: Mapping[str, str] = _of_rm(lambda rm: rm.extra_config)
    """The extra configuration, sorted by its keys."""
    failed_nodes: tuple[NodeId, ...] = _of_rm(lambda rm: tuple(rm.failed_nodes))
    """Nodes that were rejected for an unknown partition, and not registered since."""
    counts: RmCounts = _of_rm(lambda rm: rm.holdings.counts(len(rm.partitions)))


_rm_report = _of_rm.table(RmReport)


_of_partition = Of[Partition, None]()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReport:
    """A partition in numbers. `name` is normalized, `bare_name` is not.

    Assumed asks, and asks that are to replace placeholders, count as asks.
    """

    name: PartitionName
    bare_name: str = _of_partition(lambda partition: bare_partition(partition.name))
    rm_id: RmId
    state: str = "Active"
    state_time: Moment
    capacity: Resources = _of_partition(lambda here: dict(here.rm.core.floating.shown(here.nodes.total)))
    allocated: Resources = _of_partition(lambda partition: dict(partition.tree.root.allocated))
    nodes: int = _of_partition(lambda partition: len(partition.nodes.by_id))
    allocations: int = _of_partition(lambda partition: partition.tally.allocations)
    pending_asks: int = _of_partition(lambda partition: partition.tally.asks)
    applications: Mapping[str, int] = _of_partition(lambda partition: dict(partition.tally.states))
    node_sort_policy: str = _of_partition(lambda partition: partition.nodes.order.policy.type.value)
    node_sort_attribute: str = _of_partition(lambda partition: partition.nodes.order.policy.attribute)
    """Attribute of nodes for the policy `spread`; empty for other policies."""
    node_sort_weights: Mapping[str, float] = _of_partition(
        lambda partition: dict(partition.nodes.order.policy.weights)
    )
    preemption_enabled: bool = _of_partition(lambda partition: partition.config.preemption_enabled)
    extended: Mapping[str, Any] = _of_partition.added("partition", lambda partition, _: partition.points)
    holds: tuple[str, ...] = _of_partition(lambda partition: tuple(hold.value for hold in partition.holds))


_partition_report = _of_partition.table(PartitionReport)


class PartitionViews:
    """RMs and partitions. A missing object raises NotFound with its name."""

    bare_names: bool
    """True if a bare name may stand for a partition, because no RM of another server has one of that name."""
    now: Callable[[], float] | None
    """The time of reports that depend on it, in unix seconds; None for the time of the last change."""

    def __init__(self, registry: Registry, caps: RmCaps) -> None:
        """Read the RMs of this registry, each of which has these caps."""
        self._registry = registry
        self.registry = registry
        """The registry, for reports of extensions, which are in other modules."""
        self.caps = caps
        self.bare_names = True
        self.now = None

    def time(self, partition: Partition) -> float:
        """Time of a report about a partition, never before the partition's last change of usage."""
        last = partition.usage.time
        return last if self.now is None else max(last, self.now())

    def rms(self) -> tuple[RmReport, ...]:
        """All RMs in order of registration."""
        return tuple(_rm_report(rm, None) for rm in self._registry.rms.values())

    def rm(self, rm_id: str) -> RmReport:
        """Report an RM; raises NotFound."""
        rm = self._registry.rms.get(RmId(rm_id))
        if rm is None:
            raise NotFound(f"RM {shown(rm_id)} is not registered")
        return _rm_report(rm, None)

    def partitions(self, rm_id: RmId | None = None) -> tuple[PartitionReport, ...]:
        """All partitions, or those of one RM."""
        return tuple(map(self.partition, self.partition_names(rm_id)))

    def partition_names(self, rm_id: RmId | None = None) -> list[PartitionName]:
        """Names of all partitions, or of those of one RM."""
        rms = self._registry.rms
        chosen = rms.values() if rm_id is None else [rms[rm_id]] if rm_id in rms else []
        return list(chain.from_iterable(rm.partitions for rm in chosen))

    def partition(self, name: PartitionName) -> PartitionReport:
        """Report a partition."""
        return _partition_report(self._registry.partition(name), None)

    def running(self, rm_id: RmId) -> int:
        """Number of booked allocations that were reported to an RM; 0 for an unknown RM."""
        rm = self._registry.rms.get(rm_id)
        return 0 if rm is None else sum(p.tally.allocations for p in rm.partitions.values())

    def resolve(self, name: str) -> PartitionName:
        """Normalized name of a partition, given its normalized or bare name (DESIGN § 4); raises NotFound."""
        partition = self._registry.by_name(name)
        if partition is None:
            raise NotFound(f"partition {shown(name)} not found")
        return partition.name

    def placement(self, partition: PartitionName) -> PlacementReport:
        """The placement rules in force."""
        rules = rules_in_force(self._registry.partition(partition).config.placement_rules)
        return PlacementReport(partition=partition, rules=rules)

    def audit(self, partition: PartitionName) -> Iterator[Finding | None]:
        """Yield differences in the books, with a None wherever the reader may pause."""
        return audit(self._registry.partition(partition))

    def counters(self, partition: PartitionName) -> Counters:
        """The live counters of a partition, for immediate reading only."""
        return self._registry.partition(partition).counters

    def answers_late(self, rm_id: RmId) -> int:
        """Number of an RM's answers to predicate checks that were closed already; 0 for an unknown RM."""
        rm = self._registry.rms.get(rm_id)
        return 0 if rm is None else rm.context.answers_late

    def waiting(self, partition: PartitionName, most: int) -> tuple[dict[str, int], bool]:
        """Count waiting asks by the code of their obstacle; the second value is True if all were counted.

        At most `most` applications and ask groups are read.
        """
        return waiting_by_code(self._registry.partition(partition), most)

    def census(self, partition: PartitionName) -> Iterator[Census | None]:
        """Yield the census of a partition, after a None wherever the reader may pause."""
        return census(self._registry.partition(partition))

    def reasons(self, partition: PartitionName) -> Iterator[WaitingAsks | None]:
        """All waiting asks by queue, first failing check and its subject.

        None marks a possible pause of the reader. Later changes may be missed.
        """
        return waiting_asks(self._registry.partition(partition))

    def metered(self, partition: PartitionName, now: float) -> Iterator[Metered | None]:
        """Usage of each queue, user and group up to now (unix seconds).

        None marks a possible pause of the reader. Usage that this report misses is in the next report.
        """
        return _metered(self._registry.partition(partition).meter, now)

    def memory(self, rm_id: RmId) -> Iterator[tuple[PartitionName, Kept] | None]:
        """The state that partitions of an RM, present or removed, retain for later partitions of the same
        names.

        None marks a possible pause of the reader. An unknown RM has no state.
        """
        rm = self._registry.rms.get(rm_id)
        if rm is None:
            return
        partitions = list(rm.partitions.values())
        yield from list(rm.retained.by_name.items())
        for partition in partitions:
            for found in partition.retained(self.time(partition)):
                if found is None:
                    yield None
                elif found:
                    yield partition.name, found

    def standing(self, rm_id: RmId, partition: str, app_id: str, key: str) -> Standing | None:
        """Queue and obstacle of an ask; None for an unknown ask.

        `partition` is the name that the RM has sent.
        """
        rm = self._registry.rms.get(rm_id)
        return None if rm is None else standing(rm, partition, app_id, key)

    def listed(self, name: str, partition: PartitionName, *given: Any) -> Iterator[Any]:
        """A list that an extension reports about a partition, or about the objects in `given`.

        Later changes may be missed. None marks a possible pause of the reader.
        """
        return lists()[name](self._registry.partition(partition), *given)


STEP = 250
"""Number of accounts of a meter that are read before the reader may pause."""


def _metered(meter: Meter, now: float) -> Iterator[Metered | None]:
    for number, (owner, account) in enumerate(list(meter.accounts.items()), 1):
        time = meter.time(now)
        yield Metered(
            since=meter.since,
            owner=owner,
            used=account.used(time),
            ended=account.ended,
            preempted=account.preempted,
            lost=dict(account.lost),
            passing={} if account.passing is None else account.passing.used(time),
        )
        if not number % STEP:
            yield None
