"""Limits of users and groups: the group for which an application counts, and the usage (spec § 10)."""

from collections.abc import Callable, Iterable, Iterator

from licorne_core.messages.events.allocations import Owner
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import VICTIMS
from licorne_core.model.queues.queue import Queue
from licorne_core.model.quotas import Quota, SharedQuota, Tracker
from licorne_core.values.ids import QueuePath, UserGroup
from licorne_core.values.names import WILDCARD
from licorne_core.values.resources import Items, charge, refund


def group_of(leaf: Queue, who: UserGroup) -> str:
    """The group for which a new application of this user counts; empty if there is none (spec § 10.3).

    The queues are searched from the leaf up. In each queue, the first limited group of the user, in the order
    of the configuration, counts, or otherwise the wildcard.
    """
    for queue in leaf.lineage:
        listed = queue.limits.groups
        if not listed:
            continue
        own = listed.keys() & set(who.groups)
        if own:
            return next(group for group in listed if group in own)
        if WILDCARD in listed:
            return WILDCARD
    return ""


def group_kept_or_found(leaf: Queue, who: UserGroup, group: str) -> str:
    """The group for which an application counts after a change of limits; empty if none (spec § 10.7).

    An application keeps its `group` as long as some queue from its leaf up limits that group. Otherwise, or
    without a group, its group is resolved again.
    """
    if any(group in queue.limits.groups for queue in leaf.lineage):
        return group
    return group_of(leaf, who)


Trackers = dict[str, dict[QueuePath, Tracker]]
Further = Callable[[Application, Queue], tuple[SharedQuota, ...]]


