"""Adds and removes pending asks, in their common order (spec § 5.3); counts placeholders (§ 6.4)."""

from licorne_core.ledger.reserving import Reservations
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.gang import TaskGroup
from licorne_core.model.apps.groups import AskGroup
from licorne_core.model.apps.requests import Request, RequestEvent, RequestState, Setback
from licorne_core.model.books import book_demand, unbook_demand
from licorne_core.model.queues.queue import Queue
from licorne_core.points import Points
from licorne_core.scheduling.escalation import Escalation
from licorne_core.scheduling.node_search.index import NodeIndex
from licorne_core.scheduling.order import settle_priority
from licorne_core.scheduling.waiting.dirty import Dirty
from licorne_core.scheduling.waiting.wakeups import MOST_UNTRIED, Wakeups
from licorne_core.values.asks import Ask
from licorne_core.values.counters import Counters
from licorne_core.values.resources import charge


class Placeholders:
    """Keeps the counts of task groups."""

    __slots__ = ("_counters", "_dirty")

    def __init__(self, dirty: Dirty, counters: Counters) -> None:
        """Serve one partition."""
        self._dirty = dirty
        self._counters = counters

    def give_up(self, app: Application, placeholder: Request) -> None:
        """Release a free placeholder, which holds its room for no ask any more."""
        app.gang.take(placeholder)
        self.time_out(app.gang.group_of(placeholder.ask))

    def cancel(self, app: Application, placeholder: Request) -> None:
        """Cancel a free placeholder; the larger real ask waits until it has ended (§ 6.5a)."""
        app.gang.take(placeholder)
        app.gang.group_of(placeholder.ask).cancelled[placeholder] = None

    def end(self, app: Application, placeholder: Request, event: RequestEvent) -> None:
        """End a placeholder. A placeholder that is being stopped was counted before."""
        group = app.gang.group_of(placeholder.ask)
        if placeholder in group.cancelled:
            del group.cancelled[placeholder]
            self.time_out(group)
        elif placeholder.state is RequestState.PLACEHOLDER:
            if event is RequestEvent.ASK_BACK:
                app.gang.take(placeholder)
            else:
                self.give_up(app, placeholder)

    def end_cancelled(self, app: Application) -> None:
        """Stop waiting for the end of cancelled placeholders, whether the RM has confirmed it or not."""
        for group in app.gang.groups.values():
            if group.cancelled:
                number = len(group.cancelled)
                group.cancelled.clear()
                self.time_out(group, number)

    def time_out(self, group: TaskGroup, number: int = 1) -> None:
        """Count placeholders that are no longer open and were not replaced."""
        group.timed_out += number
        self._counters.placeholders_timed_out += number
        self._dirty.mark((group,))

    def replace(self, group: TaskGroup) -> None:
        """Count a placeholder that a real allocation has replaced."""
        group.replaced += 1
        self._counters.placeholders_replaced += 1
        self._dirty.mark((group,))


