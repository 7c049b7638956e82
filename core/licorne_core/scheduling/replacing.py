"""Replacement pass: pairs placeholders with real asks (spec § 6.5).

It comes behind the reserved asks and before the regular pass. An application is tried when its asks or
placeholders have changed, or when a node that the RM refused changes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.gang import TaskGroup
from licorne_core.model.apps.requests import Place, Request
from licorne_core.model.apps.states import SCHEDULABLE
from licorne_core.model.effort import Search
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.queue import Queue
from licorne_core.scheduling.order import PriorityPass, app_key
from licorne_core.scheduling.predicates import Predicates
from licorne_core.scheduling.waiting.blockers import Blocker
from licorne_core.values.asks import AskClass
from licorne_core.values.ids import NodeId
from licorne_core.values.ranking import Key

PLACEHOLDERS_OF_A_TRY: Final = 8
"""Placeholders whose examination costs as much as trying one ask."""


class Replacement(NamedTuple):
    """A decision: the real ask replaces the placeholder, and runs on the node.

    `elsewhere`: the ask takes room on the node other than the placeholder's, mostly on another node.
    """

    app: Application
    request: Request
    placeholder: Request
    node: Node
    elsewhere: bool


class Cancellation(NamedTuple):
    """A decision: cancel the placeholder, which is too small for the real ask."""

    app: Application
    request: Request
    placeholder: Request


class Obstacles(NamedTuple):
    """Obstacles to all replacements of an application: blockers, and nodes that the RM refused."""

    blockers: tuple[Blocker, ...]
    nodes: tuple[Node, ...]


class ReplacingApps(PriorityPass[Application]):
    """The applications with placeholders; ready ones may have one to replace."""

    def __init__(self) -> None:
        """Start empty."""
        super().__init__()
        # The nodes that the RM refused, with the applications that wait for a change of them.
        self._refused: dict[Node, dict[Application, None]] = {}
        self._watched: dict[Application, tuple[Node, ...]] = {}

    def path_up(self, item: Application) -> Sequence[Queue | Application]:
        """The application's leaf, and the queues above."""
        lineage: Sequence[Queue] = item.leaf.lineage
        return lineage

    def key(self, item: Application) -> Key:
        """Key of the application in its leaf, as in the regular pass."""
        return app_key(item, item.leaf)

    def wake(self, items: Iterable[Application]) -> None:
        """Make applications ready that have a placeholder to replace; forget the others."""
        for app in items:
            if app in self.ready:
                continue
            if any(_first_asks(app)):
                super().wake((app,))
            else:
                self.forget(app)

    def watch(self, app: Application, found: Obstacles) -> None:
        """Park a failed application with its blockers, and watch the nodes that the RM refused."""
        self.forget(app)
        self.park(app, found.blockers)
        if found.nodes:
            self._watched[app] = found.nodes
            for node in found.nodes:
                self._refused.setdefault(node, {})[app] = None

    def wake_on(self, node: Node) -> bool:
        """Wake applications that wait for a change of the node; True if there were any."""
        waiting = self._refused.get(node)
        if not waiting:
            return False
        for app in list(waiting):
            self.forget(app)
            self.wake((app,))
        return True

    def forget(self, app: Application) -> None:
        """Remove the application from its blockers, watched nodes and ready items."""
        super().forget(app)
        for node in self._watched.pop(app, ()):
            waiting = self._refused[node]
            waiting.pop(app, None)
            if not waiting:
                del self._refused[node]


