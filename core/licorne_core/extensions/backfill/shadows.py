"""Shadow starts: the planned start times of blocked asks, with the room held from those times on.

With `backfill` of root, a blocked ask that has waited for `reserve.after` gets a shadow start: the earliest
time at which all its needs fit, by the expected ends of allocations. Another ask may start before it on a
planned node only if it declares an earlier end, or if it leaves the planned room free at that time
(`planned_room.py`). The holder itself is tried first in every pass.

A published start is kept. It is *stale*, and planned again in the next pass, if one of its nodes is lost, if
an ask that preempts was placed on one, or if the holder has not started `GRACE` seconds after it. Then some
allocation runs longer than expected; it is expected to end soon, and further off the longer it is overdue.

Several starts may be planned at a time; each holds its room from its start to its expected end. A late start
moves the starts that were published after it (`Shadows.started`).

An earlier start is searched as soon as an allocation has ended, or another start has ended or moved, before
another ask may pass (`LookBudget`). The nodes of a gang are then chosen again: it holds the nodes that are
busy longest, and leaves idle nodes to others.

If no end is known there is no start, and the ask has a node reserved as without backfill. It is paused
(`unplanned.py`), and others are planned.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from licorne_core.extensions.backfill import Backfill
from licorne_core.extensions.backfill.charges import Charges, HeldAmounts, bounded
from licorne_core.extensions.backfill.maxima import is_tight
from licorne_core.extensions.backfill.openings import Openings
from licorne_core.extensions.backfill.planned_room import BEHIND, PlannedRoom
from licorne_core.extensions.backfill.shadow_start import ShadowStart, StartPlan, keep_for, share_room
from licorne_core.extensions.backfill.unplanned import LookBudget, Unplanned
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import Request
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.queue import Queue
from licorne_core.model.quotas import Quota
from licorne_core.scheduling.escalation import readmit
from licorne_core.scheduling.predicates import NodeQuestion
from licorne_core.scheduling.rules import CheckContext
from licorne_core.scheduling.waiting.blockers import Blockers, OfThing
from licorne_core.scheduling.waiting.waiting import try_with_claim
from licorne_core.values.asks import GRACE
from licorne_core.values.counters import Histogram

MOST_STARTS = {Backfill.OFF: 0, Backfill.EASY: 1, Backfill.CONSERVATIVE: 16}
"""Maximum number of shadow starts at a time that no maximum delays, and of those behind one maximum."""

MOST_BEHIND = 16
"""Maximum number of shadow starts behind maxima; beyond it, of maxima with at least one such start."""


class Lapsed(NamedTuple):
    """A decision: the ask loses its shadow start, because no start is found any more or it may not start."""

    shadow: ShadowStart


class StartQuestion(NamedTuple):
    """A decision: ask about nodes for an application without a start that is to have one.

    With `waits` the leaf is closed at some time until the start.
    """

    question: NodeQuestion
    waits: bool


class NodesAsked(OfThing):
    """The RM is being asked about nodes for an application; its asks are planned after the answer."""

    __slots__ = ()

    def lets_through(self) -> bool:
        """True if the RM has answered."""
        app: Application = self.thing
        return not app.gang.questions


class CalendarFull(OfThing):
    """The partition has the maximum number of `shadows`, for asks of a `leaf` with opening hours; or, with
    None, for those of all other leaves."""

    __slots__ = ("_leaf", "_shadows")

    def __init__(self, thing: object, blockers: Blockers, shadows: "Shadows", leaf: Queue | None) -> None:
        """Start without blocked asks; `thing` is the leaf, or `shadows` if there is none."""
        super().__init__(thing, blockers)
        self._shadows, self._leaf = shadows, leaf

    def lets_through(self) -> bool:
        """True if another start may be held."""
        is_open = self._leaf is None or self._shadows.openings.is_open(self._leaf)
        return self._shadows.has_room(waits=not is_open)


class MaximumPlanned(OfThing):
    """The maximum of a quota has the maximum number of shadow starts behind it."""

    __slots__ = ()

    def lets_through(self) -> bool:
        """True if another start may be held behind it."""
        return not is_planned(self.thing)


class PlannedWhileOpen(MaximumPlanned):
    """The same for asks of leaves that close at times: from then on their starts are behind no maximum."""

    __slots__ = ()


def is_planned(quota: Quota) -> bool:
    """True if no other start may be held behind the maximum of the quota."""
    behind = [one for one in quota.claims if isinstance(one, ShadowStart) and quota in one.behind]
    return len(behind) >= behind[0].most if behind else False


ETA_ERRORS: Final[tuple[float, ...]] = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 86400.0)
"""Bounds for errors of expected starts, in seconds."""


class StartCounters:
    """Counters of shadow starts since the registration of the partition."""

    def __init__(self) -> None:
        """Start with all counters at 0."""
        self.deadlines_at_risk = 0
        """Number of asks and gangs whose shadow start was later than requested when it was published."""
        self.eta_errors: dict[str, Histogram] = {}
        """Seconds between the start of asks with a shadow start and their start as first published, by its
        confidence."""

    def note_eta_error(self, confidence: str, seconds: float) -> None:
        """Record the difference between a start and the start as first published."""
        errors = self.eta_errors.get(confidence)
        if errors is None:
            errors = self.eta_errors[confidence] = Histogram(ETA_ERRORS)
        errors.observe(abs(seconds))


class Shadows:
    """The shadow starts of one partition.

    Always true: each has a deadline, and refers to the nodes with room for it.
    """

    decide: Callable[[ShadowStart, float], Any]
    """Tries a holder; set right after the creation: `PlannedStarts.decide`."""

    def __init__(self, context: CheckContext, mode: Backfill, charges: Charges) -> None:
        """Start empty."""
        context.claims.reasons.add(BEHIND)
        self._claims = context.claims
        self._waiting = context.wakeups.waiting
        self._escalation = context.escalation
        self._blockers: Blockers = context.wakeups.blockers
        self._dirty = context.dirty
        self._timers = context.timers
        self.charges = charges
        self.counters = StartCounters()
        self.mode = mode
        self.starts: dict[ShadowStart, None] = {}
        """The shadow starts, in the order of their first publication."""
        self.asking: dict[Application, bool] = {}
        """Applications that are to have a start if the RM accepts the nodes; True for one that `waits`."""
        self.openings = Openings(context)
        self.published = 0
        """Number of starts that were ever published."""
        self.unplanned = Unplanned()
        """The pauses of asks for which no start was found."""
        self.budget = LookBudget()

    def __iter__(self) -> Iterator[ShadowStart]:
        """The shadow starts, in the order of their first publication."""
        return iter(self.starts)

    def has_room(self, *, waits: bool = False) -> bool:
        """True if another ask may hold a start, behind no maximum, that waits for an opening or does not.

        They are counted separately: a leaf that is closed until tomorrow takes no start from asks of today.
        """
        held = sum(not one.behind and one.waits == waits for one in self.starts)
        return held + sum(one == waits for one in self.asking.values()) < self.most

    def has_room_behind(self, behind: Sequence[Quota]) -> bool:
        """True if another ask may hold a start behind these maxima.

        Starts behind one maximum take no place from another maximum: its first start has a place, up to a
        number of maxima.
        """
        held = [one.behind for one in self.starts if one.behind]
        planned: set[Quota] = set()
        first = 0
        for quotas in held:
            first += planned.isdisjoint(quotas)
            planned.update(quotas)
        return len(held) < MOST_BEHIND or (first < MOST_BEHIND and planned.isdisjoint(behind))

    @property
    def most(self) -> int:
        """Maximum number of starts that no maximum delays; also of starts behind one maximum."""
        return MOST_STARTS[self.mode]

    def blocker(
        self, app: Application, *, is_open: bool, has_hours: bool
    ) -> CalendarFull | MaximumPlanned | None:
        """Blocker of a further start, or None; `has_hours` if the leaf, which `is_open` now, is closed at
        times."""
        if not self.has_room(waits=not is_open):
            leaf: Queue | None = app.leaf if has_hours else None
            return self._blockers.get(CalendarFull, self if leaf is None else leaf, self, leaf)
        # A start that waits is behind no maximum.
        full = next((quota for quota in bounded(app) if is_open and is_planned(quota)), None)
        kind = PlannedWhileOpen if has_hours else MaximumPlanned
        return None if full is None else self._blockers.get(kind, full)

    def beyond(self) -> list[ShadowStart]:
        """The latest starts above the maximum number of the present mode."""
        kept: list[ShadowStart] = []
        beyond: list[ShadowStart] = []
        for shadow in self.starts:
            counts = [sum(quota in one.behind for one in kept) for quota in shadow.behind]
            counts = counts or [sum(not one.behind and one.waits == shadow.waits for one in kept)]
            (kept if max(counts) < self.most else beyond).append(shadow)
        return beyond

    def answered(self, app: Application) -> None:
        """Note that the RM has answered a question about nodes for the application, or failed to in time."""
        if app in self.asking and not app.gang.questions:
            del self.asking[app]
            self._dirty.mark(self._blockers.of(CalendarFull))

    def hold(self, plan: StartPlan, now: float) -> ShadowStart:
        """Let the ask hold the planned start, in place of its present one."""
        shadow = plan.shadow
        if shadow is None:
            self.published += 1
            shadow = ShadowStart(self, plan, now)
            self.starts[shadow] = self._claims.held[shadow] = None
        else:
            self._let_go(shadow)
            self.budget.changes += plan.start != shadow.start
            if shadow.is_overdue:
                beside = [one for node in plan.places for one in node.claims]
                for quota in bounded(plan.app):
                    beside += quota.claims if is_tight(quota, shadow, plan.total) else ()
                for other in dict.fromkeys(beside):
                    if other.number > shadow.number:
                        self.overdue(other)
            shadow.follow(plan, now)
            self._dirty.mark(self._blockers.of(CalendarFull))
        for request, _ in plan.members:
            request.claim = shadow
            try_with_claim(self._waiting, request)
        for node, items in plan.places.items():
            going = plan.going[node]
            node.claims[shadow] = PlannedRoom(
                plan.start, plan.end, items, going, now, shadow.number, self._claims
            )
            shadow.places[node] = items
            self._dirty.mark_filled(node)
        held = HeldAmounts(plan.start, plan.end, plan.total, plan.ended, now, shadow.number, self._claims)
        shadow.held = held
        held.enter(shadow, self.charges)
        self._timers.set(shadow.timer, shadow.start + GRACE)
        self._waiting.runnable = True
        return shadow

    def follow(self, starts: Sequence[ShadowStart], now: float) -> None:
        """Let starts hold amounts of the present quotas of their applications, and be behind none but these.

        The latest ones that are more than there may be end.
        """
        for shadow in starts:
            shadow.held.enter(shadow, self.charges)
            shadow.behind = [quota for quota in shadow.behind if quota in shadow.held.quotas]
        for shadow in self.beyond() if starts else ():
            self.give_up(shadow, now)

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
        self._dirty.mark(self._blockers.of(CalendarFull))
        self._waiting.runnable = True

    def leave(self, shadow: ShadowStart, request: Request) -> None:
        """Hold nothing for an ask that is withdrawn; its gang keeps the start, or gets an earlier one.

        They are planned again if the gang has terms, which they may not meet without it.
        """
        rest = [one for one in shadow.members if one[0] is not request]
        if not rest:
            self.end(shadow)
            return
        left = next(node for one, node in shadow.members if one is request)
        if left in shadow.places and all(node is not left for _, node in rest):
            self._leave(shadow, left)
        deadline = self._timers.deadline(shadow.timer)
        self._timers.cancel(shadow.timer)
        request.claim = None
        for node in keep_for(shadow, rest, left):
            self._dirty.mark_node(node)
        if deadline is not None:
            self._timers.set(shadow.timer, deadline)
        shadow.is_stale = shadow.is_stale or shadow.app.gang.terms is not None
        self.budget.changes += 1
        self._dirty.mark(shadow.held.quotas)
        self._waiting.runnable = True

    def started(self, shadow: ShadowStart, now: float, *, is_there: bool) -> None:
        """Note that a holder starts, on its nodes if it `is_there`; move the starts that it runs into."""
        if shadow.start < now:
            self._move(shadow, now - shadow.start, is_there=is_there)
        ids = frozenset((request.ask.app_id, request.key) for request, _ in shadow.members)
        for node in shadow.places if is_there else ():
            for other, room in node.claims.items():
                if other is not shadow and isinstance(room, PlannedRoom):
                    room.note(shadow, ids, now)
        for other in self.starts:
            if other is not shadow:
                other.held.note(shadow, ids, now)

    def _move(self, late: ShadowStart, delay: float, *, is_there: bool) -> None:
        """Move starts that were published after a late one by its delay: those at its end, and at theirs.

        Beside these the others have what they had, as room that is taken later is free before.
        """
        moved = [(late, late.expected_end)]
        rest = [one for one in self.starts if one.number > late.number]
        for first, end in moved:
            for other in list(rest):
                is_at_end = end <= other.start < end + delay
                if is_at_end and share_room(first, other, is_there=is_there or first is not late):
                    rest.remove(other)
                    moved.append((other, other.expected_end))
                    other.move(delay)
                    self._timers.set(other.timer, other.start + GRACE)
                    self._dirty.mark(other.held.quotas)
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
        self._dirty.mark(shadow.held.quotas)
        shadow.held.leave(shadow)

    def _leave(self, shadow: ShadowStart, node: Node) -> None:
        del node.claims[shadow], shadow.places[node]
        self._dirty.mark_node(node)
