"""Places of gang members that were lost with their nodes.

When a member of a topology gang ends with its node, or while its node is not schedulable, a place is
recorded: the task group, and the domain for the next member of that task group. For gang slices this is the
domain of the slice; otherwise it is that of the gang. For `topology.swap-seconds` the amounts are reserved on
one node of the domain: the first in node order that has the room, is not reserved for another ask, and was
not refused by the RM, as soon as there is one. The RM is asked about the node in the name of a running member
of the same class. If the RM refuses, the room is reserved on another node; while it does not answer, the room
remains reserved. No other member moves.

The next ask of the task group gets the place. After the time nothing is reserved any more. If the domain is
required, or the gang has slices, the member still has to be in the domain; otherwise the place is dropped.
"""

from collections.abc import Collection

from licorne_core.extensions.topology import NAME, STANDARD_SWAP, SWAP_SECONDS
from licorne_core.extensions.topology.domain_terms import DomainTerms
from licorne_core.extensions.topology.domains import Domain, DomainBook
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import MAY_GO, Request
from licorne_core.model.claims import MemberRoom
from licorne_core.model.nodes.node import Node, is_out, refuses
from licorne_core.scheduling.gang_sets import rank_of
from licorne_core.scheduling.predicates import NodeQuestion
from licorne_core.scheduling.rules import CheckContext
from licorne_core.standard.predicates.checks import checks_of
from licorne_core.values.asks import AskClass
from licorne_core.values.ids import AllocationKey
from licorne_core.values.resources import charge, refund
from licorne_core.values.timers import Due, Timer

MOST_SOUGHT = 32
"""Maximum number of places for which a node is searched in one turn."""


class LostPlace(MemberRoom):
    """Place of one lost member."""

    __slots__ = (
        "_all",
        "app",
        "ask_class",
        "domain",
        "is_kept",
        "key",
        "node",
        "request",
        "task_group",
        "where",
    )

    def __init__(self, places: "LostPlaces", app: Application, request: Request, domain: Domain) -> None:
        """Create a place for which room is to be reserved; it has no node at first."""
        self._all = places
        self.app = app
        self.key: AllocationKey = request.key
        self.task_group = request.ask.task_group
        self.ask_class: AskClass = request.ask.ask_class
        self.domain = domain
        self.where = "/".join(domain[1])
        self.is_kept = True
        """True while amounts have to be reserved for the place."""
        self.node: Node | None = None
        """The node on which the amounts are reserved; None if there is none."""
        self.request: Request | None = None

    @property
    def is_lost(self) -> bool:
        """True if the place has no node, a closed node, or a node that the RM has refused.

        A missing answer of the RM is no reason to change the node: the RM is asked again.
        """
        return self.node is None or not self.node.schedulable or refuses(self.node, self.ask_class)

    def running(self) -> Request | None:
        """A running member of the lost member's class; None if there is none."""
        for request in self.app.requests.values():
            is_like = request.ask.ask_class == self.ask_class and request.state in MAY_GO
            if is_like and request.ask.task_group == self.task_group:
                return request
        return None

    def nodes(self) -> Collection[Node]:
        """The nodes of the domain in which the lost member was placed."""
        return self._all.nodes_in(self.domain)

    def hold_for(self, request: Request) -> None:
        """Hold the place for an assumed ask; until the RM has answered, other asks use other nodes."""
        self.request = request
        self._all.retry(self)

    def put_back(self) -> None:
        """Free the place for other asks, as its ask is not assumed any more."""
        self.request = None
        self._all.retry(self)

    def end(self) -> None:
        """Remove the place, because it was used or is not needed any more."""
        self._all.drop(self)
        self._all.retry(self)


_Like = dict[tuple[Application, str, AskClass], Request | None]
"""Running members of the classes of lost members, or None, by application, task group and class."""