class PendingAsks:
    """Posts the account of pending asks, and keeps all of them in order."""

    __slots__ = ("_dirty", "_escalation", "_index", "_placeholders", "_points", "_reservations", "_wakeups")

    def __init__(
        self,
        index: NodeIndex,
        wakeups: Wakeups,
        dirty: Dirty,
        placeholders: Placeholders,
        escalation: Escalation,
        reservations: Reservations,
        points: Points,
    ) -> None:
        """Serve one partition."""
        self._points = points
        self._index = index
        self._wakeups = wakeups
        self._dirty = dirty
        self._placeholders = placeholders
        self._escalation = escalation
        self._reservations = reservations

    def add(self, app: Application, ask: Ask, create_time: float, now: float) -> Request:
        """Add a pending ask; `create_time` is in unix seconds."""
        app.arrivals += 1
        request = Request(ask, create_time, app.arrivals)
        if app.priority is not None:
            request.priority = app.priority
        # This is `enlist`, written out to save every ask a call.
        app.requests[ask.key] = request
        app.holdings.ask_added(ask.footprint)
        app.tally.requests += 1
        if ask.placeholder:
            self.placeholder_added(app, ask)
            if app.gang.withdrawn:
                if not any(group.waiting and group.key[2] for group in app.groups.values()):
                    app.gang.withdrawn.clear()
                app.gang.make_up(ask.ask_class.items)
        self.enter(app, request, now)
        if not app.gang.is_whole:
            backlog = self._wakeups.backlog
            backlog.has_new = True
            if len(backlog.untried) < MOST_UNTRIED:
                backlog.untried[request.group] = None
        return request

    def placeholder_added(self, app: Application, ask: Ask) -> None:
        """Add a placeholder. A new task group may change which other asks are members of the gang."""
        if app.gang.is_whole and ask.task_group not in app.gang.groups:
            self._wakeups.waiting.unpark_inside(app)
        app.placeholder_added(ask)

    def set_back(self, app: Application, request: Request, setback: Setback) -> None:
        """Start the back-off of a request that its RM could not run."""
        request.setback = setback
        request.group = None
        app.backing_off[request.key] = request
        self._escalation.await_retry(request, setback.until)

    def try_again(self, app: Application, request: Request, now: float) -> None:
        """Try a request again after its back-off."""
        self.end_back_off(app, request, now)
        self.enter(app, request, now)

    def drop(self, app: Application, request: Request, now: float) -> None:
        """Remove a pending ask that was withdrawn or has timed out."""
        self.withdraw(app, request, now)
        if request.ask.placeholder:
            self._placeholders.time_out(app.gang.group_of(request.ask))
            charge(app.gang.withdrawn, request.ask.ask_class.items)

    def withdraw(self, app: Application, request: Request, now: float) -> None:
        """Remove a pending ask that will be added again in another form."""
        request.follow(RequestEvent.RELEASE)
        unlist(app, request)
        if request.claim is not None:
            request.claim.leave(request)
        if request.key in app.backing_off:
            self.end_back_off(app, request, now)
        else:
            self.leave(app, request, now)
        self._dirty.mark_app(app)
        if request.reservation is not None:
            self._reservations.end(request.reservation, now)

    def replace(self, app: Application, request: Request, ask: Ask, now: float) -> Request:
        """Replace a pending ask by one of another size, at its position and with its age.

        The caller restores its reservation and its promise.
        """
        rests, triggered = request.key in app.backing_off, request.triggered
        self.withdraw(app, request, now)
        other = Request(ask, request.create_time, request.arrival)
        if app.priority is not None:
            other.priority = app.priority
        other.reported = request.reported
        other.triggered, other.refused_stops = triggered, request.refused_stops
        enlist(app, other)
        if ask.placeholder:
            charge(app.gang.withdrawn, request.ask.ask_class.items)
            app.gang.make_up(ask.ask_class.items)
        other.setback = request.setback
        if rests and other.setback is not None:
            self.set_back(app, other, other.setback)
            self.count_back_off(app, other, now)
        else:
            self.enter(app, other, now)
        return other

    # The account of pending asks

    def enter(self, app: Application, request: Request, now: float) -> None:
        """Add a request that becomes pending, for the first time or again."""
        leaf: Queue = app.leaf
        ask = request.ask
        top, submitted = app.priorities.top, app.submission_time
        group = app.group_of(ask)
        if not (group.waiting or group.assumed):
            self._index.class_added(ask.ask_class)
            self._dirty.ranks.note_types(ask.ask_class.items)
        was_first = app.enqueue(group, request, now)
        book_demand(ask.ask_class.items, app, leaf)
        if leaf.priorities.add(request.priority):
            settle_priority(leaf)
        if app.interests:
            for extension in self._points.entered:
                extension.entered(app, request, now)
        if was_first:
            self._wakeups.waiting.rank(group)
        if group.remedy_requests:
            self._escalation.rank_all(group, now)
        # Extensions that may pause applications need the count of asks.
        counts_asks = leaf.interests & self._points.pausing
        moves = app.priorities.top != top or app.submission_time != submitted
        if was_first or group.remedy_requests or counts_asks or moves:
            self._dirty.mark_app(app)
        else:
            self._dirty.mark_leaf(leaf)
        if app.gang.is_parked and app.gang.has_member(ask):
            self.regroup(app)

    def regroup(self, app: Application) -> None:
        """Regroup a gang, as a member was added or removed: the other members may be placed now."""
        self._wakeups.waiting.try_members(app)

    def leave(self, app: Application, request: Request, now: float) -> None:
        """Remove a request whose state is no longer pending; the caller ranks its queues."""
        if request.claim is not None:
            request.claim.end()
        leaf: Queue = app.leaf
        ask = request.ask
        group: AskGroup = request.group
        group.drop(request)
        app.pending_count -= 1
        app.priorities.remove(request.priority)
        unbook_demand(ask.ask_class.items, app, leaf)
        if leaf.priorities.remove(request.priority):
            settle_priority(leaf)
        if app.interests:
            for extension in self._points.left:
                extension.left(app, now)
        if group.waiting:
            self._wakeups.waiting.rank(group)
        if app.gang.is_parked and app.gang.has_member(ask):
            self.regroup(app)
        if group.waiting:
            return
        self._wakeups.waiting.withdraw(group)
        if group.remedy_requests:
            self._escalation.forget_group(group)
        self.forget_if_idle(app, group)

    def count_back_off(self, app: Application, request: Request, now: float) -> None:
        """Count a pending request among those that back off."""
        leaf: Queue = app.leaf
        app.pending_count += 1
        app.priorities.add(request.priority)
        book_demand(request.ask.ask_class.items, app, leaf)
        if leaf.priorities.add(request.priority):
            settle_priority(leaf)
        if app.interests:
            for extension in self._points.entered:
                extension.entered(app, request, now)
        self._dirty.mark_app(app)

    def end_back_off(self, app: Application, request: Request, now: float) -> None:
        """Stop counting a request as backing off; it is tried again, or was withdrawn."""
        leaf: Queue = app.leaf
        del app.backing_off[request.key]
        app.pending_count -= 1
        app.priorities.remove(request.priority)
        self._escalation.forget_retry(request)
        unbook_demand(request.ask.ask_class.items, app, leaf)
        if leaf.priorities.remove(request.priority):
            settle_priority(leaf)
        if app.interests:
            for extension in self._points.left:
                extension.left(app, now)

    def forget_if_idle(self, app: Application, group: AskGroup) -> None:
        """Forget the class of a group that waits for no node or predicate check any more."""
        self._wakeups.backlog.untried.pop(group, None)
        if not (group.waiting or group.assumed):
            self._index.class_removed(group.ask_class)
            # A group whose asks are all assumed stays in the backlog: they may be rolled back.
            if group.in_backlog:
                self._wakeups.backlog.forget(group)
            app.forget_idle(group)


def enlist(app: Application, request: Request) -> None:
    """Count the request in its application, and in the holdings of its RM."""
    app.requests[request.key] = request
    app.holdings.ask_added(request.ask.footprint)
    app.tally.requests += 1


def unlist(app: Application, request: Request) -> None:
    """Undo `enlist`, and remove the request."""
    del app.requests[request.key]
    app.holdings.ask_removed(request.ask.footprint)
    app.tally.requests -= 1
