"""Shadow starts: the planned start times of blocked asks, with the room held from those times on.

With `backfill` of root, a blocked ask that has waited for `reserve.after` gets a shadow start: the earliest
time at which all its needs fit, by the expected ends of allocations. Another ask may start before it on a
planned node only if it declares an earlier end, or if it leaves the planned room free at that time
(`planned_room.py`). The holder itself is tried first in every pass.

A published start is kept. It is *stale*, and planned again in the next pass, if one of its nodes is lost, or
if the holder has not started `GRACE` seconds after it. Then some allocation runs longer than expected; it is
expected to end soon, and further off the longer it is overdue.

Several starts are planned beside each other: each holds its room from its start to its expected end. One that
is late moves those that were told after it (`Shadows.started`).

An earlier start is looked for as soon as an allocation has ended, or another start has gone or moved, before
another ask may pass (`LookBudget`).
A gang has its nodes chosen anew then: it holds those that are busy longest, and leaves idle ones to others.

If no end is known there is no start, and the ask has a node reserved as without backfill. It is paused
(`unplanned.py`), and others are planned.
"""

from collections.abc import Callable, Iterator, Sequence
from math import inf
from typing import Any, Final, NamedTuple

from licorne_core.extensions.backfill import NAME, START_BY, Backfill
from licorne_core.extensions.backfill.planned_room import BEHIND, AllocationId, PlannedClaim, PlannedRoom
from licorne_core.extensions.backfill.runtimes import Confidence
from licorne_core.extensions.backfill.unplanned import Unplanned
from licorne_core.messages.claims import BehindReservationCheck
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import Request
from licorne_core.model.nodes.node import Node
from licorne_core.scheduling.escalation import readmit
from licorne_core.scheduling.predicates import NodeQuestion
from licorne_core.scheduling.rules import CheckContext
from licorne_core.scheduling.waiting.blockers import Blockers, OfThing
from licorne_core.values.asks import Passed
from licorne_core.values.counters import Histogram
from licorne_core.values.ids import AllocationKey
from licorne_core.values.resources import Items
from licorne_core.values.tags import read_seconds
from licorne_core.values.timers import Due, Timer

GRACE = 5.0
"""Seconds that a start may be overdue: the RM has to detect an end, and to report it."""

MOST_STARTS = {Backfill.OFF: 0, Backfill.EASY: 1, Backfill.CONSERVATIVE: 16}
"""Most shadow starts of a partition at a time."""

REPLAN_TIME = 5.0
"""Seconds after which an earlier start is looked for in any case: learnt runtimes may have become shorter."""

MOST_WORK, WORK_PER_SECOND = 20_000.0, 25_000.0
"""Work of looks at changes at one time, and per second: a tenth of a processor in plain Python."""


