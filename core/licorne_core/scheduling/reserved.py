"""The asks that a node is reserved for: which of them to try next (spec § 8.6)."""

from licorne_core.apps.application import Application
from licorne_core.asks import AskClass
from licorne_core.nodes.node import Node
from licorne_core.queues.queue import Queue
from licorne_core.ranking import Key
from licorne_core.reservations import Reservation
from licorne_core.scheduling.order import app_key, queue_key

Owner = tuple[Queue, Application, AskClass]


class ReservedAsks:
    """All reservations of a partition; those that are `ready` are worth a try.

    One that was tried in vain is not ready again before its node changes, or a gate opens that
    its ask class stands at.
    """

    __slots__ = ("_by_class", "_owners", "ready")

    def __init__(self) -> None:
        """None yet."""
        self._owners: dict[Reservation, Owner] = {}
        self._by_class: dict[AskClass, dict[Reservation, None]] = {}
        self.ready: dict[Reservation, None] = {}

    def __len__(self) -> int:
        """How many there are."""
        return len(self._owners)

    def add(self, reservation: Reservation, owner: Owner) -> None:
        """A new one, for an ask that fits on its node not yet."""
        self._owners[reservation] = owner
        ask_class = owner[2]
        self._by_class.setdefault(ask_class, {})[reservation] = None
        if ask_class.size is not ask_class:
            self._by_class.setdefault(ask_class.size, {})[reservation] = None

    def remove(self, reservation: Reservation) -> Owner:
        """One that has ended; whose it was."""
        owner = self._owners.pop(reservation)
        self.ready.pop(reservation, None)
        for ask_class in {owner[2]: None, owner[2].size: None}:
            alike = self._by_class[ask_class]
            del alike[reservation]
            if not alike:
                del self._by_class[ask_class]
        return owner

    def owner(self, reservation: Reservation) -> Owner:
        """The leaf, the application and the class of the ask."""
        return self._owners[reservation]

    def wake(self, ask_class: AskClass) -> None:
        """Something changed for asks of the class."""
        alike = self._by_class.get(ask_class)
        if alike:
            self.ready.update(alike)

    def wake_on(self, node: Node) -> None:
        """Something changed on the node."""
        self.ready.update(dict.fromkeys(node.reservations.values()))

    def wake_all(self) -> None:
        """Everything may have changed."""
        self.ready.update(dict.fromkeys(self._owners))

    def first(self, types: tuple[str, ...]) -> Reservation:
        """The first of those ready, in the order of queues, applications and asks."""
        if len(self.ready) == 1:
            return next(iter(self.ready))
        return min(self.ready, key=lambda reservation: self._place(reservation, types))

    def _place(self, reservation: Reservation, types: tuple[str, ...]) -> Key:
        leaf, app, _ = self._owners[reservation]
        path = [
            queue_key(queue, priority_sort=queue.parent.settings.priority_sort, types=types)
            for queue in reversed(leaf.lineage)
            if queue.parent is not None
        ]
        return (*path, app_key(app, leaf), app.pending[reservation.key][:3])
