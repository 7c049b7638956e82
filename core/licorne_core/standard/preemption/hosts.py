"""Nodes that could be reserved for an ask, and the room that they lack (spec § 9.4.2)."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from math import inf

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import Request
from licorne_core.model.nodes.node import NO_ANSWER, Node
from licorne_core.model.queues.queue import Queue
from licorne_core.standard.preemption.candidates import Candidates
from licorne_core.standard.preemption.laws import Claim, keeps_all
from licorne_core.standard.preemption.victim_counts import CountsBySize, VictimCounts
from licorne_core.standard.preemption.victim_index import VictimIndex, any_noticed, promised_on, room_shortage
from licorne_core.standard.preemption.victims import Vector, covers
from licorne_core.values.asks import Reservation
from licorne_core.values.ids import AppId
from licorne_core.values.resources import EMPTY

FIRST_NODES = 32
"""Nodes that are tried by id first: most searches end there, and need no victim counts. Measured by Python
calls of the first search of a size among 500 and 2,000 nodes: 187 and 187; without trying these first, 21,204
and 84,204.
"""
WALK = 8
"""Maximum number of nodes examined to find the first nodes, as a multiple of `FIRST_NODES`."""

RESPECTED = 4.0
"""Seconds for which a reservation resists asks of higher priority: twice the wait for a reservation."""


ALLOCATIONS_AT_ONE = 16
"""Number of allocations whose ends are compared with a start, at the cost of a node."""


def room_lacking(
    node: Node, request: Request, claim: Claim, applications: Mapping[AppId, Application], now: float
) -> Vector | None:
    """Amounts to free on the node, by type of the ask; None if the node cannot host the ask.

    Resources of current victims count as freed, except those promised to other asks. Victims do not help on a
    node that has room and that the RM has refused.
    """
    promised = _promised_beside(node, request, claim, applications, now)
    if promised is None:
        return None
    # If the RM refuses a reservation on the node, it refuses the ask there, whatever the victims.
    if node.results and node.results.get((request.ask.ask_class, False)):
        return None
    short = room_shortage(node, request.ask.ask_class.items, promised)
    if node.results and not any(short) and node.results.get((request.ask.ask_class, True)):
        return None
    return short


def is_free_for(
    node: Node, request: Request, claim: Claim, applications: Mapping[AppId, Application], now: float
) -> bool:
    """True if the node could be reserved for the ask, regardless of its usage and of RM answers."""
    return _promised_beside(node, request, claim, applications, now) is not None


def _may_host(node: Node, request: Request, claim: Claim) -> bool:
    """True if the node could be reserved for the ask, but for reservations and RM answers.

    Starts that are planned on it have to be the ask's own, to give way to it, to begin after the ask's own
    one has ended, or to have room left beside the ask, as allocations end by then. Then they do not count.
    """
    wanted, own = request.ask.ask_class.items, request.claim
    if not (node.schedulable and node.holds(wanted)):
        return False
    if request.reservation is not None and request.reservation.node_id == node.node_id:
        # These amounts are reserved there already.
        wanted = tuple((name, 0) for name, _ in wanted)
    until = node.claims[own].end if own in node.claims else inf
    return all(
        start is own or claim.precedes(start) or until <= room.start or room.has_left(wanted, node, own)
        for start, room in node.claims.items()
    )


def _effort(node: Node) -> int:
    """Cost of the question whether the node may host an ask, in nodes."""
    return 1 + len(node.claims) * (1 + len(node.allocations) // ALLOCATIONS_AT_ONE)


def _promised_beside(
    node: Node, request: Request, claim: Claim, applications: Mapping[AppId, Application], now: float
) -> Mapping[str, int] | None:
    """Amounts on the node promised to others; None if the node could not be reserved for the ask."""
    if not _may_host(node, request, claim):
        return None
    for reservation in node.reservations.values():
        if not (yields(reservation, request, applications, now) or is_promised(reservation, applications)):
            return None
    promised = promised_on(node, applications) if node.reservations else EMPTY
    return None if promised and request.ask.ask_class.predicate is not None else promised


def is_promised(reservation: Reservation, applications: Mapping[AppId, Application]) -> bool:
    """True if victims were stopped for the ask of the reservation, which then yields to no other ask."""
    return applications[reservation.app_id].requests[reservation.key].triggered


def yields(
    reservation: Reservation, request: Request, applications: Mapping[AppId, Application], now: float
) -> bool:
    """True if the reservation is the ask's own, or yields to it.

    A reservation yields after `RESPECTED` seconds to asks of strictly higher priority, unless its
    ask requires the node or has had victims stopped. A provisional one yields to all.
    """
    if reservation is request.reservation or reservation.provisional:
        return True
    if reservation.required or now - reservation.time <= RESPECTED:
        return False
    other = applications[reservation.app_id].requests[reservation.key]
    return other.priority < request.priority and not other.triggered


def next_to_yield(
    reserved: Iterable[Reservation], request: Request, applications: Mapping[AppId, Application], now: float
) -> float | None:
    """Time at which the next reservation becomes old enough to yield to the ask; None if there is none."""
    times = [
        reservation.time + RESPECTED
        for reservation in reserved
        if reservation is not request.reservation
        and not yields(reservation, request, applications, now)
        and yields(reservation, request, applications, inf)
    ]
    return min(times, default=None)


class AskHosts:
    """The nodes of one search, and the room that each lacks, by the ask's types."""

    looked_at: int
    """Number of nodes examined, including repeated ones."""

    def __init__(
        self,
        index: VictimIndex,
        counts: CountsBySize,
        candidates: Candidates,
        request: Request,
        first_nodes: int,
        refused: Collection[Node],
    ) -> None:
        """Prepare a search for a pending ask; no plan is for a node in `refused`."""
        self._index = index
        self._counts = counts
        self._candidates = candidates
        self._request = request
        self._wanted = request.ask.ask_class.items
        self._first_nodes = first_nodes
        self._refused = refused
        self._claim = candidates.leaves.claim
        self._seen: set[Node] = set()
        # All nodes by their least number of victims, from the first use on.
        self._ranked: VictimCounts | None = None
        self.looked_at = 0

    def with_room(self) -> Iterator[Node]:
        """Nodes that will have room without further victims, by id."""
        return (node for node in self._all_ranked().with_room() if self.lacking(node) is not None)

    def without_victims(self, most: int) -> list[Node] | None:
        """At most `most` nodes that have room left after promises; None if no node will have room.

        The list ends before a node without a reservation or a start of others: on that node the ask only has
        to wait.
        """
        found: list[Node] = []
        for node in self.with_room():
            others = any(start is not self._request.claim for start in node.claims)
            others = others or any(
                is_promised(one, self._index.applications) for one in node.reservations.values()
            )
            if len(found) == most or not others:
                return found
            if node not in self._refused:
                found.append(node)
        return found or None

    def room(self, node: Node, most: int) -> tuple[Vector, int] | None:
        """Room on the node after promises, once current victims have ended, and the number of asks for it.

        At most `most` asks. None if the node cannot host the ask.
        """
        self.looked_at += _effort(node)
        applications = self._index.applications
        promised = _promised_beside(node, self._request, self._claim, applications, self._candidates.now)
        if promised is None:
            return None
        free = [
            node.available.get(name, 0) + node.preempting.get(name, 0) - promised.get(name, 0)
            for name, _ in self._wanted
        ]
        return tuple(free), 1 if any_noticed(node, applications) else most

    def any_host(self) -> bool:
        """True if any node can host the ask."""
        nodes = self._index.in_order()
        return any(self.lacking(node) is not None for node in nodes)

    def are_kept(self) -> bool:
        """True if a node with candidates is unavailable to the ask only because of a reservation."""
        now, applications = self._candidates.now, self._index.applications
        for reservation in self._index.reserved:
            node = self._reserved_node(reservation)
            if node is None or is_free_for(node, self._request, self._claim, applications, now):
                continue
            self.looked_at += _effort(node)
            if next(self._candidates.on_node_by_age(node), None) is not None:
                return True
        return False

    def _reserved_node(self, reservation: Reservation) -> Node | None:
        """The reserved node, if it could host the ask without the reservation."""
        if reservation.node_id is None:
            return None
        node = self._index.nodes[reservation.node_id]
        if node in self._refused or not _may_host(node, self._request, self._claim):
            return None
        return None if node.results.get((self._request.ask.ask_class, False)) else node

    def are_refused(self) -> bool:
        """True if the RM has refused nodes that could host the ask. A missing answer is not a refusal."""
        if self._refused:
            return True
        if self.any_host():
            return False
        now, applications = self._candidates.now, self._index.applications
        return any(
            _is_refused(node, self._request)
            and is_free_for(node, self._request, self._claim, applications, now)
            for node in self._index.in_order()
        )

    def first(self) -> Iterator[tuple[int, Node, Vector]]:
        """Yield the first nodes by id: least number of victims, node, and the room that it lacks.

        Yields nothing if all nodes are ranked already: then `others` yields the best nodes first.
        """
        if self._ranked is not None:
            return
        index = self._index
        for node in islice(index.in_order(), self._first_nodes * WALK):
            if len(self._seen) >= self._first_nodes:
                return
            self.looked_at += _effort(node)
            if node.schedulable and node not in self._refused:
                short = self._lacking(node)
                if short is not None:
                    fewest = index.fewest(node, self._wanted, short, self._is_spared)
                    if fewest is not None and self._may_suffice(fewest, node):
                        yield fewest, node, short
                        self._seen.add(node)

    def others(self) -> Iterator[tuple[int, Node]]:
        """Nodes that `first` did not yield, by their least number of victims, then by id."""
        seen, ranked = self._seen, self._all_ranked()
        self.looked_at += ranked.recount()
        for fewest, node in ranked.in_order():
            self.looked_at += 1
            if node not in seen and node not in self._refused and self._may_suffice(fewest, node):
                yield fewest, node

    def least_is_within(self, most: Vector) -> bool:
        """True if the least amount of each type that any node lacks is within `most`."""
        least = self._all_ranked().least_lacking()
        return least is not None and covers(most, least)

    def lacking(self, node: Node) -> Vector | None:
        """Room that the node lacks in addition to current victims; None if it cannot host the ask."""
        self.looked_at += _effort(node)
        return self._lacking(node)

    def _lacking(self, node: Node) -> Vector | None:
        now = self._candidates.now
        return room_lacking(node, self._request, self._claim, self._index.applications, now)

    def _all_ranked(self) -> VictimCounts:
        if self._ranked is None:
            self._ranked = self._counts.of(self._wanted)
            self.looked_at += self._ranked.refresh()
        return self._ranked

    def _is_spared(self, leaf: Queue) -> bool:
        return keeps_all(leaf, self._wanted)

    def _may_suffice(self, fewest: int, node: Node) -> bool:
        """True if the node needs no victims, or has possible ones."""
        return not fewest or self._candidates.any_on(node)


def _is_refused(node: Node, request: Request) -> bool:
    """True if the RM has refused the node to asks of the class."""
    results, ask_class = node.results, request.ask.ask_class
    said = (results.get((ask_class, allocate)) for allocate in (True, False))
    return any(reason and reason is not NO_ANSWER for reason in said)
