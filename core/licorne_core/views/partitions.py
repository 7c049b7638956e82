"""RMs and partitions in numbers."""

from licorne_core.messages.reports import PartitionReport, PlacementReport, RmReport
from licorne_core.partitions.partition import Partition
from licorne_core.partitions.registry import Rm
from licorne_core.values.ids import bare_partition


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


def partition_report(partition: Partition) -> PartitionReport:
    """Report a partition. An assumed ask, or a replacement of a placeholder, counts as an ask."""
    tally = partition.tally
    policy = partition.nodes.order.policy
    return PartitionReport(
        name=partition.name,
        bare_name=bare_partition(partition.name),
        rm_id=partition.rm_id,
        state="Active",
        state_time=partition.state_time,
        capacity=dict(partition.nodes.total),
        allocated=dict(partition.tree.root.allocated),
        nodes=len(partition.nodes.by_id),
        allocations=tally.allocations,
        pending_asks=tally.asks,
        applications=dict(tally.states),
        node_sort_policy=policy.type.value,
        node_sort_attribute=policy.attribute,
        node_sort_weights=dict(policy.weights),
        preemption_enabled=partition.config.preemption_enabled,
        quota_preemption_enabled=partition.config.quota_preemption_enabled,
        holds=tuple(hold.value for hold in partition.holds),
    )


def placement_report(partition: Partition) -> PlacementReport:
    """The placement rules in force."""
    return PlacementReport(partition=partition.name, rules=partition.placer.rules)
