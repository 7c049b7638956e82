"""Escalation: deadlines of asks for back-off, reservation and preemption (§§ 1.4, 8.3a, 8.5, 9.2).

Each application has one heap of deadlines, and one timer of the partition for the earliest of them.
An ask that its RM could not run has a timer of its own.
"""

from licorne_core.config.schema import Backfill
from licorne_core.model.apps.application import Application, Awaited, Deadline
from licorne_core.model.apps.groups import (
    ANY_VERSION,
    RESERVATION_AGE,
    SEARCH_INTERVAL,
    AskGroup,
    PreemptionRequest,
    ReservationRequest,
)
from licorne_core.model.apps.requests import Request
from licorne_core.model.queues.queue import Queue
from licorne_core.scheduling.waiting.dirty import Dirty
from licorne_core.scheduling.waiting.shortages import Kept
from licorne_core.scheduling.waiting.waiting import Waiting
from licorne_core.values.timers import Due, Timer, Timers

MOST_AT_ONCE = 16
"""Most deadlines of one application in a row, so that other timers are not delayed."""

_BACK_OFF = Deadline(Awaited.BACK_OFF)

Wants = ReservationRequest | PreemptionRequest


class Escalation:
    """Deadlines of the applications of one partition, and their effects.

    Always true: an application that backs off has a deadline for the end of the back-off. A
    reservation request is ranked if one of its asks is old enough; after the removal of that ask it
    may stay ranked until it is tried. The same holds for a preemption request, unless it pauses.
    """

    __slots__ = ("_dirty", "_timers", "_waiting")

    def __init__(self, dirty: Dirty, waiting: Waiting, timers: Timers[Timer]) -> None:
        """Start without deadlines."""
        self._dirty = dirty
        self._waiting = waiting
        self._timers = timers

    def start_back_off(self, app: Application, until: float) -> None:
        """Let the application back off until unix seconds `until`."""
        app.backoff_until = until
        app.deadlines.set(_BACK_OFF, until)
        self._set_timer(app)

    def await_retry(self, request: Request, until: float) -> None:
        """Let an ask that the RM could not run back off until unix seconds `until`."""
        self._timers.set(Timer(Due.TRY_AGAIN, request.ask.app_id, request.key), until)

    def forget_retry(self, request: Request) -> None:
        """Cancel the deadline of an ask that backs off no longer."""
        self._timers.cancel(Timer(Due.TRY_AGAIN, request.ask.app_id, request.key))

    def want_node(self, group: AskGroup, now: float) -> None:
        """Let an ask of the group, which found none, have a node or a shadow start once it is old enough."""
        if group.reservation_request is None:
            leaf: Queue = group.app.leaf
            backfills = leaf.lineage[-1].settings.backfill is not Backfill.OFF
            age = leaf.settings.reserve_after if backfills else RESERVATION_AGE
            group.reservation_request = ReservationRequest(group, age, now)
            self.rank(group.reservation_request, now)

    def want_victims(self, group: AskGroup, now: float) -> None:
        """Let asks of the group preempt others, as a queue's maximum or the nodes stop them (§ 9.2)."""
        if group.preemption_request is None:
            delay = group.app.leaf.settings.preemption_delay
            group.preemption_request = PreemptionRequest(group, delay, now)
            self.rank(group.preemption_request, now)

    def pause(self, wants: PreemptionRequest, now: float) -> None:
        """Pause after a failed or unusable search; the next search ignores earlier refusals."""
        wants.refused.clear()
        wants.waits_for = None
        self.rest(wants, now + SEARCH_INTERVAL)

    def rest(self, wants: Wants, until: float) -> None:
        """Try the request again at unix seconds `until`, and not before."""
        wants.paused_until = until
        self._waiting.withdraw(wants)
        self._set_deadline(wants, until)

    def wait_for(self, wants: PreemptionRequest, kept: Kept, now: float) -> None:
        """Wait until a node with victims, which is reserved for another ask, is given up."""
        wants.refused.clear()
        wants.searched_at = ANY_VERSION
        wants.waits_for, wants.waits_until = kept, kept.until
        self._set_deadline(wants, wants.next_time(now))

    def ask_about_victims(self, wants: PreemptionRequest) -> None:
        """Suspend searches while the RM is asked about victims."""
        wants.is_asking = True
        wants.waits_for = None
        self._withdraw(wants)

    def rank_all(self, group: AskGroup, now: float) -> None:
        """Rank the reservation request and the preemption request of the group, if any."""
        for wants in (group.reservation_request, group.preemption_request):
            if wants is not None:
                self.rank(wants, now)

    def rank(self, wants: Wants, now: float) -> None:
        """Rank a request just behind the group's first ask that is old enough."""
        if now < wants.paused_until:
            return
        if isinstance(wants, PreemptionRequest):
            if wants.is_asking:
                return
            if wants.has_waited(now):
                wants.waits_for = None
                self._waiting.unpark(wants)
        ranking = wants.app.ranking
        wants.mature(now)
        key = wants.key()
        if key is None:
            self._waiting.withdraw(wants)
        else:
            entry = ranking.entry(wants)
            if entry is None or entry.key != key:
                self._waiting.unpark(wants)
                ranking.put(wants, key)
        self._set_deadline(wants, wants.next_time(now))

    def forget_group(self, group: AskGroup) -> None:
        """Forget a group without pending asks."""
        for wants in (group.reservation_request, group.preemption_request):
            if wants is not None:
                self._withdraw(wants)
        group.reservation_request = group.preemption_request = None

    def start_afresh(self, group: AskGroup) -> None:
        """Drop the preemption request, as settings have changed; the next try makes a new one.

        An open victim question to the RM stays open, and no ask waits for its answer.
        """
        if group.preemption_request is not None:
            self._withdraw(group.preemption_request)
            group.preemption_request = None

    def forget(self, app: Application) -> None:
        """Cancel the timer of a removed application."""
        self._timers.cancel(Timer(Due.ESCALATE, app.app_id))

    def on_time(self, app: Application, now: float) -> None:
        """Act on due deadlines of the application, at most `MOST_AT_ONCE`."""
        for _ in range(MOST_AT_ONCE):
            due = app.deadlines.take_due(now)
            if due is None:
                break
            what, group = due
            if group is None:
                app.backoff_until = 0.0
                self._dirty.mark((app,))
                continue
            to_reserve = what is Awaited.RESERVATION
            wants = group.reservation_request if to_reserve else group.preemption_request
            if wants is not None:
                self.rank(wants, now)
        self._set_timer(app)
        self._dirty.mark_due(app)

    def try_again(self, wants: PreemptionRequest, now: float) -> None:
        """Rank the request again after the RM's answer about victims."""
        self.rank(wants, now)
        self._dirty.mark_due(wants.app)

    def _withdraw(self, wants: Wants) -> None:
        self._waiting.withdraw(wants)
        self._set_deadline(wants, None)

    def _set_deadline(self, wants: Wants, at: float | None) -> None:
        preempts = isinstance(wants, PreemptionRequest)
        name = Deadline(Awaited.PREEMPTION if preempts else Awaited.RESERVATION, wants.group)
        deadlines = wants.app.deadlines
        if at != deadlines.deadline(name):
            if at is None:
                deadlines.cancel(name)
            else:
                deadlines.set(name, at)
            self._set_timer(wants.app)

    def _set_timer(self, app: Application) -> None:
        timer = Timer(Due.ESCALATE, app.app_id)
        deadline = app.deadlines.next_deadline()
        if deadline is None:
            self._timers.cancel(timer)
        elif deadline != self._timers.deadline(timer):
            self._timers.set(timer, deadline)
