"""Shadow starts: the times that blocked asks are planned for, with the room that is held from then on.

With `backfill` of root a blocked ask that has waited for `reserve.after` gets a shadow start: the earliest
time at which all that it needs fits, by the expected ends of what runs. An ask passes it on a planned node
only if its own declared end comes before, or if it leaves the planned room free at that time
(`planned_room.py`). The holder itself is tried first in every pass, and starts as soon as it fits.

A start that was told is kept. It is *stale*, and planned again in the next pass, once a node of it is lost,
or the holder has not started `GRACE` seconds after it. Something runs longer than expected then; it is
expected to end soon, ever less soon. A start moves earlier when room frees sooner (`REPLAN_TIME`). Where no
end is known there is no start, and the ask has a node reserved as without backfill. It pauses
(`unplanned.py`), and others are planned.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from licorne_core.extensions.backfill import NAME, START_BY, Backfill
from licorne_core.extensions.backfill.planned_room import BEHIND, AllocationId, PlannedRoom
from licorne_core.extensions.backfill.runtimes import Confidence
from licorne_core.extensions.backfill.unplanned import Unplanned
from licorne_core.messages.claims import BehindReservationCheck
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import Request
from licorne_core.model.claims import Claim
from licorne_core.model.nodes.node import Node
from licorne_core.scheduling.escalation import readmit
from licorne_core.scheduling.predicates import NodeQuestion
from licorne_core.scheduling.rules import CheckContext
from licorne_core.scheduling.waiting.blockers import Blockers, OfThing
from licorne_core.values.counters import Histogram
from licorne_core.values.ids import AllocationKey
from licorne_core.values.resources import Items
from licorne_core.values.tags import read_seconds
from licorne_core.values.timers import Due, Timer

GRACE = 5.0
"""Seconds that a start may be overdue: the RM has to hear of an end, and to report it."""

MOST_STARTS = {Backfill.OFF: 0, Backfill.EASY: 1, Backfill.CONSERVATIVE: 16}
"""Shadow starts of a partition at a time."""

REPLAN_TIME = 5.0
"""Seconds from a plan to the next look for an earlier start, as something may have ended before its time."""


class ShadowStart(Claim):
    """The planned start of an ask or a gang, with the room on nodes that it is planned for.

    Times are in unix seconds. Compared by identity.
    """

    is_gang: bool
    """True if its members are all placeholders of a gang, and not one ask."""
    stamp: object
    """That of the nodes that its members may have, as it was when it was planned (`NodeSets`)."""
    start: float
    first_told: float
    """The start that was told first."""
    since: float
    """Time at which it was told first."""
    expected_end: float
    """Its expected end, inf for unknown."""
    confidence: Confidence
    places: dict[Node, Items]
    """Amounts that are held on nodes, by node."""
    looked_at: float
    """Time at which it was planned last, or looked for an earlier start."""
    read_to: int
    """Changes of nodes up to which an earlier start has been looked for (`NodeBook.changed`)."""
    lost_node: bool
    """True if a node of it is gone, takes no more asks, or has another size."""
    is_stale: bool
    """True if it has to be planned again."""
    asked: int
    """Questions to the RM about nodes since the last plan."""
    told_late: bool
    """True once an event has told that it is later than its holder wants."""

    def __init__(self, shadows: "Shadows", plan: "Plan", now: float) -> None:
        """Take a plan, which is told from now on."""
        self._shadows = shadows
        self.app = plan.app
        self.first_told = plan.start
        self.since = now
        self.told_late = False
        self.places = {}
        self.follow(plan, now)

    def follow(self, plan: "Plan", now: float) -> None:
        """Take another plan for the same holder; the shadow starts book its room."""
        self.members = plan.members
        self.is_gang = plan.app.gang.has_member(plan.request.ask)
        self.stamp = plan.stamp
        self.start, self.expected_end, self.confidence = plan.start, plan.end, plan.confidence
        self.is_stale = self.lost_node = False
        self.looked_at = now
        self.read_to = plan.read_to
        self.asked = 0

    @property
    def request(self) -> Request:
        """The ask; of a gang the first one."""
        return self.members[0][0]

    @property
    def start_by(self) -> float:
        """The latest start that the holder wants, 0.0 for none."""
        return start_by(self.app, self.request)

    @property
    def is_late(self) -> bool:
        """True if it is later than the holder wants."""
        return 0.0 < self.start_by < self.start

    @property
    def runtime(self) -> float:
        """Its expected runtime in seconds, inf for unknown."""
        return self.expected_end - self.start

    @property
    def nodes(self) -> list[Node]:
        """The nodes with room that is held."""
        return list(self.places)

    @property
    def timer(self) -> Timer:
        """The name of its deadline."""
        return Timer(Due.EXTENSION, self.app.app_id, self.request.key, name=NAME)

    def decide(self, now: float) -> Any:
        """See `planned_starts.py`."""
        return self._shadows.decide(self, now)

    def placed(self, now: float) -> None:
        """Count how far off the start was that was told first."""
        self._shadows.counters.note_eta_error(self.confidence, now - self.first_told)

    def end(self) -> None:
        """Another ask may hold a start."""
        self._shadows.end(self)

    def give_up(self, now: float) -> None:
        """The ask may have another start later."""
        self._shadows.give_up(self, now)

    def lose(self, node: Node) -> None:
        """It is planned again."""
        self._shadows.lose(self, node)

    def check(self, request: Request) -> BehindReservationCheck | None:
        """Say how many of its nodes refuse the request for it."""
        ask_class, own = request.ask.ask_class, request.claim
        nodes = sum(node.refusal(ask_class, holder=own) == BEHIND for node in self.places)
        if not nodes:
            return None
        key = AllocationKey("") if self.is_gang else self.request.key
        holder, claim = self.app.app_id, "shadow start"
        return BehindReservationCheck(
            app_id=holder, key=key, start=self.start, kind=NAME, claim=claim, nodes=nodes
        )


def start_by(app: Application, request: Request) -> float:
    """The latest start that is wanted, 0.0 for none; the ask's own tag goes before its application's."""
    tags = request.ask.tags if START_BY in request.ask.tags else app.tags
    return float(read_seconds(tags, START_BY) or 0)


class Plan:
    """A decision: the asks hold this start from now on; `shadow` is the one that they have so far.

    `going` are the allocations on each node that are to end by the start.
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
        """Create a plan, unbooked, by nodes as they are after so many changes."""
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
        """The ask; of a gang the first one."""
        return self.members[0][0]


