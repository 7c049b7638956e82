"""Queues: what they are, have and may have."""

from dataclasses import replace

from licorne_core.ids import QueuePath
from licorne_core.preemption.quota_change import QuotaClock, is_above_max
from licorne_core.queues.queue import Queue
from licorne_core.queues.quota import current_share, headroom
from licorne_core.reports import QueueReport


def queue_report(queue: Queue, clock: QuotaClock, *, subtree: bool) -> QueueReport:
    """One queue, with all below it when wanted."""
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
        child_names=tuple(QueuePath(child.path) for child in children),
        children=tuple(queue_report(child, clock, subtree=True) for child in children if subtree),
    )
