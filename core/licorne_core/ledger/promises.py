"""Promises of freed room to asks with a reservation (spec § 9.4.8).

An ask whose victims are being stopped has its node reserved. Its amounts are promised to it in its
queues, and to its user and group. The promise lasts until the ask is placed or removed, at most for the
hour of its reservation. In every quota, other asks have to leave free the part of the promise that the
remaining victims do not cover. So no other ask gets freed resources, in whatever order victims end.
While the RM is asked about a node for the ask, the promise is paused: the ask itself is booked in its
quotas, and no other ask gets the promised node. If the RM refuses, or the question is withdrawn, the
promise continues.

The promise continues without its node if the node is removed, cordoned, can never hold the ask, is claimed
by an ask that requires it, or is refused by the RM. A refusal before the end of all victims on the node does
not count, as the RM may accept the node without them; nor does a missing answer. Then other asks may
use the node. The ask may go to any node, and may have another one reserved. An ask that requires its
node keeps it until the node is removed, or the RM refuses the freed room to it.

Without the node, the victims were stopped in vain. Victims that still run on are spared, and the ask may have
others stopped: its victim search ignores its own promise, which ends once others are stopped. Only the RM
knows why it has refused a cleared node. So the asks of the group pause, each time for twice as long, nothing
is stopped on the node before it changes, and an ask has few tries.

A resized ask keeps its promise up to its new size. Freed resources are limited by the old promise, and
remain unavailable to other asks. The promise ends when the ask is to replace a placeholder, as it gets the
room of the placeholder.
"""

from collections.abc import Mapping
from math import inf

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.groups import SEARCH_INTERVAL
from licorne_core.model.apps.requests import Request, RequestState
from licorne_core.model.books import book_promise, unbook_promise
from licorne_core.model.nodes.book import NodeBook
from licorne_core.model.nodes.node import Node
from licorne_core.model.quotas import Quota
from licorne_core.values.asks import Reservation
from licorne_core.values.ids import NodeId
from licorne_core.values.resources import Items, charge, refund


class Promise:
    """Promise of one ask; `outstanding` are its remaining victims, with their applications.

    `items` are the promised amounts. A resized ask may need more. `node_id` is the node on which the
    victims are stopped.
    """

    __slots__ = (
        "app",
        "has_stopped",
        "is_paused",
        "items",
        "node_id",
        "outstanding",
        "request",
        "reservation",
        "withheld",
    )

    def __init__(
        self,
        app: Application,
        request: Request,
        reservation: Reservation,
        victims: Mapping[Request, Application],
        items: Items,
    ) -> None:
        """Start a promise without booking it."""
        self.app = app
        self.items = items
        self.request = request
        self.reservation = reservation
        self.outstanding = dict(victims)
        self.withheld: dict[Quota, Items] = {}
        """Amounts that other asks have to leave free now, by quota."""
        self.node_id = reservation.node_id
        self.has_stopped = any(victim.state is not RequestState.NOTICED for victim in victims)
        """True once the RM was asked to stop a victim; until then all victims are noticed only."""
        self.is_paused = False
        """True while the promise is paused: the ask itself is booked, and the RM is asked about its node."""

    def waits_on(self, node_id: NodeId) -> bool:
        """True if a victim on the node has not ended yet."""
        return any(
            victim.allocation is not None and victim.allocation.node_id == node_id
            for victim in self.outstanding
        )

    def lacks(self, quota: Quota) -> Items:
        """Amounts that the ask needs in a quota beyond those left free for it; may be zero.

        All its types are included: under a lowered maximum even the amounts left free may not fit.
        """
        withheld = dict(self.withheld.get(quota, ()))
        items = self.request.ask.ask_class.items
        return tuple((name, value - withheld.get(name, 0)) for name, value in items)

    def book(self) -> None:
        """Book the promise in all quotas of its application."""
        book_promise(self.items, self.app)
        for quota in self.app.quotas:
            self._withhold(quota)

    def unbook(self) -> None:
        """Undo `book`."""
        unbook_promise(self.items, self.app)
        for quota, withheld in self.withheld.items():
            refund(quota.withheld, withheld)
        self.withheld.clear()

    def adjust(self, victim_app: Application) -> None:
        """Adjust the withheld amounts, as a victim of the application has ended or changed its size."""
        if self.is_paused:
            return
        for quota in self.app.quotas:
            if quota in victim_app.quotas:
                refund(quota.withheld, self.withheld.pop(quota, ()))
                self._withhold(quota)

    def _withhold(self, quota: Quota) -> None:
        uncovered = dict(self.items)
        for victim, app in self.outstanding.items():
            if quota in app.quotas:
                for name, value in victim.ask.ask_class.items:
                    if name in uncovered:
                        uncovered[name] -= value
        withheld = tuple((name, value) for name, value in uncovered.items() if value > 0)
        if withheld:
            self.withheld[quota] = withheld
            charge(quota.withheld, withheld)


