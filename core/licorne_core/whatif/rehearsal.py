"""Rehearsal on the copy: its decisions for one RM, the RM's part, and the horizon.

The horizon is as long as delays of preemption make asks and queues wait.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from licorne_core.messages.commands import (
    AnswerPredicates,
    AnswerPreemptions,
    Command,
    Hold,
    NotePredicatesSent,
    PredicateAnswer,
    PreemptionAnswer,
    ReleaseRequest,
    SetHold,
    TerminationType,
    Tick,
    UpdateAllocations,
)
from licorne_core.messages.effects import (
    AllocationsMade,
    AllocationsReleased,
    Effect,
    Happened,
    PredicatesAsked,
    PreemptionsAsked,
    Unfinished,
)
from licorne_core.partitions.partition import Partition
from licorne_core.scheduler import Scheduler
from licorne_core.scheduling.preemption.ledger import PreemptionRecord
from licorne_core.values.asks import Allocation
from licorne_core.values.ids import PartitionName, RmId

DECISIONS = 256
"""Decisions between two looks at the budget."""

FOR_TURNS = 0.7
"""Share of the budget at which the copy decides no more; the rest is for a last look."""

Spent = Callable[[], float]
"""Share of the budget that is spent, from 0.0 to 1.0, measured by the caller."""

_ASKED = frozenset(
    {
        TerminationType.TIMEOUT,
        TerminationType.PREEMPTED_BY_SCHEDULER,
        TerminationType.PLACEHOLDER_REPLACED,
    }
)
"""Terminations by which the core asks for a release; any other one is final (spec § 1.6.10)."""


class Placed(NamedTuple):
    """An allocation, and the seconds until it."""

    partition: PartitionName
    allocation: Allocation
    seconds: float


class Stopped(NamedTuple):
    """A victim of preemption, and the seconds until its RM was asked to stop it."""

    partition: PartitionName
    record: PreemptionRecord
    seconds: float


class Rehearsal:
    """A scheduler that decides for one RM alone, under a clock of its own.

    The RM accepts every node and every choice of victims, and confirms releases when the core has
    nothing left to decide at the moment.
    """

    now: float
    """The copy's time, in unix seconds."""
    placed: list[Placed]
    """The allocations that were made, in order."""
    stopped: list[Stopped]
    """The victims of preemption, in order."""
    is_over: bool
    """True if the budget was spent before everything had happened."""

    def __init__(self, scheduler: Scheduler, rm_id: RmId, now: float, spent: Spent) -> None:
        """Take over a scheduler that is given away; `spent` is called before each turn."""
        self.scheduler = scheduler
        self.rm_id = rm_id
        self.now = now
        self.placed = []
        self.stopped = []
        self.is_over = False
        self._start = now
        self._spent = spent
        self._replies: list[Command] = []
        for rm in scheduler.views.rms():
            if rm.rm_id != rm_id:
                # An RM that the core has failed on has neither turns nor deadlines.
                scheduler.handle(SetHold(rm_id=rm.rm_id, hold=Hold.DEFECT, on=True), now)

    @property
    def partitions(self) -> list[Partition]:
        """The partitions that the RM has now."""
        known = self.scheduler.partitions.values()
        return [partition for partition in known if partition.rm_id == self.rm_id]

    @property
    def holds(self) -> tuple[str, ...]:
        """Reason that nothing is scheduled for the RM; the same in all its partitions."""
        held = dict.fromkeys(hold.value for one in self.partitions for hold in one.holds)
        return tuple(held)

    def has_left(self, share: float) -> bool:
        """True if less than that share of the budget is spent. If not, the plan is not complete."""
        has_left = self._spent() < share
        self.is_over = self.is_over or not has_left
        return has_left

    def carry_out(self, command: Command) -> list[Effect]:
        """Have a command handled to its end; its effects."""
        effects: list[Effect] = []
        rest: Command | None = command
        while rest is not None:
            told = self.scheduler.handle(rest, self.now)
            last = told.pop() if told and isinstance(told[-1], Unfinished) else None
            rest = last.rest if isinstance(last, Unfinished) else None
            effects += told
        self._hear(effects)
        return effects

    def go_on(self, end: float, is_done: Callable[[], bool]) -> None:
        """Play the copy until the time `end`, or until there is nothing to wait for."""
        self._settle()
        while not (self.is_over or is_done()):
            deadline = self.scheduler.next_deadline()
            if deadline is None or deadline > end:
                return
            self.now = max(self.now, deadline)
            self._settle()

    def _settle(self) -> None:
        """Let the core decide, and the RM reply, until nothing more happens at this moment."""
        while self.has_left(FOR_TURNS):
            deadline = self.scheduler.next_deadline()
            if deadline is not None and deadline <= self.now:
                self._hear(self.scheduler.handle(Tick(decisions=DECISIONS), self.now))
            elif self._replies:
                replies, self._replies = self._replies, []
                for reply in replies:
                    self.carry_out(reply)
            else:
                return

    def _hear(self, effects: Iterable[Effect]) -> None:
        seconds = self.now - self._start
        for effect in effects:
            if isinstance(effect, Happened) or effect.rm_id != self.rm_id:
                continue
            if isinstance(effect, AllocationsMade):
                name = effect.partition
                self.placed += [Placed(name, made, seconds) for made in effect.allocations]
            elif isinstance(effect, AllocationsReleased):
                self._hear_releases(effect, seconds)
            elif isinstance(effect, PredicatesAsked):
                self._answer_predicates(effect)
            elif isinstance(effect, PreemptionsAsked):
                self._answer_preemptions(effect)

    def _hear_releases(self, effect: AllocationsReleased, seconds: float) -> None:
        confirmed = []
        for told in effect.releases:
            if told.termination not in _ASKED:
                continue
            if told.termination is TerminationType.PREEMPTED_BY_SCHEDULER:
                found = self.scheduler.views.preemption(effect.partition, told.app_id, told.key)
                if found is not None:
                    self.stopped.append(Stopped(effect.partition, found, seconds))
            release = ReleaseRequest(
                app_id=told.app_id,
                key=told.key,
                termination=told.termination,
                partition=effect.partition,
            )
            confirmed.append(release)
        if confirmed:
            self._replies.append(UpdateAllocations(rm_id=self.rm_id, releases=confirmed))

    def _answer_predicates(self, effect: PredicatesAsked) -> None:
        answers = [PredicateAnswer(asked.check) for asked in effect.checks]
        self._replies += [
            NotePredicatesSent(rm_id=self.rm_id, check=answers[-1].check),
            AnswerPredicates(rm_id=self.rm_id, answers=answers),
        ]

    def _answer_preemptions(self, effect: PreemptionsAsked) -> None:
        """On each node as few victims have to go as the core has asked for."""
        answers = [
            PreemptionAnswer(asked.check, {node.node_id: node.start for node in asked.nodes})
            for asked in effect.checks
        ]
        self._replies += [
            NotePredicatesSent(rm_id=self.rm_id, check=answers[-1].check),
            AnswerPreemptions(rm_id=self.rm_id, answers=answers),
        ]


MARGIN = 5.0
"""Seconds behind the last delay: a node is reserved for an ask after two (spec § 8.5), and queues
above their maxima are looked at each second (§ 9.6)."""

MOST_AHEAD = 3600.0
"""Seconds that a plan looks ahead at most."""


def seconds_ahead(partitions: Iterable[Partition], now: float) -> float:
    """The seconds until the last delay has passed, and a margin; 0.0 where nothing waits.

    The waits are those of asks, for `preemption.delay`, and queues above a lowered maximum, for their
    `quota.preemption.delay`.
    """
    delays = [0.0]
    for partition in partitions:
        for queue in partition.tree.all():
            if queue.is_leaf and queue.pending:
                delays.append(queue.settings.preemption_delay + MARGIN)
            start = partition.quota_clock.start(queue)
            if start:
                delays.append(max(0.0, start - now) + MARGIN)
    return max(delays)


def has_nothing_to_wait_for(partitions: Iterable[Partition]) -> bool:
    """True if no ask is pending, and no queue above its maximum has its turn to come."""
    return not any(p.tree.root.pending or p.quota_clock.is_waiting for p in partitions)