class LostPlaces:
    """The places of lost members in one partition, in the order of the losses.

    Always true: each place is in the list of its application; a place with `is_kept` has a deadline, and its
    amounts are reserved on its node, if it has one.
    """

    def __init__(self, context: CheckContext, domains: DomainBook) -> None:
        """Start without places, in the partition of the context with these domains."""
        self._domains = domains
        self._predicates = checks_of(context)
        self._nodes = context.node_book
        self._dirty, self._wakeups = context.dirty, context.wakeups
        self._timers = context.timers
        self._rooms = context.claims.rooms
        self.present: dict[LostPlace, None] = {}
        """All places, in the order of the losses."""
        self._by_timer: dict[Timer, list[LostPlace]] = {}
        """Places by deadline; places with the same key share a deadline."""
        self._sought_at: tuple[int, int] | None = None
        """Numbers of changes of nodes and of answers at the last search for all places."""

    def lost(self, app: Application, request: Request, now: float) -> None:
        """Record the place of an ending member, if its node cannot be used any more."""
        terms, allocation = app.gang.terms, request.allocation
        if not isinstance(terms, DomainTerms) or allocation is None:
            return
        if not app.gang.has(request.ask.task_group):
            return
        if app.gang.units is not None:
            # A gang in units gets whole units again, not single members.
            return
        node = self._nodes.by_id[allocation.node_id]
        domains = self._domains.current()
        depth = domains.depth(terms.slice_level if terms.slice_size else terms.level)
        domain = domains.domain_of(node, depth) if depth > 0 and not node.schedulable else None
        if domain is None:
            return
        place = LostPlace(self, app, request, domain)
        self.present[place] = self._rooms[place] = app.gang.rooms[place] = None
        self._by_timer.setdefault(timer_of(place), []).append(place)
        self._sought_at = None
        seconds = app.leaf.settings.of(SWAP_SECONDS, STANDARD_SWAP)
        self._timers.set(timer_of(place), now + seconds)
        self.retry(place)

    def seek(self) -> None:
        """Find nodes for places without a node, or with a closed node.

        The RM is asked about a node if there is a predicate and no valid answer.
        """
        now = (self._nodes.changed.count, self._predicates.closed_checks)
        if self._sought_at == now:
            return
        sought: list[LostPlace] = []
        is_full = False
        like: _Like = {}
        for place in list(self.present):
            if not place.is_kept:
                continue
            if place.is_lost:
                self._leave_node(place)
                self._find(place)
                sought.append(place)
            is_full = not self._ask(place, like) or is_full
            if len(sought) >= MOST_SOUGHT:
                # The next turn begins with the places that follow.
                for one in sought:
                    self.present[one] = self.present.pop(one)
                return
        self._sought_at = None if is_full else now

    def overdue(self, app: Application, key: AllocationKey) -> None:
        """End the time for which a place is reserved."""
        terms: DomainTerms | None = app.gang.terms
        places = list(self._by_timer[_timer(app, key)])
        for place in places:
            self._leave_node(place)
            place.is_kept = False
            if terms is None or not terms.is_strict:
                self.drop(place)
        self._retry_asks(app, {place.task_group for place in places})

    def drop(self, place: LostPlace) -> None:
        """Remove a place, and its reservation."""
        self._leave_node(place)
        del place.app.gang.rooms[place], self.present[place], self._rooms[place]
        timer = timer_of(place)
        others = self._by_timer[timer]
        others.remove(place)
        if not any(other.is_kept for other in others):
            self._timers.cancel(timer)
        if not others:
            del self._by_timer[timer]

    def forget(self, app: Application) -> None:
        """Drop the places of an application that has ended."""
        for place in list(app.gang.rooms):
            self.drop(place)

    def clear(self) -> None:
        """Drop all places, because the partition was removed."""
        self.present.clear()
        self._rooms.clear()
        self._by_timer.clear()

    def retry(self, place: LostPlace) -> None:
        """Retry the asks that a change of the place affects."""
        self._retry_asks(place.app, {place.task_group})

    def _retry_asks(self, app: Application, task_groups: Collection[str]) -> None:
        """Retry the asks that a change of places of these task groups affects."""
        self._wakeups.waiting.try_members(app, task_groups)
        self._dirty.mark_due(app)

    def nodes_in(self, domain: Domain) -> Collection[Node]:
        """The nodes of a domain, whose level may not exist any more."""
        depth, path = domain
        nodes = self._domains.current().nodes
        return nodes[depth].get(path, {}) if depth < len(nodes) else ()

    def _find(self, place: LostPlace) -> None:
        wanted = place.ask_class
        fitting = (
            n
            for n in place.nodes()
            if not n.reservations and n.refusal(wanted.shape) is None and not is_out(n, wanted)
        )
        node = min(fitting, key=rank_of, default=None)
        if node is not None:
            place.node = node
            charge(node.kept, wanted.items)
            self._dirty.mark_filled(node)
            self._wakeups.waiting.try_members(place.app)

    def _ask(self, place: LostPlace, like: _Like) -> bool:
        """Ask the RM about the node of the place, if there is a predicate; False if too many checks are open.

        The question names a running member of the lost member's class. Places of one class share a question.
        """
        node, predicates = place.node, self._predicates
        if node is None or not predicates.is_needed(place.ask_class, node, allocate=False):
            return True
        if predicates.is_asked_about(place.ask_class, node):
            return True
        if predicates.full:
            return False
        name = place.app, place.task_group, place.ask_class
        if name not in like:
            like[name] = place.running()
        member = like[name]
        if member is not None:
            predicates.ask_before(NodeQuestion(place.app, [(member, [node])]))
        return True

    def _leave_node(self, place: LostPlace) -> None:
        node, place.node = place.node, None
        if node is not None:
            refund(node.kept, place.ask_class.items)
            if self._nodes.by_id.get(node.node_id) is node:
                self._dirty.mark_node(node)


def timer_of(place: LostPlace) -> Timer:
    """The timer of the place, shared by all places with its key."""
    return _timer(place.app, place.key)


def _timer(app: Application, key: AllocationKey) -> Timer:
    return Timer(Due.EXTENSION, app.app_id, key, name=NAME)
