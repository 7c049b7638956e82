"""The usage of all users and groups of one partition (spec § 10)."""

from collections.abc import Callable, Iterable

from licorne_core.apps.application import Application
from licorne_core.apps.requests import RequestState
from licorne_core.config.schema import LimitConfig
from licorne_core.facts.allocations import Owner
from licorne_core.ids import QueuePath
from licorne_core.limits.rules import group_kept_or_found, group_limit, group_of, user_limit
from licorne_core.names import WILDCARD
from licorne_core.queues.queue import Queue
from licorne_core.resources import charge
from licorne_core.trackers import Tracker

Trackers = dict[str, dict[QueuePath, Tracker]]
_Lookup = Callable[[Queue, str], LimitConfig | None]


class LimitBook:
    """Trackers by user or group and by queue.

    A tracker exists as long as an application counts for it.
    """

    __slots__ = ("groups", "users")

    def __init__(self) -> None:
        """Start without anybody."""
        self.users: Trackers = {}
        self.groups: Trackers = {}

    def of_kind(self, kind: str) -> Trackers:
        """The trackers of users or of groups, ``user`` or ``group``."""
        return self.users if kind == "user" else self.groups

    def join(self, app: Application, leaf: Queue) -> None:
        """A new application counts for its user, and for one of the user's groups, from now on."""
        self._count(app, leaf, group_of(leaf, app.user))

    def _count(self, app: Application, leaf: Queue, group: str) -> None:
        user = app.user.user
        app.trackers = _trackers(self.users, "user", user, leaf, user_limit)
        app.owner = Owner(leaf.path, user, group)
        if app.group:
            app.trackers += _trackers(self.groups, "group", app.group, leaf, group_limit)
        app.quotas = (*app.trackers, *leaf.lineage)
        for tracker in app.trackers:
            tracker.members[app.app_id] = None

    def names(self, kind: str, queues: Iterable[Queue]) -> list[str]:
        """The users or groups that an application counts for or that a limit names, sorted."""
        named = {name for queue in queues for name in queue.limits.of_kind(kind)}
        if kind == "user":
            named.discard(WILDCARD)
        return sorted(named | self.of_kind(kind).keys())

    def with_idle(self, kind: str, name: str, queues: Iterable[Queue]) -> dict[QueuePath, Tracker]:
        """The trackers of a user or group by queue, for reports.

        Where a limit names it and no application counts for it, a tracker without usage stands in.
        The result is empty for a name that has neither (spec § 10.8).
        """
        trackers = dict(self.of_kind(kind).get(name, {}))
        limit_of = user_limit if kind == "user" else group_limit
        for queue in queues:
            if name in queue.limits.of_kind(kind) and (kind, name) != ("user", WILDCARD):
                for above in queue.lineage:
                    if above.path not in trackers:
                        trackers[above.path] = Tracker(kind, name, above.path)
                        _limit(trackers[above.path], limit_of(above, name))
        return trackers

    def leave(self, app: Application) -> None:
        """The application counts no more; trackers that no other counts for go too (§ 10.8)."""
        for tracker in app.trackers:
            del tracker.members[app.app_id]
            if not tracker.members:
                book = self.of_kind(tracker.kind)
                del book[tracker.name][tracker.path]
                if not book[tracker.name]:
                    del book[tracker.name]
        app.trackers = ()

    def rejoin(self, apps: Iterable[Application], leaf_of: Callable[[Application], Queue]) -> None:
        """Apply changed limits to all applications, with the usage that they have (spec § 10.7).

        An application changes its group only if its group is not limited any more.
        """
        everyone = list(apps)
        for app in everyone:
            self.leave(app)
        for app in everyone:
            leaf = leaf_of(app)
            self._count(app, leaf, group_kept_or_found(leaf, app.user, app.group))
            for tracker in app.trackers:
                charge(tracker.allocated, tuple(app.allocated.items()))
                charge(tracker.allocated, tuple(app.placeholder_allocated.items()))
                if app.allocation_count:
                    tracker.applications[app.app_id] = None
            for request in app.requests.values():
                stopping = request.state is RequestState.PREEMPTING
                for tracker in app.trackers:
                    charge(tracker.preempting, request.ask.ask_class.items if stopping else ())


def _trackers(
    book: Trackers, kind: str, name: str, leaf: Queue, limit_of: _Lookup
) -> tuple[Tracker, ...]:
    """The name's trackers from the leaf up to root."""
    known = book.setdefault(name, {})
    found = []
    for queue in leaf.lineage:
        tracker = known.get(queue.path)
        if tracker is None:
            tracker = known[queue.path] = Tracker(kind, name, queue.path)
        _limit(tracker, limit_of(queue, name))
        found.append(tracker)
    return tuple(found)


def _limit(tracker: Tracker, limit: LimitConfig | None) -> None:
    tracker.max = limit.max_resources if limit is not None else None
    tracker.max_applications = limit.max_applications if limit is not None else 0
