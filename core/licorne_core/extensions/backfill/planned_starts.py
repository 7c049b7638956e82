"""Asks with a shadow start in a pass: how they get a start, and how they are tried first (`shadows`).

A holder is tried on its planned nodes. At its rank in the usual order it may be placed on other nodes.
"""

from math import inf, nextafter

from licorne_core.extensions.backfill import RESERVE_AFTER, Backfill
from licorne_core.extensions.backfill.maxima import Holding, LeftPool, binding, exceeded
from licorne_core.extensions.backfill.shadow_start import ShadowStart, StartPlan
from licorne_core.extensions.backfill.shadows import (
    CalendarFull,
    Lapsed,
    NodesAsked,
    PlannedWhileOpen,
    Shadows,
    StartQuestion,
    is_planned,
)
from licorne_core.extensions.backfill.start_search import StartKind, StartSearch, total_of
from licorne_core.extensions.backfill.unplanned import REPLAN_TIME, RETRY_TIME, Likeness, LookBudget, likeness
from licorne_core.model.apps.application import Application, Asking
from licorne_core.model.apps.groups import AskGroup, OfNoNode
from licorne_core.model.apps.members import first_asks, gather_gang, next_members
from licorne_core.model.apps.requests import Request
from licorne_core.model.quotas import Quota
from licorne_core.scheduling.checks import ask_blocker
from licorne_core.scheduling.escalation import reserve_again
from licorne_core.scheduling.gang_placement import Together, planned
from licorne_core.scheduling.measures import Candidate, Remedy, first_blocker
from licorne_core.scheduling.predicates import NodeQuestion
from licorne_core.scheduling.rules import CheckContext, RulePlace
from licorne_core.scheduling.waiting.blockers import Blocker, Timed
from licorne_core.scheduling.waiting.shortages import is_foreseen
from licorne_core.values.asks import AskClass
from licorne_core.values.ids import AppId


def kinds_of(app: Application, request: Request) -> list[StartKind]:
    """The asks that start together with this ask: all asks of its gang, or only this ask."""
    if not app.gang.has_member(request.ask):
        return [StartKind(request.ask.ask_class, [request])]
    return [StartKind(share[0].ask_class, first_asks(share)) for share in next_members(app)]


def _keeps_nodes(shadow: ShadowStart) -> bool:
    """True while an ask that preempts has a node of the start reserved: until then it keeps its nodes."""
    return any(not one.required for node in shadow.places for one in node.reservations.values())


def _unforeseen(context: CheckContext, asking: Asking, blocker: Blocker | None) -> Blocker | None:
    """The blocker, unless its end may be foreseen: then a later blocker, such as missing answers."""
    if blocker is None or not is_foreseen(blocker):
        return blocker
    blocker.retire_if_unused()
    return ask_blocker(context, asking, beyond=RulePlace.HELD)


class StartRequest(OfNoNode):
    """The asks that may hold a shadow start. After a failed plan it is paused for a while."""

    __slots__ = ()

    def age(self) -> float:
        """`reserve.after` of the leaf."""
        after: float | None = self.app.leaf.settings.of(RESERVE_AFTER)
        return after or 0.0

    def end_wait(self, now: float) -> bool:
        """True for an ask behind a maximum whose leaf closes at times: it may be closed now."""
        return isinstance(self.blocker, PlannedWhileOpen)


