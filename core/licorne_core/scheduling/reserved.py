"""The asks that a node is reserved for: they come before all others (spec § 8.6)."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from licorne_core.apps.application import Application
from licorne_core.apps.requests import Request
from licorne_core.nodes.node import Node
from licorne_core.queues.queue import Queue
from licorne_core.ranking import Key
from licorne_core.reservations import Reservation
from licorne_core.scheduling.foremost import Foremost, queue_keys
from licorne_core.scheduling.order import app_key


class Owner(NamedTuple):
    """Whose reservation it is."""

    leaf: Queue
    app: Application
    request: Request


class ReservedAsks(Foremost[Reservation]):
    """All reservations of a partition; one that was tried in vain waits for its node as well."""

    __slots__ = ("_owners",)

    def __init__(self) -> None:
        """None yet."""
        super().__init__()
        self._owners: dict[Reservation, Owner] = {}

    def __len__(self) -> int:
        """How many there are."""
        return len(self._owners)

    def __iter__(self) -> Iterator[Reservation]:
        """All of them, in the order in which they were made."""
        return iter(self._owners)

    def add(self, reservation: Reservation, owner: Owner) -> None:
        """A new one. It is tried once, to learn what is in its way."""
        self._owners[reservation] = owner
        self.wake((reservation,))

    def remove(self, reservation: Reservation) -> Owner:
        """One that has ended; whose it was."""
        self.unblock(reservation)
        self.set_aside(reservation)
        return self._owners.pop(reservation)

    def owner(self, reservation: Reservation) -> Owner:
        """Whose it is."""
        return self._owners[reservation]

    def wake_on(self, node: Node) -> None:
        """Something changed on the node."""
        self.wake(node.reservations.values())

    def wake_all(self) -> None:
        """Everything may have changed."""
        self.wake(self._owners)
        self.stale = True

    def moved(self, queues: Mapping[Queue, None]) -> None:
        """Keys of these queues, or of what is in them, may have become smaller."""
        owners = self._owners
        self.moved_up(
            reservation
            for reservation in self.ready
            if not queues.keys().isdisjoint(owners[reservation].leaf.lineage[:-1])
        )

    def key(self, item: Reservation, types: tuple[str, ...]) -> Key:
        """The keys of its queues from root, of its application and of its ask."""
        leaf, app, request = self._owners[item]
        return (*queue_keys(leaf, types), app_key(app, leaf), request.place[:3])
