"""Search for victims: the best node for an ask, with the fewest victims (spec § 9.4).

1. Law 4: is the ask's queue below its guarantee? Where does its fence stand?
2. Nodes that could be reserved for the ask. An ask that fits without victims has to wait.
3. For each node, the smallest set of victims on it that makes room, regular ones before originators
   before those that opted out, and with it the smallest set on other nodes that brings the ask's queues
   below their maxima. All laws hold after every victim that is taken.
4. The best plans win: kind of victims, number of victims, node id.

Nodes are not all looked at. The first few are tried by id, as most searches end there. The others
follow by the number of victims that they take at least, until none of them can beat what was found.

A search counts its what-if steps, and a node may use up a tenth of them. Then it is tried greedily:
each candidate that helps is taken in rank order, and a spare one is put back. Out of
steps, the best so far wins; with none so far, the other nodes are tried greedily.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import Request
from licorne_core.model.nodes.book import NodeBook
from licorne_core.model.nodes.node import NO_ANSWER, Node
from licorne_core.model.queues.queue import Queue
from licorne_core.scheduling.preemption.covering import covers, less
from licorne_core.scheduling.preemption.hosts import is_free_for, next_to_yield, room_lacking
from licorne_core.scheduling.preemption.laws import (
    Law,
    entitled_queue,
    fence_of,
    keeps_all,
    quota_shortage,
    stays_within_guarantee,
)
from licorne_core.scheduling.preemption.losses import Losses
from licorne_core.scheduling.preemption.node_contents import Leaves, NodeContents
from licorne_core.scheduling.preemption.planning import Planning
from licorne_core.scheduling.preemption.plans import Plan, Refusal
from licorne_core.scheduling.preemption.refusing import refusal, why_no_candidates
from licorne_core.scheduling.preemption.victim_counts import OfSize, VictimCounts
from licorne_core.scheduling.preemption.victims import Candidates, Giver, Place
from licorne_core.scheduling.preemption.whatif import Candidate, Vector, Victim, WhatIf
from licorne_core.values.ids import AppId
from licorne_core.values.reservations import Reservation

STEPS = 20_000
"""What-if steps of one search."""
NODES = 10
"""Plans for different nodes that a search answers with, as so many are shown to an RM."""
GLANCE = 32
"""Nodes that are tried by id first: most searches end there."""
MANY = 32
"""Number of changed nodes at which it pays to see first if any node is of use."""
WALK = 8
"""Most nodes looked at to find those, as a multiple of `GLANCE`."""


class PreemptionSearch:
    """Finds victims in one partition. It reads the live books and never changes them."""

    __slots__ = ("_glance", "_place", "_root", "work")

    work: int
    """Work of all searches: allocations, leaves, nodes and what-if steps.

    It only rises.
    """

    def __init__(
        self,
        root: Queue,
        nodes: NodeBook,
        applications: Mapping[AppId, Application],
        reserved: Iterable[Reservation],
        losses: Losses,
        *,
        glance: int = GLANCE,
    ) -> None:
        """Search the partition's live things; `reserved` are all its reservations.

        `glance` nodes are tried by id before all others are compared. It decides nothing.
        """
        self._root = root
        self._glance = glance
        node_contents = NodeContents(nodes.by_id, applications, nodes.changed)
        victim_counts = VictimCounts(node_contents, nodes.changed)
        self._place = Place(
            nodes.by_id, applications, losses, reserved, node_contents, Leaves(), victim_counts
        )
        self.work = 0

    def find(
        self,
        app: Application,
        request: Request,
        now: float,
        *,
        steps: int = STEPS,
        most: int = NODES,
        refused: Collection[Node] = (),
    ) -> list[Plan] | Refusal:
        """Return the best plans for a pending ask, each for another node, best first; never empty.

        No plan is for one of the `refused` nodes. The caller checks that the ask may trigger
        preemption at all (spec § 9.2). `now` is in unix seconds.
        """
        leaf: Queue = app.leaf
        wanted = request.ask.ask_class.items
        entitled = entitled_queue(leaf, wanted)
        if entitled is None:
            return refusal(Law.NO_GUARANTEE, leaf, request)
        if not stays_within_guarantee(entitled, wanted):
            return refusal(Law.OVER_GUARANTEE, entitled, request)
        beyond = quota_shortage(leaf.lineage, wanted)
        candidates = self._candidates(app, entitled, request, now)
        hosts = AskHosts(self._place, candidates, request, self._glance, refused)
        what_if = WhatIf(steps)
        found: list[Plan] | Refusal = []
        if not any(beyond) and hosts.will_do():
            found = refusal(Law.WAITS_FOR_RELEASES, entitled, request)
        elif candidates.any_giver():
            planning = Planning(candidates, what_if, beyond)
            with_spare = request.ask.ask_class.predicate is not None
            found = planning.best(hosts, most, with_spare=with_spare)
        if not found:
            found = self._refusal(candidates, hosts, entitled, request)
        self.work += what_if.steps + candidates.judged + hosts.looked_at
        return found

    def _refusal(
        self, candidates: Candidates, hosts: "AskHosts", entitled: Queue, request: Request
    ) -> Refusal:
        """Refusal without a plan, with the time at which that may change by itself."""
        if hosts.are_kept():
            found = refusal(Law.NODES_KEPT, entitled, request)
        elif hosts.are_refused():
            found = refusal(Law.RM_REFUSED, entitled, request)
        elif hosts.exist():
            found = why_no_candidates(candidates, entitled, request)
        else:
            found = refusal(Law.NO_NODE, entitled, request)
        reserved, applications = self._place.reserved, self._place.applications
        yields = next_to_yield(reserved, request, applications, candidates.now)
        times = [time for time in (found.until, yields) if time is not None]
        return found._replace(until=min(times, default=None))

    def stands(self, app: Application, request: Request, plan: Plan, upto: int, now: float) -> bool:
        """True if a plan is still legal on the live books, and still necessary.

        Of those on the node the ones up to the index `upto` go (`Plan.victims_upto`).
        """
        victims = plan.victims_upto(upto)
        leaf: Queue = app.leaf
        wanted = request.ask.ask_class.items
        entitled = entitled_queue(leaf, wanted)
        node = plan.node
        if (
            not victims
            or entitled is None
            or not stays_within_guarantee(entitled, wanted)
            or self._place.nodes.get(node.node_id) is not node
        ):
            return False
        room = room_lacking(node, request, self._place.applications, now)
        beyond = quota_shortage(leaf.lineage, wanted)
        if room is None or not (any(room) or any(beyond)):
            return False
        candidates = self._candidates(app, entitled, request, now)
        what_if = WhatIf(len(victims))
        for victim in victims:
            candidate = self._still_candidate(candidates, victim)
            if candidate is None or not what_if.take(candidate):
                return False
            if victim.node is node:
                room = less(room, candidate.gives)
            beyond = less(beyond, candidate.gives)
        self.work += what_if.steps + candidates.judged
        return not any(room) and not any(beyond)

    def check(self) -> None:
        """Compare kept data with nodes and leaves; raises InvariantBroken (rule P5)."""
        self._place.node_contents.check()
        self._place.victim_counts.check()
        self._place.leaves.check()

    def _candidates(
        self, app: Application, entitled: Queue, request: Request, now: float
    ) -> Candidates:
        leaf: Queue = app.leaf
        wanted = request.ask.ask_class.items
        fence = fence_of(leaf, request.ask.priority, wanted)
        return Candidates(self._place, leaf, entitled, fence, wanted, now)

    def _still_candidate(self, candidates: Candidates, victim: Victim) -> Candidate | None:
        app, request, node = victim
        if self._place.applications.get(app.app_id) is not app:
            return None
        if app.requests.get(request.key) is not request or request.allocation is None:
            return None
        if self._place.nodes.get(request.allocation.node_id) is not node:
            return None
        giver = candidates.giver(app.leaf)
        if not isinstance(giver, Giver):
            return None
        judged = candidates.judge(app, request, node, giver)
        return judged if isinstance(judged, Candidate) else None


class AskHosts:
    """The nodes of one search, and the room that they lack by type of the ask."""

    __slots__ = (
        "_candidates",
        "_glance",
        "_place",
        "_ranked",
        "_refused",
        "_request",
        "_seen",
        "_wanted",
        "looked_at",
    )

    looked_at: int
    """Number of looks at nodes."""

    def __init__(
        self,
        place: Place,
        candidates: Candidates,
        request: Request,
        glance: int,
        refused: Collection[Node],
    ) -> None:
        """Start for a pending ask. Plans for `refused` nodes are of no use."""
        self._place = place
        self._candidates = candidates
        self._request = request
        self._wanted = request.ask.ask_class.items
        self._glance = glance
        self._refused = refused
        self._seen: set[Node] = set()
        # All nodes by their least number of victims, once that is needed.
        self._ranked: OfSize | None = None
        self.looked_at = 0

    def will_do(self) -> bool:
        """True if one of the nodes will have room without victims."""
        with_room = self._all_ranked().with_room()
        return any(self.lacking(node) is not None for node in with_room)

    def exist(self) -> bool:
        """True if there is one at all."""
        nodes = self._place.node_contents.nodes()
        return any(self.lacking(node) is not None for node in nodes)

    def are_kept(self) -> bool:
        """True if a node with candidates is closed to the ask by a reservation alone."""
        now, applications = self._candidates.now, self._place.applications
        for reservation in self._place.reserved:
            node = self._reserved_node(reservation)
            if node is None or is_free_for(node, self._request, applications, now):
                continue
            self.looked_at += 1
            if next(self._candidates.on_node_by_age(node), None) is not None:
                return True
        return False

    def _reserved_node(self, reservation: Reservation) -> Node | None:
        """Its node, if that would be a place for the ask were it not reserved."""
        if reservation.node_id is None:
            return None
        node = self._place.nodes[reservation.node_id]
        if node in self._refused or not (node.schedulable and node.holds(self._wanted)):
            return None
        return None if node.results.get((self._request.ask.ask_class, False)) else node

    def are_refused(self) -> bool:
        """True if the RM has refused the nodes; silence is no refusal."""
        if self._refused:
            return True
        if self.exist():
            return False
        now, applications = self._candidates.now, self._place.applications
        return any(
            _is_refused(node, self._request) and is_free_for(node, self._request, applications, now)
            for node in self._place.node_contents.nodes()
        )

    def first(self) -> Iterator[tuple[int, Node, Vector]]:
        """Yield the first few nodes by id, with the least number of victims of each.

        Yield none if all nodes were compared already: then the best is known at once.
        """
        if self._ranked is not None:
            return
        node_contents = self._place.node_contents
        hosts = 0
        for node in node_contents.nodes():
            if len(self._seen) >= self._glance or hosts >= self._glance * WALK:
                return
            self.looked_at += 1
            if node.schedulable and node not in self._refused:
                short = self._lacking(node)
                if short is not None:
                    hosts += 1
                    fewest = node_contents.fewest(node, self._wanted, short, self._is_spared)
                    if fewest is not None and self._may_do(fewest, node):
                        yield fewest, node, short
                        self._seen.add(node)

    def others(self) -> Iterator[tuple[int, Node]]:
        """The others, by the number of victims that they take at least, then by id."""
        seen, ranked = self._seen, self._all_ranked()
        self.looked_at += ranked.number()
        for fewest, node in ranked.in_order():
            self.looked_at += 1
            if node not in seen and node not in self._refused and self._may_do(fewest, node):
                yield fewest, node

    @property
    def are_many_new(self) -> bool:
        """True if to go through the others takes numbers of many nodes that have changed."""
        return self._all_ranked().due > MANY

    def may_lack(self, most: Vector) -> bool:
        """True if any node may lack so much of each type at most."""
        least = self._all_ranked().least_lacking()
        return least is not None and covers(most, least)

    def lacking(self, node: Node) -> Vector | None:
        """Room that the node lacks in addition to victims; None if it cannot host the ask."""
        self.looked_at += 1
        return self._lacking(node)

    def _lacking(self, node: Node) -> Vector | None:
        now = self._candidates.now
        return room_lacking(node, self._request, self._place.applications, now)

    def _all_ranked(self) -> OfSize:
        if self._ranked is None:
            self._ranked = self._place.victim_counts.of(self._wanted)
            self.looked_at += self._ranked.refresh()
        return self._ranked

    def _is_spared(self, leaf: Queue) -> bool:
        return keeps_all(leaf, self._wanted)

    def _may_do(self, fewest: int, node: Node) -> bool:
        """True if there is anything on the node that could go, if anything has to."""
        return not fewest or self._candidates.any_on(node)


def _is_refused(node: Node, request: Request) -> bool:
    """True if the RM has refused the node to asks of the class."""
    results, ask_class = node.results, request.ask.ask_class
    said = (results.get((ask_class, allocate)) for allocate in (True, False))
    return any(reason and reason is not NO_ANSWER for reason in said)
