"""Queues, and usage of users and groups in them (spec §§ 10, 12.4)."""

from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from licorne_core.config.schema import TemplateConfig
from licorne_core.messages.operators import OperatorMark
from licorne_core.model.apps.application import Application
from licorne_core.model.queues import queue as quota
from licorne_core.model.queues.queue import Queue
from licorne_core.model.quotas import Tracker
from licorne_core.partitions.partition import Partition
from licorne_core.values.counters import QueueCounters
from licorne_core.values.errors import NotFound, shown
from licorne_core.values.ids import AppId, PartitionName, QueuePath
from licorne_core.values.resources import EMPTY, Resources, charge
from licorne_core.values.slices import in_runs
from licorne_core.views.fields import Of, Span
from licorne_core.views.partitions import InOrder, PartitionViews


class _Here(NamedTuple):
    """The partition of a queue, and the time of the report in unix seconds."""

    partition: Partition
    now: float


_of = Of[Queue, _Here]()


def bounded(queue: Queue, here: Partition, amounts: Resources) -> Resources:
    """Bounds of a queue, without floating types that no queue below root bounds."""
    hidden = here.rm.core.floating.hidden
    if hidden:
        named = {name for above in queue.lineage[:-1] for name in above.max or EMPTY}
        hidden -= named
    return {name: value for name, value in amounts.items() if name not in hidden}


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueReport:
    """A queue with its settings and usage; amounts are by resource name."""

    path: QueuePath
    parent: str = _of(lambda queue: queue.parent.path if queue.parent else "")
    is_leaf: bool
    is_managed: bool = _of(lambda queue: queue.managed)
    state: str = _of(lambda queue: queue.state.value)
    stop: OperatorMark | None = _of.within(lambda queue, here: here.partition.tree.stopped.get(queue.path))
    """Mark of the operator who has stopped the queue; None if it is not stopped."""
    guaranteed: Resources
    max: Resources = _of.within(lambda queue, here: bounded(queue, here.partition, queue.max or EMPTY))
    allocated: Resources
    pending: Resources
    preempting: Resources
    """Resources of victims of preemption that have not ended yet."""
    promised: Resources
    """Resources of asks for which victims were stopped."""
    headroom: Resources = _of.within(
        lambda queue, here: bounded(queue, here.partition, quota.headroom(queue))
    )
    fair_max: Resources = _of.within(
        lambda queue, here: bounded(queue, here.partition, quota.fair_max(queue))
    )
    """Denominator of the share if nothing is guaranteed."""
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
    extended: Mapping[str, Any] = _of.added(
        "queue", lambda _, here: here.partition.points, lambda here: here.now
    )
    properties: Mapping[str, str]
    counters: QueueCounters = _of(lambda queue: replace(queue.counters))
    template: TemplateConfig | None


_queue_report = _of.table(QueueReport)


STEP = 500
"""Number of queues and applications that are read without a pause."""

_ROOT = QueuePath("root")


class _Sums(NamedTuple):
    """Booked amounts by queue, and the usage of each queue's children in reverse order of names."""

    booked: Mapping[str, Resources]
    below: dict[str, "list[QueueUsage]"]
    partition: Partition
    now: float


_of_usage = Of[Tracker, _Sums]()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueUsage:
    """Usage and limit of a user or a group in one queue and below.

    `max` is empty, and `max_applications` is 0, if there is no limit.
    """

    path: QueuePath
    allocated: Resources = _of_usage.within(lambda tracker, sums: sums.booked.get(tracker.path, EMPTY))
    applications: tuple[AppId, ...] = _of_usage(lambda tracker: tuple(tracker.applications))
    max: Resources
    max_applications: int
    children: tuple["QueueUsage", ...] = _of_usage.within(
        lambda tracker, sums: tuple(reversed(sums.below.pop(tracker.path, ())))
    )
    extended: Mapping[str, Any] = _of_usage.added(
        "usage", lambda _, sums: sums.partition.points, lambda sums: sums.now
    )


_queue_usage = _of_usage.table(QueueUsage)


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageReport:
    """Usage and limits of a user or a group in all queues (spec § 10).

    `groups` has, for each counted application, the group whose limits apply, or "". `asks` is the number of
    asks of these applications, counted like `AppReport.pending_count`, and `pending` their pending amounts.
    """

    name: str
    groups: Mapping[AppId, str]
    queues: QueueUsage
    pending: Resources
    asks: int


