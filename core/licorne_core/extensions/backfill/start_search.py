"""The search for a shadow start: the earliest time at which nodes have room for an ask, or for a whole gang.

Room on a node grows with time, as allocations end. Room held for other starts is subtracted from their times
until their expected ends; room reserved for lost gang members is subtracted forever. An ask has room at a
time if it has the room until it ends: so it is planned before, between or after other starts. An ask without
a declared runtime has to leave all later starts free. `start_sets.py` finds the earliest time and the nodes,
except for a single ask that may use any node. A search of very many nodes continues in the next turn, like
that of `node_search/index.py`; nodes that have changed meanwhile are examined again.
"""

from collections.abc import Iterator, Mapping, Sequence
from heapq import nsmallest
from math import inf
from typing import NamedTuple

from licorne_core.extensions.backfill.expected_ends import ExpectedEnds
from licorne_core.extensions.backfill.maxima import Maxima, binding
from licorne_core.extensions.backfill.openings import waits
from licorne_core.extensions.backfill.planned_room import AllocationId, PlannedRoom, usable
from licorne_core.extensions.backfill.shadow_start import ShadowStart, StartPlan
from licorne_core.extensions.backfill.shadows import Shadows, StartQuestion
from licorne_core.extensions.backfill.start_sets import End, Gate, RoomInTime, SetStarts, together
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import Request
from licorne_core.model.nodes.book import NodeBook
from licorne_core.model.nodes.node import Node, is_out
from licorne_core.model.runtimes import Confidence
from licorne_core.scheduling.gang_packing import times
from licorne_core.scheduling.gang_sets import AllNodes, NodeSets, Picks, rank_of, sets_for
from licorne_core.scheduling.gang_slots import MAX_KINDS
from licorne_core.scheduling.node_search.index import StillLooking
from licorne_core.scheduling.predicates import NodeQuestion
from licorne_core.scheduling.rules import CheckContext
from licorne_core.standard.predicates.checks import BATCH
from licorne_core.values.asks import AskClass
from licorne_core.values.resources import Items, charge

MOST_QUESTIONS = 16
"""Maximum number of questions to the RM for one plan: each has about twice as many nodes as the last."""

COST_OF_A_LOOK, ENDS_AT_ONE, ROOMS_AT_ONE = 2, 16, 8
"""Cost of examining a cached node with few ends; number of more ends, and of compared rooms, that cost 1.

A cost of 1 is about four microseconds in plain Python, and half of one compiled.
"""

COST_OF_ROOMS, CHANGES_AT_ONE = 4, 1
"""Cost of adding up what a node has beside other starts; and number of these and of ends at the cost of 1."""

MOST_RESTARTS = 3
"""Maximum number of restarts of a search for asks or nodes that changed meanwhile; then it is given up for
now."""


class StartKind(NamedTuple):
    """Asks of one class that start together, in order."""

    ask_class: AskClass
    requests: Sequence[Request]


def total_of(kinds: Sequence[StartKind]) -> Items:
    """The amounts of all asks together."""
    total: dict[str, int] = {}
    for kind in kinds:
        charge(total, tuple((name, value * len(kind.requests)) for name, value in kind.ask_class.items))
    return tuple(sorted(total.items()))


_Members = list[tuple[Request, Node]]


