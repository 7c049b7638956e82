"""The remedy of reservations: a node is reserved for an ask that fits no node (spec §§ 8.5, 8.7)."""

from math import inf
from typing import NamedTuple

from licorne_core.model.apps.application import Application, Asking
from licorne_core.model.apps.groups import AskGroup, ReservationRequest
from licorne_core.model.apps.requests import Request
from licorne_core.model.nodes.node import Node
from licorne_core.model.quotas import Quota
from licorne_core.scheduling.checks import ask_blocker
from licorne_core.scheduling.measures import Remedy, is_cluster
from licorne_core.scheduling.waiting.blockers import Blocker
from licorne_core.values.asks import AskClass


class ToReserve(NamedTuple):
    """A decision: reserve the node for the ask (§§ 8.5, 8.7); `provisional` if the cluster is full."""

    app: Application
    request: Request
    node: Node
    provisional: bool


class Reserving(Remedy):
    """Reserves a node for an ask."""

    def helps(self, group: AskGroup, over: Quota | None, *, is_held: bool) -> bool:
        """True if the asks fit no node, or exceed only what is left of the whole cluster."""
        is_ours = over is None or over is self.context.tree.root
        return is_ours and not is_held and self.context.may_hold

    def decide(self, wants: ReservationRequest, request: Request, now: float) -> ToReserve | Blocker | None:
        """The node to reserve, or the blocker. None while an earlier remedy has not been paused."""
        context, app, ask_class = self.context, wants.app, wants.group.ask_class
        for other in wants.group.remedy_requests.values():
            if other.step < wants.step and now >= other.paused_until:
                context.escalation.pause(wants, inf)
                return None
        blocker = ask_blocker(context, Asking(app, wants.group))
        is_full = blocker is not None and is_cluster(blocker, app.leaf)
        if blocker is not None and is_full and self._starves(ask_class):
            blocker.retire_if_unused()
            blocker = None
        if blocker is None and ask_class.required_node is None:
            blocker = context.wakeups.reservation_limits.blocker(app)
        if blocker is not None:
            return blocker
        found = context.index.to_reserve(ask_class, now)
        return ToReserve(app, request, found, is_full) if isinstance(found, Node) else found

    def _starves(self, ask_class: AskClass) -> bool:
        """True if smaller asks would use all room that becomes free in a full cluster, forever.

        This affects asks of which no node can hold two: a smaller ask needs the end of only one allocation.
        """
        return ask_class.required_node is None and self.context.node_book.is_large(ask_class.items)
