"""Searches for victims, and questions to the RM about them (spec §§ 8.4, 9.2, 9.4).

An ask may preempt others when it is old enough, and a queue's maximum or the lack of a node stops
it. A failed search is repeated after a while, if the books have changed by then. The searches of one
turn are bounded, by leaf and by work, so that an ask that preemption cannot help does not slow others.
"""

from math import inf
from typing import NamedTuple

from licorne_core.messages.effects import AskedNode, AskedPreemption, AskedVictim
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.groups import AgedAsks, AskGroup, waits
from licorne_core.model.apps.requests import Place, Request
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.queue import Queue
from licorne_core.model.rm_context import RmContext
from licorne_core.scheduling.calls import Call, OpenCalls
from licorne_core.scheduling.preemption import Law, Plan, PreemptionSearch, Refusal
from licorne_core.scheduling.preemption.victims import Victim
from licorne_core.scheduling.waiting.blockers import Blocker, Blockers, OfThing
from licorne_core.scheduling.waiting.shortages import Kept

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


MOST_SEARCHES = 10
"""Most searches for the asks of a leaf in one turn (spec § 9.2)."""

MOST_QUESTIONS = 128
"""Most asks of a partition with an open question about victims, or about their nodes."""

MOST_PLANS = 10
"""Most nodes in a question about victims (spec § 9.4.5)."""

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

    __slots__ = ("proposal",)

    def __init__(self, number: int, proposal: Proposal) -> None:
        """Start unanswered."""
        super().__init__(number)
        self.asker = self.proposal = proposal


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
        self.searches: dict[Queue, int] = {}
        """Searches of this turn, by leaf."""
        self.questions_open = QuestionsOpen()
        """Blocks asks with a victim question while too many questions are open."""

    def begin_turn(self) -> list[NextTurn]:
        """Allow all leaves their searches again; return the blockers of asks that wait for this."""
        self.searches.clear()
        return list(self._blockers.of(NextTurn).values())

    @property
    def is_postponed(self) -> bool:
        """True if a search is postponed to the next turn."""
        return any(not blocker.lets_through() for blocker in self._blockers.of(NextTurn).values())

    def has_search(self, leaf: Queue) -> bool:
        """True if the leaf has a search left in this turn."""
        return self.searches.get(leaf, 0) < MOST_SEARCHES

    def count_search(self, leaf: Queue) -> None:
        """Count a search of the leaf."""
        self.searches[leaf] = self.searches.get(leaf, 0) + 1

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
