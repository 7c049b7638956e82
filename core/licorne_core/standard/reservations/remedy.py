"""The remedy: a node is reserved for an ask that no node takes (spec §§ 8.5, 8.7)."""

from math import inf
from typing import NamedTuple

from licorne_core.model.apps.application import Application, Asking
from licorne_core.model.apps.groups import AskGroup, ReservationRequest
from licorne_core.model.apps.requests import Request
from licorne_core.model.nodes.node import Node
from licorne_core.model.quotas import Quota
from licorne_core.scheduling.checks import ask_blocker
from licorne_core.scheduling.measures import Remedy
from licorne_core.scheduling.waiting.blockers import Blocker


class ToReserve(NamedTuple):
    """A decision: reserve the node for the ask (spec §§ 8.5, 8.7)."""

    app: Application
    request: Request
    node: Node


class Reserving(Remedy):
    """A node is reserved for the ask."""

    def helps(self, group: AskGroup, over: Quota | None) -> bool:
        """True if no node takes them."""
        return over is None and self.context.may_hold

    def decide(self, wants: ReservationRequest, request: Request, now: float) -> ToReserve | Blocker | None:
        """The node to reserve, or the blocker. None while a remedy that comes before it does not pause."""
        context, app, ask_class = self.context, wants.app, wants.group.ask_class
        for other in wants.group.remedy_requests.values():
            if other.step < wants.step and now >= other.paused_until:
                context.escalation.rest(wants, inf)
                return None
        blocker = ask_blocker(context, Asking(app, wants.group))
        if blocker is None and ask_class.required_node is None:
            blocker = context.wakeups.reservation_limits.blocker(app)
        if blocker is not None:
            return blocker
        found = context.index.to_reserve(ask_class)
        return ToReserve(app, request, found) if isinstance(found, Node) else found
