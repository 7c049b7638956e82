"""Searches for victims, and questions to the RM that are open (spec §§ 8.4, 9.2, 9.4).

An ask may preempt others when it is old enough, and a queue's maximum or the lack of a node stops
it. A failed search is repeated after a while, if the books have changed by then. The searches of one
turn are bounded, by leaf and by work, so that an ask that preemption cannot help does not slow others.

A pass never waits for an answer of the RM. The deadline of an answer starts when the question is
written to the RM, and questions that were written together share a deadline.
"""

from collections.abc import Sized
from math import inf
from typing import NamedTuple

from licorne_core.messages.effects import (
    AskedCheck,
    AskedNode,
    AskedPreemption,
    AskedVictim,
    Effect,
    PredicatesAsked,
    PreemptionsAsked,
)
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.groups import AgedAsks, AskGroup, waits
from licorne_core.model.apps.requests import Place, Request
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.queue import Queue
from licorne_core.model.rm_context import RmContext
from licorne_core.scheduling.preemption import Law, Plan, PreemptionSearch, Refusal
from licorne_core.scheduling.preemption.victims import Victim
from licorne_core.scheduling.waiting.blockers import Blocker, Blockers, OfThing
from licorne_core.scheduling.waiting.shortages import Kept
from licorne_core.values.ids import PartitionName, rm_of
from licorne_core.values.timers import Due, Timer, Timers

SEARCH_INTERVAL = 15.0
"""Seconds from a failed search for victims to the next one (spec § 9.2)."""

ANY_VERSION = -1
"""Version that allows a search at any time."""


class PreemptionRequest(AgedAsks):
    """The asks of a group that may preempt others (spec § 9.2).

    After a failed search it pauses for a while. If nodes are reserved for others, it waits for
    these.
    """

    __slots__ = ("is_asking", "refusal", "refused", "searched_at", "searched_for", "waits_for", "waits_until")

    step = 2

    def __init__(self, group: AskGroup, now: float) -> None:
        """Start with all asks of the group."""
        self.searched_at = ANY_VERSION
        """Version of the last failed search: the same search would fail again."""
        self.searched_for: Request | None = None
        """The ask that this search was for."""
        self.refusal: Refusal | None = None
        """Refusal of the last search; None if it succeeded."""
        self.refused: dict[Node, None] = {}
        """Nodes refused by the RM since the last search that stopped victims or failed."""
        self.is_asking = False
        """True if the RM is being asked which victims have to go."""
        self.waits_for: Kept | None = None
        """The kept nodes that it waits for, if it does."""
        self.waits_until = -inf
        """Time at which it has waited long enough for them, in unix seconds."""
        super().__init__(group, now)

    def age(self) -> float:
        """`preemption.delay` of the leaf."""
        delay: float = self.app.leaf.settings.preemption_delay
        return delay

    def qualifies(self, place: Place) -> bool:
        """True if the ask may preempt others, and has not done so."""
        request = place.request
        return waits(place) and request.ask.allow_preempt_other and not request.triggered

    def rests(self, now: float) -> bool:
        """True while the RM is asked about victims, too."""
        return self.is_asking or super().rests(now)

    def held_until(self, now: float) -> float | None:
        """The end of the time that follows stops in vain."""
        in_vain = self.group.refused_stops
        until: float | None = None if in_vain is None or now >= in_vain.until else in_vain.until
        return until

    def end_wait(self, now: float) -> bool:
        """It has waited long enough for kept nodes."""
        if self.waits_for is None or now < self.waits_until:
            return False
        self.waits_for = None
        return True

    def next_time(self, now: float) -> float | None:
        """Time at which the next ask is old enough, or the wait for kept nodes ends."""
        maturing = super().next_time(now)
        if self.waits_for is None:
            return maturing
        return self.waits_until if maturing is None else min(maturing, self.waits_until)


def preemption_request_of(group: AskGroup) -> PreemptionRequest | None:
    """The group's request for victims, if it has one."""
    wants = group.remedy_requests.get(PreemptionRequest)
    return wants if isinstance(wants, PreemptionRequest) else None


