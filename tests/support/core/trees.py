"""Queue trees without a scheduler: building, using and checking them.

In `World` a test opens and closes quotas.
"""

from collections.abc import Callable, Iterator
from typing import Any

from licorne_core.config import load
from licorne_core.config.schema import PartitionConfig, QueueConfig
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.groups import AskGroup
from licorne_core.model.queues.queue import Queue, QueueState
from licorne_core.model.queues.tree import QueueTree
from licorne_core.model.quotas import Tracker
from licorne_core.scheduling.order import ReservedAsks
from licorne_core.scheduling.waiting.blockers import Blocker, Blockers, RunningLimit
from licorne_core.scheduling.waiting.waiting import Parked, Waiting, way_up
from licorne_core.values.ids import AppId, PartitionName, QueuePath, UserGroup
from licorne_core.values.rm_caps import Holdings
from support.core.builders import ask

ANN = UserGroup("ann", ("staff",))


def partition_config(queues_and_rules: str) -> PartitionConfig:
    """The configuration of one partition, given the keys below its name, unindented."""
    body = "\n".join(f"  {line}" for line in queues_and_rules.strip("\n").splitlines())
    (partition,) = load(f"partitions:\n- name: default\n{body}\n").partitions
    return partition


def root_config(queues: str) -> QueueConfig:
    """Root's configuration, given the list of queues as YAML."""
    return partition_config(f"queues:\n{queues.strip(chr(10))}").root


def tree_of(queues: str, holdings: Holdings | None = None) -> QueueTree:
    """A tree of these queues, given as a YAML list."""
    return whole_tree(root_config(queues), holdings)


def whole_tree(root: QueueConfig, holdings: Holdings | None = None) -> QueueTree:
    """A tree of all queues of a configuration."""
    tree = QueueTree(root, holdings)
    reload_tree(tree, root)
    return tree


def reload_tree(tree: QueueTree, root: QueueConfig) -> None:
    """Apply another configuration to the tree."""
    for visit in tree.visits(root):
        tree.settle(visit)


def queue_at(tree: QueueTree, path: str) -> Queue:
    """The queue at that path, which must exist."""
    queue = tree.get(path)
    assert queue is not None, f"no queue {path} in {tree}"
    return queue


def enter(leaf: Queue, app_id: str = "app-1", user: UserGroup = ANN) -> Application:
    """Add a new application to a leaf."""
    app = Application(AppId(app_id), leaf.path, user, {}, 0.0)
    leaf.applications[app.app_id] = app
    return app


def outline(tree: QueueTree) -> list[str]:
    """A line for each queue in the order of the walk: path, kind, origin, state."""
    return [
        f"{queue.path} {'leaf' if queue.is_leaf else 'parent'} "
        f"{'managed' if queue.managed else 'dynamic'} {queue.state.value}"
        for queue in tree.walk()
    ]


def check_tree(tree: QueueTree) -> None:
    """Check the invariants of a tree."""
    queues = list(tree.walk())
    assert queues[0] is tree.root
    assert len({queue.path for queue in queues}) == len(queues)
    for queue in queues:
        assert tree.get(queue.path) is queue
        assert tree.nearest(queue.path) is queue
        if queue.parent is not None:
            assert queue.parent.children[queue.name] is queue
            assert queue.path == f"{queue.parent.path}.{queue.name}"
            assert queue.lineage == (queue, *queue.parent.lineage)
        if queue.is_leaf:
            assert not queue.children
            assert queue.template is None
        else:
            assert not queue.applications
        assert queue.managed or queue.state is not QueueState.DRAINING
    assert list(tree.leaves()) == [queue for queue in queues if queue.is_leaf]


NODE = "n"
QUOTAS = 4


class World:
    """Queues a, b.c and b.d with two applications each, and two ask groups in each application.

    Blockers are limits of running applications: one admits as many as its quota has room for.
    """

    def __init__(self) -> None:
        """Activate all items, in the order of names."""
        deeper = (QueueConfig(name="c"), QueueConfig(name="d"))
        below = (QueueConfig(name="a"), QueueConfig(name="b", parent=True, queues=deeper))
        self.tree = whole_tree(QueueConfig(name="root", parent=True, queues=below))
        self.reserved = ReservedAsks()
        self.waiting = Waiting()
        self.limits = Blockers(PartitionName("[rm]default"))
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
        """Set the number of applications that may start in a quota."""
        self.quotas[number].max_applications = 1 + room
        limit = self.limits.of(RunningLimit).get(self.quotas[number])
        if limit is not None:
            self.waiting.changed(limit)

    def take(self, blocker: Blocker) -> None:
        """Count a started application."""
        assert isinstance(blocker, RunningLimit)
        blocker.quota.max_applications -= 1

    def place(self, item: Any) -> list[Any]:
        """The sort keys on the way from root to an item."""
        keys = []
        for ranking, member in way_up(item):
            entry = ranking.entry(member)
            assert entry is not None
            keys.append(entry.key)
        return keys[::-1]

    def visit(self, queue: Queue, try_item: Callable[[Parked], bool]) -> Iterator[Parked]:
        """The items examined by a pass, in order; an application only if it may be served."""
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
        """Check that exactly the blocked items are in the waiting lines of their blocker, up to root."""
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
