"""The victims of one partition that are under notice."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from licorne_core.extensions.notice import NAME
from licorne_core.extensions.notice.events import victim_noticed
from licorne_core.extensions.notice.messages import Notice, NoticesGiven, Withdrawal
from licorne_core.handlers.outcome import Outcome, Told
from licorne_core.messages.preemption import PreemptionRule
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import Request, RequestEvent, RequestState, seconds_lost
from licorne_core.partitions.partition import Partition
from licorne_core.points import Extension
from licorne_core.scheduling.rules import CheckContext
from licorne_core.scheduling.stays import Stay
from licorne_core.standard.preemption.extension import preemption_of
from licorne_core.standard.preemption.losses import loss_of
from licorne_core.standard.preemption.stopping import Stop, whom
from licorne_core.values.errors import InvariantBroken
from licorne_core.values.ids import AppId
from licorne_core.values.timers import Due, Timer


class UnderNotice(Stay):
    """Notice that the RM of a victim was given; times are in unix seconds."""

    __slots__ = ("_losses", "app", "deadline", "has_answered", "is_final", "needed", "pledged", "unit")

    def __init__(self, stop: Stop, deadline: float, lost: float) -> None:
        """Without an answer the victim is stopped at the deadline."""
        request, partition = stop.request, stop.partition
        timer = Timer(Due.EXTENSION, stop.app.app_id, request.key, name=NAME)
        record = replace(stop.record, noticed_time=stop.now)
        super().__init__(record, deadline, "under notice", partition.timers, timer)
        self.deadline = deadline
        self.app = stop.app
        self.unit: Sequence[Request] = stop.unit
        self.needed = stop.needed
        self.pledged = loss_of(request.ask.ask_class.items, lost)
        """Loss of the victim that counts in its leaf meanwhile."""
        self.has_answered = False
        """True if the RM has named another time, or was ready."""
        self.is_final = False
        """True once another of its unit was stopped: it is not spared any more."""
        self._losses = preemption_of(stop.partition.check_context).losses
        self._losses.pledge(stop.app.leaf.path, self.pledged)

    def end(self, stays: Mapping[Request, Stay], *, stopped: bool) -> None:
        """Nothing of it is awaited; of a unit all are stopped once one is."""
        super().end(stays, stopped=stopped)
        self._losses.redeem(self.app.leaf.path, self.pledged)
        if stopped and not self.is_final:
            for one in self.unit:
                other = stays.get(one)
                if isinstance(other, UnderNotice):
                    other.is_final = True


class TheRm(Told):
    """What the RM is told of victims of a partition."""

    def __init__(self) -> None:
        """Start with nothing."""
        self.notices: list[Notice] = []
        self.withdrawn: list[Withdrawal] = []

    def effect(self, partition: Partition) -> NoticesGiven:
        """All notices, and all that were withdrawn."""
        return NoticesGiven(
            rm_id=partition.rm_id,
            partition=partition.name,
            notices=self.notices,
            withdrawn=self.withdrawn,
        )


def told_of(outcome: Outcome, partition: Partition) -> TheRm:
    """What the RM is told with the outcome."""
    told = outcome.told.get((NAME, partition))
    if not isinstance(told, TheRm):
        told = outcome.told[NAME, partition] = TheRm()
    return told


class Notices(Extension):
    """Puts the stops of victims off, and counts notices, answers and withdrawals."""

    def __init__(self, name: str, bit: int, context: CheckContext) -> None:
        """Start without any."""
        super().__init__(name, bit, context)
        self.given = 0
        self.ready = 0
        """Answers: the victim may be stopped."""
        self.later = 0
        """Answers with a time at which the victim is ready."""
        self.unanswered = 0
        """Victims that were stopped at the deadline, as their RM had not answered."""
        self.withdrawn = 0

    def put_off(self, stop: Any) -> bool:
        """Tell the RM that the victim will be stopped at the deadline, if its leaf has notice."""
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
        told_of(stop.outcome, partition).notices.append(
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
        """Each victim under notice is known as one, and has its time."""
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
