"""Places of gang members that were lost with their nodes.

When a member of a topology gang goes with its node, or while its node is not schedulable, its place is
noted: the task group, and the domain that the next member of that task group belongs in. For gang slices
this is the domain of the slice, or else that of the gang. For `topology.swap-seconds` the amounts are kept
free on one node of the domain: the first in node order that has the room, as soon as one has, that is not
reserved, and that the RM has not refused. The RM is asked about it in the name of a member of the same class
that runs. If it refuses the room is kept on another node; while it is silent the room stays. No other member
moves.

The next ask of the task group takes the place. After the time nothing is kept any more. If the domain is
required, or the gang has slices, the member still has to be in it; if not, the place is forgotten.
"""

from collections.abc import Collection

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import ASSUMED, MAY_GO, Request
from licorne_core.model.nodes.book import NodeBook
from licorne_core.model.nodes.domains import Domain
from licorne_core.model.nodes.node import Node, is_out, refuses
from licorne_core.model.queues.tree import QueueTree
from licorne_core.scheduling.gang_domains import rank_of
from licorne_core.scheduling.predicates import NodeQuestion, PredicateChecks
from licorne_core.scheduling.waiting.dirty import Dirty
from licorne_core.scheduling.waiting.wakeups import Wakeups
from licorne_core.values.asks import AskClass
from licorne_core.values.ids import AllocationKey
from licorne_core.values.resources import charge, refund
from licorne_core.values.timers import Due, Timer, Timers

MOST_SOUGHT = 32
"""Most places for which a node is sought in one turn."""


class LostPlace:
    """Place of one lost member."""

    __slots__ = ("app", "ask_class", "domain", "is_kept", "key", "node", "request", "task_group")

    def __init__(self, app: Application, request: Request, domain: Domain) -> None:
        """Create a place that is to be kept, on no node yet."""
        self.app = app
        self.key: AllocationKey = request.key
        self.task_group = request.ask.task_group
        self.ask_class: AskClass = request.ask.ask_class
        self.domain = domain
        self.is_kept = True
        """True while amounts are to be kept free for it."""
        self.node: Node | None = None
        """The node on which they are."""
        self.request: Request | None = None
        """Ask that was assumed on a node in its place, as the RM is asked."""

    @property
    def is_lost(self) -> bool:
        """True if it has no node, or its node takes no asks any more, or the RM has refused it.

        Where the RM is silent about its node it is silent about others: it stays there, and is asked again.
        """
        return self.node is None or not self.node.schedulable or refuses(self.node, self.ask_class)

    @property
    def is_free(self) -> bool:
        """True if no ask is about to take it."""
        return self.request is None or self.request.state is not ASSUMED

    def running(self) -> Request | None:
        """A member like the lost one that runs."""
        for request in self.app.requests.values():
            is_like = request.ask.ask_class == self.ask_class and request.state in MAY_GO
            if is_like and request.ask.task_group == self.task_group:
                return request
        return None


_Like = dict[tuple[Application, str, AskClass], Request | None]
"""Members like lost ones that run, by application, task group and class; None for none."""