class QueueViews(PartitionViews):
    """Queues, users and groups. A missing object raises NotFound with its name."""

    def queue(self, partition: PartitionName, path: str) -> QueueReport:
        """Report a queue."""
        owner = self._registry.partition(partition)
        return _queue_report(_find_queue(owner, path), _Here(owner, self.time(owner)))

    def children(self, partition: PartitionName, path: str) -> Iterator[QueuePath | None]:
        """Paths of the children of a queue, by name, after a None wherever the reader may pause."""
        queue = _find_queue(self._registry.partition(partition), path)
        names = in_runs(list(queue.children))
        return (None if name is None else QueuePath(f"{queue.path}.{name}") for name in names)

    def level_by_level(self, partition: PartitionName) -> Iterator[QueuePath | None]:
        """Paths of all queues, level by level, and below one parent by name.

        None marks a possible pause of the reader. A queue may have been removed when it is read.
        """
        return level_by_level(self._registry.partition(partition).tree.root)

    def usage_names_in_order(self, partition: PartitionName, kind: str) -> InOrder[str]:
        """The users (`kind` is ``user``) or groups (``group``) with usage or a limit."""
        owner = self._registry.partition(partition)
        return InOrder(owner.limits.known(kind, owner.tree.limited()))

    def usage(self, partition: PartitionName, kind: str, name: str) -> Iterator[UsageReport | None]:
        """Yield usage and limits of a user or a group, after a None wherever the reader may pause.

        Later changes may be missed. The first step raises NotFound if no application counts for the user or
        group and no limit names it.
        """
        owner = self._registry.partition(partition)
        return _usage_report(owner, kind, name, self.time(owner))

    def usages(
        self, partition: PartitionName, kind: str, names: Iterable[str | None]
    ) -> Iterator[UsageReport | None]:
        """Usage of several names, each read when it is yielded; removed names are left out."""
        for name in names:
            yield None
            if name is not None:
                with suppress(NotFound):
                    yield from self.usage(partition, kind, name)


def _find_queue(partition: Partition, path: str) -> Queue:
    queue = partition.tree.get(path)
    if queue is None:
        raise NotFound(f"queue {shown(path)} not found")
    return queue


def level_by_level(root: Queue) -> Iterator[QueuePath | None]:
    """Paths of a queue and its descendants, level by level, with a None wherever the reader may pause."""
    waiting = deque([root])
    while waiting:
        queue = waiting.popleft()
        yield QueuePath(queue.path)
        for name in in_runs(list(queue.children)):
            child = None if name is None else queue.children.get(name)
            if child is not None:
                waiting.append(child)
            yield None


def _usage_report(partition: Partition, kind: str, name: str, now: float) -> Iterator[UsageReport | None]:
    """Usage of a user or a group, from its trackers in all queues."""
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
    pending: dict[str, int] = {}
    asks = 0
    for number, app_id in enumerate(list(trackers[_ROOT].members), 1):
        app = partition.applications.get(app_id)
        if app is not None:
            groups[app_id] = app.group
            _book(booked, app)
            charge(pending, tuple(app.pending_total.items()))
            asks += app.pending_count + app.assumed_count + app.replacing_count
        if not number % STEP:
            yield None
    yield from _add_up(booked)
    queues = yield from _tree(trackers, _Sums(booked, {}, partition, now))
    yield UsageReport(name=name, groups=groups, queues=queues, pending=pending, asks=asks)


def _book(booked: dict[str, dict[str, int]], app: Application) -> None:
    """Add the usage of an application to that of its queue."""
    here = booked.setdefault(app.queue_path, {})
    charge(here, tuple(app.allocated.items()))
    charge(here, tuple(app.placeholder_allocated.items()))


def _add_up(booked: dict[str, dict[str, int]]) -> Iterator[None]:
    """Add the usage of leaves to all their ancestors.

    Each leaf is read only once, because there may be very many leaves, and deep trees.
    """
    for number, leaf in enumerate(list(booked), 1):
        above = leaf.rpartition(".")[0]
        while above:
            charge(booked.setdefault(above, {}), tuple(booked[leaf].items()))
            above = above.rpartition(".")[0]
        if not number % STEP:
            yield


def _tree(trackers: Mapping[QueuePath, Tracker], sums: _Sums) -> Generator[None, None, QueueUsage]:
    """Usage in root and its descendants, with siblings by name."""
    paths: list[QueuePath] = []
    for number, path in enumerate(in_runs(list(trackers)), 1):
        if path is not None:
            paths.append(path)
        if path is None or not number % STEP:
            yield
    # In reverse order of names, so that the children of a queue precede it.
    for number, path in enumerate(reversed(paths), 1):
        usage = _queue_usage(trackers[path], sums)
        sums.below.setdefault(path.rpartition(".")[0], []).append(usage)
        if not number % STEP:
            yield
    return sums.below[""][0]
