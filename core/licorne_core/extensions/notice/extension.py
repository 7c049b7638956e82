"""The victims of one partition that are under notice."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from licorne_core.extensions.notice import NAME
from licorne_core.extensions.notice.events import victim_noticed
from licorne_core.extensions.notice.messages import Notice, NoticesGiven, Withdrawal
from licorne_core.handlers.outcome import Notifications, Outcome
from licorne_core.messages.preemption import PreemptionRule
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import Request, RequestEvent, RequestState, seconds_lost
from licorne_core.model.queues.queue import Queue
from licorne_core.partitions.partition import Partition
from licorne_core.points import Extension, Former
from licorne_core.scheduling.rules import CheckContext
from licorne_core.scheduling.stays import Stay
from licorne_core.standard.preemption.extension import preemption_of
from licorne_core.standard.preemption.losses import loss_of
from licorne_core.standard.preemption.stopping import Stop, whom
from licorne_core.values.errors import InvariantBroken
from licorne_core.values.ids import AppId
from licorne_core.values.timers import Due, Timer


class UnderNotice(Stay):
    """Notice of a victim to its RM; times are in unix seconds."""

    __slots__ = ("_losses", "app", "deadline", "has_answered", "is_final", "needed", "pledged", "unit")

    def __init__(self, stop: Stop, deadline: float, lost: float) -> None:
        """Create a notice; without an answer the victim is stopped at the deadline."""
        request, partition = stop.request, stop.partition
        timer = Timer(Due.EXTENSION, stop.app.app_id, request.key, name=NAME)
        record = replace(stop.record, noticed_time=stop.now)
        super().__init__(record, deadline, "under notice", partition.timers, timer)
        self.deadline = deadline
        self.app = stop.app
        self.unit: Sequence[Request] = stop.unit
        self.needed = stop.needed
        self.pledged = loss_of(request.ask.ask_class.items, lost)
        """Loss of the victim that counts in its leaf during the notice."""
        self.has_answered = False
        """True if the RM has given another time, or reported the victim as ready."""
        self.is_final = False
        """True once another member of its unit was stopped: the victim cannot be spared any more."""
        self._losses = preemption_of(stop.partition.check_context).losses
        self._losses.pledge(stop.app.leaf.path, self.pledged)

    def end(self, stays: Mapping[Request, Stay], *, stopped: bool) -> None:
        """End the notice. If one member of a unit is stopped, all members have to be stopped."""
        super().end(stays, stopped=stopped)
        self._losses.redeem(self.app.leaf.path, self.pledged)
        if stopped and not self.is_final:
            for one in self.unit:
                other = stays.get(one)
                if isinstance(other, UnderNotice):
                    other.is_final = True


class NoticeNotifications(Notifications):
    """Notices to the RM about victims of a partition."""

    def __init__(self) -> None:
        """Start without notices."""
        self.notices: list[Notice] = []
        self.withdrawn: list[Withdrawal] = []

    def effect(self, partition: Partition) -> NoticesGiven:
        """All notices, and all withdrawn ones."""
        return NoticesGiven(
            rm_id=partition.rm_id, partition=partition.name, notices=self.notices, withdrawn=self.withdrawn
        )


def notifications_in(outcome: Outcome, partition: Partition) -> NoticeNotifications:
    """The notices that are sent with the outcome."""
    found = outcome.notifications.get((NAME, partition))
    if not isinstance(found, NoticeNotifications):
        found = outcome.notifications[NAME, partition] = NoticeNotifications()
    return found


class Notices(Extension):
    """Delays the stops of victims, and counts notices, answers and withdrawals."""

    def __init__(self, name: str, bit: int, context: CheckContext) -> None:
        """Start without notices."""
        super().__init__(name, bit, context)
        self.given = 0
        self.ready = 0
        """Number of answers that a victim may be stopped."""
        self.later = 0
        """Number of answers with a time at which a victim will be ready."""
        self.unanswered = 0
        """Number of victims that were stopped at the deadline without an answer from their RM."""
        self.withdrawn = 0

    def settled(self, queue: Queue, before: Former | None, now: float) -> None:
        """Mark leaves with notice: stops of their victims are delayed."""
        if queue.settings.of(NAME):
            queue.interests |= self.bit
        else:
            queue.interests &= ~self.bit

    def put_off(self, stop: Any) -> bool:
        """Delay the stop and notify the RM of its deadline, if the leaf of the victim has notice."""
        assert isinstance(stop, Stop)
        seconds: float = stop.app.leaf.settings.of(NAME) or 0.0
        runs = stop.request.state is RequestState.ALLOCATED
        if seconds and runs and stop.record.rule is not PreemptionRule.DRAIN:
            self._give(stop, stop.now + seconds)
            return True
        return False

    def _give(self, stop: Stop, deadline: float) -> None:
        partition, app, request, now = stop.partition, stop.app, stop.request, stop.now
        leaf = partition.leaf_of(app)
        lost = seconds_lost(
            request, preemption_of(partition.check_context).search.assumed_checkpoint(leaf), now
        )
        partition.moves.move(app, request, RequestEvent.NOTIFY)
        under = partition.stays[request] = UnderNotice(stop, deadline, lost)
        queue, record = stop.record.beneficiary_queue, under.record
        notifications_in(stop.outcome, partition).notices.append(
            Notice(
                app_id=app.app_id,
                key=request.key,
                deadline=deadline,
                queue=leaf.path if queue is None else queue.path,
                beneficiary_app_id=record.beneficiary_app_id,
                beneficiary_key=record.beneficiary_key,
                lost=max(0.0, lost),
            )
        )
        self.given += 1
        partition.journal.note(victim_noticed(now, request.ask, whom(record), deadline))

    def recount(self, applications: Mapping[AppId, Application], *, settled: bool) -> None:
        """Check that each victim under notice has its state, and a deadline."""
        stays = self.context.stays
        noticed = [
            request
            for app in applications.values()
            for request in app.requests.values()
            if request.state is RequestState.NOTICED
        ]
        if {*noticed} != {*stays}:
            raise InvariantBroken(f"A4: {noticed} are under notice, known are {[*stays]}")
        for request in noticed:
            if Timer(Due.EXTENSION, request.ask.app_id, request.key, name=NAME) not in self.timers:
                raise InvariantBroken(f"L1: {request!r} is under notice without an end")


KIND: Final = Notices