class ShadowStart(PlannedClaim):
    """The planned start of an ask or a gang, with the room on nodes that is held for it.

    Times are in unix seconds. Compared by identity.
    """

    is_gang: bool
    """True if its members are all placeholders of a gang; False if they are one ask."""
    stamp: object
    """Stamp of the sets of nodes for its members at the time of the plan (`NodeSets`)."""
    first_told: float
    """The start as first published."""
    since: float
    """Time of that publication."""
    expected_end: float
    """Its expected end, inf for unknown."""
    confidence: Confidence
    places: dict[Node, Items]
    """Amounts that are held on nodes, by node."""
    looked_at: float
    """Time of the last plan, or of the last search for an earlier start."""
    read_to: int
    """Number of changes of nodes considered in the search for an earlier start (`NodeBook.changed`)."""
    changes_read: int
    """Number of changes considered in it (`LookBudget.changes`)."""
    lost_node: bool
    """True if one of its nodes was removed, takes no more asks, or has another size."""
    is_stale: bool
    """True if it has to be planned again."""
    is_overdue: bool
    """True if that is so as its time has passed; starts that were told later give way to it."""
    asked: int
    """Questions to the RM about nodes since the last plan."""
    told_late: bool
    """True once an event says that it is later than wanted."""

    def __init__(self, shadows: "Shadows", plan: "StartPlan", now: float) -> None:
        """Create a start by a plan."""
        self._shadows = shadows
        self.app = plan.app
        self.number = shadows.told
        self.first_told = plan.start
        self.since = now
        self.told_late = False
        self.places = {}
        self.follow(plan, now)

    def follow(self, plan: "StartPlan", now: float) -> None:
        """Apply another plan for the same holder; the shadow starts book its room."""
        self.members = plan.members
        self.is_gang = plan.app.gang.has_member(plan.request.ask)
        self.stamp = plan.stamp
        self.start, self.expected_end, self.confidence = plan.start, plan.end, plan.confidence
        self.declared = max(request.ask.ask_class.runtime for request, _ in plan.members)
        self.runtime = self.declared if self.declared < inf else plan.end - plan.start
        self.late = 0.0
        self.is_stale = self.is_overdue = self.lost_node = False
        self.read_to = plan.read_to
        self.looked(now)
        self.asked = 0

    def move(self, delay: float) -> None:
        """Move it, as one before it is late."""
        self.start += delay
        self.expected_end += delay
        self.late += delay
        for node in self.places:
            room = node.claims[self]
            assert isinstance(room, PlannedRoom), "it is that of a start"
            room.move(delay)

    def looked(self, now: float) -> None:
        """Note a complete search for an earlier start."""
        self.looked_at = now
        self.changes_read = self._shadows.budget.changes

    @property
    def request(self) -> Request:
        """The ask; for a gang the first one."""
        return self.members[0][0]

    @property
    def start_by(self) -> float:
        """The latest requested start of the holder, in unix seconds; 0.0 for none."""
        return start_by(self.app, self.request)

    @property
    def is_late(self) -> bool:
        """True if the planned start is later than requested."""
        return 0.0 < self.start_by < self.start

    @property
    def nodes(self) -> list[Node]:
        """The nodes on which room is held."""
        return list(self.places)

    @property
    def timer(self) -> Timer:
        """The name of its deadline."""
        return Timer(Due.EXTENSION, self.app.app_id, self.request.key, name=NAME)

    @property
    def as_passed(self) -> Passed:
        """Its holder, and its start: an allocation that passes it is a backfilled one."""
        key = AllocationKey("") if self.is_gang else self.request.key
        return Passed(NAME, self.app.app_id, key, self.start)

    def decide(self, now: float) -> Any:
        """Decide on its start (see `planned_starts.py`)."""
        return self._shadows.decide(self, now)

    def placed(self, node: Node, now: float) -> None:
        """Record the difference to the start as first published; on its nodes others were planned with it."""
        if node in self.places:
            self._shadows.started(self, now)
        self._shadows.counters.note_eta_error(self.confidence, now - self.first_told)

    def end(self) -> None:
        """End the start, so that another ask may hold one."""
        self._shadows.end(self)

    def give_up(self, now: float) -> None:
        """End the start; the ask may have another one later."""
        self._shadows.give_up(self, now)

    def lose(self, node: Node) -> None:
        """Plan it again, as a node was lost."""
        self._shadows.lose(self, node)

    def check(self, request: Request) -> BehindReservationCheck | None:
        """Count its nodes that refuse the request because of it."""
        ask_class, own = request.ask.ask_class, request.claim
        nodes = sum(node.refusal(ask_class, holder=own) == BEHIND for node in self.places)
        if not nodes:
            return None
        return BehindReservationCheck(held=self.as_passed, claim="shadow start", nodes=nodes)


def start_by(app: Application, request: Request) -> float:
    """The latest requested start in unix seconds, 0.0 for none; the ask's tag precedes its application's."""
    tags = request.ask.tags if START_BY in request.ask.tags else app.tags
    return float(read_seconds(tags, START_BY) or 0)


class StartPlan:
    """A decision: the asks hold this start from now on; `shadow` is their present one.

    `going` are the allocations on each node that are expected to end by the start.
    """

    __slots__ = (
        "app",
        "confidence",
        "end",
        "going",
        "members",
        "places",
        "read_to",
        "shadow",
        "stamp",
        "start",
    )

    def __init__(
        self,
        app: Application,
        members: Sequence[tuple[Request, Node]],
        start: float,
        end: float,
        confidence: Confidence,
        places: dict[Node, Items],
        going: dict[Node, frozenset[AllocationId]],
        stamp: object,
        shadow: ShadowStart | None,
        read_to: int,
    ) -> None:
        """Create a plan without booking it; `read_to` is the number of changes of nodes that it considers."""
        self.read_to = read_to
        self.app = app
        self.members = members
        self.start = start
        self.end = end
        self.confidence = confidence
        self.places = places
        self.going = going
        self.stamp = stamp
        self.shadow = shadow

    @property
    def request(self) -> Request:
        """The ask; for a gang the first one."""
        return self.members[0][0]


