"""Rehearsal: a copied scheduler decides for one RM with assumed replies, up to a horizon.

The horizon is the time at which the delays of preemption are over.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

from licorne_core.messages.commands import (
    CONFIRMED,
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
from licorne_core.messages.plans import Spent
from licorne_core.messages.preemption import PreemptionRecord, PreemptionRule
from licorne_core.partitions.partition import Partition
from licorne_core.values.asks import Allocation
from licorne_core.values.ids import PartitionName, RmId, normalize_partition, partition_key
from licorne_core.views import Views

DECISIONS = 256
"""Number of decisions between two checks of the budget."""

FOR_TURNS = 0.7
"""Share of the budget at which decisions end; the remainder is for the checks of asks at the end."""


class PlacedAsk(NamedTuple):
    """An allocation, and the seconds until its placement."""

    partition: PartitionName
    allocation: Allocation
    seconds: float


class Stopped(NamedTuple):
    """A victim of preemption, and the seconds until the RM is asked to stop it."""

    partition: PartitionName
    record: PreemptionRecord
    seconds: float


class CopiedCore(Protocol):
    """The copied scheduler."""

    views: Views

    @property
    def partitions(self) -> Mapping[PartitionName, Partition]:
        """See `Scheduler`."""
        ...

    def handle(self, command: Command, now: float) -> list[Effect]:
        """See `Scheduler`."""
        ...

    def next_deadline(self) -> float | None:
        """See `Scheduler`."""
        ...


class Rehearsal:
    """A copied scheduler that decides for only one RM, and has its own clock.

    The RM accepts every node and every choice of victims. It confirms releases whenever the core has no
    decision left.
    """

    now: float
    """Current time of the copy, in unix seconds."""
    placed: list[PlacedAsk]
    """Allocations in the order of placement."""
    stopped: list[Stopped]
    """Victims of preemption in the order of stops."""
    is_cut_short: bool
    """True if the budget was spent before the end."""

    def __init__(
        self, scheduler: CopiedCore, rm_id: RmId, now: float, spent: Spent, decisions: int = DECISIONS
    ) -> None:
        """Rehearse on a scheduler copy, which is changed.

        `spent` is called before each turn, which makes at most `decisions` decisions.
        """
        self.scheduler = scheduler
        self.rm_id = rm_id
        self.now = now
        self.placed = []
        self.stopped = []
        self.is_cut_short = False
        self._start = now
        self._decisions = decisions
        self._spent = spent
        self._replies: list[Command] = []
        for rm in scheduler.views.rms():
            if rm.rm_id != rm_id:
                # This hold stops the turns and deadlines of an RM.
                scheduler.handle(SetHold(rm_id=rm.rm_id, hold=Hold.DEFECT, on=True), now)

    @property
    def partitions(self) -> list[Partition]:
        """Current partitions of the RM."""
        known = self.scheduler.partitions.values()
        return [partition for partition in known if partition.rm_id == self.rm_id]

    def named(self, name: str) -> Partition | None:
        """The RM's partition with this name on the wire; None if there is none."""
        normalized = normalize_partition(self.rm_id, name)
        if normalized is None:
            return None
        key = partition_key(normalized)
        return next((one for one in self.partitions if partition_key(one.name) == key), None)

    @property
    def holds(self) -> tuple[str, ...]:
        """Reasons to schedule nothing for the RM; equal in all its partitions."""
        held = dict.fromkeys(hold.value for one in self.partitions for hold in one.holds)
        return tuple(held)

    def has_budget(self, share: float) -> bool:
        """True if less than `share` of the budget is spent. Otherwise the rehearsal ends incomplete."""
        has_budget = self._spent() < share
        self.is_cut_short = self.is_cut_short or not has_budget
        return has_budget

    def carry_out(self, command: Command) -> list[Effect]:
        """Process a command completely; return its effects."""
        effects: list[Effect] = []
        rest: Command | None = command
        while rest is not None:
            told = self.scheduler.handle(rest, self.now)
            last = told.pop() if told and isinstance(told[-1], Unfinished) else None
            rest = last.rest if isinstance(last, Unfinished) else None
            effects += told
        self._note_effects(effects)
        return effects

    def go_on(self, end: float, is_done: Callable[[], bool]) -> None:
        """Run the copy until `end`, in unix seconds, or until `is_done`."""
        self.settle()
        while not (self.is_cut_short or is_done()):
            deadline = self.scheduler.next_deadline()
            if deadline is None or deadline > end:
                return
            self.now = max(self.now, deadline)
            self.settle()

    def settle(self, is_enough: Callable[[], bool] = lambda: False) -> None:
        """Let the core decide and the RM reply, until nothing more is due now, or `is_enough` is true."""
        while not is_enough() and self.has_budget(FOR_TURNS):
            deadline = self.scheduler.next_deadline()
            if deadline is not None and deadline <= self.now:
                self._note_effects(self.scheduler.handle(Tick(decisions=self._decisions), self.now))
            elif self._replies:
                replies, self._replies = self._replies, []
                for reply in replies:
                    self.carry_out(reply)
            else:
                return

    def _note_effects(self, effects: Iterable[Effect]) -> None:
        seconds = self.now - self._start
        for effect in effects:
            if isinstance(effect, Happened) or effect.rm_id != self.rm_id:
                continue
            if isinstance(effect, AllocationsMade):
                name = effect.partition
                self.placed += [PlacedAsk(name, made, seconds) for made in effect.allocations]
            elif isinstance(effect, AllocationsReleased):
                self._confirm_releases(effect, seconds)
            elif isinstance(effect, PredicatesAsked):
                self._answer_predicates(effect)
            elif isinstance(effect, PreemptionsAsked):
                self._answer_preemptions(effect)

    def _confirm_releases(self, effect: AllocationsReleased, seconds: float) -> None:
        confirmed = []
        for told in effect.releases:
            if told.termination not in CONFIRMED:
                continue
            if told.termination is TerminationType.PREEMPTED_BY_SCHEDULER:
                found = self.scheduler.views.preemption(effect.partition, told.app_id, told.key)
                # A drain would have stopped its victims in any case.
                if found is not None and found.rule is not PreemptionRule.DRAIN:
                    self.stopped.append(Stopped(effect.partition, found, seconds))
            release = ReleaseRequest(
                app_id=told.app_id, key=told.key, termination=told.termination, partition=effect.partition
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
        """Accept every node, each with the necessary victims only."""
        answers = [
            PreemptionAnswer(asked.check, {node.node_id: node.start for node in asked.nodes})
            for asked in effect.checks
        ]
        self._replies += [
            NotePredicatesSent(rm_id=self.rm_id, check=answers[-1].check),
            AnswerPreemptions(rm_id=self.rm_id, answers=answers),
        ]


MARGIN = 5.0
"""Seconds after the last delay: a node is reserved for an ask after two seconds (spec § 8.5), and
queues above their maxima are checked each second (§ 9.6)."""

MOST_AHEAD = 3600.0
"""Maximum horizon, in seconds."""


def seconds_ahead(partitions: Iterable[Partition], now: float) -> float:
    """Seconds until the last delay is over, and a margin; 0.0 without delays.

    The delays are `preemption.delay` of leaves with pending asks, and delays of extensions.
    """
    delays = [0.0]
    for partition in partitions:
        for queue in partition.tree.all():
            if queue.is_leaf and queue.pending:
                delays.append(queue.settings.preemption_delay + MARGIN)
        for extension in partition.points.awaited:
            last = extension.awaited()
            if last:
                delays.append(max(0.0, last - now) + MARGIN)
    return max(delays)


def has_nothing_to_wait_for(partitions: Iterable[Partition]) -> bool:
    """True if no ask is pending, and no extension awaits a time."""
    return not any(
        one.tree.root.pending or any(each.awaited() is not None for each in one.points.awaited)
        for one in partitions
    )
