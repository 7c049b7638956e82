"""Metrics of queues (spec § 12.3): by labels, and under names that contain the queue.

Two paths may have the same name, such as ``root.a-b`` and ``root.a_b``. The metric is their total.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import TypeVar

from licorne_core.messages.reports import Census
from licorne_core.values.errors import NotFound
from licorne_core.values.resources import Resources
from licorne_core.views import Views
from licorne_core.views.partitions import PartitionReport
from licorne_core.views.queues import QueueReport
from licorne_server.http.families import Families, Labels
from licorne_server.wire.features import QueueMetric, table

MAX_QUEUES = 1000
"""Maximum number of queues of a partition with their own metrics; queues nearer to root are preferred."""

PART = 500
"""Entries of a census that are read in one step."""

HOLDERS = ("able", "idle")
"""Labels of a reservation, by whether its ask would fit on the empty node."""

OTHERS = "(others)"
"""Path for all queues without metrics of their own, so that sums are complete."""

_PLACE = ("rm", "partition")
_QUEUE_HOLDER = (*_PLACE, "queue", "holder")
_BOUNDS = ("guaranteed", "max")
_USAGES = ("allocated", "pending", "preempting")
_LIVE = ("new", "accepted", "running", "resuming", "completing", "failing")
_OVER = ("completed", "failed", "rejected")

_Samples = Mapping[Labels, float]
_Family = tuple[str, str, str, Labels, _Samples]
"""A metric of a queue: suffix of the name, kind, text, labels, and samples."""

T = TypeVar("T")


class Room:
    """Remaining room for samples of one RM."""

    def __init__(self, samples: int) -> None:
        """Allow this number of samples."""
        self._left = samples
        self.truncated = False
        """True if samples were left out."""

    def is_left(self) -> bool:
        """True if more samples may be added; otherwise sets `truncated`."""
        self.truncated |= self._left <= 0
        return self._left > 0

    def take(self, samples: int) -> None:
        """Count samples as added."""
        self._left -= samples


class QueueMetrics:
    """Adds the metrics of the queues of one partition."""

    def __init__(self, views: Views, families: Families, report: PartitionReport, census: Census) -> None:
        """`census` has the sums over the applications."""
        self._views = views
        self._families = families
        self._report = report
        self._census = census
        self._place = (str(report.rm_id), report.bare_name)
        text = "Nodes reserved for asks, by whether these could have them."
        self._reserved = families.family("gauge", "licorne_queue_reserved_nodes", text, _QUEUE_HOLDER)

    def steps(self, room: Room, shows: Callable[[str], bool], *, names: bool) -> Iterator[None]:
        """Add a queue at each step, queues nearer to root first, while there is room.

        `shows` returns True for displayed resources; with `names` metrics are also added under names that
        contain the queue.
        """
        seen: set[str] = set()
        for path in self._views.level_by_level(self._report.name):
            yield
            if path is None:
                continue
            if len(seen) >= MAX_QUEUES:
                room.truncated = True
            if room.truncated or not room.is_left():
                break
            try:
                queue = self._views.queue(self._report.name, path)
            except NotFound:
                continue  # a dynamic queue that was removed since its parent was read
            seen.add(queue.path)
            count = self._queue(queue, shows, names=names)
            room.take(count * 2 if names else count)
        yield from self._pending(seen)
        yield from self._kept(seen, room, shows)

    def _queue(self, queue: QueueReport, shows: Callable[[str], bool], *, names: bool) -> int:
        """Add one queue; returns its number of samples."""
        resources = self._resources(queue, shows)
        shown: list[_Family] = [
            ("resource", "gauge", "Resources of a queue.", ("state", "resource"), resources)
        ]
        where, add = (*self._place, queue.path), self._families.put
        if queue.is_leaf:
            live, over, containers = self._leaf(queue)
            shown += [
                ("app", "gauge", "Applications of a leaf.", ("state",), {**live, **over}),
                ("container", "counter", "Allocations ever.", ("state",), containers),
            ]
            text = "Applications that ended, or were rejected."
            add("counter", "yunikorn_queue_app_total", text, (*_PLACE, "queue", "state"), over, where)
            # A leaf also has samples of zero, so that averages over time are correct.
            self._show_holders(queue.path)
        count, part = len(HOLDERS) if queue.is_leaf else 0, metric_part(queue.path)
        count += self._of_extensions(queue, shows, where)
        for name, kind, text, labels, samples in shown:
            count += add(kind, f"yunikorn_queue_{name}", text, (*_PLACE, "queue", *labels), samples, where)
            if names:
                own = f"yunikorn_{part}_queue_{name}"
                add(kind, own, text, (*_PLACE, *labels), samples, self._place)
        return count

    def _of_extensions(self, queue: QueueReport, shows: Callable[[str], bool], where: Labels) -> int:
        """Add the metrics of extensions that the queue has; returns the number of samples."""
        count = 0
        metrics: Mapping[str, QueueMetric] = table("QUEUE_METRICS")
        for name, metric in metrics.items():
            found = metric.read(queue, shows)
            if found is not None:
                labels = (*_PLACE, "queue", *(("resource",) if metric.by_resource else ()))
                samples: _Samples = {(of,) if of else (): value for of, value in found.items()}
                count += self._families.put("gauge", name, metric.text, labels, samples, where)
        return count

    def _show_holders(self, path: str) -> None:
        for holder in HOLDERS:
            self._reserved.add((*self._place, path, holder), 0)

    def _resources(self, queue: QueueReport, shows: Callable[[str], bool]) -> _Samples:
        """Resources of a queue. A usage of zero is included, so that graphs have no gaps."""
        nothing = dict.fromkeys(self._report.capacity, 0)
        values: dict[Labels, float] = {}
        for state in (*_BOUNDS, *_USAGES):
            amounts: Resources = getattr(queue, state)
            for name, value in sorted((amounts if state in _BOUNDS else {**nothing, **amounts}).items()):
                if shows(name):
                    values[state, name] = value
        values["maxRunningApps", "apps"] = queue.max_applications
        return values

    def _leaf(self, queue: QueueReport) -> tuple[_Samples, _Samples, _Samples]:
        """Live and ended applications of a leaf by state, and its allocations.

        The counters start over if the leaf is created again.
        """
        ever, live = queue.counters, self._census.applications
        return (
            {(state,): live.get((queue.path, state), 0) for state in _LIVE},
            {(state,): getattr(ever, f"applications_{state}") for state in _OVER},
            {("allocated",): ever.allocations_made, ("released",): ever.allocations_released},
        )

    def _pending(self, seen: set[str]) -> Iterator[None]:
        """Add pending asks by queue and blocker. Their total is the number of pending asks."""
        text = "Asks that wait, by the first check that stops them."
        labels = (*_PLACE, "queue", "reason")
        asks = self._families.family("gauge", "licorne_queue_pending_asks", text, labels)
        for part in parts(self._census.pending.items()):
            yield
            for (path, reason), count in part:
                asks.add((*self._place, path if path in seen else OTHERS, reason), count)

    def _kept(self, seen: set[str], room: Room, shows: Callable[[str], bool]) -> Iterator[None]:
        """Add reservations by the queue of the ask and by the labels of `HOLDERS`."""
        if room.truncated:
            self._show_holders(OTHERS)
        text = "What is kept free on these nodes, by resource."
        labels = (*_QUEUE_HOLDER, "resource")
        amounts = self._families.family("gauge", "licorne_queue_reserved", text, labels)
        for part in parts(self._census.reserved_nodes.items()):
            yield
            for (path, holder), count in part:
                where = (*self._place, path if path in seen else OTHERS, holder)
                self._reserved.add(where, count)
                for name, value in self._census.reserved[path, holder].items():
                    if shows(name):
                        amounts.add((*where, name), value)
                        if path in seen:
                            room.take(1)


def parts(items: Iterable[T]) -> Iterator[list[T]]:
    """The items in lists of at most `PART`."""
    rest = iter(items)
    while part := list(islice(rest, PART)):
        yield part


def metric_part(text: str) -> str:
    """A text as part of a metric's name; characters other than letters and digits become underscores."""
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in text)
