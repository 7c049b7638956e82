"""Escalation: deadlines of asks for remedies, and for retries (§§ 1.4, 8.5, 9.2).

Each application has one heap of deadlines, and one timer of the partition for the earliest of them. An ask
that its RM could not run has a timer of its own.
"""

from math import inf

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.groups import AgedAsks, AskGroup, ReservationRequest
from licorne_core.model.apps.requests import Request
from licorne_core.scheduling.waiting.dirty import Dirty
from licorne_core.scheduling.waiting.waiting import Waiting
from licorne_core.values.timers import Due, Timer, Timers

MOST_AT_ONCE = 16
"""Maximum number of deadlines of one application handled in a row, so that other timers are not delayed."""


class Escalation:
    """Deadlines of the applications of one partition, and their effects.

    Always true: a request for a remedy is ranked if one of its asks is old enough, unless it is paused; after
    the removal of that ask it may remain ranked until it is tried.
    """

    def __init__(self, dirty: Dirty, waiting: Waiting, timers: Timers[Timer]) -> None:
        """Start without deadlines."""
        self._dirty = dirty
        self._waiting = waiting
        self._timers = timers

    def await_retry(self, request: Request, until: float) -> None:
        """Start the back-off of an ask that the RM could not run; it ends at `until`, in unix seconds."""
        self._timers.set(Timer(Due.TRY_AGAIN, request.ask.app_id, request.key), until)

    def forget_retry(self, request: Request) -> None:
        """Cancel the deadline of an ask that no longer backs off."""
        self._timers.cancel(Timer(Due.TRY_AGAIN, request.ask.app_id, request.key))

    def want(self, group: AskGroup, kind: type[AgedAsks], now: float) -> None:
        """Register asks of the group for a remedy; each qualifies once it is old enough."""
        if kind not in group.remedy_requests:
            wants = group.remedy_requests[kind] = kind(group, now)
            group.remedy_requests = dict(sorted(group.remedy_requests.items(), key=_step))
            self.rank(wants, now)

    def pause(self, wants: AgedAsks, until: float) -> None:
        """Pause the request until unix seconds `until`, inf for no end."""
        wants.paused_until = until
        self._waiting.withdraw(wants)
        self.set_deadline(wants, until if until < inf else None)

    def rank_all(self, group: AskGroup, now: float) -> None:
        """Rank the requests of the group, if any."""
        for wants in group.remedy_requests.values():
            self.rank(wants, now)

    def rank(self, wants: AgedAsks, now: float) -> None:
        """Rank a request just behind the group's first ask that is old enough."""
        if wants.is_paused(now):
            return
        wants.mature(now)
        held_until = wants.held_until(now)
        if held_until is not None:
            self._waiting.withdraw(wants)
            # The hold may not concern the next ask that is old enough.
            maturing = wants.next_time(now)
            self.set_deadline(wants, held_until if maturing is None else min(maturing, held_until))
            return
        if wants.end_wait(now):
            self._waiting.unpark(wants)
        ranking = wants.app.ranking
        key = wants.key()
        if key is None:
            self._waiting.withdraw(wants)
        else:
            entry = ranking.entry(wants)
            if entry is None or entry.key != key:
                self._waiting.unpark(wants)
                ranking.put(wants, key)
        self.set_deadline(wants, wants.next_time(now))

    def forget_group(self, group: AskGroup) -> None:
        """Forget a group without pending asks."""
        for wants in group.remedy_requests.values():
            self.withdraw(wants)
            wants.let_go()
        group.remedy_requests.clear()

    def start_afresh(self, group: AskGroup, now: float) -> None:
        """Drop requests after a change of settings; the next try creates new ones.

        An open question to the RM about victims stays open, but no ask waits for its answer.
        """
        for kind, wants in list(group.remedy_requests.items()):
            if wants.by_settings:
                self.withdraw(wants)
                wants.let_go()
                del group.remedy_requests[kind]
        group.refused_stops = None
        reserve_again(self, group, now)

    def forget(self, app: Application) -> None:
        """Cancel the timer of a removed application."""
        self._timers.cancel(Timer(Due.ESCALATE, app.app_id))

    def on_time(self, app: Application, now: float) -> None:
        """Handle due deadlines of the application, at most `MOST_AT_ONCE`."""
        for _ in range(MOST_AT_ONCE):
            due = app.deadlines.take_due(now)
            if due is None:
                break
            self.rank(due, now)
        self._set_timer(app)
        self._dirty.mark_due(app)

    def try_again(self, wants: AgedAsks, now: float) -> None:
        """Rank the request after an answer of the RM."""
        self.rank(wants, now)
        self._dirty.mark_due(wants.app)

    def withdraw(self, wants: AgedAsks) -> None:
        """Stop trying the request, and cancel its deadline."""
        self._waiting.withdraw(wants)
        self.set_deadline(wants, None)

    def set_deadline(self, wants: AgedAsks, at: float | None) -> None:
        """Set the time, in unix seconds, at which the request is ranked; None cancels it."""
        deadlines = wants.app.deadlines
        if at != deadlines.deadline(wants):
            if at is None:
                deadlines.cancel(wants)
            else:
                deadlines.set(wants, at)
            self._set_timer(wants.app)

    def _set_timer(self, app: Application) -> None:
        timer = Timer(Due.ESCALATE, app.app_id)
        deadline = app.deadlines.next_deadline()
        if deadline is None:
            self._timers.cancel(timer)
        elif deadline != self._timers.deadline(timer):
            self._timers.set(timer, deadline)


def _step(item: tuple[type[AgedAsks], AgedAsks]) -> int:
    return item[1].step


def reserve_again(escalation: Escalation, group: AskGroup, now: float) -> None:
    """Let asks of the group reserve nodes again, as no earlier remedy helps any of them now."""
    reserves = group.remedy_requests.get(ReservationRequest)
    if reserves is not None:
        reserves.paused_until = -inf
        escalation.rank(reserves, now)


def readmit(escalation: Escalation, request: Request, now: float) -> None:
    """Register a pending ask that lost its node or claim with the remedies of its group again."""
    group: AskGroup = request.group
    for wants in group.remedy_requests.values():
        wants.add(request.place, now)
        escalation.rank(wants, now)
