"""Whole gangs: asks that are placed together get their nodes in one turn, or none does.

Members of a gang are all pending placeholders of an application, or its next unit (`model/apps/members.py`).
The search groups the asks by ask group: each is one *kind*. In: an application with such asks. Out: a
`GangPlacement`, which `handlers/gangs.py` books immediately; a `NodeQuestion`, if the RM has to be asked and
has not answered for all nodes of the placement; or the `Incomplete` or `NoPlace` that its groups are parked
with.

`gang_sets.py` has the sets of nodes that are tried. A node counts only if the RM accepts it or has not
answered yet; before a placement, the RM is asked about nodes without an answer. So a refusal leads to another
search, and never to a gang without some of its members.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from licorne_core.messages.together import GANG_INCOMPLETE, TogetherCheck
from licorne_core.model.apps.application import Application, Asking
from licorne_core.model.apps.groups import AskGroup
from licorne_core.model.apps.members import Share, gather_gang, missing_of
from licorne_core.model.apps.requests import Request
from licorne_core.model.claims import MemberRoom, room_for
from licorne_core.model.effort import Search
from licorne_core.model.nodes.book import NODES
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.queue import Queue
from licorne_core.scheduling.checks import ask_blocker
from licorne_core.scheduling.gang_packing import MembersOnNode, members_on, slots_beside, takes_reserved
from licorne_core.scheduling.gang_sets import NodeTerms, no_place, rank_of, sets_for
from licorne_core.scheduling.gang_sizes import NODES_OF_A_TRY, GangSizes, search_in
from licorne_core.scheduling.gang_slots import MAX_KINDS, SlotTables
from licorne_core.scheduling.measures import Remedies, note_over_quota
from licorne_core.scheduling.node_search.index import StillLooking
from licorne_core.scheduling.order import comes_before
from licorne_core.scheduling.predicates import NodeQuestion
from licorne_core.scheduling.rules import CheckContext
from licorne_core.scheduling.waiting.blockers import Blocker
from licorne_core.scheduling.waiting.gangs import Incomplete, NoPlace
from licorne_core.scheduling.waiting.shortages import QuotaShortage, is_foreseen
from licorne_core.scheduling.waiting.wakeups import MOST_SHORT_GANGS
from licorne_core.values.asks import AskClass, Passed
from licorne_core.values.ranking import Key
from licorne_core.values.resources import in_units


class GangPlacement(NamedTuple):
    """A decision: nodes for these asks, all of which are placed in one turn."""

    leaf: Queue
    app: Application
    members: Sequence[tuple[Request, Node]]


class MemberPlacement(NamedTuple):
    """A decision: the node of an ask whose gang is placed already, and the room reserved for it, if any."""

    leaf: Queue
    app: Application
    request: Request
    node: Node
    room: MemberRoom | None


Together = GangPlacement | NodeQuestion | MemberPlacement
"""Decisions about members of gangs."""


def passed_by(context: CheckContext, decision: Any) -> Passed | None:
    """The claim that a decision passes: the oldest claim of an ask that precedes the placed one, or None.

    The order is the usual one at the time of the decision, whatever its stage: a daemon, or an ask with a
    reserved node, passes claims as well. All asks of one decision pass the same claim. An ask does not pass
    its own claim, nor claims of applications that are not tried, such as one on hold. A decision that places
    nothing, or replaces a placeholder, passes none; a real ask inherits the one that its placeholder passed.
    """
    if type(decision) is tuple or isinstance(decision, MemberPlacement):
        app, placed = decision[1], [decision[2]]
    elif isinstance(decision, GangPlacement):
        app, placed = decision.app, [request for request, _ in decision.members]
    else:
        return None
    types = context.dirty.ranks.types
    keys: dict[Queue, Key] = {}
    for claim in context.claims.held:
        first = claim.members[0][0]
        if not claim.app.is_ranked:
            continue
        # A gang's own asks are placed in the order of its claim, so none of them passes that claim.
        if first.place < placed[0].place if claim.app is app else comes_before(claim.app, app, types, keys):
            return claim.as_passed
    return None


class GangSearch(Search):
    """Finds nodes for whole gangs in one partition; books nothing.

    `work` counts nodes examined and members placed.
    """

    def __init__(self, context: CheckContext, part: int, remedies: Remedies) -> None:
        """Search in the partition of the context, about `part` new nodes at a time.

        Some of the remedies may be for gangs that found no room.
        """
        super().__init__(NODES_OF_A_TRY)
        self._context = context
        self._remedies = remedies
        self._tables = SlotTables(context.node_book, part)
        self.sizes = GangSizes(context, part)
        """Comparison of waiting gangs with empty nodes."""

    @property
    def always(self) -> bool:
        """True if all gangs are placed whole, not only those that request it."""
        return any(remedy.is_for_gangs for remedy in self._remedies.values())

    def decide(
        self, leaf: Queue, app: Application, group: AskGroup, now: float
    ) -> Together | Node | Blocker | None:
        """Decide about the asks of a group: a whole gang, or the first member added to a placed gang.

        A `Node` is for the first ask. None for asks that may use any node. Only such asks get a reservation
        or victims: a single node does not help a gang, and victims may be outside of the nodes to which a
        member is bound.
        """
        gang = app.gang
        has_room = bool(gang.rooms and room_for(app, group.key[1]))
        whole = not has_room and gang.is_together(group.ask_class, group.key[1], placeholder=group.key[2])
        rested, group.is_bound = group.is_bound, not whole and self._belongs(app, group)
        if rested and not group.is_bound:
            self._context.escalation.rank_all(group, now)
        shares: list[Share] = []
        if whole:
            node = self._alone(app, group)
            if node is not None:
                return node
            shares = gather_gang(app)
        elif group.is_bound:
            group.together = ()
        else:
            return None
        context = self._context
        group.unplaceable = False
        if whole:
            incomplete = self._incomplete(app, shares)
            if incomplete is not None:
                gang.is_parked = True
                return incomplete
        blocker = ask_blocker(context, Asking(app, group))
        if blocker is not None or group.over_queue or group.over is not None:
            context.watch.room(leaf, group, blocker, now)
        if blocker is None:
            group.attempted = True
            found = self._whole(leaf, app, shares) if whole else self._member(leaf, app, group)
            group.no_place = group.unplaceable = isinstance(found, Blocker)
            if not isinstance(found, Blocker):
                return found
            blocker = found
        elif isinstance(blocker, QuotaShortage):
            self._note_short(group, shares, blocker)
            note_over_quota(group, blocker, now)
        gang.is_parked = True
        is_behind = gang.units is not None and gang.units.behind
        may_start = (group.no_place or is_foreseen(blocker)) and group.together and not is_behind
        # A gang of more than `MAX_KINDS` kinds is never placed: do not reserve nodes for it.
        if may_start and len(shares) <= MAX_KINDS:
            self._want(shares[0][0], now)
        return blocker

    def _note_short(self, group: AskGroup, shares: list[Share], blocker: QuotaShortage) -> None:
        """Record a gang, or a member bound to certain nodes, that exceeds what all nodes together have left.

        Raises:
            StillLooking: not all nodes have been examined yet.
        """
        if blocker.quota is not self._context.tree.root:
            return
        try:
            packing = self.sizes.what_holds(group.app, shares).packing if shares else NODES
        except StillLooking:
            blocker.retire_if_unused()
            raise
        group.no_place = True
        short = self._context.wakeups.short_gangs
        if group in short or len(short) < MOST_SHORT_GANGS:
            short[group] = packing

    def _want(self, first: AskGroup, now: float) -> None:
        """Register the gang for remedies, by the first of its groups."""
        for kind, remedy in self._remedies.items():
            if self._context.may_hold and remedy.is_for_gangs:
                self._context.escalation.want(first, kind, now)

    def _alone(self, app: Application, group: AskGroup) -> Node | None:
        """A shortcut: the node of a unit with one ask and no constraints, found as for a single ask.

        None if a check blocks or might block it, if the RM has to be asked, or if there are other groups.
        """
        units = app.gang.units
        is_one = units is not None and units.wanted == 1 and app.gang.terms is None
        has_say = group.ask_class.predicate is not None or app.gang.questions
        if not is_one or has_say or len(app.groups) > 1:
            return None
        group.together = group.ask_class.items
        if group.over_queue or group.over is not None:
            return None
        if ask_blocker(self._context, Asking(app, group)) is not None:
            return None
        node = self._context.index.best(group.ask_class)
        if not isinstance(node, Node):
            return None
        group.attempted = True
        group.no_place = group.unplaceable = False
        return node

    def _incomplete(self, app: Application, shares: list[Share]) -> Incomplete | None:
        """Blocker of a gang, if asks that are placed together are missing; None if all have arrived."""
        units = app.gang.units
        if units is not None:
            lack = units.lack(sum(count for _, count in shares))
            if lack is None:
                return None
            code, text = lack
        else:
            missing = missing_of(app, shares)
            if not missing:
                return None
            code = GANG_INCOMPLETE
            text = f"asks for {in_units(missing)} of its announced placeholders have not arrived"
        blocker = self._context.wakeups.blockers.get(Incomplete, app)
        blocker.lack = TogetherCheck(app_id=app.app_id, code=code, text=text)
        return blocker

    def _belongs(self, app: Application, group: AskGroup) -> bool:
        """True if asks of the group are members that are bound to certain nodes, or have a room reserved."""
        terms: NodeTerms | None = app.gang.terms
        task_group = group.key[1]
        if terms is None or not app.gang.has(task_group):
            return False
        if app.gang.open_group(task_group, placeholder=group.key[2]) is not None:
            # The request replaces a placeholder.
            return False
        if app.gang.rooms and room_for(app, task_group):
            return True
        return bool(terms.nodes_of(app))

    def _member(self, leaf: Queue, app: Application, group: AskGroup) -> MemberPlacement | Blocker:
        """The node of a member: in the room reserved for its task group, or near its gang.

        If it finds none, a member that is bound to these nodes is parked; any other member may use any node.
        """
        room = room_for(app, group.key[1])
        request = group.heap[0].request
        terms: NodeTerms = app.gang.terms
        if room is None:
            node = self._first(terms.nodes_of(app) or (), group.ask_class)
        else:
            node = self._near(room, group.ask_class)
        if node is not None:
            return MemberPlacement(leaf, app, request, node, room)
        if not terms.is_strict:
            anywhere = self._context.index.best(group.ask_class)
            if isinstance(anywhere, Node):
                return MemberPlacement(leaf, app, request, anywhere, room)
        return self._no_node(terms, app, group, room)

    def _no_node(
        self, terms: NodeTerms, app: Application, group: AskGroup, room: MemberRoom | None
    ) -> NoPlace:
        wakeups = self._context.wakeups
        blocker = wakeups.blockers.get(NoPlace, group, app, wakeups.gangs)
        blocker.classes = (group.ask_class,)
        blocker.reserved_node = None if room is None else room.node
        blocker.lack = terms.no_node(app.app_id, room)
        return blocker

    def elsewhere(self, app: Application, request: Request) -> Node | Blocker:
        """Another node for a real ask that cannot use the node of its placeholder.

        A member that is bound to certain nodes gets one of these.
        """
        terms: NodeTerms | None = app.gang.terms
        own = None if terms is None else terms.nodes_of(app)
        if terms is None or own is None:
            return self._context.index.best(request.ask.ask_class)
        node = self._first(own, request.ask.ask_class)
        return self._no_node(terms, app, request.group, None) if node is None else node

    def _near(self, room: MemberRoom, ask_class: AskClass) -> Node | None:
        """The node of a reserved room, or the first node on which its ask may be placed now; or None."""
        own = room.node
        if own is not None and takes_reserved(own, ask_class, room.ask_class.items):
            return own
        return self._first((room.nodes(),), ask_class)

    def _first(self, sets: Iterable[Collection[Node]], ask_class: AskClass) -> Node | None:
        """The first node in node order, among all the sets, that takes an ask; None if none does."""
        found: list[Node] = []
        for there in sets:
            self.work += len(there)
            found += [node for node in there if node.refusal(ask_class) is None]
        return min(found, key=rank_of, default=None)

    def _whole(
        self, leaf: Queue, app: Application, shares: list[Share]
    ) -> GangPlacement | NodeQuestion | Blocker:
        """Nodes for the asks that are placed together next, or the blocker of their groups."""
        blockers = self._context.wakeups.blockers
        known = blockers.of(NoPlace).get(app)
        stamp = (
            self._context.index.version,
            app.arrivals,
            app.pending_count,
            self._context.predicates.closed_checks,
        )
        if known is not None and known.tried_at == stamp:
            return known
        found: GangPlacement | NodeQuestion | TogetherCheck
        if app.gang.questions:
            found = no_place(app.app_id, "the RM is asked about nodes for its members")
        else:
            found = self._find(leaf, app, shares)
        if isinstance(found, TogetherCheck):
            held = None if app.gang.questions else self.sizes.what_holds(app, shares)
            blocker = blockers.get(NoPlace, app, app, self._context.wakeups.gangs)
            blocker.tried_at = stamp
            blocker.classes = tuple(group.ask_class for group, _ in shares)
            blocker.packing, blocker.lack = None, found
            if held is not None:
                blocker.packing, blocker.lack = held.packing, held.lack or found
            return blocker
        return found

    def _find(
        self, leaf: Queue, app: Application, shares: list[Share]
    ) -> GangPlacement | NodeQuestion | TogetherCheck:
        """Search all nodes, or the sets of nodes that the terms of the gang allow.

        Raises:
            StillLooking: not all nodes have been examined yet.
        """
        members = sum(count for _, count in shares)
        self.work += members
        if len(shares) > MAX_KINDS:
            text = f"it has {len(shares)} kinds of members, at most {MAX_KINDS} may be"
            return no_place(app.app_id, text)
        if members == 1 and app.gang.terms is None:
            group = shares[0][0]
            node = self._context.index.best(group.ask_class)
            if isinstance(node, Node) and not node.results.get((group.ask_class, False)):
                places = [(group, node, 1)]
                return self._question(app, places) or GangPlacement(leaf, app, members_on(shares, places))
        sets = sets_for(app, self._context.node_book)
        if isinstance(sets, str):
            return no_place(app.app_id, sets)
        search = search_in(self, sets, shares, self._tables, slots_beside)
        try:
            picks = search.find()
            if picks is None:
                return search.lack(app.app_id)
        finally:
            self.work += search.effort.work
        places = [(shares[kind][0], node, pick) for kind, node, pick in picks]
        return self._question(app, places) or GangPlacement(leaf, app, members_on(shares, places))

    def _question(self, app: Application, places: Sequence[MembersOnNode]) -> NodeQuestion | None:
        return _question(self._context, app, places)


def planned(
    context: CheckContext, app: Application, members: Sequence[tuple[Request, Node]]
) -> GangPlacement | NodeQuestion | None:
    """The placement of the gang on its planned nodes, or the question about them.

    None while the RM is being asked.
    """
    if app.gang.questions:
        return None
    counts = Counter((request.group, node) for request, node in members)
    found = _question(context, app, [(group, node, number) for (group, node), number in counts.items()])
    return GangPlacement(app.leaf, app, members) if found is None else found


def _question(
    context: CheckContext, app: Application, places: Sequence[MembersOnNode]
) -> NodeQuestion | None:
    """The question about nodes without an answer of the RM; None if there are none."""
    unknown: dict[AskGroup, list[Node]] = {}
    for group, node, _ in places:
        if context.predicates.is_needed(group.ask_class, node, allocate=False):
            unknown.setdefault(group, []).append(node)
    if not unknown:
        return None
    return NodeQuestion(app, [(group.first().request, nodes) for group, nodes in unknown.items()])
