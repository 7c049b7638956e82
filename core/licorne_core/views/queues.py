"""Queues: settings, usage and maxima."""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from licorne_core.config.schema import TemplateConfig
from licorne_core.model.queues import quota
from licorne_core.model.queues.queue import Queue
from licorne_core.partitions.partition import Partition
from licorne_core.scheduling.preemption.quota_change import is_above_max
from licorne_core.values.counters import QueueCounters
from licorne_core.values.ids import AppId, QueuePath
from licorne_core.values.resources import Resources
from licorne_core.values.runs import in_runs
from licorne_core.views.fields import Moment, Of, Span

_of = Of[Queue, Partition]()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueReport:
    """A queue, on request with its children's reports."""

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
    children: tuple["QueueReport", ...] = ()


queue_report = _of.table(QueueReport)


def queue_subtree(queue: Queue, here: Partition) -> QueueReport:
    """Report a queue with all below it, by name."""
    below = (queue_subtree(queue.children[name], here) for name in sorted(queue.children))
    return replace(queue_report(queue, here), children=tuple(below))


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