class Call:
    """A question to the RM."""

    __slots__ = ("behind", "number", "proposal", "sent_at", "sent_with")

    def __init__(self, number: int) -> None:
        """Start unwritten."""
        self.behind = 0
        """Number of asks that waited for answers when the question was put."""
        self.sent_at = 0.0
        """Time of its writing, in unix seconds; 0 before."""
        self.number = number
        """Number of the question, ascending within a registration."""
        self.sent_with = 0
        """Number of the last question written together with this one; 0 before it is written."""
        self.proposal: Proposal | None = None
        """The proposal that waits for the answer, if any."""


class OpenCalls:
    """The open questions of one partition, of all kinds.

    Always true: every open question that was written to the RM has a deadline.
    """

    def __init__(self, partition: PartitionName, rm: RmContext, timers: Timers[Timer]) -> None:
        """Start empty."""
        self._partition = partition
        self._rm = rm
        self._timers = timers
        self._open: dict[int, Call] = {}
        # The open questions that were written together, by the number of the last of them.
        self._sent: dict[int, dict[int, None]] = {}
        # Open questions that are in no effect yet.
        self._unsaid: list[AskedCheck | AskedPreemption] = []

    @property
    def numbers(self) -> list[int]:
        """Numbers of the open questions, ascending."""
        return list(self._open)

    def next_number(self) -> int:
        """Number of a new question; the caller opens it at once."""
        return self._rm.open_check(self._partition)

    def open(self, call: Call, asked: AskedCheck | AskedPreemption) -> None:
        """Open a question; `asked` is its part of an effect."""
        self._open[call.number] = call
        self._unsaid.append(asked)

    def take_unsaid(self) -> list[Effect]:
        """Effects for questions that are in no effect yet: those about nodes first."""
        unsaid, policy = self._unsaid, self._rm.predicates
        if not unsaid or policy is None:
            return []
        self._unsaid = []
        name, rm_id, deadline = self._partition, rm_of(self._partition), policy.deadline
        effects: list[Effect] = []
        nodes = [one for one in unsaid if isinstance(one, AskedCheck)]
        if nodes:
            effects.append(PredicatesAsked(rm_id=rm_id, partition=name, checks=nodes, deadline=deadline))
        victims = [one for one in unsaid if isinstance(one, AskedPreemption)]
        if victims:
            effects.append(PreemptionsAsked(rm_id=rm_id, partition=name, checks=victims, deadline=deadline))
        return effects

    def find(self, number: int) -> Call | None:
        """Open question of the number, if any."""
        return self._open.get(number)

    def is_awaited(self, call: Call) -> bool:
        """True if the question is open, and has a deadline if it was written."""
        if self._open.get(call.number) is not call:
            return False
        return not call.sent_with or Timer(Due.ANSWER, check=call.sent_with) in self._timers

    def note_sent(self, numbers: list[int], now: float) -> None:
        """Start the deadline of questions that were written together; `numbers` ascend."""
        policy, last = self._rm.predicates, numbers[-1]
        assert policy is not None, "an RM that has no predicates is not asked"
        for number in numbers:
            call = self._open[number]
            call.sent_with, call.sent_at = last, now
        self._sent[last] = dict.fromkeys(numbers)
        self._timers.set(Timer(Due.ANSWER, check=last), now + policy.deadline)

    def overdue(self, last: int) -> list[int]:
        """Numbers of the unanswered questions that were written together with `last`, ascending."""
        return list(self._sent[last])

    def close(self, number: int) -> Call | None:
        """Close a question and return it; None if it is not open."""
        call = self._open.pop(number, None)
        if call is None:
            return None
        self._rm.close_check(number)
        if call.sent_with:
            together = self._sent[call.sent_with]
            del together[number]
            if not together:
                del self._sent[call.sent_with]
                self._timers.cancel(Timer(Due.ANSWER, check=call.sent_with))
        return call


MAX_ASSUMED = 1024
"""Most asks of a partition that wait for answers at a time; others are not tried meanwhile."""

MAX_ASSUMED_IN_SILENCE = 8
"""The same for an RM that missed the last deadline, until it answers again."""

