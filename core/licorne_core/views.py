"""Reports for those who look: made on demand, never changing anything (DESIGN § 2)."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice

from licorne_core.apps.application import Application
from licorne_core.counters import Counters
from licorne_core.errors import NotFound
from licorne_core.explain import explain
from licorne_core.ids import AppId, NodeId, PartitionName, QueuePath, RmId, bare_partition
from licorne_core.nodes.node import Node
from licorne_core.partition import Partition
from licorne_core.queues.queue import Queue
from licorne_core.queues.quota import current_share, headroom
from licorne_core.registry import Registry, Rm
from licorne_core.reports import (
    AppReport,
    AskReport,
    Explanation,
    NodeReport,
    PartitionReport,
    PlacementReport,
    QueueReport,
    RmReport,
    UsageReport,
)
from licorne_core.usage import usage_report


class Views:
    """The reading side of the core. What is not there raises NotFound, naming it."""

    def __init__(self, registry: Registry) -> None:
        """Over these RMs."""
        self._registry = registry

    def rms(self) -> tuple[RmReport, ...]:
        """All RMs in order of registration."""
        return tuple(_rm_report(rm) for rm in self._registry.rms.values())

    def rm(self, rm_id: str) -> RmReport:
        """One RM."""
        rm = self._registry.rms.get(RmId(rm_id))
        if rm is None:
            raise NotFound(f"RM {rm_id} is not registered")
        return _rm_report(rm)

    def partitions(self, rm_id: RmId | None = None) -> tuple[PartitionReport, ...]:
        """All partitions, or those of one RM."""
        rms = self._registry.rms
        chosen = list(rms.values()) if rm_id is None else [rms[rm_id]] if rm_id in rms else []
        return tuple(_partition_report(p) for rm in chosen for p in rm.partitions.values())

    def resolve(self, name: str) -> PartitionName:
        """A partition's normalized name, from that or from its bare name (DESIGN § 4)."""
        partition = self._registry.by_name(name)
        if partition is None:
            raise NotFound(f"partition {name} not found")
        return partition.name

    def queues(self, partition: PartitionName) -> QueueReport:
        """The whole tree, from root."""
        return _queue_report(self._partition(partition).tree.root, subtree=True)

    def queue(self, partition: PartitionName, path: str, *, subtree: bool = False) -> QueueReport:
        """One queue, with all below it when wanted."""
        queue = self._partition(partition).tree.get(path)
        if queue is None:
            raise NotFound(f"queue {path} not found")
        return _queue_report(queue, subtree=subtree)

    def applications(
        self,
        partition: PartitionName,
        *,
        queue: str = "",
        state: str = "active",
        detail: bool = False,
    ) -> list[AppReport]:
        """Applications that are active, completed or rejected; of one queue or of all."""
        owner = self._partition(partition)
        if queue:
            self.queue(partition, queue)
        chosen = _by_state(owner, state)
        wanted = queue.lower()
        return [
            _app_report(owner, app, detail=detail)
            for app in chosen.values()
            if not wanted or app.queue_path == wanted
        ]

    def app_ids(
        self, partition: PartitionName, *, queue: str = "", state: str = "active"
    ) -> list[AppId]:
        """What `applications` would report, by the names under which `application` finds it."""
        owner = self._partition(partition)
        if queue:
            self.queue(partition, queue)
        wanted = queue.lower()
        chosen = _by_state(owner, state).items()
        return [name for name, app in chosen if not wanted or app.queue_path == wanted]

    def application(
        self,
        partition: PartitionName,
        app_id: str,
        *,
        detail: bool = True,
        limit: int | None = None,
    ) -> AppReport:
        """One application with its asks and allocations; completed and rejected ones too.

        With a limit, at most so many asks, the first in order, and so many allocations.
        """
        owner = self._partition(partition)
        app = self._application(owner, app_id) or owner.rejected.get(AppId(app_id))
        app = app or owner.completed.get(AppId(app_id))
        if app is None:
            raise NotFound(f"application {app_id} not found")
        return _app_report(owner, app, detail=detail, limit=limit)

    def nodes(self, partition: PartitionName, *, detail: bool = False) -> list[NodeReport]:
        """All nodes by id."""
        owner = self._partition(partition)
        nodes = owner.nodes.by_id
        return [_node_report(owner, nodes[node_id], detail=detail) for node_id in sorted(nodes)]

    def node_ids(self, partition: PartitionName) -> list[NodeId]:
        """The ids of all nodes, sorted, for those who read node by node."""
        return sorted(self._partition(partition).nodes.by_id)

    def node(self, partition: PartitionName, node_id: str, *, detail: bool = True) -> NodeReport:
        """One node with what is on it."""
        owner = self._partition(partition)
        node = owner.nodes.by_id.get(NodeId(node_id))
        if node is None:
            raise NotFound(f"node {node_id} not found")
        return _node_report(owner, node, detail=detail)

    def usage_names(self, partition: PartitionName, kind: str) -> list[str]:
        """The users (`kind` is ``user``) or groups (``group``) that applications count for."""
        return sorted(self._partition(partition).limits.of_kind(kind))

    def usage(self, partition: PartitionName, kind: str, name: str) -> UsageReport:
        """What a user or a group has and may have, queue by queue."""
        owner = self._partition(partition)
        trackers = owner.limits.of_kind(kind).get(name)
        if trackers is None:
            raise NotFound(f"{kind} {name} not found")
        return usage_report(owner, name, trackers)

    def placement(self, partition: PartitionName) -> PlacementReport:
        """The placement rules in force."""
        owner = self._partition(partition)
        return PlacementReport(partition=owner.name, rules=owner.placer.rules)

    def explain(self, partition: PartitionName, app_id: str, key: str = "") -> Explanation:
        """Why an ask is pending, or where it went."""
        owner = self._partition(partition)
        app = self._application(owner, app_id)
        if app is None:
            raise NotFound(f"application {app_id} not found")
        return explain(owner, app, key)

    def counters(self, partition: PartitionName) -> Counters:
        """The partition's counters; read, do not keep."""
        return self._partition(partition).counters

    def _partition(self, name: PartitionName) -> Partition:
        partition = self._registry.partitions.get(name)
        if partition is None:
            raise NotFound(f"partition {name} not found")
        return partition

    @staticmethod
    def _application(partition: Partition, app_id: str) -> Application | None:
        return partition.applications.get(AppId(app_id))


