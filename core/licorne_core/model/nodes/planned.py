"""Room on a node that is held from a time on: for an ask or a gang with a shadow start.

Until then others may use the room, if they end before. Others that run on have to leave it free at that
time: what is free then follows from the allocations that end before.
"""

from collections.abc import Mapping, Set
from typing import Any

from licorne_core.values.asks import Allocation, AskClass, Shape
from licorne_core.values.ids import AllocationKey, AppId
from licorne_core.values.resources import Items, charge, refund

AllocationId = tuple[AppId, AllocationKey]
"""Names an allocation in its partition."""


class TurnTime:
    """Time of the turn that decides now, in unix seconds: runtimes count from it."""

    __slots__ = ("now",)

    def __init__(self) -> None:
        """Start before the first turn."""
        self.now = 0.0


class PlannedRoom:
    """Amounts on one node that are held from `start` on, in unix seconds.

    `end` is the expected end of the ask that holds them, inf for unknown. `going` are the allocations
    that were there when it was planned, at `planned`, and were to end by `start`. One that came since
    ends by then if it declares so.
    """

    __slots__ = ("_time", "end", "going", "items", "planned", "start")

    def __init__(
        self,
        start: float,
        end: float,
        items: Items,
        going: Set[AllocationId],
        planned: float,
        time: TurnTime,
    ) -> None:
        """Create the room; `Shadows.hold` puts it in `Node.plans`."""
        self.start = start
        self.end = end
        self.items = items
        self.going = going
        self.planned = planned
        self._time = time

    def ends_before(self, allocation: Allocation) -> bool:
        """True if the allocation is to end by the start."""
        ask = allocation.ask
        if (ask.app_id, ask.key) in self.going:
            return True
        since = allocation.allocation_time
        return since >= self.planned and since + ask.ask_class.runtime <= self.start

    def lets(self, wanted: AskClass | Shape, node: Any, holder: object = None) -> bool:
        """True if an ask that is placed on the node now ends by the start, or leaves the room free.

        It is an ask of the shadow start `holder`, if that is not None, which needs its own room no more.
        """
        if self._time.now + wanted.runtime <= self.start:
            return True
        left = self.left_on(node, holder)
        return all(left.get(name, 0) >= value for name, value in wanted.items)

    def leaves(self, wanted: AskClass | Shape, node: Any) -> dict[str, int]:
        """Amounts that asks of the class may take now, the kept ones among them; none for no bound."""
        if self._time.now + wanted.runtime <= self.start:
            return {}
        left = self.left_on(node)
        charge(left, tuple(node.kept.items()))
        return {name: left.get(name, 0) for name, _ in wanted.items}

    def left_on(self, node: Any, holder: object = None) -> dict[str, int]:
        """What is free on the node at the start beside this and other held rooms, maybe below zero."""
        left: dict[str, int] = dict(node.available)
        for allocation in node.allocations:
            if self.ends_before(allocation):
                charge(left, allocation.ask.ask_class.items)
        rooms: Mapping[object, PlannedRoom] = node.plans
        for start, room in rooms.items():
            if start is not holder and (room is self or room.start <= self.start < room.end):
                refund(left, room.items)
        refund(left, tuple(node.kept.items()))
        return left