class Lapsed(NamedTuple):
    """A decision: the ask loses its start, as none is found any more, or as it may not start."""

    shadow: ShadowStart


class StartQuestion(NamedTuple):
    """A decision: ask about nodes for an application that holds no start so far, and is to have one."""

    question: NodeQuestion


class NodesAsked(OfThing):
    """The RM is being asked about nodes for an application, whose asks are planned after the answer."""

    __slots__ = ()

    def lets_through(self) -> bool:
        """True if it has answered."""
        app: Application = self.thing
        return not app.gang.questions


class CalendarFull(OfThing):
    """The partition has all the shadow starts that it may have."""

    __slots__ = ()

    def lets_through(self) -> bool:
        """True if another one may."""
        shadows: Shadows = self.thing
        return shadows.has_room


ETA_ERRORS: Final[tuple[float, ...]] = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 86400.0)
"""Bounds for errors of expected starts, in seconds."""


class StartCounters:
    """Counters of shadow starts since the registration of the partition."""

    def __init__(self) -> None:
        """Start with all at 0."""
        self.deadlines_at_risk = 0
        """Asks and gangs that were told a shadow start after the time that they want to start by."""
        self.eta_errors: dict[str, Histogram] = {}
        """Seconds between the start of asks with a shadow start and the start that they were told first, by
        the confidence in it."""

    def note_eta_error(self, confidence: str, seconds: float) -> None:
        """An ask or a gang has started so many seconds before or after the start that it was told first."""
        errors = self.eta_errors.get(confidence)
        if errors is None:
            errors = self.eta_errors[confidence] = Histogram(ETA_ERRORS)
        errors.observe(abs(seconds))


