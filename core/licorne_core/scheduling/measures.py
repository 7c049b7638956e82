"""Remedies for asks that no node takes: nodes to reserve, victims to stop (spec §§ 8.5, 8.7, 9.2, 9.5).

A remedy finds a measure for the asks of a group that have waited long enough for it. `Cycle` has a table of
the remedies, to which extensions add theirs. A remedy changes waiting lines and deadlines, but no books.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence, Sized
from typing import Any

from licorne_core.model.apps.application import Application, Asking
from licorne_core.model.apps.groups import AgedAsks, AskGroup
from licorne_core.model.apps.requests import Request
from licorne_core.model.apps.states import SCHEDULABLE
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.queue import Queue
from licorne_core.model.quotas import Quota, SharedQuota
from licorne_core.scheduling.checks import application_blocker, ask_blocker
from licorne_core.scheduling.node_search.index import refusals
from licorne_core.scheduling.preempting import (
    ANY_VERSION,
    DOES_NOT_HELP,
    REASONS,
    SEARCH_INTERVAL,
    PreemptionRequest,
    ToClear,
    ToPreempt,
)
from licorne_core.scheduling.preemption import Law, Refusal, required_node_victims, stays_too_full
from licorne_core.scheduling.rules import CheckContext
from licorne_core.scheduling.waiting.blockers import Blocker, FullRoot
from licorne_core.scheduling.waiting.shortages import Kept, QuotaShortage
from licorne_core.scheduling.waiting.supply import Supply
from licorne_core.values.asks import AskClass

REFUSAL_TIME = 15.0
"""Least seconds between two log entries about the refusals of an ask (spec §§ 8.4, 9.5)."""

NO_USER_QUOTA = "Not enough user quota"
NO_QUEUE_QUOTA = "Not enough queue quota"
NO_FIT_ON_REQUIRED_NODE = "No fit on required node, preemption does not help"


Candidate = tuple[Queue, Application, Request, Node]
"""A decision: leaf, application, its ask, and the node that the ask goes to."""


Remedies = Mapping[type[AgedAsks], "Remedy"]
"""Remedies by the kind of their requests, in the order in which they are asked whether they help."""


class Remedy(ABC):
    """One way to make room for asks that have none."""

    def __init__(self, context: CheckContext) -> None:
        """In the partition of the context."""
        self.context = context
        self.used: Sized = ()
        """Not empty if it has done some of what it may do in a turn: it is told of the next one then."""

    def begin_turn(self) -> Sequence[Blocker]:
        """Another turn begins: the blockers that this may open."""
        return ()

    @property
    def is_postponed(self) -> bool:
        """True if asks wait for the next turn, as it has done enough for them in this one."""
        return False

    @property
    def is_for_gangs(self) -> bool:
        """True if it makes room for whole gangs; all gangs are placed whole then."""
        return False

    @abstractmethod
    def helps(self, group: AskGroup, over: Quota | None) -> bool:
        """True if it may help; `over` is the quota that the asks exceed, None if no node takes them."""

    @abstractmethod
    def decide(self, wants: Any, request: Request, now: float) -> Any:
        """The measure for the first ask that is old enough, or its blocker; None for a pause."""


class Preempting(Remedy):
    """Victims stop for the ask."""

    def __init__(self, context: CheckContext) -> None:
        """In the partition of the context."""
        super().__init__(context)
        self.used = context.preemption.searches

    def begin_turn(self) -> Sequence[Blocker]:
        """All leaves may have their searches again."""
        return self.context.preemption.begin_turn()

    @property
    def is_postponed(self) -> bool:
        """True if a search is put off until the next turn."""
        return self.context.preemption.is_postponed

    def helps(self, group: AskGroup, over: Quota | None) -> bool:
        """True if a queue or the nodes stop asks that may go to any node."""
        is_ours = over is None or isinstance(over, Queue)
        return is_ours and self.context.preemption.enabled and group.ask_class.required_node is None

    def decide(self, wants: PreemptionRequest, request: Request, now: float) -> ToPreempt | Blocker | None:
        """The plans with victims to stop (spec § 9.2), or the blocker; None for a pause."""
        context, app = self.context, wants.app
        leaf: Queue = app.leaf
        blocker = stops_preemption(context, app, wants.group) or self._kept(leaf, wants, request, now)
        if blocker is not None:
            return blocker
        preemption = context.preemption
        if preemption.asks_rm(request) and not preemption.questions_open.lets_through():
            return preemption.questions_open
        if not preemption.has_search(leaf):
            return preemption.next_turn(leaf)
        preemption.count_search(leaf)
        wants.waits_for = None
        version = context.dirty.version + context.index.version
        if wants.searched_at != version or wants.searched_for is not request:
            found = preemption.find(wants, request, now)
            if not isinstance(found, Refusal):
                wants.refusal = None
                return ToPreempt(app, request, found)
            wants.refusal, wants.searched_for = found, request
            wants.group.note(REASONS.get(found.law, DOES_NOT_HELP), now)
            if found.law is Law.NODES_KEPT:
                # Only reserved nodes made the search fail.
                until = now + SEARCH_INTERVAL
                kept = context.wakeups.kept_nodes.note(leaf, request, found, now, until)
                context.escalation.wait_for(wants, kept, now)
                return kept
            # A refusal that time can lift is searched again even without a change.
            wants.searched_at = version if found.until is None else ANY_VERSION
        context.escalation.pause(wants, now)
        return None

    def _kept(self, leaf: Queue, wants: PreemptionRequest, request: Request, now: float) -> Kept | None:
        """Blocker for kept nodes that the ask, or another ask of its likeness, waits for."""
        kept: Kept | None = wants.waits_for
        if kept is not None and now < wants.waits_until and not kept.lets_through():
            return kept
        kept = self.context.wakeups.kept_nodes.find(leaf, request, now)
        if kept is not None:
            wants.refusal, wants.searched_for = kept.refusal, request
            self.context.escalation.wait_for(wants, kept, now)
        return kept


def to_clear(
    context: CheckContext, app: Application, request: Request, found: Blocker | None, now: float
) -> ToClear | FullRoot | None:
    """Victims for an ask that only its required node stops (§ 9.5), or the blocker that keeps them.

    A full cluster does not count as an obstacle, as victims make room in it, if they make enough.
    """
    required = request.ask.ask_class.required_node
    if required is None or request.triggered or app.state not in SCHEDULABLE:
        return None
    if found is not None and not is_cluster(found, app.leaf):
        return None
    node = context.nodes[required]
    units = context.preemption.search.units()
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


def note_passed_over(context: CheckContext, group: AskGroup, blocker: Blocker, now: float) -> None:
    """Keep the reason for `explain` (spec § 8.13)."""
    if isinstance(blocker, Supply):
        by_rm = isinstance(blocker.wanted, AskClass)
        if by_rm and now >= group.refused_at + REFUSAL_TIME:
            reasons = refusals(context.nodes.values(), group.ask_class)
            if reasons:
                group.refused_at = now
                context.watch.refused(group, reasons, now)
    elif isinstance(blocker, QuotaShortage):
        note_over_quota(group, blocker, now)


def first_blocker(context: CheckContext, asking: Asking) -> Blocker | None:
    """First blocker of the ask or of its whole application; nodes are not searched."""
    blocker = application_blocker(context, asking.app, reserved=asking.is_reserved)
    return blocker or ask_blocker(context, asking)


def is_cluster(blocker: Blocker, leaf: Queue) -> bool:
    """True if the blocker is the size of the cluster."""
    return isinstance(blocker, QuotaShortage) and blocker.quota is leaf.lineage[-1]


def stops_preemption(context: CheckContext, app: Application, group: AskGroup) -> Blocker | None:
    """Return the blocker that preemption cannot remove; a queue's maximum is none (spec § 9.2)."""
    blocker = ask_blocker(context, Asking(app, group))
    if not (isinstance(blocker, QuotaShortage) and isinstance(blocker.quota, Queue)):
        return blocker
    blocker.retire_if_unused()
    if group.ask_class.predicate is not None and context.predicates.full:
        # Owed answers block the ask in addition to the maximum.
        return context.predicates.owed
    return None


def note_over_quota(group: AskGroup, blocker: QuotaShortage, now: float) -> None:
    """Keep the reason for `explain` that the asks of a group were passed over (spec § 8.13)."""
    quota = blocker.quota
    by_queue = isinstance(quota, Queue)
    group.attempted |= by_queue
    reason = NO_QUEUE_QUOTA if by_queue else NO_USER_QUOTA
    group.note(quota.lack if isinstance(quota, SharedQuota) else reason, now)
