"""Finds pairs of placeholders and the real asks that may replace them (spec § 6.5)."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.gang import TaskGroup
from licorne_core.model.apps.requests import Request
from licorne_core.model.apps.states import SCHEDULABLE
from licorne_core.model.effort import Search
from licorne_core.model.nodes.node import Node
from licorne_core.scheduling.gang_placement import GangSearch
from licorne_core.scheduling.replacing import Obstacles, Replacement, first_asks
from licorne_core.scheduling.rules import CheckContext
from licorne_core.scheduling.waiting.blockers import Blocker
from licorne_core.values.asks import AskClass
from licorne_core.values.ids import NodeId

PLACEHOLDERS_OF_A_TRY: Final = 8
"""Number of placeholders whose examination costs as much as one try of an ask."""


class Cancellation(NamedTuple):
    """A decision: cancel the placeholder, which is too small for the real ask."""

    app: Application
    request: Request
    placeholder: Request


class ReplacementSearch(Search):
    """Finds the next replacement of an application, without changing books.

    `work` counts the examined asks and placeholders.
    """

    def __init__(self, context: CheckContext) -> None:
        """Search in the partition of the context."""
        super().__init__(PLACEHOLDERS_OF_A_TRY)
        self._context = context

    def find(self, app: Application, gangs: GangSearch) -> Replacement | Cancellation | Obstacles:
        """Return the first pair of a real ask and a placeholder, or the obstacles.

        On the placeholder's node, only a refusal by the RM, or that the ask requires another node, is an
        obstacle. If no pair can be made there, the first pair is tried on other nodes, which `gangs` finds.
        """
        predicates = self._context.predicates
        blockers: list[Blocker] = []
        refused: dict[Node, None] = {}
        first: tuple[Request, Request] | None = None
        by_node: dict[TaskGroup, _ByNode] = {}
        is_tried = app.state in SCHEDULABLE and not app.held
        for place, task_group in sorted(first_asks(app)) if is_tried else ():
            request = place.request
            ask_class = request.ask.ask_class
            if ask_class.predicate is not None and predicates.full:
                blockers.append(predicates.owed)
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
            found = gangs.elsewhere(app, request)
            if isinstance(found, Node):
                return Replacement(app, request, placeholder, found, elsewhere=True)
            blockers.append(found)
        return Obstacles(tuple(dict.fromkeys(blockers)), tuple(refused))

    def _node_of(self, placeholder: Request) -> Node:
        allocation = placeholder.allocation
        assert allocation is not None, f"{placeholder!r} keeps room somewhere"
        return self._context.nodes[allocation.node_id]


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
        """Placeholders on the required node and, of each class that is too small, the first placeholder."""
        looks = {
            placeholder.arrival: placeholder
            for kept, placeholder in self._first_of.items()
            if not is_covered(wanted, kept)
        }
        looks.update((one.arrival, one) for one in self._on.get(required, ()))
        return [looks[arrival] for arrival in sorted(looks)]


def is_covered(wanted: AskClass, kept: AskClass) -> bool:
    """True if a placeholder is at least as large as the real ask in every type (spec § 6.5a)."""
    if wanted is kept:
        return True
    room = kept.resources
    return all(room.get(name, 0) >= value for name, value in wanted.items)