class Starting(Remedy):
    """Lets an ask hold a shadow start, with backfill on."""

    def __init__(self, context: CheckContext, shadows: Shadows, search: StartSearch) -> None:
        """Act in the partition of the context."""
        super().__init__(context)
        self._shadows = shadows
        self._search = search

    @property
    def is_for_gangs(self) -> bool:
        """True with backfill on: a gang holds a start as a whole."""
        return self._shadows.mode is not Backfill.OFF

    def helps(self, group: AskGroup, over: Quota | None, *, is_held: bool) -> bool:
        """True for asks without a required node, whatever quota stops them."""
        return self.context.may_hold and self.is_for_gangs and group.ask_class.required_node is None

    def decide(
        self, wants: StartRequest, request: Request, now: float
    ) -> StartPlan | NodeQuestion | StartQuestion | Blocker | None:
        """The shadow start, the question to the RM about its nodes, or the blocker.

        None if no start is found: the asks pause, and others are planned meanwhile. Another ask of the same
        class may have failed just before.
        """
        context, app, shadows = self.context, wants.app, self._shadows
        is_gang = app.gang.has_member(request.ask)
        if is_gang:
            gather_gang(app)
        asking = Asking(app, wants.group)
        blocker = _unforeseen(context, asking, ask_blocker(context, asking))
        if blocker is None and app.gang.questions:
            blocker = context.wakeups.blockers.get(NodesAsked, app)
        kinds = kinds_of(app, request)
        total = total_of(kinds)
        is_open, until = shadows.openings.at(app.leaf, now)
        has_hours = until < inf
        blocker = blocker or shadows.blocker(app, is_open=is_open, has_hours=has_hours)
        if isinstance(blocker, PlannedWhileOpen):
            maturing = wants.next_time(now)
            context.escalation.set_deadline(wants, until if maturing is None else min(maturing, until))
        if blocker is not None:
            return blocker
        over = exceeded(app, total)
        if over is not None and over.max is None and not is_gang:  # a gang may lose members, and need less
            return context.wakeups.blockers.get(LeftPool, over).shortage(total)
        behind = binding(app, total, request.claim)
        bounds = (*behind, app.leaf) if has_hours else behind
        unplanned, asks = shadows.unplanned, likeness(app, request, bounds)
        sizes, book = [kind.ask_class.items for kind in kinds], context.node_book
        is_vain = over is not None or any(map(book.is_too_large, sizes)) or any(map(book.never_held, sizes))
        if is_vain or (is_open and behind and not shadows.has_room_behind(behind)):
            until = now + RETRY_TIME
        elif (until := unplanned.turn(app.app_id, asks, now)) <= now:
            own = next((one for one in shadows if is_gang and one.is_gang and one.app is app), None)
            plan = self._search.plan(app, kinds, now, own=own, asked=wants.asked)
            if isinstance(plan, NodeQuestion | StartQuestion):
                wants.asked += 1
                return plan
            wants.asked = 0
            if plan is not None and (not plan.waits or shadows.has_room(waits=True)):
                unplanned.found(asks)
                return plan
            until = unplanned.failed(app.app_id, asks, now, self._is_waiting)
        # An ask may have a node reserved until the next plan.
        context.escalation.pause(wants, until)
        reserve_again(context.escalation, wants.group, now)
        return None

    def _is_waiting(self, asks: Likeness, app_id: AppId) -> bool:
        """True if pending asks of the class, or members of the gang, exist. If maxima bind the asks, only
        asks of the application count, as those of others depend on other limits."""
        if isinstance(asks, AskClass):
            return self.context.index.is_wanted(asks)
        if isinstance(asks, tuple):
            app = self.context.applications.get(app_id)
            return app is not None and any(group.ask_class == asks[0] for group in app.groups.values())
        return asks in self.context.applications


_Tried = Candidate | Together | StartPlan | Lapsed | StartQuestion


