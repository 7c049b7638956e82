"""The remedy of preemption: victims are stopped for an ask (spec §§ 9.2, 9.5).

The searches of one turn are bounded, by leaf and by work, so that an ask that preemption cannot help does not
delay others. A pass never waits for an answer of the RM.
"""

from itertools import islice
from typing import Any

from licorne_core.model.apps.application import Application, Asking
from licorne_core.model.apps.groups import SEARCH_INTERVAL, AskGroup, waits
from licorne_core.model.apps.requests import AskPlace, Request
from licorne_core.model.apps.states import SCHEDULABLE
from licorne_core.model.queues.guarantees import held_by
from licorne_core.model.queues.queue import Queue
from licorne_core.model.quotas import Quota, excess
from licorne_core.model.rm_context import RmContext
from licorne_core.scheduling.checks import application_blocker, ask_blocker
from licorne_core.scheduling.measures import REFUSAL_TIME, Remedy, is_cluster
from licorne_core.scheduling.rules import CheckContext, RulePlace
from licorne_core.scheduling.waiting.blockers import Blocker, Blockers, FullRoot, OfThing
from licorne_core.scheduling.waiting.shortages import NodesReserved, QuotaShortage
from licorne_core.standard.preemption.covering import required_node_victims, stays_too_full
from licorne_core.standard.preemption.decisions import ToClear, ToPreempt
from licorne_core.standard.preemption.keys import RECLAIM
from licorne_core.standard.preemption.laws import Law
from licorne_core.standard.preemption.planning import VictimPlan
from licorne_core.standard.preemption.requests import (
    ANY_VERSION,
    PreemptionRequest,
    pause,
    preemption_request_of,
    wait_for,
)
from licorne_core.standard.preemption.search import PreemptionSearch, SearchRefusal
from licorne_core.standard.preemption.together import MOST_TOGETHER, times
from licorne_core.values.app_states import AppState
from licorne_core.values.resources import Items

MOST_SEARCHES = 10
"""Maximum number of searches for the asks of a leaf in one turn (spec § 9.2)."""

MOST_APPLICATIONS, MOST_ASKS = 64, 64
"""Maximum number of the leaf's latest other applications, and of asks of each, compared to one ask."""

MOST_QUESTIONS = 128
"""Maximum number of asks of a partition with an open question about victims, or about their nodes."""

MOST_PLANS = 10
"""Maximum number of nodes in a question about victims (spec § 9.4.5)."""

NO_FIT_ON_REQUIRED_NODE = "No fit on required node, preemption does not help"
DOES_NOT_HELP = "Preemption does not help"
REASONS = {
    Law.NO_GUARANTEE: "Preemption queue guarantees check failed",
    Law.OVER_GUARANTEE: "Preemption queue guarantees check failed",
    Law.OVER_FAIR_SHARE: "Preemption queue guarantees check failed",
    Law.GANG_INCOMPLETE: "Preemption helped but short of resources",
    Law.NOT_ENOUGH: "Preemption helped but short of resources",
}
"""Log texts of an ask for search outcomes other than "preemption does not help"."""


class NextTurn(OfThing):
    """Blocks asks of a leaf that has used up its searches of this turn."""

    __slots__ = ("_remedy",)

    def __init__(self, leaf: Queue, blockers: Blockers, remedy: "Preempting") -> None:
        """Start without blocked asks."""
        super().__init__(leaf, blockers)
        self._remedy = remedy

    def lets_through(self) -> bool:
        """True if the leaf may search again in this turn."""
        return self._remedy.has_search(self.thing)


