"""The pass: finds the next ask to serve and its node (spec §§ 8.1-8.7).

Stages come first (`stages.py`): claims, reserved asks, placeholders. Then the pass goes down from root in
key order: queues, applications, ask groups; the first ask that passes every check is served. Blocked items
are parked with their blockers, so the next pass does not try them again.
"""

from collections.abc import Sequence
from typing import Any, Final

from licorne_core.messages.commands import Options
from licorne_core.model.apps.application import Application, Asking
from licorne_core.model.apps.groups import AgedAsks, AskGroup
from licorne_core.model.apps.requests import AskPlace
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.queue import Queue
from licorne_core.model.queues.users import UserApps
from licorne_core.model.quotas import Quota
from licorne_core.scheduling.checks import STOPPABLE, application_blocker, ask_blocker
from licorne_core.scheduling.gang_placement import GangSearch, Together, passed_by
from licorne_core.scheduling.measures import Remedies, note_passed_over
from licorne_core.scheduling.node_search.index import StillLooking
from licorne_core.scheduling.rules import CheckContext
from licorne_core.scheduling.stages import Claimed, Decision, Position, Stage
from licorne_core.scheduling.waiting.blockers import Blocker
from licorne_core.scheduling.waiting.shortages import QuotaShortage, is_foreseen
from licorne_core.scheduling.waiting.waiting import Parked
from licorne_core.values.app_states import AppState
from licorne_core.values.ranking import Ranking

# Looked up once: for every allocation, a lookup in the enumeration would cost as much as two calls.
_ACCEPTED: Final = AppState.ACCEPTED


