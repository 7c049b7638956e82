"""Applications with placeholders, tried after the reserved asks and before the queues (spec § 6.5)."""

from licorne_core.scheduling.checks import QUEUE_RUNS
from licorne_core.scheduling.replacing import Obstacles, Replacement
from licorne_core.scheduling.rules import CheckContext
from licorne_core.scheduling.stages import Position, Stage
from licorne_core.standard.placeholders.search import Cancellation, ReplacementSearch


class Replacing(Stage):
    """Applications with placeholders that a real ask may replace."""

    def __init__(self, context: CheckContext) -> None:
        """Serve the partition of the context."""
        super().__init__(context, Position.REPLACING, context.wakeups.replacing.ready)
        self._search = ReplacementSearch(context)
        context.effort.count(self._search)

    def decide(self, now: float) -> Replacement | Cancellation | None:
        """Return the first possible replacement, a placeholder to cancel, or None (spec § 6.5)."""
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
            found = self._search.find(app, self.gangs)
            if not isinstance(found, Obstacles):
                return found
            replacing.watch(app, found)
        return None
