"""RMs and partitions in numbers."""

from collections.abc import Mapping
from dataclasses import dataclass

from licorne_core.messages.reports import PlacementReport
from licorne_core.partitions.partition import Partition
from licorne_core.partitions.registry import Rm
from licorne_core.values.ids import NodeId, PartitionName, RmId, bare_partition
from licorne_core.values.resources import Resources
from licorne_core.values.rm_caps import RmCounts
from licorne_core.views.fields import Moment, Of

_of_rm = Of[Rm, None]()


@dataclass(frozen=True, slots=True, kw_only=True)
class RmReport:
    """A registered RM and its configuration.

    The maps are the RM's own, which are replaced and never changed: a list of all RMs may have
    millions of entries in them.
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
    """In order of its keys."""
    failed_nodes: tuple[NodeId, ...] = _of_rm(lambda rm: tuple(rm.failed_nodes))
    """Nodes that came for a partition that is not there, and have not come again since."""
    counts: RmCounts = _of_rm(lambda rm: rm.holdings.counts(len(rm.partitions)))


_rm_report = _of_rm.table(RmReport)


def rm_report(rm: Rm) -> RmReport:
    """Report an RM."""
    return _rm_report(rm, None)


_of = Of[Partition, None]()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReport:
    """A partition in numbers. `name` is normalized, `bare_name` is not.

    An assumed ask, or a replacement of a placeholder, counts as an ask.
    """

    name: PartitionName
    bare_name: str = _of(lambda partition: bare_partition(partition.name))
    rm_id: RmId
    state: str = "Active"
    state_time: Moment
    capacity: Resources = _of(lambda partition: dict(partition.nodes.total))
    allocated: Resources = _of(lambda partition: dict(partition.tree.root.allocated))
    nodes: int = _of(lambda partition: len(partition.nodes.by_id))
    allocations: int = _of(lambda partition: partition.tally.allocations)
    pending_asks: int = _of(lambda partition: partition.tally.asks)
    applications: Mapping[str, int] = _of(lambda partition: dict(partition.tally.states))
    node_sort_policy: str = _of(lambda partition: partition.nodes.order.policy.type.value)
    node_sort_attribute: str = _of(lambda partition: partition.nodes.order.policy.attribute)
    """Attribute for `spread`; empty for other policies."""
    node_sort_weights: Mapping[str, float] = _of(lambda partition: dict(partition.nodes.order.policy.weights))
    preemption_enabled: bool = _of(lambda partition: partition.config.preemption_enabled)
    quota_preemption_enabled: bool = _of(lambda partition: partition.config.quota_preemption_enabled)
    holds: tuple[str, ...] = _of(lambda partition: tuple(hold.value for hold in partition.holds))


_partition_report = _of.table(PartitionReport)


def partition_report(partition: Partition) -> PartitionReport:
    """Report a partition."""
    return _partition_report(partition, None)


def placement_report(partition: Partition) -> PlacementReport:
    """The placement rules in force."""
    return PlacementReport(partition=partition.name, rules=partition.placer.rules)