MOST_TRIES = 3
"""Maximum number of times that victims are stopped for an ask on nodes that the RM then refuses."""


class RefusedStops:
    """Restrictions on an ask group after victims were stopped in vain for its asks."""

    __slots__ = ("_nodes", "until")

    def __init__(self) -> None:
        """Start without restrictions."""
        self._nodes: dict[Node, int] = {}
        self.until = -inf
        """End of the pause, in unix seconds."""

    def note(self, request: Request, node: Node, nodes: NodeBook, now: float) -> None:
        """Record that the RM has refused a cleared node, one of `nodes`, to the ask."""
        self._nodes = {one: one.known_version for one in self.nodes if nodes.by_id.get(one.node_id) is one}
        self._nodes[node] = node.known_version
        self.until = max(self.until, now + SEARCH_INTERVAL * 2**request.refused_stops)
        request.refused_stops += 1

    @property
    def nodes(self) -> list[Node]:
        """The refused nodes that have not changed since the refusal."""
        return [node for node, version in self._nodes.items() if node.known_version == version]


class Promises:
    """The promises of one partition.

    Always true: an ask with a promise has a reservation. It is pending, or it is assumed and the promise
    is paused. Each remaining victim is outstanding for one ask only.
    """

    def __init__(self) -> None:
        """Start without promises."""
        self._by_victim: dict[Request, Promise] = {}

    def make(self, promise: Promise) -> None:
        """Book a promise to an ask with a reservation, and record its victims."""
        promise.request.promise = promise
        promise.book()
        for victim in promise.outstanding:
            self._by_victim[victim] = promise

    def victim_gone(self, victim: Request) -> Reservation | None:
        """Record that a victim has ended; return the reservation whose ask may now be tried, if any."""
        promise = self._by_victim.pop(victim, None)
        if promise is None:
            return None
        promise.adjust(promise.outstanding.pop(victim))
        return promise.reservation

    def of_victim(self, victim: Request) -> Promise | None:
        """The promise to the ask that waits for the end of the victim; None if there is none."""
        return self._by_victim.get(victim)

    def victim_stopped(self, victim: Request) -> None:
        """Record that the RM was asked to stop a noticed victim."""
        promise = self._by_victim.get(victim)
        if promise is not None:
            promise.has_stopped = True

    def spare(self, promise: Promise) -> list[Request]:
        """Remove noticed victims from the promise, and return these victims."""
        noticed = [victim for victim in promise.outstanding if victim.state is RequestState.NOTICED]
        for victim in noticed:
            del self._by_victim[victim]
            app = promise.outstanding.pop(victim)
            promise.adjust(app)
        return noticed

    def victim_resized(self, victim: Request) -> None:
        """Record that a remaining victim has changed its size."""
        promise = self._by_victim.get(victim)
        if promise is not None:
            promise.adjust(promise.outstanding[victim])

    def end(self, promise: Promise) -> None:
        """End a promise, with its reservation."""
        for victim in promise.outstanding:
            del self._by_victim[victim]
        if not promise.is_paused:
            promise.unbook()
        promise.request.promise = None
