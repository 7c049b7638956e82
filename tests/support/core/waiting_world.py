"""Queues, applications and groups that wait for quotas, opened and shut by hand."""

from collections.abc import Callable, Iterator
from typing import Any

from licorne_core.config.schema import QueueConfig
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.groups import AskGroup
from licorne_core.model.queues.queue import Queue
from licorne_core.model.quotas import Tracker
from licorne_core.scheduling.order import ReservedAsks
from licorne_core.scheduling.waiting.blockers import Blocker, Blockers, RunningLimit
from licorne_core.scheduling.waiting.waiting import Parked, Waiting, way_up
from licorne_core.values.ids import AppId, QueuePath, UserGroup
from support.core.builders import ask
from support.core.trees import whole_tree

NODE = "n"
QUOTAS = 4


class World:
    """Queues a, b.c and b.d with two applications each and two ask groups in each of these.

    Blockers are limits of running applications: one lets as many through as its quota has room.
    The limit of the last quota is always shut.
    """

    def __init__(self) -> None:
        """All is active, in the order of names."""
        deeper = (QueueConfig(name="c"), QueueConfig(name="d"))
        below = (QueueConfig(name="a"), QueueConfig(name="b", parent=True, queues=deeper))
        self.tree = whole_tree(QueueConfig(name="root", parent=True, queues=below))
        self.reserved = ReservedAsks()
        self.waiting = Waiting()
        self.limits = Blockers()
        self.quotas = [Tracker("user", str(n), QueuePath("root")) for n in range(QUOTAS)]
        for quota in self.quotas:
            quota.max_applications = 1
            quota.applications[AppId("runs")] = None
        self.queues = [queue for queue in self.tree.walk() if queue.parent is not None]
        self.apps: list[Application] = []
        self.groups: list[AskGroup] = []
        for queue in self.queues:
            assert queue.parent is not None
            queue.parent.ranking.put(queue, (0, queue.path))
            if queue.is_leaf:
                self._fill(queue)

    def _fill(self, leaf: Queue) -> None:
        for number in range(2):
            app_id = f"{leaf.path}-{number}"
            app = Application(AppId(app_id), leaf.path, UserGroup("ann", ()), {}, 0.0)
            app.leaf = leaf
            leaf.ranking.put(app, (0, app_id))
            self.apps.append(app)
            for size in (1, 2):
                group = app.group_of(ask(app_id, "k", vcore=size))
                app.ranking.put(group, (0, len(self.groups)))
                self.groups.append(group)

    @property
    def items(self) -> list[Parked]:
        """All that can be parked."""
        return [*self.apps, *self.groups]

    def limit(self, number: int) -> RunningLimit:
        """The limit of one quota."""
        return self.limits.get(RunningLimit, self.quotas[number])

    def free(self, number: int, room: int) -> None:
        """So many may start in a quota now."""
        self.quotas[number].max_applications = 1 + room
        limit = self.limits.of(RunningLimit).get(self.quotas[number])
        if limit is not None:
            self.waiting.changed(limit)

    def take(self, blocker: Blocker) -> None:
        """One of those that may start has started."""
        assert isinstance(blocker, RunningLimit)
        blocker.quota.max_applications -= 1

    def place(self, item: Any) -> list[Any]:
        """The keys on the way from root to an item, which is its place in the order of all."""
        keys = []
        for ranking, member in way_up(item):
            entry = ranking.entry(member)
            assert entry is not None
            keys.append(entry.key)
        return keys[::-1]

    def visit(self, queue: Queue, try_item: Callable[[Parked], bool]) -> Iterator[Parked]:
        """What a pass looks at, in its order; an application only if it is worth a look."""
        ranking = queue.ranking
        while (child := self.waiting.first(ranking)) is not None:
            if not queue.is_leaf:
                yield from self.visit(child, try_item)
            elif try_item(child):
                yield child
                while (group := self.waiting.first(child.ranking)) is not None:
                    assert try_item(group)
                    yield group
            if ranking.is_active(child):
                ranking.set_aside(child)

    def check(self) -> None:
        """Parked items are in the waiting lines of their blocker up to root, and no others are."""
        noted: dict[Blocker, dict[Any, set[Any]]] = {}
        for item in self.items:
            if item.blocker is None:
                continue
            lines = noted.setdefault(item.blocker, {})
            for ranking, member in way_up(item):
                lines.setdefault(ranking, set()).add(member)
        shown = {
            limit: {key: set(line.members) for key, line in limit.waiting_lines.items()}
            for limit in self.limits.of(RunningLimit).values()
        }
        assert shown == noted