class Lapsed(NamedTuple):
    """A decision: the ask loses its shadow start, because no start is found any more or it may not start."""

    shadow: ShadowStart


class StartQuestion(NamedTuple):
    """A decision: ask about nodes for an application without a start that is to have one."""

    question: NodeQuestion


class NodesAsked(OfThing):
    """The RM is being asked about nodes for an application; its asks are planned after the answer."""

    __slots__ = ()

    def lets_through(self) -> bool:
        """True if the RM has answered."""
        app: Application = self.thing
        return not app.gang.questions


class CalendarFull(OfThing):
    """The partition has the maximum number of shadow starts."""

    __slots__ = ()

    def lets_through(self) -> bool:
        """True if it may have another one."""
        shadows: Shadows = self.thing
        return shadows.has_room


ETA_ERRORS: Final[tuple[float, ...]] = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 86400.0)
"""Bounds for errors of expected starts, in seconds."""


class StartCounters:
    """Counters of shadow starts since the registration of the partition."""

    def __init__(self) -> None:
        """Start with all counters at 0."""
        self.deadlines_at_risk = 0
        """Asks and gangs whose shadow start was later than wanted when it was published."""
        self.eta_errors: dict[str, Histogram] = {}
        """Seconds between the start of asks with a shadow start and their start as first published, by its
        confidence."""

    def note_eta_error(self, confidence: str, seconds: float) -> None:
        """Record the difference between a start and the start as first published."""
        errors = self.eta_errors.get(confidence)
        if errors is None:
            errors = self.eta_errors[confidence] = Histogram(ETA_ERRORS)
        errors.observe(abs(seconds))


class LookBudget:
    """The budget of searches for earlier starts right after a change.

    A search may begin while some budget is left. Searches for single asks examine the changed nodes only;
    those for gangs examine all nodes, and wait for the budget where nodes are many and change all the time.
    """

    def __init__(self) -> None:
        """Start with the whole budget."""
        self.changes = 0
        """Number of ended allocations, and of starts that have gone or moved: reasons for a search."""
        self._left = MOST_WORK
        self._at = 0.0

    def has(self, now: float) -> bool:
        """True if a search may begin at unix seconds `now`."""
        self._left = min(MOST_WORK, self._left + max(0.0, now - self._at) * WORK_PER_SECOND)
        self._at = now
        return self._left > 0.0

    def spend(self, work: int) -> None:
        """Note the work of a search."""
        self._left -= work