class Cycle:
    """Finds the next decision in one partition.

    It books nothing and reserves nothing. It parks items, creates requests for remedies, and notes the
    outcome on the groups that it tries.
    """

    __slots__ = (
        "_backlog",
        "_before",
        "_behind",
        "_context",
        "_effort",
        "_in_order",
        "_index",
        "_remedies",
        "_root",
        "gangs",
        "postponed",
        "searches",
    )

    def __init__(
        self, context: CheckContext, options: Options, remedies: Remedies, stages: Sequence[Stage]
    ) -> None:
        """Decide in the partition of the context, with the remedies and stages of features."""
        self._context, self._effort = context, context.effort
        self._root = context.tree.root
        self._index, self._backlog = context.index, context.wakeups.backlog
        self._remedies: Remedies = dict(sorted(remedies.items(), key=lambda item: item[0].step))
        self._in_order = tuple(self._remedies.values())
        self.searches = [remedy.search for remedy in self._in_order if remedy.search is not None]
        """The searches of remedies whose work is reported separately."""
        self.gangs = GangSearch(context, max(1, options.tuning.fill_work // 4), self._remedies)
        """The search for nodes of gang members."""
        context.effort.count(self.gangs, self.gangs.sizes)
        every = [Claimed(context), *stages]
        for stage in every:
            stage.gangs = self.gangs
        every.sort(key=lambda stage: stage.position)
        self._before = tuple(stage for stage in every if stage.position < Position.BEHIND)
        self._behind = tuple(stage for stage in every if stage.position >= Position.BEHIND)
        self.postponed = False
        """True if an item waits for a remedy in the next turn."""

    def begin_turn(self, now: float, work: int) -> None:
        """Begin a turn at unix seconds `now`, with a budget of about `work` tries.

        Claims have a budget of their own: otherwise a turn could end with them, and never reach other asks.
        """
        claims = self._context.claims
        claims.now = now
        for remedy in self._in_order:
            for blocker in remedy.begin_turn() if remedy.used else ():
                self._context.wakeups.waiting.changed(blocker)
        self._effort.begin(now, work + len(claims.held))
        if claims.rooms:
            # Settle changed nodes first.
            self._context.dirty.settle()
            for extension in self._context.seeking:
                extension.seek()

    def next(self) -> Decision | None:
        """The next decision; None if no item can be served before a change.

        None also when the turn has used up its work: then `Effort.tired` is True, and the next turn continues
        where it stopped.
        """
        self._context.dirty.settle()
        claims = self._context.claims
        claims.passed = None
        decision: Decision | None = None
        try:
            decision = self._first()
        except StillLooking:
            # No later ask may be served first: the next turn continues this search.
            self._effort.tired = True
        if claims.held and decision is not None:
            claims.passed = passed_by(self._context, decision)
        self.postponed = decision is None and self._is_postponed()
        return decision

    def _first(self) -> Decision | None:
        """First decision of the pass; None at its end, or when the work of the turn is used up."""
        effort = self._effort
        for stage in self._before:
            if stage.ready:
                decision: Decision | None = stage.decide(effort.now)
                if decision is not None or effort.tired:
                    return decision
        decision = self._inside(self._root, self._root.ranking)
        if decision is None and not effort.tired:
            self._context.wakeups.waiting.end_pass()
            self._backlog.untried.clear()
            if self._index.supplies.changed:
                self._index.supplies.end_pass()
            for stage in self._behind:
                if decision is None and stage.ready and not self._is_postponed():
                    decision = stage.decide(effort.now)
        return decision

    def _is_postponed(self) -> bool:
        """True if an item waits for a remedy in the next turn."""
        for remedy in self._in_order:
            if remedy.used and remedy.is_postponed:
                return True
        return False

    # The regular pass

    def _inside(self, queue: Queue, ranking: Ranking[Any]) -> Decision | None:
        """First decision in the queue, or among one user's applications in it, in key order; None if none."""
        waiting = self._context.wakeups.waiting
        order = ranking if ranking.second is None else ranking.in_force
        while True:
            child = waiting.first(order) if waiting.opened else order.top()
            if child is None:
                return None
            if isinstance(child, UserApps):
                decision = self._inside(queue, child.ranking)
                if decision is not None or self._effort.tired:
                    return decision
            elif queue.is_leaf:
                app: Application = child
                may_be_stopped = app.state is _ACCEPTED or app.interests & STOPPABLE
                stopped = self._application_blocker(app) if may_be_stopped else None
                if stopped is not None:
                    waiting.unpark_inside(app)
                    self._park(app, stopped)
                    continue
                decision = self._in_app(queue, app)
                if isinstance(decision, Blocker):
                    self._park(app, decision)
                    continue
                if decision is not None or self._effort.tired:
                    return decision
            else:
                decision = self._inside(child, child.ranking)
                if decision is not None or self._effort.tired:
                    return decision
            ranking.set_aside(child)

    def _application_blocker(self, app: Application) -> Blocker | None:
        """Return the blocker of all asks of the application, if any (spec §§ 4.12, 8.2, 10.5)."""
        blocker = application_blocker(self._context, app)
        starts = app.state is _ACCEPTED and not app.interests & STOPPABLE
        if starts and (blocker is not None or app.blocked_by):
            self._context.watch.may_run(app, self._effort.now)
        return blocker

    def _in_app(self, leaf: Queue, app: Application) -> Decision | None:
        """First ask of the application that passes all checks, or a measure (spec § 8.3); None if none.

        A blocker if an extension pauses the application, so that none of its asks is served.
        """
        ranking = app.ranking
        waiting = self._context.wakeups.waiting
        pausing = leaf.interests & self._context.pausing
        for extension in self._context.visited if pausing else ():
            for group in extension.visited(leaf, app):
                waiting.unpark(group)
        while True:
            item = waiting.first(ranking) if waiting.opened else ranking.top()
            if item is None:
                return self._pause(leaf, app, None) if pausing else None
            if self._effort.is_spent():
                return None
            found: Decision | None
            if isinstance(item, AskGroup):
                found = self._for_group(leaf, app, item)
                if isinstance(found, Node):
                    place = item.heap[0]
                    paused = self._pause(leaf, app, place) if pausing else None
                    if paused is not None:
                        return paused
                    item.attempted = True
                    return leaf, app, place.request, found
            else:
                found = self._for_remedy(item)
            if isinstance(found, Blocker):
                self._park(item, found)
            elif found is not None:
                first = item.heap[0] if isinstance(item, AskGroup) else item.first()
                return (self._pause(leaf, app, first) if pausing else None) or found

    def _pause(self, leaf: Queue, app: Application, found: AskPlace | None) -> Blocker | None:
        """The blocker if an extension pauses the application, or None; `found` is its first ask to serve."""
        for extension in self._context.pauses:
            blocker: Blocker | None = extension.pauses(leaf, app, found, self._effort.now)
            if blocker is not None:
                return blocker
        return None

    def _for_group(self, leaf: Queue, app: Application, group: AskGroup) -> Node | Blocker | Together:
        """Return the node for the asks of a group, or their blocker (spec § 8.3)."""
        if app.gang.is_whole or group.is_bound or (group.key[2] and self.gangs.always):
            together = self.gangs.decide(leaf, app, group, self._effort.now)
            if together is not None:
                return together
        blocker = ask_blocker(self._context, Asking(app, group))
        if blocker is not None or group.over_queue or group.over is not None:
            self._context.watch.room(leaf, group, blocker, self._effort.now)
        found = self._index.best(group.ask_class) if blocker is None else blocker
        if isinstance(found, Node):
            group.unplaceable = group.nowhere = False
            self._backlog.lacking.pop(group, None)
            return found
        group.unplaceable = blocker is None
        group.attempted |= group.unplaceable
        over = blocker.quota if isinstance(blocker, QuotaShortage) else None
        if group.unplaceable or over is not None:
            self._want(group, over)
        elif is_foreseen(blocker):
            self._want(group, None, is_held=True)
        lacks = group.unplaceable or over is self._root
        group.nowhere |= lacks
        if group.nowhere:
            too_large = self._context.node_book.never_held(group.ask_class.items)
            self._backlog.note(group, lacks=lacks and not too_large)
        blocker = found
        note_passed_over(self._context, group, blocker, self._effort.now)
        return blocker

    def _want(self, group: AskGroup, over: Quota | None, *, is_held: bool = False) -> None:
        """Register asks for a remedy: they exceed a quota, fit no node, use held amounts, or are early."""
        for kind, remedy in self._remedies.items():
            helps = remedy.helps(group, over, is_held=is_held)
            if helps and kind not in group.remedy_requests:
                self._context.escalation.want(group, kind, self._effort.now)

    def _for_remedy(self, wants: AgedAsks) -> Decision | None:
        """The measure for the first ask that is old enough, or its blocker.

        None if the request is paused, for example because its asks are bound to certain nodes, or is ranked
        again because its first ask has changed.
        """
        if wants.group.is_bound:
            self._context.wakeups.waiting.withdraw(wants)
            return None
        first, entry = wants.first(), wants.app.ranking.entry(wants)
        if first is None or entry is None or entry.key != wants.key():
            self._context.escalation.rank(wants, self._effort.now)
            return None
        return self._remedies[type(wants)].decide(wants, first.request, self._effort.now)

    def _park(self, item: Parked, blocker: Blocker) -> None:
        self._context.wakeups.waiting.park(item, blocker)
