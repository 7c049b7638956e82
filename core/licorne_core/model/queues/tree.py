"""The queues of one partition: lookup, creation, reload and removal (spec §§ 2.4, 2.7, 4.1-4.4)."""

from collections.abc import Container, Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from licorne_core.config.schema import QueueConfig, TemplateConfig
from licorne_core.messages.operators import OperatorMark
from licorne_core.model.queues.queue import (
    NO_LIMITS,
    RECOVERY_PATH,
    LimitTable,
    Queue,
    QueueState,
    derive_denominators,
    guaranteed_in_force,
    max_in_force,
    may_submit,
    stopped_above,
)
from licorne_core.values.errors import Problem, Refusal, Rejected
from licorne_core.values.ids import QueuePath, UserGroup
from licorne_core.values.names import ROOT
from licorne_core.values.ranking import NO_PRIORITY, Ranking
from licorne_core.values.resources import Resources
from licorne_core.values.rm_caps import Holdings

_NOTHING = TemplateConfig()


def configure(queue: Queue, config: QueueConfig) -> None:
    """Apply a configuration to its managed queue, whose parent must be configured before.

    All derived settings are recomputed, so that nothing of an earlier configuration remains. Root has no
    configured sizes, and keeps its first `max_applications` (spec § 2.7.3).
    """
    parent = queue.parent
    if parent is not None:
        queue.guaranteed = guaranteed_in_force(config.guaranteed)
        queue.max = max_in_force(config.max)
        queue.max_applications = config.max_applications
    queue.properties = config.merged
    queue.settings = config.settings
    queue.admin_acl = config.admin_acl
    queue.submit_acl = config.submit_acl
    queue.limits = LimitTable(config.limits) if config.limits else NO_LIMITS
    queue.template = _template_of(queue, config.child_template)


def apply_template(queue: Queue) -> None:
    """Apply the template above a dynamic queue to it, after its parent.

    A leaf applies the whole template, a parent only passes it on. The recovery queue never changes:
    fifo, without limits (spec § 3.14).
    """
    if queue.path == RECOVERY_PATH:
        return
    assert queue.parent is not None, "root is never dynamic"
    inherited = queue.parent.template
    if not queue.is_leaf:
        queue.template = inherited
        return
    queue.properties = (inherited or _NOTHING).properties
    queue.settings = (inherited or _NOTHING).settings
    apply_sizes(queue)


def apply_sizes(leaf: Queue) -> None:
    """Set the sizes of a dynamic leaf from its applications' tags, or otherwise from its template."""
    brought, template = leaf.brought, _template_above(leaf)
    leaf.guaranteed = guaranteed_in_force(brought.guaranteed or template.guaranteed)
    leaf.max = max_with(leaf, brought)
    leaf.max_applications = brought.max_applications or template.max_applications


def max_with(leaf: Queue, brought: TemplateConfig) -> Resources | None:
    """The maximum of a dynamic leaf with these sizes from applications; None if it has no maximum."""
    return max_in_force(brought.max or _template_above(leaf).max)


def _template_above(leaf: Queue) -> TemplateConfig:
    assert leaf.parent is not None, "root is never dynamic"
    return leaf.parent.template or _NOTHING


def _template_of(queue: Queue, own: TemplateConfig | None) -> TemplateConfig | None:
    """The template that a parent queue uses: its own, or else its nearest ancestor's; None for a leaf."""
    if queue.is_leaf:
        return None
    if own is not None and own != _NOTHING:
        return own
    return queue.parent.template if queue.parent is not None else None


MAX_LEVELS = 32
"""Maximum number of levels in the path of a created queue, including root."""
MAX_PATH_LENGTH = 4096
"""Maximum number of characters of a created queue's path."""


class Visit(NamedTuple):
    """A queue of a tree during a reload, with its new configuration."""

    queue: Queue
    config: QueueConfig | None
    """Configuration of the queue; None if the configuration does not contain the queue."""
    is_new: bool
    """True if the reload has added it to the tree."""


