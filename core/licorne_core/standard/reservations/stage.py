"""The reserved asks, which are tried before the queues (spec § 8.6)."""

from licorne_core.model.apps.application import Application, Asking
from licorne_core.model.apps.requests import Request
from licorne_core.model.apps.states import SCHEDULABLE
from licorne_core.model.nodes.node import Node
from licorne_core.scheduling.measures import Candidate, first_blocker
from licorne_core.scheduling.rules import CheckContext
from licorne_core.scheduling.stages import Position, Stage
from licorne_core.scheduling.waiting.blockers import Blocker
from licorne_core.standard.preemption.decisions import ToClear
from licorne_core.standard.preemption.extension import preemption_of
from licorne_core.standard.reservations.review import Review, ToGiveUp
from licorne_core.values.asks import Reservation


class Reserved(Stage):
    """Reserved asks: they are placed, or victims are stopped on the node that they require."""

    def __init__(self, context: CheckContext, review: Review) -> None:
        """Serve the partition of the context; `review` decides which reservations give way."""
        super().__init__(context, Position.RESERVED, context.wakeups.reserved.ready)
        self._review = review

    def decide(self, now: float) -> Candidate | ToClear | ToGiveUp | None:
        """The first reserved ask that can be placed on any node, or another action for one; or None."""
        context = self.context
        types = context.dirty.ranks.types
        reserved = context.wakeups.reserved
        while reserved.ready:
            if context.effort.is_spent():
                return None
            reservation = reserved.first(context.tree.root, types)
            leaf, app, request = reserved.holder(reservation)
            found = self._for(app, request, reservation)
            if isinstance(found, Node):
                leaf, app, request = self._review.served_first(found, reservation)
                return leaf, app, request, found
            if isinstance(found, ToGiveUp):
                return found
            cleared = preemption_of(context).remedy.clear(app, request, found, now)
            if isinstance(cleared, ToClear):
                if found is not None:
                    found.retire_if_unused()
                return cleared
            reserved.park(reservation, [one for one in (found, cleared) if one is not None])
        return None

    def _for(
        self, app: Application, request: Request, reservation: Reservation
    ) -> Node | Blocker | ToGiveUp | None:
        """Return a node, or the blocker; None if only a change of the reserved node can help.

        The node is given up (`ToGiveUp`) if a rival has room on it.
        """
        context = self.context
        if app.state not in SCHEDULABLE:
            return None
        ask_class = request.ask.ask_class
        blocker = first_blocker(context, Asking(app, request.group, request))
        if blocker is not None:
            return blocker
        if self._review.gives_way(reservation):
            return ToGiveUp([], [reservation], None)
        own = reservation.node_id
        if own is not None and context.nodes[own].takes(ask_class, reserved=True):
            return context.nodes[own]
        return None if reservation.required else context.index.best(ask_class)
