"""Replacement pass: pairs placeholders with real asks (spec § 6.5).

It comes behind the reserved asks and before the regular pass. An application is tried when
something of it has changed, when a node changes that the RM refused, or when one becomes free.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.gang import TaskGroup
from licorne_core.model.apps.requests import Place, Request
from licorne_core.model.apps.states import SCHEDULABLE
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.queue import Queue
from licorne_core.scheduling.node_search.candidates import NodeIndex
from licorne_core.scheduling.order import PriorityPass, app_key
from licorne_core.scheduling.predicates import PredicateChecks
from licorne_core.scheduling.waiting.blockers import Blocker
from licorne_core.values.asks import AskClass
from licorne_core.values.ids import NodeId
from licorne_core.values.ranking import Key

PLACEHOLDERS_OF_A_TRY = 8
"""Looking at so many placeholders costs as much as trying one ask."""


class Replacement(NamedTuple):
    """A decision: this real ask takes the place of this placeholder, and runs on this node.

    `elsewhere`: it takes room on the node beside the placeholder, mostly as that is on another one.
    """

    app: Application
    request: Request
    placeholder: Request
    node: Node
    elsewhere: bool


class Cancellation(NamedTuple):
    """A decision: this placeholder is too small for this real ask, and makes way for nothing."""

    app: Application
    request: Request
    placeholder: Request


class InTheWay(NamedTuple):
    """Reason that an application replaces nothing: blockers, and nodes that the RM refused."""

    blockers: tuple[Blocker, ...]
    nodes: tuple[Node, ...]


class ReplacingApps(PriorityPass[Application]):
    """The applications with placeholders; those that are ready may replace one."""

    __slots__ = ("_refused", "_watched")

    def __init__(self) -> None:
        """Start empty."""
        super().__init__()
        # The nodes that the RM refused, and who waits for a change of them.
        self._refused: dict[Node, dict[Application, None]] = {}
        self._watched: dict[Application, tuple[Node, ...]] = {}

    def way(self, item: Application) -> Sequence[Queue | Application]:
        """Its leaf, and the queues above."""
        lineage: Sequence[Queue] = item.leaf.lineage
        return lineage

    def key(self, item: Application) -> Key:
        """As in the regular pass."""
        return app_key(item, item.leaf)

    def wake(self, items: Iterable[Application]) -> None:
        """Wake applications that have a placeholder to replace, as something changed for them.

        Others have no ask any more that waits for anything.
        """
        for app in items:
            if app in self.ready:
                continue
            if any(_claims(app)):
                super().wake((app,))
            else:
                self.forget(app)

    def watch(self, app: Application, found: InTheWay) -> None:
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
        """The application waits for nothing, and is not tried."""
        super().forget(app)
        for node in self._watched.pop(app, ()):
            waiting = self._refused[node]
            waiting.pop(app, None)
            if not waiting:
                del self._refused[node]


class ReplacementSearch:
    """Finds the possible replacement of an application; it changes nothing."""

    __slots__ = ("_index", "_nodes", "_predicates", "looked_at")

    def __init__(self, nodes: Mapping[NodeId, Node], index: NodeIndex, predicates: PredicateChecks) -> None:
        """Start with these nodes."""
        self._nodes = nodes
        self._index = index
        self._predicates = predicates
        self.looked_at = 0
        """Asks and placeholders looked at so far, without the first look at each application:
        `PLACEHOLDERS_OF_A_TRY` of them cost as much as a try.
        """

    def find(self, app: Application) -> Replacement | Cancellation | InTheWay:
        """Return the first placeholder with a real ask to replace it, and the first such ask.

        On the placeholder's own node only the RM may object, and the ask itself if it requires
        another node. If no such node will do, the first pair that fits by size is tried on the
        other nodes.
        """
        blockers: list[Blocker] = []
        refused: dict[Node, None] = {}
        first: tuple[Request, Request] | None = None
        spreads: dict[TaskGroup, _Spread] = {}
        for place, task_group in sorted(_claims(app)) if app.state in SCHEDULABLE else ():
            request = place.request
            ask_class = request.ask.ask_class
            if ask_class.predicate is not None and self._predicates.full:
                blockers.append(self._predicates.owed)
                continue
            free: Sequence[Request] = task_group.free
            first = first or (request, free[0])
            if ask_class.required_node is not None:
                if task_group not in spreads:
                    spreads[task_group] = _Spread(free)
                    self.looked_at += len(free)
                free = spreads[task_group].to_look_at(ask_class, ask_class.required_node)
            self.looked_at += 1
            for placeholder in free:
                self.looked_at += 1
                if not is_covered(ask_class, placeholder.ask.ask_class):
                    return Cancellation(app, request, placeholder)
                node = self._node_of(placeholder)
                if not node.results.get((ask_class, False)):
                    return Replacement(app, request, placeholder, node, elsewhere=False)
                refused[node] = None
        if first is not None:
            request, placeholder = first
            found = self._index.best(request.ask.ask_class)
            if isinstance(found, Node):
                return Replacement(app, request, placeholder, found, elsewhere=True)
            blockers.append(found)
        return InTheWay(tuple(dict.fromkeys(blockers)), tuple(refused))

    def _node_of(self, placeholder: Request) -> Node:
        allocation = placeholder.allocation
        assert allocation is not None, f"{placeholder!r} keeps room somewhere"
        return self._nodes[allocation.node_id]


class _Spread:
    """The free placeholders of a task group by node, for asks that require one."""

    __slots__ = ("_first_of", "_on")

    def __init__(self, free: Sequence[Request]) -> None:
        """Take placeholders in the order of their arrival."""
        self._on: dict[NodeId, list[Request]] = {}
        self._first_of: dict[AskClass, Request] = {}
        for placeholder in free:
            allocation = placeholder.allocation
            assert allocation is not None, f"{placeholder!r} keeps room somewhere"
            self._on.setdefault(allocation.node_id, []).append(placeholder)
            self._first_of.setdefault(placeholder.ask.ask_class, placeholder)

    def to_look_at(self, wanted: AskClass, required: NodeId) -> Sequence[Request]:
        """Placeholders for an ask, in order: on its node, and the first that are too small."""
        looks = {
            placeholder.arrival: placeholder
            for kept, placeholder in self._first_of.items()
            if not is_covered(wanted, kept)
        }
        looks.update((one.arrival, one) for one in self._on.get(required, ()))
        return [looks[arrival] for arrival in sorted(looks)]


def _claims(app: Application) -> Iterator[tuple[Place, TaskGroup]]:
    """The first real ask of each kind that may replace a placeholder, and its task group.

    Asks of a kind fit alike, so the others need not be looked at.
    """
    if app.gang.free_count:
        for group in app.groups.values():
            _, name, is_placeholder = group.key
            task_group = None if is_placeholder else app.gang.groups.get(name)
            if group.waiting and task_group is not None and task_group.free:
                yield group.first(), task_group


def is_covered(wanted: AskClass, kept: AskClass) -> bool:
    """True if a placeholder keeps as much of every type as the real ask wants (spec § 6.5a)."""
    if wanted is kept:
        return True
    room = kept.resources
    return all(room.get(name, 0) >= value for name, value in wanted.items)
