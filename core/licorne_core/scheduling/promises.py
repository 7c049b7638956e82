"""What was promised to asks for which victims were told to stop (spec § 9.4.8).

The ask has its node reserved. What it wants is promised to it in its queues, and to its user and
group, from when the victims are told until it is placed or gone. Each promise is kept by itself: in
every quota others have to leave free what the victims that have yet to go do not cover. So nobody
else gets what they free, in whatever order they go.
"""

from collections.abc import Iterator, Mapping

from licorne_core.apps.application import Application
from licorne_core.apps.requests import Request
from licorne_core.books import book_promise, unbook_promise
from licorne_core.quotas import Quota
from licorne_core.reservations import Reservation
from licorne_core.resources import Items, charge, refund


class Promise:
    """One ask's; `outstanding` are the victims that are not gone yet, with their applications."""

    __slots__ = ("app", "kept", "outstanding", "request", "reservation")

    def __init__(
        self,
        app: Application,
        request: Request,
        reservation: Reservation,
        victims: Mapping[Request, Application],
    ) -> None:
        """The victims were told to stop."""
        self.app = app
        self.request = request
        self.reservation = reservation
        self.outstanding = dict(victims)
        self.kept: dict[Quota, Items] = {}
        """By quota, what others have to leave free for it now."""

    def lacks(self, quota: Quota) -> Items:
        """What the ask needs in a quota beside what is left free for it there; zero for nothing.

        All its types are named: what is left free may not be there, if the maximum was lowered.
        """
        kept = dict(self.kept.get(quota, ()))
        items = self.request.ask.ask_class.items
        return tuple((name, value - kept.get(name, 0)) for name, value in items)

    def book(self) -> None:
        """Book it in all quotas of its application."""
        book_promise(self.request.ask.ask_class.items, self.app)
        for quota in self.app.quotas:
            self._keep(quota)

    def unbook(self) -> None:
        """The inverse of `book`."""
        unbook_promise(self.request.ask.ask_class.items, self.app)
        for quota, kept in self.kept.items():
            refund(quota.kept, kept)
        self.kept.clear()

    def follow(self, victim_app: Application) -> None:
        """A victim of the application is gone or has another size: more or less is to be kept."""
        for quota in self.app.quotas:
            if quota in victim_app.quotas:
                refund(quota.kept, self.kept.pop(quota, ()))
                self._keep(quota)

    def _keep(self, quota: Quota) -> None:
        uncovered = dict(self.request.ask.ask_class.items)
        for victim, app in self.outstanding.items():
            if quota in app.quotas:
                for name, value in victim.ask.ask_class.items:
                    if name in uncovered:
                        uncovered[name] -= value
        kept = tuple((name, value) for name, value in uncovered.items() if value > 0)
        if kept:
            self.kept[quota] = kept
            charge(quota.kept, kept)


class Promises:
    """The promises of one partition.

    Always true: an ask with a promise is pending and has the node reserved that it was promised.
    Each victim that was told to stop for an ask, and is not gone, is outstanding for it alone.
    """

    __slots__ = ("_by_reservation", "_by_victim")

    def __init__(self) -> None:
        """None."""
        self._by_reservation: dict[Reservation, Promise] = {}
        self._by_victim: dict[Request, Promise] = {}

    def make(self, promise: Promise) -> None:
        """Victims were told to stop for an ask that has its node."""
        promise.request.promise = promise
        promise.book()
        self._by_reservation[promise.reservation] = promise
        for victim in promise.outstanding:
            self._by_victim[victim] = promise

    def find(self, reservation: Reservation) -> Promise | None:
        """The promise that goes with a reservation, if there is one."""
        return self._by_reservation.get(reservation)

    def victim_gone(self, victim: Request) -> Reservation | None:
        """A victim is gone; whose turn it is to be tried."""
        promise = self._by_victim.pop(victim, None)
        if promise is None:
            return None
        promise.follow(promise.outstanding.pop(victim))
        return promise.reservation

    def victim_resized(self, victim: Request) -> None:
        """A victim that is not gone yet has another size."""
        promise = self._by_victim.get(victim)
        if promise is not None:
            promise.follow(promise.outstanding[victim])

    def end(self, reservation: Reservation) -> Promise | None:
        """The reservation has ended, and the promise with it, if there was one."""
        promise = self._by_reservation.pop(reservation, None)
        if promise is None:
            return None
        for victim in promise.outstanding:
            del self._by_victim[victim]
        promise.unbook()
        promise.request.promise = None
        return promise

    def __iter__(self) -> Iterator[Promise]:
        """All of them, in the order in which they were made."""
        return iter(self._by_reservation.values())

    def __len__(self) -> int:
        """How many there are."""
        return len(self._by_reservation)
