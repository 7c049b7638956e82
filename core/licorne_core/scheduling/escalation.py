"""What is done for asks as time passes: they back off, or have a node reserved (spec §§ 8.3a, 8.5).

Each application has one heap of deadlines, and the partition one timer for the first of them.
"""

from licorne_core.apps.application import Application
from licorne_core.apps.groups import AskGroup, ReservationRequest
from licorne_core.scheduling.blockers import BackOff
from licorne_core.scheduling.waiting import Waiting
from licorne_core.timers import Due, Timer, Timers


class Escalation:
    """The deadlines of the applications of one partition, and what happens at them.

    Always true: an application that backs off has a `BackOff`, and a deadline for its end. A
    reservation request is ranked if one of its asks is old enough; it may stay ranked after that
    ask has gone, until it is tried.
    """

    __slots__ = ("_back_offs", "_timers", "_waiting")

    def __init__(self, waiting: Waiting, timers: Timers[Timer]) -> None:
        """Nobody has a deadline."""
        self._waiting = waiting
        self._timers = timers
        self._back_offs: dict[Application, BackOff] = {}

    def start_back_off(self, app: Application, until: float) -> None:
        """The application is not tried before then, in unix seconds."""
        app.backoff_until = until
        self._back_offs[app] = BackOff(app)
        app.deadlines.set(None, until)
        self._set_timer(app)

    def back_off(self, app: Application) -> BackOff | None:
        """The application's back-off, if there is one."""
        return self._back_offs.get(app) if app.backoff_until else None

    def want_node(self, group: AskGroup, now: float) -> None:
        """The group has found no node: its asks may have one reserved when they are old enough."""
        if group.reservation_request is None:
            group.reservation_request = ReservationRequest(group, now)
            self.rank(group.reservation_request, now)

    def rank(self, wants: ReservationRequest, now: float) -> None:
        """Put a reservation request in its place: just behind its first ask that is old enough."""
        ranking = wants.app.ranking
        wants.mature(now)
        first = wants.first()
        if first is None:
            self._waiting.unpark(wants)
            ranking.discard(wants)
        else:
            key = (*first[:3], 1)
            entry = ranking.entry(wants)
            if entry is None or entry.key != key:
                self._waiting.unpark(wants)
                ranking.put(wants, key)
        deadline = wants.next_time()
        if deadline != wants.app.deadlines.deadline(wants.group):
            if deadline is None:
                wants.app.deadlines.cancel(wants.group)
            else:
                wants.app.deadlines.set(wants.group, deadline)
            self._set_timer(wants.app)

    def forget_group(self, group: AskGroup) -> None:
        """Nothing of the group is pending any more."""
        wants = group.reservation_request
        if wants is not None:
            self._waiting.unpark(wants)
            group.app.ranking.discard(wants)
            group.reservation_request = None
            group.app.deadlines.cancel(group)
            self._set_timer(group.app)

    def forget(self, app: Application) -> None:
        """The application is gone."""
        self._back_offs.pop(app, None)
        self._timers.cancel(Timer(Due.ESCALATE, app.app_id))

    def on_time(self, app: Application, now: float) -> None:
        """Do what the application's deadlines say."""
        while (deadline := app.deadlines.next_deadline()) is not None and deadline <= now:
            group = app.deadlines.take_due(now)
            if group is None:
                app.backoff_until = 0.0
                self._waiting.changed(self._back_offs.pop(app))
            elif group.reservation_request is not None:
                self.rank(group.reservation_request, now)
        self._set_timer(app)

    def _set_timer(self, app: Application) -> None:
        timer = Timer(Due.ESCALATE, app.app_id)
        deadline = app.deadlines.next_deadline()
        if deadline is None:
            self._timers.cancel(timer)
        elif deadline != self._timers.deadline(timer):
            self._timers.set(timer, deadline)