class QuestionsOpen(Blocker):
    """Blocks asks with a victim question while too many questions are open."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        """Start without open questions."""
        super().__init__()
        self.count = 0
        """Number of open victim questions of this partition."""

    def lets_through(self) -> bool:
        """True if another question may be opened."""
        return self.count < MOST_QUESTIONS


class Preempting(Remedy):
    """Stops victims for an ask."""

    def __init__(self, context: CheckContext, search: PreemptionSearch) -> None:
        """Start without searches."""
        super().__init__(context)
        self.search = search
        # Stored twice: in compiled code `search` has the wider type that `Remedy` declares.
        self._victims: PreemptionSearch = search
        self.enabled = False
        """True if all asks may preempt; False if only asks that require a node may (spec § 9.5)."""
        self._rm: RmContext = context.rm
        self._blockers: Blockers = context.wakeups.blockers
        self.used = self._searches = dict[Queue, int]()
        self.questions_open = QuestionsOpen()
        """Blocks asks with a victim question while too many questions are open."""
        self._blockers.add(self, self.questions_open)

    def begin_turn(self) -> list[NextTurn]:
        """Reset the searches of all leaves; return the blockers of asks that wait for the reset."""
        self._searches.clear()
        return list(self._blockers.of(NextTurn).values())

    @property
    def is_postponed(self) -> bool:
        """True if a search has to wait for the next turn."""
        return any(not blocker.lets_through() for blocker in self._blockers.of(NextTurn).values())

    def has_search(self, leaf: Queue) -> bool:
        """True if the leaf may search again in this turn."""
        return self._searches.get(leaf, 0) < MOST_SEARCHES

    def helps(self, group: AskGroup, over: Quota | None, *, is_held: bool) -> bool:
        """True if asks without a required node exceed the maximum of a queue, or fit no node."""
        is_ours = over is None or isinstance(over, Queue)
        return is_ours and not is_held and self.enabled and group.ask_class.required_node is None

    def decide(self, wants: PreemptionRequest, request: Request, now: float) -> ToPreempt | Blocker | None:
        """The plans with victims to stop (spec § 9.2), or the blocker; None during a pause."""
        context, app = self.context, wants.app
        leaf: Queue = app.leaf
        blocker = stops_preemption(context, app, wants.group) or self._kept(leaf, wants, request, now)
        if blocker is not None:
            return blocker
        if self.asks_rm(request) and not self.questions_open.lets_through():
            return self.questions_open
        if not self.has_search(leaf):
            return self._blockers.get(NextTurn, leaf, self)
        self._searches[leaf] = self._searches.get(leaf, 0) + 1
        wants.waits_for = None
        version = context.dirty.version + context.index.version
        if leaf.settings.of(RECLAIM) and context.dirty.demands is not None:
            # Fair shares depend on all pending asks.
            version += context.dirty.demands.count
        refusal = wants.refusal
        if wants.searched_at != version or wants.searched_for is not request:
            found = self._find(wants, request, now)
            if not isinstance(found, SearchRefusal):
                if now >= wants.paused_until:
                    wants.refusal = None
                return ToPreempt(app, request, found)
            refusal = found
            wants.group.note(REASONS.get(found.law, DOES_NOT_HELP), now)
            if found.law is Law.NODES_KEPT:
                # The search failed only because nodes are reserved.
                until = now + SEARCH_INTERVAL
                kept = context.wakeups.reserved_node_waits.note(leaf, request, found, now, until)
                wait_for(context.escalation, wants, request, kept, now)
                return kept
            # A refusal that may end with time is searched again without a change of the books.
            version = version if found.until is None else ANY_VERSION
        pause(context.escalation, wants, request, now)
        wants.refusal, wants.searched_at = refusal, version
        return None

    def _kept(
        self, leaf: Queue, wants: PreemptionRequest, request: Request, now: float
    ) -> NodesReserved | None:
        """Blocker for the reserved nodes for which this ask or a similar one waits; None if there is none."""
        kept: NodesReserved | None = wants.waits_for
        if wants.is_waiting(request, now):
            return kept
        kept = self.context.wakeups.reserved_node_waits.find(leaf, request, now)
        if kept is not None:
            wait_for(self.context.escalation, wants, request, kept, now)
        return kept

    def _find(
        self, wants: PreemptionRequest, request: Request, now: float
    ) -> tuple[VictimPlan, ...] | SearchRefusal:
        """Plans for the ask, or the law that refuses them. `now` is in unix seconds."""
        most = MOST_PLANS if self.asks_rm(request) else 1
        in_vain = wants.group.refused_stops
        refused = [node for node, priority in wants.refused.items() if request.priority <= priority]
        refused += () if in_vain is None else in_vain.nodes
        found = self._victims.find(
            wants.app,
            request,
            now,
            most=most,
            refused=refused,
            equals=lambda: equals_of(self.context, wants.app, request, now),
        )
        if not isinstance(found, SearchRefusal):
            return tuple(found)
        if found.law is Law.RM_REFUSED and wants.refused:
            # The RM may accept at the next search.
            return found._replace(until=now + SEARCH_INTERVAL)
        return found

    def clear(
        self, app: Application, request: Request, found: Blocker | None, now: float
    ) -> ToClear | FullRoot | None:
        """Victims for an ask that only its required node blocks (§ 9.5), or a blocker that prevents the stop.

        A full cluster does not prevent the stop if enough victims make room in it.
        """
        context = self.context
        required = request.ask.ask_class.required_node
        if required is None or request.triggered or app.state not in SCHEDULABLE:
            return None
        if found is not None and not is_cluster(found, app.leaf):
            return None
        node = context.nodes[required]
        units = self._victims.units()
        victims = required_node_victims(app, request, node, context.applications, units)
        root = app.leaf.lineage[-1]
        if victims and not stays_too_full(root, request, node, victims):
            return ToClear(app, request, node, victims)
        group: AskGroup = request.group
        if now >= group.refused_at + REFUSAL_TIME:
            group.refused_at = now
            group.note(NO_FIT_ON_REQUIRED_NODE, now)
            context.watch.no_victims(request.ask, required, now)
        return context.wakeups.blockers.get(FullRoot, root) if victims else None

    def asks_rm(self, request: Request) -> bool:
        """True if the RM is asked before any victim of the request is stopped (spec § 9.4.5).

        The RM chooses among the victims, or only accepts nodes.
        """
        return self._rm.predicates is not None and request.ask.ask_class.predicate is not None

    @property
    def rm_judges_victims(self) -> bool:
        """True if the RM is asked about victims as well as about nodes."""
        policy = self._rm.predicates
        return policy is not None and policy.judges_victims


def equals_of(context: CheckContext, app: Application, request: Request, now: float) -> int:
    """Number of asks of the queue that equal this one and may preempt now, at most `MOST_TOGETHER`.

    Each has to stay within the limits of its user together with the asks counted before it, and they may
    delay no claim on a maximum. An ask that the RM judges, or that requires exclusive use of its node,
    shares no room with others.
    """
    leaf: Queue = app.leaf
    wanted, created = request.ask.ask_class, now - leaf.settings.preemption_delay
    if wanted.predicate is not None or leaf.settings.reservation_exclusive:
        return 1
    count = 1
    others = islice(reversed(leaf.applications.values()), MOST_APPLICATIONS)
    for one in (app, *[other for other in others if other is not app]):
        group = one.groups.get(request.group.key)
        places = () if group is None else islice(group.heap, MOST_ASKS)
        equal = list(islice((place for place in places if _is_equal(place, request, created)), MOST_TOGETHER))
        if group is None or not equal or not (one is app or _may_preempt(context, one, group, request, now)):
            continue
        for _ in equal:
            together = times(wanted.items, count + 1)
            if _exceeds_limit(one, together) or _delays_claim(group, together):
                break
            count += 1
            if count == MOST_TOGETHER:
                return count
    return count


def _may_preempt(context: CheckContext, app: Application, group: AskGroup, like: Request, now: float) -> bool:
    """True if only the lack of room stops asks like this one in the group of another application."""
    leaf: Queue = app.leaf
    ranked: Any = leaf.ranking if app.peers is None else app.peers
    if app.state is AppState.ACCEPTED and any(
        quota.max_applications and not quota.counts(app.app_id) for quota in app.quotas
    ):
        # If several applications do not run yet, possibly not all of them may start.
        return False
    if app not in ranked or app.blocker is not None or app.gang.is_whole or group.is_bound:
        return False
    wants = preemption_request_of(group)
    if wants is not None and wants.holds(like, now):
        return False
    blocker = application_blocker(context, app) or stops_preemption(context, app, group)
    if blocker is not None:
        blocker.retire_if_unused()
    return blocker is None


def _is_equal(place: AskPlace, to: Request, created: float) -> bool:
    """True if it is another ask that may preempt together with this one, and is old enough."""
    request = place.request
    return (
        request is not to
        and waits(place)
        and request.priority == to.priority
        and request.ask.allow_preempt_other
        and not request.triggered
        and request.reservation is None
        and place.create_time <= created
    )


def _exceeds_limit(app: Application, items: Items) -> bool:
    """True if the amounts exceed a bound other than a queue's."""
    return any(not isinstance(quota, Queue) and excess(quota, items) for quota in app.quotas)


def _delays_claim(group: AskGroup, items: Items) -> bool:
    """True if the amounts would delay a claim on a maximum, other than that of the first ask."""
    claim, runtime = group.heap[0].request.claim, group.ask_class.runtime
    quotas = [quota for quota in group.app.quotas if quota.claims]
    return any(held_by(quota, group.app.leaf, items, runtime, claim) is not None for quota in quotas)


def stops_preemption(context: CheckContext, app: Application, group: AskGroup) -> Blocker | None:
    """Return the blocker that preemption cannot remove, except for a queue's maximum (spec § 9.2)."""
    asking = Asking(app, group)
    blocker = ask_blocker(context, asking)
    if not (isinstance(blocker, QuotaShortage) and isinstance(blocker.quota, Queue)):
        return blocker
    blocker.retire_if_unused()
    # Held amounts, and unanswered checks, block the ask in addition to the maximum.
    return ask_blocker(context, asking, beyond=RulePlace.QUOTA)