class LostPlaces:
    """The lost places of one partition, in the order of the losses.

    Always true: each is in the list of its application; one that is kept has a deadline, and its amounts are
    kept on its node, if it has one.
    """

    def __init__(
        self,
        nodes: NodeBook,
        tree: QueueTree,
        dirty: Dirty,
        wakeups: Wakeups,
        predicates: PredicateChecks,
        timers: Timers[Timer],
    ) -> None:
        """Start empty."""
        self._predicates = predicates
        self._nodes = nodes
        self._tree = tree
        self._dirty = dirty
        self._wakeups = wakeups
        self._timers = timers
        self.present: dict[LostPlace, None] = {}
        """All places, in the order of the losses."""
        self._by_timer: dict[Timer, list[LostPlace]] = {}
        """Places by deadline: those of one key have one deadline."""
        self._sought_at: tuple[int, int] | None = None
        """The changes of nodes and the answers up to which nodes were sought for all places."""

    def lost(self, app: Application, request: Request, now: float) -> None:
        """Note the place of a member that goes, if its node is of no use any more."""
        terms, allocation = app.gang.terms, request.allocation
        if terms is None or allocation is None or not app.gang.has(request.ask.task_group):
            return
        if app.gang.units is not None:
            # It is filled up to a whole unit.
            return
        node = self._nodes.by_id[allocation.node_id]
        domains = self._nodes.in_domains(self._tree.root.settings.topology_levels)
        depth = domains.depth(terms.slice_level if terms.slice_size else terms.level)
        domain = domains.domain_of(node, depth) if depth > 0 and not node.schedulable else None
        if domain is None:
            return
        place = LostPlace(app, request, domain)
        self.present[place] = None
        app.gang.places[place] = None
        self._by_timer.setdefault(_timer(place), []).append(place)
        self._sought_at = None
        seconds = app.leaf.settings.swap_seconds
        self._timers.set(_timer(place), now + seconds)
        self._retry_asks(place.app, {place.task_group})

    def seek(self) -> None:
        """Find nodes for kept places that have none, or whose node takes no asks any more.

        The RM is asked about a node where it has a say and none of its answers counts.
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
                # The others have their turn in the next one.
                for one in sought:
                    self.present[one] = self.present.pop(one)
                return
        self._sought_at = None if is_full else now

    def first(self, app: Application, task_group: str) -> LostPlace | None:
        """The first free place of a task group."""
        return next((p for p in app.gang.places if p.task_group == task_group and p.is_free), None)

    def overdue(self, app: Application, key: AllocationKey) -> None:
        """End the time for which a place is kept."""
        terms = app.gang.terms
        places = list(self._by_timer[Timer(Due.PLACE, app.app_id, key)])
        for place in places:
            self._leave_node(place)
            place.is_kept = False
            if terms is None or not (terms.required or terms.slice_size):
                self._drop(place)
        self._retry_asks(app, {place.task_group for place in places})

    def hold_for(self, place: LostPlace, request: Request) -> None:
        """Hold the place for an assumed ask; others go elsewhere until the RM has answered."""
        place.request = request
        self._retry_asks(place.app, {place.task_group})

    def put_back(self, app: Application, request: Request) -> None:
        """Free the place of an ask that is assumed no more."""
        for place in [place for place in app.gang.places if place.request is request]:
            place.request = None
            self._retry_asks(place.app, {place.task_group})

    def took(self, app: Application, request: Request) -> None:
        """End the place that an assumed ask takes: the RM has agreed."""
        for place in [place for place in app.gang.places if place.request is request]:
            self.end(place)

    def end(self, place: LostPlace) -> None:
        """Forget a place, which is taken or of no use any more."""
        self._drop(place)
        self._retry_asks(place.app, {place.task_group})

    def _drop(self, place: LostPlace) -> None:
        self._leave_node(place)
        del place.app.gang.places[place], self.present[place]
        timer = _timer(place)
        others = self._by_timer[timer]
        others.remove(place)
        if not any(other.is_kept for other in others):
            self._timers.cancel(timer)
        if not others:
            del self._by_timer[timer]

    def forget(self, app: Application) -> None:
        """Forget the places of an application that is no gang any more."""
        places = list(app.gang.places)
        for place in places:
            self._drop(place)
        if places:
            self._retry_asks(app, {place.task_group for place in places})

    def _retry_asks(self, app: Application, task_groups: Collection[str]) -> None:
        """Retry the asks that a change of places of these task groups concerns."""
        waiting = self._wakeups.waiting
        waiting.try_members(app)
        for group in app.groups.values():
            if group.key[1] in task_groups:
                waiting.unpark(group)
        self._dirty.mark_due(app)

    def _find(self, place: LostPlace) -> None:
        depth, path = place.domain
        domains = self._nodes.in_domains(self._tree.root.settings.topology_levels)
        there = domains.nodes[depth].get(path, {}) if depth < len(domains.nodes) else {}
        wanted = place.ask_class
        fitting = (
            n
            for n in there
            if not n.reservations and n.refusal(wanted.shape) is None and not is_out(n, wanted)
        )
        node = min(fitting, key=rank_of, default=None)
        if node is not None:
            place.node = node
            charge(node.kept, wanted.items)
            self._dirty.mark_filled(node)
            self._wakeups.waiting.try_members(place.app)

    def _ask(self, place: LostPlace, like: _Like) -> bool:
        """Ask the RM about the node of the place, if it has a say; False if it owes too many answers.

        It is asked in the name of a member like the lost one that runs. Places of one class share a question.
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


def _timer(place: LostPlace) -> Timer:
    return Timer(Due.PLACE, place.app.app_id, place.key)
