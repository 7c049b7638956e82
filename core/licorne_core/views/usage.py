"""What users and groups have, for those who look (spec §§ 10, 12.4)."""

from collections.abc import Mapping

from licorne_core.ids import QueuePath
from licorne_core.partition import Partition
from licorne_core.reports import QueueUsage, UsageReport
from licorne_core.trackers import Tracker


def usage_report(
    partition: Partition, name: str, trackers: Mapping[QueuePath, Tracker]
) -> UsageReport:
    """The report on one user or group, made from its trackers in all queues."""
    root = QueuePath("root")
    members = [partition.applications[app_id] for app_id in trackers[root].members]
    below: dict[str, list[QueuePath]] = {}
    for path in sorted(trackers):
        below.setdefault(path.rpartition(".")[0], []).append(path)
    return UsageReport(
        name=name,
        groups={app.app_id: app.group for app in members},
        queues=_queue_usage(root, trackers, below),
    )


def _queue_usage(
    path: QueuePath,
    trackers: Mapping[QueuePath, Tracker],
    below: Mapping[str, list[QueuePath]],
) -> QueueUsage:
    tracker = trackers[path]
    return QueueUsage(
        path=path,
        allocated=tracker.usage,
        applications=tuple(tracker.applications),
        max=dict(tracker.max or {}),
        max_applications=tracker.max_applications,
        children=tuple(_queue_usage(child, trackers, below) for child in below.get(path, [])),
    )