class Shadows:
    """The shadow starts of one partition.

    Always true: each has a deadline, and refers to the nodes with room for it.
    """

    decide: Callable[[ShadowStart, float], Any]
    """Tries a holder; set right after the creation: `PlannedStarts.decide`."""

    def __init__(self, context: CheckContext, mode: Backfill) -> None:
        """Start empty."""
        context.claims.reasons.add(BEHIND)
        self._claims = context.claims
        self._waiting = context.wakeups.waiting
        self._escalation = context.escalation
        self._blockers: Blockers = context.wakeups.blockers
        self._dirty = context.dirty
        self._timers = context.timers
        self.counters = StartCounters()
        self.mode = mode
        self.starts: dict[ShadowStart, None] = {}
        """The shadow starts, in the order of their first publication."""
        self.asking: dict[Application, None] = {}
        """Applications that are to have a start if the RM accepts the nodes for it."""
        self.told = 0
        """Number of starts that were ever told."""
        self.unplanned = Unplanned()
        """The pauses of asks for which no start was found."""
        self.budget = LookBudget()

    def __iter__(self) -> Iterator[ShadowStart]:
        """The shadow starts, in the order of their first publication."""
        return iter(self.starts)

    @property
    def has_room(self) -> bool:
        """True if another ask may hold a start."""
        return len(self.starts) + len(self.asking) < self.most

    @property
    def most(self) -> int:
        """Most shadow starts at a time."""
        return MOST_STARTS[self.mode]

    def blocker(self) -> CalendarFull | None:
        """Blocker of further starts, if any."""
        return None if self.has_room else self._blockers.get(CalendarFull, self)

    def answered(self, app: Application) -> None:
        """Note that the RM has answered a question about nodes for the application, or not in time."""
        if app in self.asking and not app.gang.questions:
            del self.asking[app]
            self._dirty.mark((self,))

    def hold(self, plan: StartPlan, now: float) -> ShadowStart:
        """Let the ask hold the planned start, in place of its present one."""
        shadow = plan.shadow
        if shadow is None:
            self.told += 1
            shadow = ShadowStart(self, plan, now)
            self.starts[shadow] = self._claims.held[shadow] = None
        else:
            self._let_go(shadow)
            self.budget.changes += plan.start != shadow.start
            if shadow.is_overdue:
                for other in dict.fromkeys(one for node in plan.places for one in node.claims):
                    if other.number > shadow.number:
                        self.overdue(other)
            shadow.follow(plan, now)
        for request, _ in plan.members:
            request.claim = shadow
        for node, items in plan.places.items():
            going = plan.going[node]
            node.claims[shadow] = PlannedRoom(
                plan.start, plan.end, items, going, now, shadow.number, self._claims
            )
            shadow.places[node] = items
            self._dirty.mark_filled(node)
        self._timers.set(shadow.timer, plan.start + GRACE)
        self._waiting.runnable = True
        return shadow

    def give_up(self, shadow: ShadowStart, now: float) -> None:
        """End the start of an ask, which may have another one later."""
        self._end(shadow, now)
        self._dirty.mark_app(shadow.app)

    def end(self, shadow: ShadowStart) -> None:
        """End a start, as one of its asks is not pending any more."""
        self._end(shadow, self._claims.now)

    def _end(self, shadow: ShadowStart, now: float) -> None:
        del self.starts[shadow], self._claims.held[shadow]
        self._let_go(shadow)
        self.budget.changes += 1
        for request, _ in shadow.members:
            if request.is_pending:
                readmit(self._escalation, request, now)
        self._dirty.mark((self,))
        self._waiting.runnable = True

    def started(self, shadow: ShadowStart, now: float) -> None:
        """Note that a holder starts on its nodes, and move with it what it would run into."""
        if shadow.start < now:
            self._move(shadow, now - shadow.start)
        ids = frozenset((request.ask.app_id, request.key) for request, _ in shadow.members)
        for node in shadow.places:
            for other, room in node.claims.items():
                if other is not shadow and isinstance(room, PlannedRoom):
                    room.note(shadow, ids, now)

    def _move(self, late: ShadowStart, delay: float) -> None:
        """Move starts that were told after a late one by its delay: those at its end, and at theirs.

        Beside these the others have what they had, as room that is taken later is free before.
        """
        moved = [(late.places, late.expected_end)]
        rest = [one for one in self.starts if one.number > late.number]
        for places, end in moved:
            for other in list(rest):
                if end <= other.start < end + delay and not places.keys().isdisjoint(other.places):
                    rest.remove(other)
                    moved.append((other.places, other.expected_end))
                    other.move(delay)
                    self._timers.set(other.timer, other.start + GRACE)
                    for node in other.places:
                        self._dirty.mark_node(node)

    def overdue(self, shadow: ShadowStart) -> None:
        """Plan a start again, as the holder has not started in time."""
        shadow.is_stale = shadow.is_overdue = True
        self._waiting.runnable = True

    def lose(self, shadow: ShadowStart, node: Node) -> None:
        """Replan a start after one of its nodes was removed, closed or resized."""
        self._leave(shadow, node)
        shadow.lost_node = shadow.is_stale = True
        self._waiting.runnable = True

    def _let_go(self, shadow: ShadowStart) -> None:
        self._timers.cancel(shadow.timer)
        for request, _ in shadow.members:
            request.claim = None
        for node in list(shadow.places):
            self._leave(shadow, node)

    def _leave(self, shadow: ShadowStart, node: Node) -> None:
        del node.claims[shadow], shadow.places[node]
        self._dirty.mark_node(node)
