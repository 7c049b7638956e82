"""RMs and partitions in numbers, their queues, and usage of users and groups (spec §§ 10, 12.4)."""

from collections import deque
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from licorne_core.config.schema import TemplateConfig
from licorne_core.messages.reports import PlacementReport
from licorne_core.model.apps.application import Application
from licorne_core.model.queues import queue as quota
from licorne_core.model.queues.queue import Queue
from licorne_core.model.quotas import Tracker
from licorne_core.partitions.partition import Partition
from licorne_core.partitions.registry import Rm
from licorne_core.scheduling.preemption.quota_change import is_above_max
from licorne_core.values.counters import QueueCounters
from licorne_core.values.errors import NotFound, shown
from licorne_core.values.ids import AppId, NodeId, PartitionName, QueuePath, RmId, bare_partition
from licorne_core.values.resources import EMPTY, Resources, charge
from licorne_core.values.rm_caps import RmCounts
from licorne_core.values.slices import in_runs
from licorne_core.views.fields import Moment, Of, Span

_of = Of[Queue, Partition]()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueReport:
    """A queue."""

    path: QueuePath
    parent: str = _of(lambda queue: queue.parent.path if queue.parent else "")
    is_leaf: bool
    is_managed: bool = _of(lambda queue: queue.managed)
    state: str = _of(lambda queue: queue.state.value)
    guaranteed: Resources
    max: Resources
    allocated: Resources
    pending: Resources
    preempting: Resources
    """Resources of victims of preemption that are not gone yet."""
    promised: Resources
    """Resources of asks for which victims were stopped."""
    headroom: Resources = _of(quota.headroom)
    fair_max: Resources = _of(quota.fair_max)
    """Amounts that usage is compared with for the share, where nothing is guaranteed."""
    applications: int = _of(lambda queue: len(queue.applications))
    running_applications: int
    max_applications: int
    allocating_accepted: tuple[AppId, ...] = _of(lambda queue: tuple(queue.allocating))
    share: float = _of(quota.current_share)
    priority: int = _of(Queue.priority)
    sort_policy: str = _of(lambda queue: queue.settings.app_sort.value if queue.is_leaf else "fair")
    priority_sort: bool = _of(lambda queue: queue.settings.priority_sort)
    priority_fence: bool = _of(lambda queue: queue.settings.priority_fence)
    priority_offset: int = _of(lambda queue: queue.settings.priority_offset)
    preemption_policy: str = _of(lambda queue: queue.settings.preemption.value)
    preemption_delay: Span = _of(lambda queue: queue.settings.preemption_delay)
    quota_preemption_delay: Span = _of(lambda queue: queue.settings.quota_preemption_delay)
    quota_preemption_time: Moment = _of.within(lambda queue, here: here.quota_clock.start(queue))
    """Time at which the excess over a lowered maximum is preempted; 0.0 for never."""
    quota_preemption_running: bool = _of(lambda queue: bool(queue.preempting) and is_above_max(queue))
    """True if it has more than its maximum, and victims in it are being stopped."""
    backoff_threshold: int = _of(lambda queue: queue.settings.backoff_threshold)
    backoff_delay: Span = _of(lambda queue: queue.settings.backoff_delay)
    properties: Mapping[str, str]
    counters: QueueCounters = _of(lambda queue: replace(queue.counters))
    template: TemplateConfig | None


queue_report = _of.table(QueueReport)


def children_of(queue: Queue) -> Iterator[QueuePath | None]:
    """The paths of the queues just below, by name, with a None wherever the reader may pause."""
    for name in in_runs(list(queue.children)):
        yield None if name is None else QueuePath(f"{queue.path}.{name}")


def level_by_level(root: Queue) -> Iterator[QueuePath | None]:
    """The paths of all queues, level by level, with a None wherever the reader may pause."""
    waiting = deque([root])
    while waiting:
        queue = waiting.popleft()
        yield QueuePath(queue.path)
        for name in in_runs(list(queue.children)):
            child = None if name is None else queue.children.get(name)
            if child is not None:
                waiting.append(child)
            yield None


STEP = 500
"""Queues and applications that are looked at before the reader may pause."""

_ROOT = QueuePath("root")


class _Sums(NamedTuple):
    """Booked amounts by queue, and the usage below a queue: the last by name first."""

    booked: Mapping[str, Resources]
    below: dict[str, "list[QueueUsage]"]


_of_usage = Of[Tracker, _Sums]()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueUsage:
    """Usage and limit of a user or a group in one queue and below.

    `max` is empty and `max_applications` 0 where there is no limit.
    """

    path: QueuePath
    allocated: Resources = _of_usage.within(lambda tracker, sums: sums.booked.get(tracker.path, EMPTY))
    applications: tuple[AppId, ...] = _of_usage(lambda tracker: tuple(tracker.applications))
    max: Resources
    max_applications: int
    children: tuple["QueueUsage", ...] = _of_usage.within(
        lambda tracker, sums: tuple(reversed(sums.below.pop(tracker.path, ())))
    )