MORE_WHILE_QUICK = 8
"""Factor of `MAX_ASSUMED` for an RM that is quick: it goes on judging while its answers are on their way."""

QUICK_PART = 0.5
"""Part of the deadline within which a quick RM answers so many checks."""


class AnswersOwed(Blocker):
    """Blocks asks with a predicate while too many wait for answers of the RM."""

    __slots__ = ("_waiting", "is_quick", "is_silent")

    def __init__(self, waiting: Sized) -> None:
        """Observe the waiting requests."""
        super().__init__()
        self._waiting = waiting
        self.is_quick = False
        """True if the RM was quick in its last answer to a check that had many others before it."""
        self.is_silent = False
        """True if the RM missed the last deadline, and a missing answer counts as refusal."""

    @property
    def most(self) -> int:
        """Most requests that wait for answers at a time."""
        if self.is_silent:
            return MAX_ASSUMED_IN_SILENCE
        return MAX_ASSUMED * (MORE_WHILE_QUICK if self.is_quick else 1)

    def lets_through(self) -> bool:
        """True if another ask may wait."""
        return len(self._waiting) < self.most

    def answered(self, call: Call, now: float, deadline: float) -> None:
        """Note that the RM has answered in time; a deadline takes so many seconds.

        A check that had few others before it says nothing about the speed of the RM.
        """
        self.is_silent = False
        if call.sent_with and call.behind >= MAX_ASSUMED // 2:
            for_all = (now - call.sent_at) * MAX_ASSUMED * MORE_WHILE_QUICK / call.behind
            self.is_quick = for_all <= deadline * QUICK_PART


MOST_SEARCHES = 10
"""Most searches for the asks of a leaf in one turn (spec § 9.2)."""

MOST_QUESTIONS = 128
"""Most asks of a partition with an open question about victims, or about their nodes."""

MOST_PLANS = 10
"""Most nodes in a question about victims (spec § 9.4.5)."""

ALLOCATIONS_OF_A_TRY = 8
"""Allocations whose examination costs as much as trying one ask."""

DOES_NOT_HELP = "Preemption does not help"
REASONS = {
    Law.NO_GUARANTEE: "Preemption queue guarantees check failed",
    Law.OVER_GUARANTEE: "Preemption queue guarantees check failed",
    Law.GANG_INCOMPLETE: "Preemption helped but short of resources",
    Law.NOT_ENOUGH: "Preemption helped but short of resources",
}
"""Log texts of an ask for search outcomes other than "preemption does not help"."""


class ToPreempt(NamedTuple):
    """A decision: stop the victims of one of these plans for the ask; the best plan is first."""

    app: Application
    request: Request
    plans: tuple[Plan, ...]


class ToClear(NamedTuple):
    """A decision: stop these victims for an ask that requires the node (§ 9.5)."""

    app: Application
    request: Request
    node: Node
    victims: tuple[Victim, ...]


class Proposal(NamedTuple):
    """Plans for an ask of a preemption request; the RM is asked about them."""

    app: Application
    wants: PreemptionRequest
    request: Request
    plans: tuple[Plan, ...]

    @property
    def unknown(self) -> list[Node]:
        """Nodes of the plans on which the RM has not judged the ask yet."""
        name = (self.request.ask.ask_class, False)
        return [plan.node for plan in self.plans if name not in plan.node.results]

    def upto_known(self) -> "Proposal":
        """The proposal cut after the first plan whose node the RM is known to accept."""
        name = (self.request.ask.ask_class, False)
        for index, plan in enumerate(self.plans):
            if plan.node.results.get(name) == "":
                return self._replace(plans=self.plans[: index + 1])
        return self


class PreemptionCall(Call):
    """A question to the RM: which victims of a proposal are to stop."""

    __slots__ = ()

    def __init__(self, number: int, proposal: Proposal) -> None:
        """Start unanswered."""
        super().__init__(number)
        self.proposal = proposal