class Shadows:
    """The shadow starts of one partition.

    Always true: each has a deadline, and knows the nodes with room for it.
    """

    decide: Callable[[ShadowStart, float], Any]
    """How a holder is tried, set right after: `PlannedStarts.decide`."""

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
        """The shadow starts, in the order in which they were told first."""
        self.asking: dict[Application, None] = {}
        """Applications that are to have a start if the RM lets them go to the nodes for it."""
        self.unplanned = Unplanned()
        """The pauses of asks for which no start was found."""

    def __iter__(self) -> Iterator[ShadowStart]:
        """The shadow starts, in the order in which they were told first."""
        return iter(self.starts)

    @property
    def has_room(self) -> bool:
        """True if another ask may hold a start."""
        return len(self.starts) + len(self.asking) < self.most

    @property
    def most(self) -> int:
        """Shadow starts at a time."""
        return MOST_STARTS[self.mode]

    def blocker(self) -> CalendarFull | None:
        """Blocker of further starts, if any."""
        return None if self.has_room else self._blockers.get(CalendarFull, self)

    def answered(self, app: Application) -> None:
        """The RM has answered a question about nodes for the application, or does not answer it."""
        if app in self.asking and not app.gang.questions:
            del self.asking[app]
            self._dirty.mark((self,))

    def hold(self, plan: Plan, now: float) -> ShadowStart:
        """Let the ask hold the planned start, in place of the one that it has."""
        shadow = plan.shadow
        if shadow is None:
            shadow = ShadowStart(self, plan, now)
            self.starts[shadow] = self._claims.held[shadow] = None
        else:
            self._let_go(shadow)
            shadow.follow(plan, now)
        for request, _ in plan.members:
            request.claim = shadow
        for node, items in plan.places.items():
            going = plan.going[node]
            node.claims[shadow] = PlannedRoom(plan.start, plan.end, items, going, now, self._claims)
            shadow.places[node] = items
            self._dirty.mark_filled(node)
        self._timers.set(shadow.timer, plan.start + GRACE)
        self._waiting.runnable = True
        return shadow

    def give_up(self, shadow: ShadowStart, now: float) -> None:
        """The ask holds the start no more, and may have another one later."""
        self._end(shadow, now)
        self._dirty.mark_app(shadow.app)

    def end(self, shadow: ShadowStart) -> None:
        """An ask is not pending any more: the others of a gang lose the start as well."""
        self._end(shadow, self._claims.now)

    def _end(self, shadow: ShadowStart, now: float) -> None:
        del self.starts[shadow], self._claims.held[shadow]
        self._let_go(shadow)
        for request, _ in shadow.members:
            if request.is_pending:
                readmit(self._escalation, request, now)
        self._dirty.mark((self,))
        self._waiting.runnable = True

    def overdue(self, shadow: ShadowStart) -> None:
        """The holder has not started in time: its start is planned again."""
        shadow.is_stale = True
        self._waiting.runnable = True

    def lose(self, shadow: ShadowStart, node: Node) -> None:
        """A node of it is gone, takes no more asks, or has another size."""
        self._leave(shadow, node)
        shadow.lost_node = True
        self.overdue(shadow)

    def _let_go(self, shadow: ShadowStart) -> None:
        self._timers.cancel(shadow.timer)
        for request, _ in shadow.members:
            request.claim = None
        for node in list(shadow.places):
            self._leave(shadow, node)

    def _leave(self, shadow: ShadowStart, node: Node) -> None:
        del node.claims[shadow], shadow.places[node]
        self._dirty.mark_node(node)
