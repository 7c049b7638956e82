"""Applications with placeholders: they come behind the reserved asks and before the queues (spec § 6.5)."""

from collections.abc import Callable

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import Request
from licorne_core.model.nodes.node import Node
from licorne_core.scheduling.checks import QUEUE_RUNS
from licorne_core.scheduling.replacing import Cancellation, Obstacles, Replacement, ReplacementSearch
from licorne_core.scheduling.rules import CheckContext
from licorne_core.scheduling.stages import Position, Stage
from licorne_core.scheduling.waiting.blockers import Blocker


class Replacing(Stage):
    """Applications with placeholders that a real ask may replace."""

    def __init__(
        self, context: CheckContext, elsewhere: Callable[[Application, Request], Node | Blocker]
    ) -> None:
        """In the partition of the context; `elsewhere` is that of the search."""
        super().__init__(context, Position.REPLACING, context.wakeups.replacing.ready)
        self._search = ReplacementSearch(context.nodes, context.predicates, elsewhere)
        context.effort.count(self._search)

    def decide(self, now: float) -> Replacement | Cancellation | None:
        """Return the first possible replacement, or a placeholder to cancel (spec § 6.5)."""
        context = self.context
        replacing = context.wakeups.replacing
        while replacing.ready:
            if context.effort.is_spent():
                return None
            app = replacing.first(context.tree.root, context.dirty.ranks.types)
            stopped = QUEUE_RUNS.obstacle(context, app)
            if stopped is not None:
                blocker = QUEUE_RUNS.blocker(context, app, stopped)
                replacing.watch(app, Obstacles((blocker,), ()))
                continue
            found = self._search.find(app)
            if not isinstance(found, Obstacles):
                return found
            replacing.watch(app, found)
        return None
