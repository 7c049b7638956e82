"""Queues: settings, usage and maxima."""

from collections import deque
from collections.abc import Iterator
from dataclasses import replace

from licorne_core.messages.reports import QueueReport
from licorne_core.model.queues.queue import Queue
from licorne_core.model.queues.quota import current_share, headroom
from licorne_core.scheduling.preemption.quota_change import QuotaClock, is_above_max
from licorne_core.values.ids import QueuePath
from licorne_core.values.runs import in_runs


def queue_report(queue: Queue, clock: QuotaClock, *, subtree: bool) -> QueueReport:
    """Report a queue, on request with all below it."""
    settings = queue.settings
    below = [queue.children[name] for name in sorted(queue.children)] if subtree else []
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
        preempting=dict(queue.preempting),
        promised=dict(queue.promised),
        headroom=headroom(queue),
        applications=len(queue.applications),
        running_applications=queue.running_applications,
        max_applications=queue.max_applications,
        allocating_accepted=tuple(queue.allocating),
        share=current_share(queue),
        priority=queue.priority(),
        sort_policy=settings.app_sort.value if queue.is_leaf else "fair",
        priority_sort=settings.priority_sort,
        priority_fence=settings.priority_fence,
        priority_offset=settings.priority_offset,
        preemption_policy=settings.preemption.value,
        preemption_delay=settings.preemption_delay,
        quota_preemption_delay=settings.quota_preemption_delay,
        quota_preemption_time=clock.start(queue),
        quota_preemption_running=bool(queue.preempting) and is_above_max(queue),
        backoff_threshold=settings.backoff_threshold,
        backoff_delay=settings.backoff_delay,
        properties=dict(queue.properties),
        counters=replace(queue.counters),
        template=queue.template,
        children=tuple(queue_report(child, clock, subtree=True) for child in below),
    )


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
