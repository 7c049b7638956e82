"""Measures for asks that no node takes (spec §§ 8.5, 8.7, 9.2, 9.5).

A node is reserved for them, or victims are stopped. This module chooses the node or the victims.
"""

from collections.abc import Mapping
from typing import NamedTuple

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.groups import (
    ANY_VERSION,
    SEARCH_INTERVAL,
    AskGroup,
    PreemptionRequest,
    ReservationRequest,
)
from licorne_core.model.apps.requests import Request
from licorne_core.model.apps.states import SCHEDULABLE
from licorne_core.model.nodes.book import NodeBook
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.queue import Queue
from licorne_core.scheduling.checks import Asking, CheckContext, ask_blocker
from licorne_core.scheduling.node_search.candidates import NodeIndex
from licorne_core.scheduling.preempting import DOES_NOT_HELP, REASONS, ToClear, ToPreempt
from licorne_core.scheduling.preemption import Law, Refusal, required_node_victims
from licorne_core.scheduling.waiting.blockers import Blocker
from licorne_core.scheduling.waiting.shortages import Kept, QuotaShortage
from licorne_core.scheduling.waiting.waiting import Watch
from licorne_core.values.ids import AppId

REFUSAL_TIME = 15.0
"""Seconds in which the refusals of an ask by all nodes are logged only once (spec §§ 8.4, 9.5)."""

NO_FIT_ON_REQUIRED_NODE = "No fit on required node, preemption does not help"


class ToReserve(NamedTuple):
    """A decision: this node is to be reserved for this ask (spec §§ 8.5, 8.7)."""

    leaf: Queue
    app: Application
    request: Request
    node: Node