def _by_state(partition: Partition, state: str) -> Mapping[AppId, Application]:
    match state:
        case "active":
            return partition.applications
        case "completed":
            return partition.completed
        case "rejected":
            return partition.rejected
    raise NotFound(f"application state {state} is none of active, completed, rejected")


def _rm_report(rm: Rm) -> RmReport:
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
    )


def _partition_report(partition: Partition) -> PartitionReport:
    apps = partition.applications.values()
    policy = partition.nodes.order.policy
    states = Counter(app.state.value for app in apps)
    states.update(app.state.value for app in partition.completed.values())
    states.update(app.state.value for app in partition.rejected.values())
    return PartitionReport(
        name=partition.name,
        bare_name=bare_partition(partition.name),
        rm_id=partition.rm_id,
        state="Active",
        state_time=partition.state_time,
        capacity=dict(partition.nodes.total),
        allocated=dict(partition.tree.root.allocated),
        nodes=len(partition.nodes.by_id),
        allocations=sum(len(app.allocations) for app in apps),
        pending_asks=sum(len(app.pending) for app in apps),
        applications=dict(states),
        node_sort_policy=policy.type.value,
        node_sort_weights=dict(policy.weights),
        preemption_enabled=partition.config.preemption_enabled,
        quota_preemption_enabled=partition.config.quota_preemption_enabled,
        holds=tuple(hold.value for hold in partition.holds),
    )


def _queue_report(queue: Queue, *, subtree: bool) -> QueueReport:
    settings = queue.settings
    children = [queue.children[name] for name in sorted(queue.children)]
    return QueueReport(
        path=queue.path,
        parent=queue.parent.path if queue.parent else "",
        is_leaf=queue.is_leaf,
        is_managed=queue.managed,
        state=queue.state.value,
        guaranteed=dict(queue.guaranteed or {}),
        max=dict(queue.max or {}),
        allocated=dict(queue.allocated),
        pending=dict(queue.pending),
        preempting={},
        headroom=headroom(queue),
        applications=len(queue.applications),
        running_applications=queue.running_applications,
        max_applications=queue.max_applications,
        allocating_accepted=(),
        share=current_share(queue),
        priority=queue.priority(),
        sort_policy=settings.app_sort.value if queue.is_leaf else "fair",
        priority_sort=settings.priority_sort,
        priority_fence=settings.priority_fence,
        priority_offset=settings.priority_offset,
        preemption_policy=settings.preemption.value,
        preemption_delay=settings.preemption_delay,
        quota_preemption_delay=settings.quota_preemption_delay,
        backoff_threshold=settings.backoff_threshold,
        backoff_delay=settings.backoff_delay,
        properties=dict(queue.properties),
        counters=replace(queue.counters),
        template=queue.template,
        child_names=tuple(QueuePath(child.path) for child in children),
        children=tuple(_queue_report(child, subtree=True) for child in children) if subtree else (),
    )


def _app_report(
    partition: Partition, app: Application, *, detail: bool, limit: int | None = None
) -> AppReport:
    asks = app.asks_in_order(limit) if detail else []
    allocations = islice(app.allocations.values(), limit) if detail else ()
    return AppReport(
        app_id=app.app_id,
        partition=partition.name,
        queue=app.queue_path,
        user=app.user.user,
        groups=app.user.groups,
        state=app.state.value,
        message=app.message,
        submission_time=app.submission_time,
        start_time=app.start_time,
        finished_time=app.finished_time,
        backoff_until=app.backoff_until,
        allocated=dict(app.allocated),
        max_allocated=dict(app.max_allocated),
        pending=dict(app.pending_total),
        max_priority=app.priorities.top,
        pending_count=len(app.pending),
        allocation_count=len(app.allocations),
        state_log=tuple((time, state.value) for time, state in app.state_log),
        asks=[AskReport(ask=entry[3], request_time=entry[1]) for entry in asks],
        allocations=list(allocations),
    )


def _node_report(partition: Partition, node: Node, *, detail: bool) -> NodeReport:
    return NodeReport(
        node_id=node.node_id,
        partition=partition.name,
        attributes=dict(node.attributes),
        schedulable=node.schedulable,
        capacity=dict(node.capacity),
        allocated=dict(node.allocated),
        occupied=dict(node.occupied),
        available=dict(node.available),
        utilization=partition.nodes.order.utilization(node),
        allocation_count=len(node.allocations),
        allocations=list(node.allocations) if detail else (),
        foreign=list(node.foreign.values()) if detail else (),
    )
