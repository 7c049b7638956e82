"""What users and groups have, for those who look (spec §§ 10, 12.4)."""

from collections.abc import Iterable, Mapping

from licorne_core.apps.application import Application
from licorne_core.ids import QueuePath
from licorne_core.partition import Partition
from licorne_core.reports import QueueUsage, UsageReport
from licorne_core.resources import EMPTY, Resources, charge
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
        queues=_queue_usage(root, trackers, below, _booked(members)),
    )


def _booked(members: Iterable[Application]) -> dict[str, dict[str, int]]:
    """What the applications have in each queue and below, by its path.

    Every one is looked at once: there may be very many, in queues that are deep.
    """
    found: dict[str, dict[str, int]] = {}
    for app in members:
        booked = found.setdefault(app.queue_path, {})
        charge(booked, tuple(app.allocated.items()))
        charge(booked, tuple(app.placeholder_allocated.items()))
    for leaf in list(found):
        above = leaf.rpartition(".")[0]
        while above:
            charge(found.setdefault(above, {}), tuple(found[leaf].items()))
            above = above.rpartition(".")[0]
    return found


def _queue_usage(
    path: QueuePath,
    trackers: Mapping[QueuePath, Tracker],
    below: Mapping[str, list[QueuePath]],
    booked: Mapping[str, Resources],
) -> QueueUsage:
    tracker = trackers[path]
    return QueueUsage(
        path=path,
        allocated=booked.get(path, EMPTY),
        applications=tuple(tracker.applications),
        max=dict(tracker.max or {}),
        max_applications=tracker.max_applications,
        children=tuple(
            _queue_usage(child, trackers, below, booked) for child in below.get(path, [])
        ),
    )