class Measures:
    """Decides measures in one partition; it changes waiting lines, and no books."""

    __slots__ = ("_applications", "_context", "_index", "_nodes", "_watch")

    def __init__(
        self,
        nodes: NodeBook,
        applications: Mapping[AppId, Application],
        index: NodeIndex,
        context: CheckContext,
        watch: Watch,
    ) -> None:
        """Decide for these nodes and applications."""
        self._nodes = nodes.by_id
        self._applications = applications
        self._index = index
        self._context = context
        self._watch = watch

    def decide(
        self,
        leaf: Queue,
        app: Application,
        item: ReservationRequest | PreemptionRequest,
        now: float,
    ) -> ToReserve | ToPreempt | Blocker | None:
        """Return the measure for asks of a group that found no room, or their blocker."""
        if isinstance(item, PreemptionRequest):
            return self.to_preempt(leaf, app, item, now)
        found = self.to_reserve(app, item, now)
        if not isinstance(found, Node):
            return found
        first = item.first()
        assert first is not None, "what was tried has a first ask"
        return ToReserve(leaf, app, first.request, found)

    def want_victims(self, group: AskGroup, now: float) -> None:
        """A queue or the nodes stop the group: its asks may preempt others when it is time."""
        if self._context.preemption.enabled and group.ask_class.required_node is None:
            self._context.escalation.want_victims(group, now)

    def to_reserve(self, app: Application, wants: ReservationRequest, now: float) -> Node | Blocker | None:
        """A node to reserve for the first ask that is old enough (spec §§ 8.5, 8.7).

        None if that ask is another one by now: then the request was ranked anew.
        """
        if not self._is_in_place(app, wants, now):
            return None
        ask_class = wants.group.ask_class
        blocker = ask_blocker(self._context, Asking(app, wants.group))
        if blocker is None and ask_class.required_node is None:
            blocker = self._context.wakeups.reservation_limits.blocker(app)
        return blocker or self._index.to_reserve(ask_class)

    def to_preempt(
        self, leaf: Queue, app: Application, wants: PreemptionRequest, now: float
    ) -> ToPreempt | Blocker | None:
        """The victims for the first ask that may preempt others (spec § 9.2).

        None if it pauses from now on, or if that ask is another one by now.
        """
        first = wants.first()
        if not self._is_in_place(app, wants, now) or first is None:
            return None
        blocker = stops_preemption(self._context, app, wants.group)
        if blocker is not None:
            return blocker
        preemption = self._context.preemption
        kept = self._kept(leaf, wants, first.request, now)
        if kept is not None:
            return kept
        if preemption.is_asking_enough and preemption.asks_rm(first.request):
            return preemption.questions_open
        if not preemption.has_search(leaf):
            return preemption.next_turn(leaf)
        preemption.count_search(leaf)
        wants.waits_for = None
        if wants.searched_at != self._version or wants.searched_for is not first.request:
            found = preemption.find(wants, first.request, now)
            wants.refusal = found if isinstance(found, Refusal) else None
            if not isinstance(found, Refusal):
                return ToPreempt(leaf, app, first.request, found)
            wants.group.note(REASONS.get(found.law, DOES_NOT_HELP), now)
            wants.searched_for = first.request
            if found.law is Law.NODES_KEPT:
                return self._wait(leaf, wants, first.request, found, now)
            # What only time can change is looked at again in any case.
            wants.searched_at = self._version if found.until is None else ANY_VERSION
        self._context.escalation.pause(wants, now)
        return None

    def _kept(self, leaf: Queue, wants: PreemptionRequest, request: Request, now: float) -> Kept | None:
        """The kept nodes that the ask waits for, or that asks like it wait for."""
        kept: Kept | None = wants.waits_for
        if kept is not None and now < wants.waits_until and not kept.lets_through():
            return kept
        kept = self._context.wakeups.kept_nodes.find(leaf, request, now)
        if kept is not None:
            wants.refusal, wants.searched_for = kept.refusal, request
            self._context.escalation.wait_for(wants, kept, now)
        return kept

    def _wait(
        self,
        leaf: Queue,
        wants: PreemptionRequest,
        request: Request,
        found: Refusal,
        now: float,
    ) -> Kept:
        """Wait for reserved nodes, as only they made the search fail (spec § 9.2)."""
        until = now + SEARCH_INTERVAL
        kept = self._context.wakeups.kept_nodes.note(leaf, request, found, now, until)
        self._context.escalation.wait_for(wants, kept, now)
        return kept

    def to_clear(
        self,
        leaf: Queue,
        app: Application,
        request: Request,
        found: Blocker | None,
        now: float,
    ) -> ToClear | None:
        """The victims for an ask that requires its node and is stopped by that alone (§ 9.5).

        A cluster that is full as a whole is no other reason: victims make room in it.
        """
        root = leaf.lineage[-1]
        by_root = isinstance(found, QuotaShortage) and found.quota is root
        tried = found is None or by_root
        if not tried or request.triggered or app.state not in SCHEDULABLE:
            return None
        required = request.ask.ask_class.required_node
        assert required is not None, f"{request!r} requires a node"
        node = self._nodes[required]
        victims = required_node_victims(app, request, node, self._applications)
        if victims:
            return ToClear(leaf, app, request, node, victims)
        group: AskGroup = request.group
        if now >= group.refused_at + REFUSAL_TIME:
            group.refused_at = now
            group.note(NO_FIT_ON_REQUIRED_NODE, now)
            self._watch.no_victims(request.ask, required, now)
        return None

    @property
    def _version(self) -> int:
        """Version of everything that a victim search reads."""
        return self._context.dirty.version + self._index.version

    def _is_in_place(
        self, app: Application, wants: ReservationRequest | PreemptionRequest, now: float
    ) -> bool:
        """True if it stands behind its first ask; if not, it is ranked anew."""
        entry = app.ranking.entry(wants)
        key = wants.key()
        if key is None or entry is None or entry.key != key:
            self._context.escalation.rank(wants, now)
            return False
        return True


def stops_preemption(context: CheckContext, app: Application, group: AskGroup) -> Blocker | None:
    """Return the blocker that preemption cannot remove; a queue's maximum is none (spec § 9.2)."""
    blocker = ask_blocker(context, Asking(app, group))
    by_queue = isinstance(blocker, QuotaShortage) and isinstance(blocker.quota, Queue)
    if blocker is None or not by_queue:
        return blocker
    blocker.retire_if_unused()
    if group.ask_class.predicate is not None and context.predicates.full:
        # It may not be tried as long as answers are owed, whatever stops it beside.
        return context.predicates.owed
    return None
