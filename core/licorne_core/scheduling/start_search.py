"""The search for a shadow start: the earliest time at which nodes have room for an ask, or for a whole gang.

Room on a node grows with time, as allocations end; what is held for other starts is taken from now on, until
their expected ends, and what is kept for lost members of gangs for good. `start_domains.py` finds the
earliest time and the places from that. A search of very many nodes goes on in the next turn, like that of
`node_search/heaps.py`; nodes that have changed meanwhile are looked at again.
"""

from collections.abc import Iterator, Mapping, Sequence
from heapq import nsmallest
from math import inf
from typing import Final, NamedTuple

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import Request
from licorne_core.model.nodes.book import NodeBook
from licorne_core.model.nodes.node import Node
from licorne_core.model.nodes.planned import AllocationId
from licorne_core.model.queues.tree import QueueTree
from licorne_core.model.runtimes import Confidence, Runtimes
from licorne_core.scheduling.gang_domains import Picks, rank_of
from licorne_core.scheduling.gang_slots import MAX_KINDS
from licorne_core.scheduling.node_search.heaps import StillLooking
from licorne_core.scheduling.predicates import BATCH, NodeQuestion, PredicateChecks
from licorne_core.scheduling.shadows import GRACE, Plan, ShadowStart
from licorne_core.scheduling.start_domains import DomainStarts, End, Inside, Room, inside_of, times
from licorne_core.values.asks import Allocation, Ask, AskClass
from licorne_core.values.ids import AppId
from licorne_core.values.resources import charge, refund
from licorne_core.values.tags import RUNTIME, read_seconds

MOST_CLASSES = 1_000
"""Classes with a runtime that are kept in mind; beyond that all are forgotten."""

Classes = dict[tuple[AskClass, str], AskClass]
"""Classes with a runtime, by the class without and the text of the tag; `_NO_TEXT` leads back from there."""

_NO_TEXT: Final = ""
"""Stands for the tag of an ask that is to have no runtime in its class; no tag has this value."""

MOST_QUESTIONS = 16
"""Questions to the RM for one plan: each is about twice as many nodes as the one before."""

MOST_RESTARTS = 3
"""Times that a search begins anew for asks or nodes that have changed meanwhile, before it is given up for
now."""


def declared_runtime(app: Application, ask: Ask) -> float | None:
    """Seconds that the ask, or else its application, says it runs; None if neither does."""
    if ask.ask_class.runtime < inf:
        return ask.ask_class.runtime
    return read_seconds(ask.tags if RUNTIME in ask.tags else app.tags, RUNTIME)


def with_runtime(app: Application, ask: Ask, classes: Classes, *, backfills: bool = True) -> Ask:
    """The ask with its declared runtime in its class, or without backfill with none there.

    Asks of one class and runtime share one object, as `classes` has it: so the tag of most is not read.
    """
    known = ask.ask_class
    if backfills == (known.runtime < inf):
        return ask
    text = (ask.tags if RUNTIME in ask.tags else app.tags).get(RUNTIME) if backfills else _NO_TEXT
    if text is None:
        return ask
    found = classes.get((known, text))
    if found is None:
        declared = declared_runtime(app, ask) if backfills else None
        runtime = inf if declared is None else float(declared)
        found = AskClass.of(known.resources, known.required_node, known.predicate, runtime)
        if len(classes) >= MOST_CLASSES:
            classes.clear()
        classes[known, text] = found
    return ask.in_class(found)


def extended(end: float, now: float) -> float:
    """Expected end of what should have ended at `end`: soon, ever less soon the longer it is overdue."""
    if end > now:
        return end
    more = GRACE
    while end + more <= now:
        more *= 2
    return end + more


class Kind(NamedTuple):
    """Asks of one class that start together, in order."""

    ask_class: AskClass
    requests: Sequence[Request]


_Members = list[tuple[Request, Node]]