class StartSearch:
    """Searches the nodes of one partition; books nothing."""

    def __init__(self, context: CheckContext, ends: ExpectedEnds, shadows: Shadows) -> None:
        """Search the nodes of the context; a search beyond its budget continues in another turn."""
        self.ends = ends
        self.maxima = Maxima(shadows.charges, ends, context.claims)
        self.claims = context.claims
        self._openings = shadows.openings
        self._predicates = context.predicates
        self._nodes = context.node_book
        self._tree = context.tree
        self._most_work = context.tuning.fill_work
        self._kinds: Sequence[StartKind] = ()
        self._before = inf
        self._stamp: object = None
        self._is_one = False
        self._is_bound = False
        self._total: Items = ()
        self._hours: Gate | None = None
        self._runtime = inf
        self._names: list[str] = []
        self._own: ShadowStart | None = None
        self._read = 0
        self._restarts = 0
        self._rooms: dict[Node, RoomInTime] = {}
        # The earliest time at which one of `_rooms` becomes invalid, or an earlier time.
        self._until = inf
        self._rest: Iterator[Node] = iter(())
        self._starts: SetStarts | None = None

    def plan(
        self,
        app: Application,
        kinds: Sequence[StartKind],
        now: float,
        *,
        before: float = inf,
        own: ShadowStart | None = None,
        asked: int = 0,
    ) -> StartPlan | NodeQuestion | StartQuestion | None:
        """The earliest start of all these asks together, as of unix seconds `now`, to replace their `own`
        start.

        If there is a predicate, the RM is asked first about nodes without an answer; `asked` is the number of
        questions so far. None if no end that they need is expected before the time `before`: later ends are
        not searched. The start of `own` gets a plan only with other nodes that need no question to the RM.
        None also for more than `MAX_KINDS`, for terms that the partition cannot meet, and for asks that
        change repeatedly during the search: the pass would wait for them for ever.

        Raises:
            StillLooking: not all nodes, or not all times, have been searched yet.
        """
        sets = _sets_of(app, kinds[0].requests[0], self._nodes) if kinds else None
        if len(kinds) > MAX_KINDS or sets is None:
            return None
        if self._kinds != kinds or self._before != before or self._stamp != sets.stamp:
            is_same = bool(self._kinds) and self._kinds[0].requests[0].ask.app_id == app.app_id
            if not self._begin(app, kinds, before, sets, own, now, is_same=is_same):
                return None
        until = self.claims.work + self._most_work
        self.ends.catch_up()
        if self._is_bound and self._starts is None and not self._may_open(app, now, until):
            return None
        for node in self._rest:
            self._look(node, now)
            if self.claims.work >= until:
                raise StillLooking
        if until - self.claims.work < self._most_work // 2:
            # The next steps are not divided into parts.
            raise StillLooking
        self.maxima.prepare(app, until)
        starts = self._starts
        if starts is None:
            starts = self._starts = self._new_starts(sets, self._gate(app, now))
        self._look_again(starts, now)
        start, picks = self._first(now) if self._is_one else self._together(starts, until, now)
        gate = self._gate(app, now)
        if gate != starts.gate or (picks is None and start < inf):
            # Quotas, or nodes, have changed since the time was found.
            if self._restarts < MOST_RESTARTS:
                self._restarts += 1
                self._starts = None
                raise StillLooking
            picks = picks if gate is None or gate.at(start) else None
        plan = None if picks is None else self._on(app, picks, start, now, asked)
        if not isinstance(plan, NodeQuestion | StartQuestion) and self._own is not None:
            self._own.read_to = self._read if not self._is_bound else 0
        self.end()
        return plan

    def _may_open(self, app: Application, now: float, until: int) -> bool:
        """True if the maxima allow some time. If they allow none, the search ends and no node is examined.

        Raises:
            StillLooking: there is more to read.
        """
        self.maxima.prepare(app, until)
        gate = self._gate(app, now)
        if gate is None or gate.opens(now, self._before):
            return True
        if self._own is not None:
            self._own.read_to = 0
        self.end()
        return False

    def _gate(self, app: Application, now: float) -> Gate | None:
        """The times at which the leaf is open, and all maxima have room.

        Raises:
            StillLooking: a maximum now binds that did not at the beginning; all nodes have to be searched.
        """
        gate = self.maxima.gate(app, self._total, now, self._before, self._runtime, self._own)
        if gate is not None and not self._is_bound:
            self._kinds = ()
            raise StillLooking
        if self._hours is not None and self._hours.times[1] <= now:
            self._hours = self._openings.gate(app.leaf, now, self._before)
        return together(gate, self._hours)

    def _on(
        self, app: Application, picks: Picks, start: float, now: float, asked: int
    ) -> StartPlan | NodeQuestion | StartQuestion | None:
        """The plan for these nodes, or the question to the RM about them first."""
        rest = [iter(kind.requests) for kind in self._kinds]
        members = [(next(rest[kind]), node) for kind, node, number in picks for _ in range(number)]
        question = self._question(app, picks, asked, start)
        own = self._own if self._before < inf else None
        if own is not None and own.start <= start:
            # Other nodes at the same time are not worth a question.
            stays = question is not None or self._is_one or own.start < start
            return None if stays else self._made(app, members, start, now, own.places)
        if question is None:
            return self._made(app, members, start, now)
        return question if asked < MOST_QUESTIONS else None

    def _first(self, now: float) -> tuple[float, Picks | None]:
        """The earliest time for one ask without a required node, and the first node with room then."""
        rooms = self._rooms
        start = max(now, min((room.steps[0][0] for room in rooms.values()), default=inf))
        self.claims.work += len(rooms) // ROOMS_AT_ONE
        if start == inf:
            return inf, None
        node = min((node for node, room in rooms.items() if room.steps[0][0] <= start), key=rank_of)
        return start, [(0, node, 1)]

    def _together(self, starts: SetStarts, until: int, now: float) -> tuple[float, Picks | None]:
        """The earliest time, and the nodes, for several asks or for an ask that is bound to certain nodes."""
        before = starts.work
        try:
            starts.now = now
            start = max(now, starts.earliest(until - self.claims.work))
            return start, None if start == inf else starts.places(start)
        finally:
            self.claims.work += starts.work - before

    def _question(
        self, app: Application, picks: Picks, asked: int, start: float
    ) -> NodeQuestion | StartQuestion | None:
        """The question to the RM before the plan; None if the RM has accepted all nodes.

        It includes the next nodes as well, more of them each time, so that many refusals take few questions.
        """
        own, is_needed = self._own, self._predicates.is_needed
        held = own.members if own is not None else ()
        known = {(request.ask.ask_class, node) for request, node in held if own and node in own.places}
        questions: list[tuple[Request, Sequence[Node]]] = []
        for number, kind in enumerate(self._kinds):
            nodes = {
                node: None
                for which, node, _ in picks
                if which == number and (kind.ask_class, node) not in known
                if is_needed(kind.ask_class, node, allocate=False)
            }
            if nodes:
                nodes |= dict.fromkeys(self._next_nodes(number, 1 << asked))
                questions.append((kind.requests[0], list(nodes)))
        question = NodeQuestion(app, questions) if questions else None
        if question is None or own is not None:
            return question
        return StartQuestion(question, waits(self._hours, start))

    def _next_nodes(self, number: int, most: int) -> list[Node]:
        """The nodes without an answer that have room for a kind first."""
        ask_class = self._kinds[number].ask_class
        others = [
            (gains[0][0], rank_of(node), node)
            for node, room in self._rooms.items()
            if (gains := room.gains(number)) and self._predicates.is_needed(ask_class, node, allocate=False)
        ]
        self.claims.work += len(others)
        return [node for _, _, node in nsmallest(min(most, BATCH), others, key=lambda one: one[:2])]

    def stamp(self, app: Application, request: Request) -> object:
        """Stamp of the node sets for the ask and the asks placed with it; None for none."""
        sets = _sets_of(app, request, self._nodes)
        return None if sets is None else sets.stamp

    def _begin(
        self,
        app: Application,
        kinds: Sequence[StartKind],
        before: float,
        sets: NodeSets,
        own: ShadowStart | None,
        now: float,
        *,
        is_same: bool,
    ) -> bool:
        """Begin a new search; return False to give up, if there were too many restarts."""
        self._restarts = self._restarts + 1 if is_same else 0
        if self._restarts > MOST_RESTARTS:
            self._restarts = 0
            self.end()
            return False
        self._kinds, self._before, self._stamp = kinds, before, sets.stamp
        requests = (request for kind in kinds for request in kind.requests)
        self._own = own or next((one.claim for one in requests if one.claim is not None), None)
        self._total = total_of(kinds)
        self._hours = self._openings.gate(app.leaf, now, before)
        self._is_bound = self._hours is not None or bool(binding(app, self._total, self._own))
        is_one = isinstance(sets, AllNodes) and len(kinds) == len(kinds[0].requests) == 1
        self._is_one = is_one and not self._is_bound
        self._rooms, self._until = {}, inf
        classes = [kind.ask_class for kind in kinds]
        self._runtime = max(one.runtime for one in classes)
        self._names = sorted({name for one in classes for name, _ in one.items})
        nodes = list(self._nodes.by_id.values())
        if before < inf and self._is_one and self._own is not None and not self.ends.undeclared:
            # A node that has not changed since the last search offers no earlier start.
            nodes = list(self._nodes.changed.since(self._own.read_to))
        self._read = self._nodes.changed.count
        self._rest = iter(nodes)
        self._starts = None
        self.maxima.begin(app)
        return True

    def _new_starts(self, sets: NodeSets, gate: Gate | None) -> SetStarts:
        classes = [kind.ask_class for kind in self._kinds]
        counts = [len(kind.requests) for kind in self._kinds]
        return SetStarts(self._nodes, self._rooms, sets, classes, counts, gate)

    def forget(self, node: Node) -> None:
        """Drop a removed node."""
        self._rooms.pop(node, None)

    def end(self) -> None:
        """End the present search, if any."""
        self._kinds, self._rooms, self._stamp, self._starts, self._own = (), {}, None, None, None
        self.maxima.end()

    def _look_again(self, starts: SetStarts, now: float) -> None:
        """Examine nodes again that have changed, or on which an allocation should have ended by now."""
        again = dict.fromkeys(self._nodes.changed.since(self._read))
        self._read = self._nodes.changed.count
        if self._until <= now:
            again.update((node, None) for node, room in self._rooms.items() if room.until <= now)
            ends = [room.until for node, room in self._rooms.items() if node not in again]
            self._until = min(ends, default=inf)
        for node in again:
            self._look(node, now)
            starts.changed(node)

    def _look(self, node: Node, now: float) -> None:
        """Note the room on the node, if it ever has any."""
        self.claims.work += COST_OF_A_LOOK
        kinds = self._kinds
        room: RoomInTime | None = None
        if len(kinds) == 1:
            if _may_hold(node, kinds[0].ask_class):
                room = self._room_for(node, kinds[0], now)
        else:
            may = [_may_hold(node, kind.ask_class) for kind in kinds]
            if any(may):
                room = self._room_on(node, may, now)
        if room is None or not room.steps:
            self._rooms.pop(node, None)
        else:
            self._rooms[node] = room
            self._until = min(self._until, room.until)

    def _room_for(self, node: Node, kind: StartKind, now: float) -> RoomInTime:
        """Room for asks of the only kind, up to their number: more slots change nothing."""
        room = self._free_on(node, now)
        items, needed, ends = kind.ask_class.items, len(kind.requests), room.ends
        free = {name: room.free.get(name, 0) for name, _ in items}
        self.claims.work += len(ends) // ENDS_AT_ONE
        slots = min(times(items, free), needed)
        if slots:
            room.steps.append((now, [slots]))
        ends_with_all = self._is_one or not room.falls
        for number, end in enumerate(ends, 1):
            if slots == needed and ends_with_all:
                break
            for name, value in end.items:
                if name in free:
                    free[name] += value
            if number < len(ends) and ends[number].time == end.time:
                continue
            more = min(times(items, free), needed)
            if more != slots:
                slots = more
                room.steps.append((max(now, end.time), [slots]))
        return room

    def _room_on(self, node: Node, may: Sequence[bool], now: float) -> RoomInTime:
        """Room for asks of each kind that may go to the node (`may`)."""
        room = self._free_on(node, now)
        free = dict(room.free)
        self.claims.work += len(may) * (1 + len(room.ends))
        time, before = now, [0] * len(may)
        for end in (*room.ends, End(inf, ())):
            if end.time > time:
                slots = [
                    times(kind.ask_class.items, free) if allowed else 0
                    for kind, allowed in zip(self._kinds, may, strict=True)
                ]
                if slots != before or room.steps:
                    room.steps.append((time, slots))
                    before = slots
                time = end.time
            charge(free, end.items)
        return room

    def _free_on(self, node: Node, now: float) -> RoomInTime:
        """The room of the node for the asks in addition to other starts, still without steps."""
        work = self.ends.work
        known = self.ends.on(node, now)
        self.claims.work += self.ends.work - work
        free, ends = known.free, known.ends
        until = ends[0].time if ends else inf
        falls: list[float] = []
        own = self._own
        # Starts that were published after an overdue start are planned again after it.
        last = own.number if own is not None and own.is_overdue else inf
        rooms = [
            room
            for shadow, room in node.claims.items()
            if shadow is not own and isinstance(room, PlannedRoom) and room.number < last
        ]
        if rooms:
            self.claims.work += COST_OF_ROOMS + (len(ends) + len(rooms)) // CHANGES_AT_ONE
            free, ends = usable(free, ends, rooms, now, self._before, self._runtime, self._names, own)
            until = min(until, ends[0].time) if ends else until
            falls = [end.time for end in ends if any(value < 0 for _, value in end.items)]
        elif ends and ends[-1].time >= self._before:
            ends = [end for end in ends if end.time < self._before]
        return RoomInTime([], free, ends, until, falls)

    def _made(
        self,
        app: Application,
        members: _Members,
        start: float,
        now: float,
        present: Mapping[Node, Items] | None = None,
    ) -> StartPlan | None:
        """The plan for the nodes that have room at the start; None for the `present` amounts on nodes."""
        places: dict[Node, dict[str, int]] = {}
        end = start
        for request, node in members:
            charge(places.setdefault(node, {}), request.ask.ask_class.items)
            seconds, _ = self.ends.runtimes.expected(app, request.ask)
            end = max(end, inf if seconds is None else start + seconds)
        items = {node: tuple(sorted(amounts.items())) for node, amounts in places.items()}
        if items == present:
            return None
        learnt = False
        going: dict[Node, frozenset[AllocationId]] = {}
        for node in places:
            ends = [(one.ask, self.ends.end_of(one, now)) for one in node.allocations]
            gone = [(ask, known) for ask, (time, known) in ends if time <= start]
            learnt = learnt or any(known is Confidence.LEARNT for _, known in gone)
            going[node] = frozenset((ask.app_id, ask.key) for ask, _ in gone)
        ended, is_learnt = self.maxima.ended_by(start, now, app)
        learnt = learnt or (is_learnt and self._is_bound)
        known = Confidence.LEARNT if learnt else Confidence.DECLARED
        return StartPlan(
            app,
            members,
            start,
            end,
            known,
            items,
            going,
            self._total,
            ended,
            self._stamp,
            self._own,
            # Behind a maximum a node that has not changed may have an earlier start as well.
            self._read if not self._is_bound else 0,
            waits=waits(self._hours, start),
        )


def _sets_of(app: Application, request: Request, nodes: NodeBook) -> NodeSets | None:
    sets = sets_for(app, nodes, is_gang=app.gang.has_member(request.ask))
    return None if isinstance(sets, str) else sets


def _may_hold(node: Node, ask_class: AskClass) -> bool:
    """True if room on the node may be held for asks of the class."""
    if not node.schedulable or node.reservations or not node.holds(ask_class.items):
        return False
    if ask_class.required_node not in (None, node.node_id):
        return False
    return not is_out(node, ask_class)