class NextTurn(OfThing):
    """The leaf has used up its searches of this turn."""

    __slots__ = ("_preemption",)

    def __init__(self, leaf: Queue, blockers: Blockers, preemption: "Preemption") -> None:
        """Start without blocked asks."""
        super().__init__(leaf, blockers)
        self._preemption = preemption

    def lets_through(self) -> bool:
        """True if the leaf has a search left."""
        return self._preemption.has_search(self.thing)


class QuestionsOpen(Blocker):
    """Blocks asks with a victim question while too many questions are open."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        """Start without open questions."""
        super().__init__()
        self.count = 0
        """Number of open victim questions of this partition."""

    def lets_through(self) -> bool:
        """True if it may be asked for another one."""
        return self.count < MOST_QUESTIONS


class Preemption:
    """The victim searches of one partition, and their open questions to the RM."""

    def __init__(self, search: PreemptionSearch, rm: RmContext, blockers: Blockers, *, enabled: bool) -> None:
        """Start without searches; if not `enabled`, only asks that require a node preempt (spec § 9.5)."""
        self.search = search
        self._blockers = blockers
        self.enabled = enabled
        self._rm = rm
        self._searches: dict[Queue, int] = {}
        self.questions_open = QuestionsOpen()
        """Blocks asks with a victim question while too many questions are open."""

    @property
    def work(self) -> int:
        """Cost of all searches so far, in tries."""
        return self.search.work // ALLOCATIONS_OF_A_TRY

    def begin_turn(self) -> list[NextTurn]:
        """Allow all leaves their searches again; return the blockers of asks that wait for this."""
        if not self._searches:
            return []
        self._searches.clear()
        return list(self._blockers.of(NextTurn).values())

    @property
    def is_postponed(self) -> bool:
        """True if a search is postponed to the next turn."""
        if not self._searches:
            return False
        return any(not blocker.lets_through() for blocker in self._blockers.of(NextTurn).values())

    def has_search(self, leaf: Queue) -> bool:
        """True if the leaf has a search left in this turn."""
        return self._searches.get(leaf, 0) < MOST_SEARCHES

    def count_search(self, leaf: Queue) -> None:
        """Count a search of the leaf."""
        self._searches[leaf] = self._searches.get(leaf, 0) + 1

    def next_turn(self, leaf: Queue) -> NextTurn:
        """Blocker of the leaf's searches until the next turn."""
        return self._blockers.get(NextTurn, leaf, self)

    def asks_rm(self, request: Request) -> bool:
        """True if the RM is asked before any victim of the request is stopped (spec § 9.4.5).

        It chooses among the victims, or judges the nodes.
        """
        return self._rm.predicates is not None and request.ask.ask_class.predicate is not None

    @property
    def rm_judges_victims(self) -> bool:
        """True if the RM is asked about victims, too, not only about nodes."""
        policy = self._rm.predicates
        return policy is not None and policy.judges_victims

    def ask(self, calls: OpenCalls, proposal: Proposal) -> None:
        """Ask the RM which victims of the proposal are to stop."""
        call, request = PreemptionCall(calls.next_number(), proposal), proposal.request
        nodes = [_asked_node(plan) for plan in proposal.plans]
        calls.open(call, AskedPreemption(call.number, request.ask.app_id, request.key, nodes))

    def find(self, wants: PreemptionRequest, request: Request, now: float) -> tuple[Plan, ...] | Refusal:
        """Plans for the ask, or the refusal by a law. `now` is in unix seconds."""
        most = MOST_PLANS if self.asks_rm(request) else 1
        in_vain = wants.group.refused_stops
        refused = (*wants.refused, *(() if in_vain is None else in_vain.nodes))
        found = self.search.find(wants.app, request, now, most=most, refused=refused)
        if not isinstance(found, Refusal):
            return tuple(found)
        if found.law is Law.RM_REFUSED and wants.refused:
            # The RM may accept next time.
            return found._replace(until=now + SEARCH_INTERVAL)
        return found


def _asked_node(plan: Plan) -> AskedNode:
    offered = [AskedVictim(v.app.app_id, v.request.key) for v in plan.offered]
    return AskedNode(plan.node.node_id, offered, plan.start)