class StartSearch:
    """Searches the nodes of one partition; books nothing."""

    __slots__ = (
        "_applications",
        "_at",
        "_before",
        "_first_end",
        "_inside",
        "_kinds",
        "_nodes",
        "_own",
        "_part",
        "_predicates",
        "_rest",
        "_restarts",
        "_rooms",
        "_starts",
        "_tree",
        "classes",
        "runtimes",
        "work",
    )

    def __init__(
        self,
        nodes: NodeBook,
        tree: QueueTree,
        applications: Mapping[AppId, Application],
        predicates: PredicateChecks,
        part: int,
        runtimes: Runtimes | None,
    ) -> None:
        """Search these nodes; a search of more than `part` looks goes on in another turn."""
        self._predicates = predicates
        self._nodes = nodes
        self._tree = tree
        self._applications = applications
        self._part = part
        self._kinds: Sequence[Kind] = ()
        self._before = inf
        self._inside: Inside | None = None
        self._own: ShadowStart | None = None
        self._at = 0
        self._restarts = 0
        self._rooms: dict[Node, Room] = {}
        # The first end in all rooms, or an earlier time.
        self._first_end = inf
        self._rest: Iterator[Node] = iter(())
        self._starts: DomainStarts | None = None
        self.classes: Classes = {}
        self.runtimes = runtimes
        """Learnt runtimes; None where backfill is off."""
        self.work = 0
        """Nodes, allocations, times and starts looked at so far."""

    def plan(
        self,
        app: Application,
        kinds: Sequence[Kind],
        now: float,
        *,
        before: float = inf,
        own: ShadowStart | None = None,
        asked: int = 0,
    ) -> Plan | NodeQuestion | None:
        """The earliest start of all these asks together at unix seconds `now`, in place of their `own` one.

        The RM is asked about its nodes first, if it has a say and has not judged them: `asked` times so far.
        None if no end that they need is known, or comes `before` a time: later ones are not looked at. None,
        too, for more than `MAX_KINDS`, for a topology level that the partition does not have, and for asks
        that change again and again while they are planned: the pass would wait for them for ever.

        Raises:
            StillLooking: not all nodes, or not all times, have been searched yet.
        """
        inside = self.inside(app, kinds[0].requests[0]) if kinds else None
        if len(kinds) > MAX_KINDS or inside is None:
            return None
        if self._kinds != kinds or self._before != before or self._inside != inside:
            is_same = bool(self._kinds) and self._kinds[0].requests[0].ask.app_id == app.app_id
            if not self._begin(kinds, before, inside, own, is_same=is_same):
                return None
        starts = self._starts
        assert starts is not None, "the search has begun"
        until = self.work + self._part
        for node in self._rest:
            self._look(node, now)
            if self.work >= until:
                raise StillLooking
        self._look_again(starts, now)
        before_work = starts.work
        try:
            start = max(now, starts.earliest(until - self.work))
            picks = None if start == inf else starts.places(start)
        finally:
            self.work += starts.work - before_work
        if picks is None and start < inf and self._restarts < MOST_RESTARTS:
            # Nodes have changed since the time was found.
            self._restarts += 1
            self._starts = self._new_starts(inside)
            raise StillLooking
        plan: Plan | NodeQuestion | None = None
        if picks is not None:
            plan = self._question(app, picks, asked)
            if plan is None:
                rest = [iter(kind.requests) for kind in kinds]
                members = [(next(rest[kind]), node) for kind, node, number in picks for _ in range(number)]
                plan = self._made(app, members, start, now)
            elif asked >= MOST_QUESTIONS:
                plan = None
        self._end()
        return plan

    def _question(self, app: Application, picks: Picks, asked: int) -> NodeQuestion | None:
        """What to ask the RM before the plan; None if it has agreed to all nodes.

        So that many refusals take few questions, they name the next nodes as well, ever more of them.
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
        return NodeQuestion(app, questions, plans=own is None) if questions else None

    def _next_nodes(self, number: int, most: int) -> list[Node]:
        """The nodes with the first room for a kind that the RM has not judged."""
        ask_class = self._kinds[number].ask_class
        others = [
            (gains[0][0], rank_of(node), node)
            for node, room in self._rooms.items()
            if (gains := room.gains(number)) and self._predicates.is_needed(ask_class, node, allocate=False)
        ]
        self.work += len(others)
        return [node for _, _, node in nsmallest(min(most, BATCH), others, key=lambda one: one[:2])]

    def inside(self, app: Application, request: Request) -> Inside | None:
        """Where an ask may be, with those that are placed together with it; None for an unknown level."""
        levels = self._tree.root.settings.topology_levels
        return inside_of(app, self._nodes, levels, is_gang=app.gang.has_member(request.ask))

    def _begin(
        self,
        kinds: Sequence[Kind],
        before: float,
        inside: Inside,
        own: ShadowStart | None,
        *,
        is_same: bool,
    ) -> bool:
        """Begin a search anew; False to give it up, as it has begun too often."""
        self._restarts = self._restarts + 1 if is_same else 0
        if self._restarts > MOST_RESTARTS:
            self._restarts = 0
            self._end()
            return False
        self._kinds, self._before, self._inside = kinds, before, inside
        requests = (request for kind in kinds for request in kind.requests)
        self._own = own or next((one.shadow for one in requests if one.shadow is not None), None)
        self._at = self._nodes.changed.count
        self._rooms, self._first_end = {}, inf
        self._rest = iter(list(self._nodes.by_id.values()))
        self._starts = self._new_starts(inside)
        return True

    def _new_starts(self, inside: Inside) -> DomainStarts:
        classes = [kind.ask_class for kind in self._kinds]
        counts = [len(kind.requests) for kind in self._kinds]
        return DomainStarts(self._nodes, self._rooms, inside, classes, counts)

    def _end(self) -> None:
        self._kinds, self._rooms, self._inside, self._starts, self._own = (), {}, None, None, None

    def _look_again(self, starts: DomainStarts, now: float) -> None:
        """Look at nodes that have changed since, or where something was to have ended by now."""
        again = dict.fromkeys(self._nodes.changed.since(self._at))
        self._at = self._nodes.changed.count
        if self._first_end <= now:
            again.update((node, None) for node, room in self._rooms.items() if room.first_end <= now)
            ends = [room.first_end for node, room in self._rooms.items() if node not in again]
            self._first_end = min(ends, default=inf)
        for node in again:
            self._look(node, now)
            starts.changed(node)

    def _look(self, node: Node, now: float) -> None:
        """Note the room on the node, if there ever is any."""
        self.work += 1 + len(node.allocations)
        may = [_may_hold(node, kind.ask_class) for kind in self._kinds]
        room = self._room_on(node, may, now) if any(may) else None
        if room is None or not room.steps:
            self._rooms.pop(node, None)
        else:
            self._rooms[node] = room
            self._first_end = min(self._first_end, room.first_end)

    def _room_on(self, node: Node, may: Sequence[bool], now: float) -> Room:
        free, ends = self._free_on(node, now)
        room = Room([], dict(free), ends)
        # More slots of one kind than it has asks change nothing.
        needed = len(self._kinds[0].requests) if len(may) == 1 else 0
        time, before = now, [0] * len(may)
        for end in (*ends, End(inf, ())):
            if end.time > time:
                slots = [
                    times(kind.ask_class.items, free) if allowed else 0
                    for kind, allowed in zip(self._kinds, may, strict=True)
                ]
                if needed:
                    slots[0] = min(slots[0], needed)
                if slots != before or (len(may) > 1 and room.steps):
                    room.steps.append((time, slots))
                    before = slots
                if end.time == inf or slots[0] == needed > 0:
                    break
                time = end.time
            charge(free, end.items)
        return room

    def _free_on(self, node: Node, now: float) -> tuple[dict[str, int], list[End]]:
        """What is free on the node now beside other starts, and what ends there in time, in order."""
        free = dict(node.available)
        if node.kept:
            free = {name: value - node.kept.get(name, 0) for name, value in free.items()}
        ends: list[End] = []
        for allocation in node.allocations:
            time, _ = self._end_of(allocation, now)
            if time < self._before:
                ends.append(End(time, allocation.ask.ask_class.items))
        for shadow, room in node.plans.items():
            if shadow is not self._own:
                refund(free, room.items)
                if room.end < self._before:
                    ends.append(End(room.end, room.items))
        ends.sort()
        return free, ends

    def _end_of(self, allocation: Allocation, now: float) -> tuple[float, Confidence]:
        """Expected end of an allocation, inf for unknown."""
        ask = allocation.ask
        seconds, known = self.expected(self._applications[ask.app_id], ask)
        time = inf if seconds is None else extended(allocation.allocation_time + seconds, now)
        return time, known

    def expected(self, app: Application, ask: Ask) -> tuple[float | None, Confidence]:
        """Expected runtime of an ask in seconds, None for unknown."""
        declared = declared_runtime(app, ask)
        if self.runtimes is None:
            return declared, Confidence.UNKNOWN if declared is None else Confidence.DECLARED
        return self.runtimes.expected(app.queue_path, ask.ask_class.shape, declared)

    def _made(self, app: Application, members: _Members, start: float, now: float) -> Plan:
        """The plan for the nodes that have room at the start."""
        places: dict[Node, dict[str, int]] = {}
        end = start
        for request, node in members:
            charge(places.setdefault(node, {}), request.ask.ask_class.items)
            seconds, _ = self.expected(app, request.ask)
            end = max(end, inf if seconds is None else start + seconds)
        learnt = False
        going: dict[Node, frozenset[AllocationId]] = {}
        for node in places:
            ends = [(one.ask, self._end_of(one, now)) for one in node.allocations]
            gone = [(ask, known) for ask, (time, known) in ends if time <= start]
            learnt = learnt or any(known is Confidence.LEARNT for _, known in gone)
            going[node] = frozenset((ask.app_id, ask.key) for ask, _ in gone)
        known = Confidence.LEARNT if learnt else Confidence.DECLARED
        items = {node: tuple(sorted(amounts.items())) for node, amounts in places.items()}
        return Plan(app, members, start, end, known, items, going, self._inside, self._own)


def _may_hold(node: Node, ask_class: AskClass) -> bool:
    """True if room on the node may be held for asks of the class."""
    if not node.schedulable or node.reservations or not node.holds(ask_class.items):
        return False
    if ask_class.required_node not in (None, node.node_id):
        return False
    return not node.is_out_for(ask_class)