class ReplacementSearch(Search):
    """Finds the next replacement of an application; changes no books.

    Its work are asks and placeholders examined.
    """

    def __init__(
        self,
        nodes: Mapping[NodeId, Node],
        predicates: Predicates,
        elsewhere: Callable[[Application, Request], Node | Blocker],
    ) -> None:
        """Start with these nodes; `elsewhere` finds another node than that of a placeholder."""
        super().__init__(PLACEHOLDERS_OF_A_TRY)
        self._nodes = nodes
        self._elsewhere = elsewhere
        self._predicates = predicates

    def find(self, app: Application) -> Replacement | Cancellation | Obstacles:
        """Return the first pair of a real ask and a placeholder, or the obstacles.

        On the placeholder's own node only a refusal of the RM or another required node is an obstacle.
        If no pair passes there, the first pair is tried on the other nodes.
        """
        blockers: list[Blocker] = []
        refused: dict[Node, None] = {}
        first: tuple[Request, Request] | None = None
        by_node: dict[TaskGroup, _ByNode] = {}
        is_tried = app.state in SCHEDULABLE and not app.held
        for place, task_group in sorted(_first_asks(app)) if is_tried else ():
            request = place.request
            ask_class = request.ask.ask_class
            if ask_class.predicate is not None and self._predicates.full:
                blockers.append(self._predicates.owed)
                continue
            free: Sequence[Request] = task_group.free
            first = first or (request, free[0])
            if ask_class.required_node is not None:
                if task_group not in by_node:
                    by_node[task_group] = _ByNode(free)
                    self.work += len(free)
                free = by_node[task_group].for_ask(ask_class, ask_class.required_node)
            self.work += 1
            for placeholder in free:
                self.work += 1
                if not is_covered(ask_class, placeholder.ask.ask_class):
                    return Cancellation(app, request, placeholder)
                node = self._node_of(placeholder)
                if not node.results.get((ask_class, False)):
                    return Replacement(app, request, placeholder, node, elsewhere=False)
                refused[node] = None
        if first is not None:
            request, placeholder = first
            found = self._elsewhere(app, request)
            if isinstance(found, Node):
                return Replacement(app, request, placeholder, found, elsewhere=True)
            blockers.append(found)
        return Obstacles(tuple(dict.fromkeys(blockers)), tuple(refused))

    def _node_of(self, placeholder: Request) -> Node:
        allocation = placeholder.allocation
        assert allocation is not None, f"{placeholder!r} keeps room somewhere"
        return self._nodes[allocation.node_id]


class _ByNode:
    """The free placeholders of a task group by node, for asks that require a node."""

    __slots__ = ("_first_of", "_on")

    def __init__(self, free: Sequence[Request]) -> None:
        """Index the placeholders, which are in order of arrival."""
        self._on: dict[NodeId, list[Request]] = {}
        self._first_of: dict[AskClass, Request] = {}
        for placeholder in free:
            allocation = placeholder.allocation
            assert allocation is not None, f"{placeholder!r} keeps room somewhere"
            self._on.setdefault(allocation.node_id, []).append(placeholder)
            self._first_of.setdefault(placeholder.ask.ask_class, placeholder)

    def for_ask(self, wanted: AskClass, required: NodeId) -> Sequence[Request]:
        """Placeholders on the required node, and the first too small one of each class, by arrival."""
        looks = {
            placeholder.arrival: placeholder
            for kept, placeholder in self._first_of.items()
            if not is_covered(wanted, kept)
        }
        looks.update((one.arrival, one) for one in self._on.get(required, ()))
        return [looks[arrival] for arrival in sorted(looks)]


def _first_asks(app: Application) -> Iterator[tuple[Place, TaskGroup]]:
    """First ask of each group of real asks with a free placeholder, and its task group.

    Asks of one group fit alike, so one is enough.
    """
    if app.gang.free_count:
        for group in app.groups.values():
            _, name, is_placeholder = group.key
            task_group = None if is_placeholder else app.gang.groups.get(name)
            if group.waiting and task_group is not None and task_group.free:
                yield group.first(), task_group


def is_covered(wanted: AskClass, kept: AskClass) -> bool:
    """True if a placeholder is at least as large as the real ask in every type (spec § 6.5a)."""
    if wanted is kept:
        return True
    room = kept.resources
    return all(room.get(name, 0) >= value for name, value in wanted.items)
