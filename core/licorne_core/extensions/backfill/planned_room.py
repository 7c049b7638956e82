"""Room on a node that is held from a time on, for an ask or a gang with a shadow start.

Until then others may use the room, if they end before. Others that run longer have to leave it free at that
time: the amounts free then follow from the allocations that end before.
"""

from collections.abc import Set
from typing import Any, Final

from licorne_core.model.claims import Claims
from licorne_core.model.nodes.claims import HeldRoom
from licorne_core.values.asks import Allocation, AskClass, Shape
from licorne_core.values.ids import AllocationKey, AppId
from licorne_core.values.resources import Items, charge, refund

AllocationId = tuple[AppId, AllocationKey]
"""Names an allocation in its partition."""


BEHIND: Final = "held for a shadow start"
"""Reason for excluding a node on which the ask would use room that is held from a later time on."""


class PlannedRoom(HeldRoom):
    """Amounts on one node that are held for a shadow start.

    `going` are the allocations that existed at the time of the plan, `planned`, and were expected to end by
    `start`. A later allocation counts as ended by then if its declared runtime says so.
    """

    def __init__(
        self, start: float, end: float, items: Items, going: Set[AllocationId], planned: float, claims: Claims
    ) -> None:
        """Create the room; `Shadows.hold` puts it in `Node.claims`."""
        self.reason = BEHIND
        self.start = start
        self.end = end
        self.items = items
        self.going = going
        self.planned = planned
        self._claims = claims

    def ends_before(self, allocation: Allocation) -> bool:
        """True if the allocation is expected to end by the start."""
        ask = allocation.ask
        if (ask.app_id, ask.key) in self.going:
            return True
        since = allocation.allocation_time
        return since >= self.planned and since + ask.ask_class.runtime <= self.start

    def lets(self, wanted: AskClass | Shape, node: Any, holder: object = None) -> bool:
        """True if the ask ends by the start, or leaves the room free."""
        if self._claims.now + wanted.runtime <= self.start:
            return True
        left = self.left_on(node, holder)
        return all(left.get(name, 0) >= value for name, value in wanted.items)

    def leaves(self, wanted: AskClass | Shape, node: Any) -> dict[str, int]:
        """Amounts free at the start, apart from all held rooms, for asks that still run then."""
        if self._claims.now + wanted.runtime <= self.start:
            return {}
        left = self.left_on(node)
        charge(left, tuple(node.kept.items()))
        return {name: left.get(name, 0) for name, _ in wanted.items}

    def left_on(self, node: Any, holder: object = None) -> dict[str, int]:
        """Amounts free on the node at the start, apart from this and other held rooms; may be negative."""
        left: dict[str, int] = dict(node.available)
        for allocation in node.allocations:
            if self.ends_before(allocation):
                charge(left, allocation.ask.ask_class.items)
        for claim, room in node.claims.items():
            if claim is not holder and (room is self or room.start <= self.start < room.end):
                refund(left, room.items)
        refund(left, tuple(node.kept.items()))
        return left