class PlannedStarts:
    """Tries the holders of shadow starts in one partition; books nothing."""

    def __init__(self, context: CheckContext, budget: LookBudget, search: StartSearch) -> None:
        """Try in the partition of the context."""
        self._context = context
        self._budget = budget
        self._search = search

    def decide(self, shadow: ShadowStart, now: float) -> _Tried | None:
        """The holder on its planned nodes, or another plan if the start is stale or a better one is found.

        An earlier start is better, or for a gang the same start on nodes that are busy longer.

        The RM is asked about other nodes first. Until it answers, the start does not change.

        Raises:
            StillLooking: the search for another start continues in the next turn.
        """
        app = shadow.app
        self._follow_hours(shadow, now)
        if not shadow.is_stale and shadow.exceeds_again(now):
            # Starts that were published later are planned again after it.
            shadow.is_stale = shadow.is_overdue = True
        has_changed = shadow.is_gang and self._has_changed(shadow)
        may_start = app.is_ranked
        if may_start:
            if shadow.is_gang:
                gather_gang(app)
            asking = Holding(shadow)
            blocker = first_blocker(self._context, asking)
            if blocker is None:
                found = None if has_changed else self._where_planned(shadow)
                if found is not None:
                    return found
            may_start = self._may_plan(shadow, asking, blocker, now)
        if has_changed:
            shadow.is_stale = True
        if not shadow.is_stale and not (may_start and self._is_due(shadow, now)):
            return None
        if may_start and (app.gang.questions or (shadow.is_stale and _keeps_nodes(shadow))):
            return None
        plan = self._plan(shadow, now) if may_start else None
        if isinstance(plan, NodeQuestion | StartQuestion):
            shadow.asked += 1
            return plan
        shadow.asked = 0
        if shadow.is_stale:
            return Lapsed(shadow) if plan is None else plan
        shadow.looked(now)
        return plan

    def _follow_hours(self, shadow: ShadowStart, now: float) -> None:
        """Count a start among those that wait, if its leaf is closed at some time until then, or the others.

        Without a place nothing changes. Otherwise an ask of another leaf may get a start in this pass.
        """
        shadows, context = shadow.shadows, self._context
        is_open, until = shadows.openings.at(shadow.app.leaf, now)
        waits = not is_open or until <= shadow.start
        if waits == shadow.waits:
            return
        behind = [] if waits else binding(shadow.app, shadow.total, shadow)
        has_place = shadows.has_room_behind(behind) if behind else shadows.has_room(waits=waits)
        if has_place and not any(map(is_planned, behind)):
            context.dirty.mark([*context.wakeups.blockers.of(CalendarFull), *shadow.behind])
            shadow.waits, shadow.behind = waits, behind
            context.dirty.settle()

    def _may_plan(self, shadow: ShadowStart, asking: Holding, blocker: Blocker | None, now: float) -> bool:
        """True if the end of the blocker may be foreseen; a start while the leaf is closed is stale then."""
        is_closed = isinstance(blocker, Timed)
        blocker = _unforeseen(self._context, asking, blocker)
        if blocker is not None:
            blocker.retire_if_unused()
            return False
        if is_closed or shadow.opens_at != shadow.start:
            shadow.opens_at = shadow.start
            is_open, _ = shadow.shadows.openings.at(shadow.app.leaf, max(now, shadow.start))
            if not is_open:
                shadow.is_stale, shadow.is_overdue = True, False
        return True

    def _is_due(self, shadow: ShadowStart, now: float) -> bool:
        """True if a better start is to be searched: something has changed, or time has passed."""
        if now >= shadow.looked_at + REPLAN_TIME:
            return True
        has_changed = shadow.changes_read != self._budget.changes
        return has_changed and self._budget.has(now)

    def _plan(self, shadow: ShadowStart, now: float) -> StartPlan | NodeQuestion | StartQuestion | None:
        """Another plan for the holder; not a later one, unless its present start is stale."""
        app, claims = shadow.app, self._context.claims
        before = inf
        if not shadow.is_stale:
            before = nextafter(shadow.start, inf) if shadow.is_gang else shadow.start
            # The start stays due until the search is complete.
            shadow.looked_at = -inf
        work = claims.work
        try:
            kinds = kinds_of(app, shadow.request)
            plan = self._search.plan(app, kinds, now, before=before, own=shadow, asked=shadow.asked)
            if shadow.is_overdue and isinstance(plan, StartPlan) and plan.waits:
                # Until the next opening there is time: no other start has to move for it.
                shadow.is_overdue = False
                plan = self._search.plan(app, kinds, now, own=shadow, asked=shadow.asked)
            is_more = isinstance(plan, StartPlan) and plan.waits and not shadow.waits
            return None if is_more and not shadow.shadows.has_room(waits=True) else plan
        finally:
            self._budget.spend(claims.work - work)

    def _where_planned(self, shadow: ShadowStart) -> Candidate | Together | None:
        """The holder on its planned nodes, if all its asks have room there now."""
        app = shadow.app
        if not shadow.is_gang:
            for node in shadow.places:
                if node.takes(shadow.request.ask.ask_class, holder=shadow):
                    return app.leaf, app, shadow.request, node
            return None
        if shadow.lost_node:
            return None
        for request, node in shadow.members:
            if not node.takes(request.ask.ask_class, holder=shadow):
                return None
        for node, items in shadow.places.items():
            together = AskClass.of(dict(items), runtime=shadow.declared)
            if not node.takes(together, holder=shadow):
                return None
        return planned(self._context, app, shadow.members)

    def _has_changed(self, shadow: ShadowStart) -> bool:
        """True if the next members differ from the planned ones, or are bound to other nodes."""
        shares = next_members(shadow.app)
        # In a gang in units, a member that arrived later may be among the first.
        in_units = shadow.app.gang.units is not None
        return (
            sum(count for _, count in shares) != len(shadow.members)
            or (in_units and any(one.claim is not shadow for share in shares for one in first_asks(share)))
            or self._search.stamp(shadow.app, shadow.request) != shadow.stamp
        )
