"""One node: capacity, what is on it, and what is left (spec § 7)."""

from collections.abc import Mapping

from licorne_core.asks import Allocation, AskClass
from licorne_core.ids import AllocationKey, AppId, NodeId
from licorne_core.reservations import Reservation
from licorne_core.resources import Items, Resources


class Node:
    """available = capacity - allocated - occupied, always; it may be below zero (spec § 7.2).

    `version` rises with every change of the node. What the RM said of it is forgotten with every
    change that the RM knows of, and `unseen` counts the others: asks that wait for its word, booked
    and put back. `birth` tells nodes apart that have the same id one after the other. An *open*
    node is schedulable and reserved for nobody.
    """

    __slots__ = (
        "allocated",
        "allocations",
        "attributes",
        "available",
        "birth",
        "capacity",
        "foreign",
        "node_id",
        "occupied",
        "open",
        "reservations",
        "schedulable",
        "score",
        "unseen",
        "verdicts",
        "version",
    )

    def __init__(
        self,
        node_id: NodeId,
        capacity: Resources,
        attributes: Mapping[str, str],
        *,
        schedulable: bool,
    ) -> None:
        """A node with nothing on it."""
        self.node_id = node_id
        self.attributes = attributes
        self.schedulable = schedulable
        self.open = schedulable
        self.capacity: Resources = capacity
        self.allocated: dict[str, int] = {}
        self.occupied: dict[str, int] = {}
        self.available: dict[str, int] = dict(capacity)
        self.allocations: dict[Allocation, None] = {}
        self.foreign: dict[AllocationKey, Allocation] = {}
        self.reservations: dict[tuple[AppId, AllocationKey], Reservation] = {}
        # What the RM said of asks of a class while the node was as it is now: empty for «accepted»,
        # or the reason for which it refused; the flag is False where a reservation was meant.
        self.verdicts: dict[tuple[AskClass, bool], str] = {}
        self.birth = 0
        self.score = 0.0
        self.version = 0
        self.unseen = 0

    def __repr__(self) -> str:
        """``<Node n1 schedulable: available {...}, 3 allocations>``."""
        state = "schedulable" if self.schedulable else "drained"
        return (
            f"<Node {self.node_id} {state}: available {self.available}, "
            f"{len(self.allocations)} allocations>"
        )

    def set_schedulable(self, *, schedulable: bool) -> None:
        """Drain the node, or let it take asks again."""
        self.schedulable = schedulable
        self.open = schedulable and not self.reservations
        self._changed()

    def add_reservation(self, reservation: Reservation) -> None:
        """Keep the node for an ask."""
        self.reservations[reservation.app_id, reservation.key] = reservation
        self.open = False

    def drop_reservation(self, reservation: Reservation) -> None:
        """Keep it no longer."""
        del self.reservations[reservation.app_id, reservation.key]
        self.open = self.schedulable and not self.reservations

    def accepts(self, ask_class: AskClass, *, allocate: bool = True) -> bool:
        """Whether the RM has not refused asks of the class here (spec § 8.4)."""
        return not self.verdicts or not self.verdicts.get((ask_class, allocate))

    @property
    def told(self) -> int:
        """Rises with every change that the RM knows of."""
        return self.version - self.unseen

    def reveal(self) -> None:
        """The RM is told of something that was booked unseen."""
        self.unseen -= 1
        self.verdicts.clear()

    def _changed(self, *, seen: bool = True) -> None:
        self.version += 1
        if not seen:
            self.unseen += 1
        elif self.verdicts:
            self.verdicts.clear()

    def resize(self, capacity: Resources) -> None:
        """Replace the capacity; what runs goes on running."""
        self.capacity = capacity
        self._changed()
        self.available = dict(capacity)
        for taken in (self.allocated, self.occupied):
            for name, value in taken.items():
                self.available[name] = self.available.get(name, 0) - value

    def fits(self, items: Items) -> bool:
        """Whether the amounts fit in what is available, strictly: no such type, no fit."""
        available = self.available
        for name, value in items:
            if available.get(name, 0) < value:
                return False
        return True

    def holds(self, items: Items) -> bool:
        """Whether the amounts would fit if nothing were on the node."""
        return all(self.capacity.get(name, 0) >= value for name, value in items)

    def add_allocation(self, allocation: Allocation, *, seen: bool = True) -> None:
        """Book an allocation, fitting or not: a replayed one must be taken (spec § 11.3)."""
        self.allocations[allocation] = None
        self.version += 1
        if not seen:
            self.unseen += 1
        elif self.verdicts:
            self.verdicts.clear()
        allocated = self.allocated
        available = self.available
        for name, value in allocation.ask.ask_class.items:
            allocated[name] = allocated.get(name, 0) + value
            available[name] = available.get(name, 0) - value

    def drop_allocation(self, allocation: Allocation, *, seen: bool = True) -> None:
        """Forget an allocation that ended, or that the RM never saw."""
        del self.allocations[allocation]
        self._changed(seen=seen)
        allocated = self.allocated
        available = self.available
        for name, value in allocation.ask.ask_class.items:
            left = allocated[name] - value
            if left:
                allocated[name] = left
            else:
                del allocated[name]
            available[name] += value
            if not available[name] and name not in self.capacity:
                del available[name]