_queue_usage = _of_usage.table(QueueUsage)


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReport:
    """All that a user or a group has (spec § 10).

    `groups` has every application that counts, and the group that it counts for, empty for none.
    """

    name: str
    groups: Mapping[AppId, str]
    queues: QueueUsage


def usage_report(partition: Partition, kind: str, name: str) -> Iterator[UsageReport | None]:
    """The report on one user or group, made from its trackers in all queues.

    Before it is a None wherever the reader may pause. Later changes may be missed.

    Raises:
        NotFound: neither an application counts for it nor a limit names it.
    """
    limits = partition.limits
    trackers = dict(limits.of_kind(kind).get(name, {}))
    for number, queue in enumerate(partition.tree.limited(), 1):
        limits.add_idle(trackers, kind, name, queue)
        if not number % STEP:
            yield None
    if not trackers:
        raise NotFound(f"{kind} {shown(name)} not found")
    groups: dict[AppId, str] = {}
    booked: dict[str, dict[str, int]] = {}
    for number, app_id in enumerate(list(trackers[_ROOT].members), 1):
        app = partition.applications.get(app_id)
        if app is not None:
            groups[app_id] = app.group
            _book(booked, app)
        if not number % STEP:
            yield None
    yield from _add_up(booked)
    queues = yield from _tree(trackers, booked)
    yield UsageReport(name=name, groups=groups, queues=queues)


def _book(booked: dict[str, dict[str, int]], app: Application) -> None:
    """Add the usage of an application to its queue's."""
    here = booked.setdefault(app.queue_path, {})
    charge(here, tuple(app.allocated.items()))
    charge(here, tuple(app.placeholder_allocated.items()))


def _add_up(booked: dict[str, dict[str, int]]) -> Iterator[None]:
    """Add the usage of leaves to all queues above them.

    Every one is looked at once: there may be very many, in queues that are deep.
    """
    for number, leaf in enumerate(list(booked), 1):
        above = leaf.rpartition(".")[0]
        while above:
            charge(booked.setdefault(above, {}), tuple(booked[leaf].items()))
            above = above.rpartition(".")[0]
        if not number % STEP:
            yield


def _tree(
    trackers: Mapping[QueuePath, Tracker], booked: Mapping[str, Resources]
) -> Generator[None, None, QueueUsage]:
    """The usage in root, and in all queues below: these by name."""
    paths: list[QueuePath] = []
    for number, path in enumerate(in_runs(list(trackers)), 1):
        if path is not None:
            paths.append(path)
        if path is None or not number % STEP:
            yield
    # The last by name first, so that what is below a queue was made before it.
    sums = _Sums(booked, {})
    for number, path in enumerate(reversed(paths), 1):
        usage = _queue_usage(trackers[path], sums)
        sums.below.setdefault(path.rpartition(".")[0], []).append(usage)
        if not number % STEP:
            yield
    return sums.below[""][0]


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


_of_partition = Of[Partition, None]()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReport:
    """A partition in numbers. `name` is normalized, `bare_name` is not.

    An assumed ask, or a replacement of a placeholder, counts as an ask.
    """

    name: PartitionName
    bare_name: str = _of_partition(lambda partition: bare_partition(partition.name))
    rm_id: RmId
    state: str = "Active"
    state_time: Moment
    capacity: Resources = _of_partition(lambda partition: dict(partition.nodes.total))
    allocated: Resources = _of_partition(lambda partition: dict(partition.tree.root.allocated))
    nodes: int = _of_partition(lambda partition: len(partition.nodes.by_id))
    allocations: int = _of_partition(lambda partition: partition.tally.allocations)
    pending_asks: int = _of_partition(lambda partition: partition.tally.asks)
    applications: Mapping[str, int] = _of_partition(lambda partition: dict(partition.tally.states))
    node_sort_policy: str = _of_partition(lambda partition: partition.nodes.order.policy.type.value)
    node_sort_attribute: str = _of_partition(lambda partition: partition.nodes.order.policy.attribute)
    """Attribute for `spread`; empty for other policies."""
    node_sort_weights: Mapping[str, float] = _of_partition(
        lambda partition: dict(partition.nodes.order.policy.weights)
    )
    preemption_enabled: bool = _of_partition(lambda partition: partition.config.preemption_enabled)
    quota_preemption_enabled: bool = _of_partition(
        lambda partition: partition.config.quota_preemption_enabled
    )
    holds: tuple[str, ...] = _of_partition(lambda partition: tuple(hold.value for hold in partition.holds))


_partition_report = _of_partition.table(PartitionReport)


def partition_report(partition: Partition) -> PartitionReport:
    """Report a partition."""
    return _partition_report(partition, None)


def placement_report(partition: Partition) -> PlacementReport:
    """The placement rules in force."""
    return PlacementReport(partition=partition.name, rules=partition.placer.rules)
