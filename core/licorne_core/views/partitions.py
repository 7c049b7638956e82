"""RMs and partitions in numbers."""

from collections.abc import Mapping
from dataclasses import dataclass

from licorne_core.messages.reports import PlacementReport, RmReport
from licorne_core.partitions.partition import Partition
from licorne_core.partitions.registry import Rm
from licorne_core.values.ids import PartitionName, RmId, bare_partition
from licorne_core.values.resources import Resources
from licorne_core.views.fields import Moment, Of


def rm_report(rm: Rm) -> RmReport:
    """Report an RM and its configuration."""
    return RmReport(
        rm_id=rm.rm_id,
        version=rm.version,
        policy_group=rm.policy_group,
        build_info=dict(rm.build_info),
        registered_time=rm.registered_time,
        session=rm.session,
        partitions=tuple(rm.partitions),
        config=rm.configuration.text,
        checksum=rm.configuration.checksum,
        extra_config=dict(rm.extra_config),
        failed_nodes=tuple(rm.failed_nodes),
        counts=rm.holdings.counts(len(rm.partitions)),
    )


_of = Of[Partition]()


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
    node_sort_weights: Mapping[str, float] = _of(
        lambda partition: dict(partition.nodes.order.policy.weights)
    )
    preemption_enabled: bool = _of(lambda partition: partition.config.preemption_enabled)
    quota_preemption_enabled: bool = _of(
        lambda partition: partition.config.quota_preemption_enabled
    )
    holds: tuple[str, ...] = _of(lambda partition: tuple(hold.value for hold in partition.holds))


_partition_report = _of.table(PartitionReport)


def partition_report(partition: Partition) -> PartitionReport:
    """Report a partition."""
    return _partition_report(partition, partition)


def placement_report(partition: Partition) -> PlacementReport:
    """The placement rules in force."""
    return PlacementReport(partition=partition.name, rules=partition.placer.rules)
