"""Usage of users and groups, for readers (spec §§ 10, 12.4)."""

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass

from licorne_core.model.apps.application import Application
from licorne_core.model.trackers import Tracker
from licorne_core.partitions.partition import Partition
from licorne_core.values.errors import NotFound, shown
from licorne_core.values.ids import AppId, QueuePath
from licorne_core.values.resources import EMPTY, Resources, charge
from licorne_core.values.runs import in_runs

STEP = 500
"""Queues and applications that are looked at before the reader may pause."""

_ROOT = QueuePath("root")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueUsage:
    """Usage and limit of a user or a group in one queue and below.

    `max` is empty and `max_applications` 0 where there is no limit.
    """

    path: QueuePath
    allocated: Resources
    applications: tuple[AppId, ...]
    max: Resources
    max_applications: int
    children: tuple["QueueUsage", ...] = ()


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
    below: dict[str, list[QueueUsage]] = {}
    for number, path in enumerate(reversed(paths), 1):
        tracker = trackers[path]
        usage = QueueUsage(
            path=path,
            allocated=booked.get(path, EMPTY),
            applications=tuple(tracker.applications),
            max=dict(tracker.max or {}),
            max_applications=tracker.max_applications,
            children=tuple(reversed(below.pop(path, []))),
        )
        below.setdefault(path.rpartition(".")[0], []).append(usage)
        if not number % STEP:
            yield
    return below[""][0]
