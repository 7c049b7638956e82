"""Asks with a reservation: they come before all others (spec § 8.6)."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import Request
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.queue import Queue
from licorne_core.scheduling.order import app_key
from licorne_core.scheduling.priority_pass import PriorityPass
from licorne_core.values.ranking import Key
from licorne_core.values.reservations import Reservation


class Holder(NamedTuple):
    """Leaf, application and request of a reservation."""

    leaf: Queue
    app: Application
    request: Request


class ReservedAsks(PriorityPass[Reservation]):
    """All reservations of a partition; after a failed try, one waits for its node as well.

    Only pending asks are tried: while the RM is asked about an ask its promise rests. For reviews
    they form a ring, in the order in which they were made; a new one comes last.
    """

    __slots__ = ("_holders",)

    def __init__(self) -> None:
        """Start empty."""
        super().__init__()
        self._holders: OrderedDict[Reservation, Holder] = OrderedDict()

    def __len__(self) -> int:
        """Number of reservations."""
        return len(self._holders)

    def __iter__(self) -> Iterator[Reservation]:
        """All of them, those first whose next turn comes first."""
        return iter(self._holders)

    def next_ones(self, most: int) -> list[Reservation]:
        """So many at most, behind those of the last call; whatever was added or removed since."""
        part = list(islice(self._holders, most))
        for reservation in part:
            self._holders.move_to_end(reservation)
        return part

    def add(self, reservation: Reservation, holder: Holder) -> None:
        """Add a reservation. It is tried once, to find its blockers."""
        self._holders[reservation] = holder
        self.wake((reservation,))

    def remove(self, reservation: Reservation) -> Holder:
        """Remove a reservation that has ended; return its holder."""
        self.rest(reservation)
        return self._holders.pop(reservation)

    def wake(self, items: Iterable[Reservation]) -> None:
        """Wake pending asks among these, as something changed for them."""
        super().wake(item for item in items if self._holders[item].request.is_pending)

    def rest(self, reservation: Reservation) -> None:
        """Its ask is not pending at the moment."""
        self.unblock(reservation)
        self.set_aside(reservation)

    def holder(self, reservation: Reservation) -> Holder:
        """Return the holder of the reservation."""
        return self._holders[reservation]

    def wake_on(self, node: Node) -> None:
        """Wake asks for a change of the node."""
        self.wake(node.reservations.values())

    def wake_all(self) -> None:
        """Everything may have changed."""
        self.wake(self._holders)

    def way(self, item: Reservation) -> Sequence[Queue | Application]:
        """Its application, which may have very many, and the queues above."""
        holder = self._holders[item]
        return (holder.app, *holder.leaf.lineage)

    def key(self, item: Reservation) -> Key:
        """The place of its ask, which is the same as long as that is pending."""
        return self._holders[item].request.place[:3]

    def app_key_changed(self, app: Application) -> None:
        """The application's place in its leaf may be another one: no reservation is looked at."""
        if app in self._rankings:
            self._rankings[app.leaf].put(app, app_key(app, app.leaf))