class LimitBook:
    """Trackers by user or group and by queue.

    A tracker exists as long as an application counts for it.
    """

    def __init__(self, further: Further) -> None:
        """Start without users or groups; `further` returns the additional quotas of an application."""
        self.further = further
        self.users: Trackers = {}
        self.groups: Trackers = {}

    def of_kind(self, kind: str) -> Trackers:
        """The trackers of users (`kind` is ``user``) or of groups (``group``)."""
        return self.users if kind == "user" else self.groups

    def join(self, app: Application, leaf: Queue) -> None:
        """Count a new application for its user, and for one of the user's groups."""
        self._count(app, leaf, group_of(leaf, app.user))

    def _count(self, app: Application, leaf: Queue, group: str) -> None:
        user = app.user.user
        app.trackers = self._trackers("user", user, leaf)
        app.owner = Owner(leaf.path, user, group)
        if app.group:
            app.trackers += self._trackers("group", app.group, leaf)
        app.further = self.further(app, leaf)
        app.quotas = _quotas(app, leaf)
        for tracker in app.trackers:
            tracker.members[app.app_id] = app

    def known(self, kind: str, queues: Iterable[Queue]) -> set[str]:
        """Users or groups for which an application counts, or that a limit names."""
        named: set[str] = set()
        for queue in queues:
            named.update(queue.limits.of_kind(kind))
        if kind == "user":
            named.discard(WILDCARD)
        return named | self.of_kind(kind).keys()

    def most_running(self, kind: str, name: str, queue: Queue) -> int:
        """The queue's limit on running applications of the user or group, if it is reached; otherwise 0."""
        limit = queue.limits.of(kind, name) if name else None
        tracker = self.of_kind(kind).get(name, {}).get(queue.path)
        if limit is None or tracker is None or len(tracker.applications) < limit.max_applications:
            return 0
        return limit.max_applications

    def add_idle(self, trackers: dict[QueuePath, Tracker], kind: str, name: str, queue: Queue) -> None:
        """Add an unused tracker where a limit of the queue names a user or group.

        `trackers` are the existing ones, by queue, for reports. No application counts for the name
        in that queue or above (spec § 10.8).
        """
        if name in queue.limits.of_kind(kind) and (kind, name) != ("user", WILDCARD):
            for above in queue.lineage:
                if above.path not in trackers:
                    trackers[above.path] = Tracker(kind, name, above.path)
                    _limit(trackers[above.path], above)

    def leave(self, app: Application) -> None:
        """Remove the application from its trackers, and drop trackers without applications (§ 10.8)."""
        self._part(app, app.trackers)
        app.trackers = app.further = ()

    def _part(self, app: Application, trackers: Iterable[Tracker]) -> None:
        for tracker in trackers:
            del tracker.members[app.app_id]
            tracker.applications.pop(app.app_id, None)
            if not tracker.members:
                book = self.of_kind(tracker.kind)
                del book[tracker.name][tracker.path]
                if not book[tracker.name]:
                    del book[tracker.name]

    def limit_anew(self, queue_at: Callable[[QueuePath], Queue | None]) -> Iterator[int]:
        """Apply the current limit of its queue to each tracker (spec § 10.7), in steps of a job."""
        for book in (self.users, self.groups):
            for tracker in [found for trackers in book.values() for found in trackers.values()]:
                queue = queue_at(tracker.path)
                assert queue is not None, f"{tracker!r} is for a queue that is gone"
                _limit(tracker, queue)
                yield 1

    def is_booked_right(self, app: Application, leaf: Queue, group: str) -> bool:
        """True if the application counts for the group, and is booked in all its quotas."""
        return group == app.group and app.quotas == _quotas(app, leaf)

    def rebook(self, app: Application, leaf: Queue, group: str) -> None:
        """Count the application and its usage for the group, or for no group if it is empty.

        The application is booked in exactly its current quotas.
        """
        _count_usage(app, refund)
        if group != app.group:
            self._regroup(app, leaf, group)
        app.quotas = _quotas(app, leaf)
        _count_usage(app, charge)

    def set_further(self, app: Application, leaf: Queue, quotas: tuple[SharedQuota, ...]) -> None:
        """Replace the application's additional quotas, and move its usage."""
        _count_usage(app, refund)
        app.further = quotas
        app.quotas = _quotas(app, leaf)
        _count_usage(app, charge)

    def _regroup(self, app: Application, leaf: Queue, group: str) -> None:
        kept = tuple(tracker for tracker in app.trackers if tracker.kind == "user")
        self._part(app, [tracker for tracker in app.trackers if tracker.kind == "group"])
        entered = self._trackers("group", group, leaf) if group else ()
        for tracker in entered:
            tracker.members[app.app_id] = app
            if app.allocation_count:
                tracker.applications[app.app_id] = None
        app.trackers = (*kept, *entered)
        app.owner = Owner(leaf.path, app.user.user, group)

    def _trackers(self, kind: str, name: str, leaf: Queue) -> tuple[Tracker, ...]:
        """The name's trackers from the leaf up to root."""
        known = self.of_kind(kind).setdefault(name, {})
        found = []
        for queue in leaf.lineage:
            tracker = known.get(queue.path)
            if tracker is None:
                tracker = known[queue.path] = Tracker(kind, name, queue.path)
            _limit(tracker, queue)
            found.append(tracker)
        return tuple(found)


def _quotas(app: Application, leaf: Queue) -> tuple[Quota, ...]:
    """Quotas of the application: trackers with a limit, additional quotas, then its queues up to root."""
    return (*(tracker for tracker in app.trackers if tracker.bounds), *app.further, *leaf.lineage)


def _count_usage(app: Application, count: Callable[[dict[str, int], Items], None]) -> None:
    """Charge or refund the application's usage in its quotas, except in queues."""
    stopping = [request.ask.ask_class.items for request in app.requests.values() if request.state in VICTIMS]
    for quota in app.quotas:
        if not isinstance(quota, Queue):
            count(quota.allocated, tuple(app.allocated.items()))
            count(quota.allocated, tuple(app.placeholder_allocated.items()))
            for items in stopping:
                count(quota.preempting, items)


def _limit(tracker: Tracker, queue: Queue) -> None:
    """Apply the queue's limit for the tracker's user or group."""
    limit = queue.limits.of(tracker.kind, tracker.name)
    tracker.max = limit.max_resources if limit is not None else None
    tracker.max_applications = limit.max_applications if limit is not None else 0