class QueueTree:
    """All queues below root, by path. Paths are lower-case and begin with root.

    `shares_stale` is True if the denominators of all shares have to be derived again. Changes of sizes set
    it; the scheduling pass derives the denominators and clears it. Creation and removal of a queue change no
    share of other queues.
    """

    def __init__(self, root: QueueConfig, holdings: Holdings | None = None) -> None:
        """Build only root; `visits` and `settle` build the other queues.

        Root is a parent whatever its configuration says.
        """
        self.shares_stale = True
        self._holdings = holdings or Holdings()
        self._queues: dict[str, Queue] = {}
        self._limited: dict[QueuePath, Queue] = {}
        self.stopped: dict[str, OperatorMark] = {}
        """Marks of operators who stopped queues, by path; marks of removed queues are included."""
        self.root = self._add(ROOT, None, is_leaf=False, managed=True)
        self.root.max_applications = root.max_applications

    def __repr__(self) -> str:
        """``<QueueTree: root root.a root.b>``."""
        return f"<QueueTree: {' '.join(queue.path for queue in self.walk())}>"

    def __len__(self) -> int:
        """Number of queues, including root."""
        return len(self._queues)

    # Finding

    def get(self, path: str) -> Queue | None:
        """The queue with the full path, in any case of letters; None if there is none."""
        return self._queues.get(path.lower())

    def nearest(self, path: str) -> Queue:
        """The queue with the full path, or otherwise its nearest existing ancestor."""
        queue = self.root
        for name in path.lower().split(".")[1:]:
            child = queue.children.get(name)
            if child is None:
                break
            queue = child
        return queue

    def walk(self, top: Queue | None = None) -> Iterator[Queue]:
        """All queues, or `top` and its descendants; parents before their children, siblings by name."""
        waiting = [top or self.root]
        while waiting:
            queue = waiting.pop()
            yield queue
            if queue.children:
                waiting += [queue.children[name] for name in sorted(queue.children, reverse=True)]

    def all(self) -> Iterable[Queue]:
        """All queues, in the order in which they were added."""
        return self._queues.values()

    def limited(self) -> list[Queue]:
        """The queues with limits for users or groups, in any order."""
        return list(self._limited.values())

    def leaves(self) -> Iterator[Queue]:
        """The leaves, in the order of `walk`."""
        return (queue for queue in self.walk() if queue.is_leaf)

    def newest(self, count: int) -> list[Queue]:
        """The last `count` queues that were added, oldest first."""
        latest = list(islice(reversed(self._queues.values()), count))
        return latest[::-1]

    # Changing

    def create(self, path: QueuePath, user: UserGroup, *, recovery: bool = False) -> Queue:
        """Create the missing leaf of that path, and its missing parents (spec §§ 3.11, 4.1-4.2).

        The new queues are dynamic and follow the template above them. The caller has checked that
        the parts of the path are legal names. With `recovery` the user's access is not checked.
        Raises Rejected, and creates nothing, if the nearest queue that exists denies the user or
        takes no children, or if there would be too many queues or levels.
        """
        path = QueuePath(path.lower())
        check_extent(path)
        queue = self.nearest(path)
        if not recovery and not may_submit(queue, user):
            raise Rejected(
                f"submit access to queue {queue.path} denied during create of: {path}", Refusal.ACCESS_DENIED
            )
        for above in queue.lineage:
            if above.is_leaf or above.becomes_leaf:
                raise Rejected(
                    f"creation of queue {path} failed parent is already a leaf: {above.path}",
                    Refusal.NO_QUEUE,
                )
        if any(above.state is QueueState.DRAINING for above in queue.lineage):
            raise Rejected(
                f"cannot add a child queue when queue is marked for deletion: {queue.path}", Refusal.NO_QUEUE
            )
        stopped = stopped_above(queue)
        if stopped is not None and not recovery:
            raise Rejected(
                f"cannot add a child queue when queue is stopped: {stopped.path}", Refusal.NO_QUEUE
            )
        missing = path.split(".")[len(queue.lineage) :]
        self._holdings.check_queues(path, len(missing))
        assert missing, f"queue {path} exists"
        for level, name in enumerate(missing, start=1):
            queue = self._add(name, queue, is_leaf=level == len(missing), managed=False)
            apply_template(queue)
            derive_denominators(queue)
        return queue

    def take_back(self, count: int) -> None:
        """Remove the last `count` created queues; they have no applications."""
        for queue in reversed(self.newest(count)):
            self._remove(queue)
            queue.let_go()

    def visits(self, root: QueueConfig) -> Iterator[Visit]:
        """All queues of the tree and of a configuration, each parent before its children by name.

        A missing queue is added right before it is yielded. The caller settles each queue before the next
        one. It may pause in between, but not add or remove queues. For a tree with applications,
        `check_reload` must have found no problem before.
        """
        waiting: list[tuple[str, Queue | None, QueueConfig | None]] = [(ROOT, None, root)]
        while waiting:
            name, parent, config = waiting.pop()
            queue = self.root if parent is None else parent.children.get(name)
            is_new = queue is None
            if queue is None:
                assert config is not None, f"nobody wants a queue {name}"
                queue = self._add(name, parent, is_leaf=_is_leaf(config), managed=True)
            yield Visit(queue, config, is_new)
            configured = {child.name: child for child in config.queues} if config else {}
            names = configured.keys() | queue.children.keys()
            waiting += [(name, queue, configured.get(name)) for name in sorted(names, reverse=True)]

    def settle(self, visit: Visit) -> None:
        """Apply the configuration to a queue (spec § 2.7.3-6).

        Its parent was settled before. A dynamic queue becomes managed if it is in the configuration.
        No allocation is stopped, no queue disappears at once, and a stopped queue remains stopped. A managed
        queue outside the new configuration drains, stopped or not, and `clean` removes it once it
        is empty.
        """
        queue, config, _ = visit
        self.shares_stale = True
        if config is not None:
            queue.managed = True
            self._retype(queue, is_leaf=queue is not self.root and _is_leaf(config))
            configure(queue, config)
            self._note_limits(queue)
        elif queue.managed:
            queue.state = QueueState.DRAINING
            return
        else:
            apply_template(queue)
        if queue.state is not QueueState.STOPPED:
            queue.state = _first_state(queue, self.stopped)

    def clean(self, some: Iterable[Queue] | None = None) -> list[Queue]:
        """Remove and return empty queues, draining or dynamic, children first (spec § 4.3).

        Only queues in `some` are considered, children first; None for all. A parent that was to become a leaf
        becomes one with the removal of its last child.
        """
        removed: list[Queue] = []
        # A parent was added before its children, so the order is from the bottom up.
        for queue in reversed(list(self._queues.values())) if some is None else some:
            if queue.may_be_removed and queue.is_empty:
                self._remove(queue)
                removed.append(queue)
        for queue in removed:
            above = queue.parent
            if above is not None and above.becomes_leaf and not above.children:
                self._retype(above, is_leaf=True)
        return removed

    def take_apart(self) -> Iterator[int]:
        """Release all queues, one in each step of a job, as the tree is discarded."""
        while self._queues:
            # Children were added after their parents, so they are removed first.
            _, queue = self._queues.popitem()
            if queue.parent is not None:
                del queue.parent.children[queue.name]
            queue.let_go()
            yield 1

    def _retype(self, queue: Queue, *, is_leaf: bool) -> None:
        """Change a queue into a leaf or a parent; a queue with children becomes a leaf once it has none."""
        queue.becomes_leaf = is_leaf and bool(queue.children)
        if queue.becomes_leaf or queue.is_leaf == is_leaf:
            return
        assert not queue.applications, f"{queue!r} has applications and cannot become a parent"
        queue.is_leaf = is_leaf
        queue.ranking = Ranking()
        if is_leaf:
            queue.template = None

    def _add(self, name: str, parent: Queue | None, *, is_leaf: bool, managed: bool) -> Queue:
        queue = Queue(name, parent, is_leaf=is_leaf, managed=managed)
        queue.state = _first_state(queue, self.stopped)
        if parent is not None:
            parent.children[name] = queue
        self._queues[queue.path] = queue
        self._holdings.queues_changed(1)
        return queue

    def _note_limits(self, queue: Queue) -> None:
        if len(queue.limits):
            self._limited[queue.path] = queue
        else:
            self._limited.pop(queue.path, None)

    def _remove(self, queue: Queue) -> None:
        assert queue.is_empty, f"{queue!r} is not empty"
        assert queue.counted_priority == NO_PRIORITY, f"{queue!r} still counts among its siblings"
        assert not queue.allocated, f"{queue!r} has allocations and nobody in it"
        assert not queue.pending, f"{queue!r} has asks and nobody in it"
        parent = queue.parent
        assert parent is not None, "root stays"
        del parent.children[queue.name]
        parent.ranking.discard(queue)
        del self._queues[queue.path]
        self._limited.pop(queue.path, None)
        self._holdings.queues_changed(-1)


def check_extent(path: str) -> None:
    """Raise Rejected for a path that is too long, or has too many levels."""
    if len(path) > MAX_PATH_LENGTH:
        raise Rejected(
            f"queue path of {len(path)} characters is too long, at most {MAX_PATH_LENGTH} allowed",
            Refusal.NO_QUEUE,
        )
    levels = path.count(".") + 1
    if levels > MAX_LEVELS:
        raise Rejected(
            f"queue path of {levels} levels is too deep, at most {MAX_LEVELS} allowed", Refusal.NO_QUEUE
        )


def _first_state(queue: Queue, stopped: Container[str]) -> QueueState:
    return QueueState.STOPPED if queue.path in stopped else QueueState.ACTIVE


def _is_leaf(config: QueueConfig) -> bool:
    return not config.parent and not config.queues


def stop(tree: QueueTree) -> None:
    """Stop all queues, as their partition is being removed (spec § 2.7.5)."""
    for queue in tree.all():
        queue.state = QueueState.STOPPED


def check_reload(tree: QueueTree, root: QueueConfig) -> list[Problem]:
    """The problems that make a reload impossible (spec § 2.7.4); nothing is changed.

    A queue with applications cannot become a parent. Every partition has to be
    checked before the first is reloaded, so that an update is applied whole or not at all.
    """
    problems = []
    waiting = [(root, tree.root)]
    while waiting:
        config, queue = waiting.pop()
        if queue.applications and (config.parent or config.queues):
            message = f"queue {queue.path} has applications and cannot become a parent"
            problems.append(config.place.problem(message))
        for child in reversed(config.queues):
            known = queue.children.get(child.name)
            if known is not None:
                waiting.append((child, known))
    return problems
