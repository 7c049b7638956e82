"""Remedies for asks that fit no node, such as reservations (spec §§ 8.5, 8.7, 9.2, 9.5).

A remedy finds a measure for the asks of a group that have waited long enough for it. `Cycle` has a table of
the remedies, to which features add. A remedy changes waiting lines and deadlines, but no books.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence, Sized
from typing import Any

from licorne_core.model.apps.application import Application, Asking
from licorne_core.model.apps.groups import AgedAsks, AskGroup
from licorne_core.model.apps.requests import Request
from licorne_core.model.effort import Search
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.queue import Queue
from licorne_core.model.quotas import Quota, SharedQuota
from licorne_core.scheduling.checks import application_blocker, ask_blocker
from licorne_core.scheduling.node_search.index import refusals
from licorne_core.scheduling.rules import CheckContext
from licorne_core.scheduling.waiting.blockers import Blocker
from licorne_core.scheduling.waiting.shortages import QuotaShortage
from licorne_core.scheduling.waiting.supply import Supply
from licorne_core.values.asks import AskClass

REFUSAL_TIME = 15.0
"""Least seconds between two log entries about the refusals of an ask (spec §§ 8.4, 9.5)."""

NO_USER_QUOTA = "Not enough user quota"
NO_QUEUE_QUOTA = "Not enough queue quota"

Candidate = tuple[Queue, Application, Request, Node]
"""A decision: the leaf, the application, its ask, and the ask's node."""


Remedies = Mapping[type[AgedAsks], "Remedy"]
"""Remedies by the kind of their requests, in the order in which they are tried."""


class Remedy(ABC):
    """One way to make room for asks that fit no node."""

    def __init__(self, context: CheckContext) -> None:
        """Act in the partition of the context."""
        self.context = context
        self.used: Sized = ()
        """The part of its budget used in this turn; while this is empty, `begin_turn` need not be called."""
        self.search: Search | None = None
        """Its search, if the work is also counted separately (`Counters.search_work`)."""

    def begin_turn(self) -> Sequence[Blocker]:
        """Begin a turn; return the blockers that may open."""
        return ()

    @property
    def is_postponed(self) -> bool:
        """True if asks wait for the next turn, because this turn's budget is used up."""
        return False

    @property
    def is_for_gangs(self) -> bool:
        """True if it makes room for whole gangs, also under maxima; then all gangs are placed whole."""
        return False

    @abstractmethod
    def helps(self, group: AskGroup, over: Quota | None, *, is_held: bool) -> bool:
        """True if it may help; `over` is the quota that the asks exceed, None if they fit no node.

        With `is_held` they exceed only the part of a quota that claims leave, or wait for a known time.
        """

    @abstractmethod
    def decide(self, wants: Any, request: Request, now: float) -> Any:
        """The measure for the first ask that is old enough, or its blocker; None if the request is paused."""


def note_passed_over(context: CheckContext, group: AskGroup, blocker: Blocker, now: float) -> None:
    """Log on the group the reason why it is passed over, for `explain` (spec § 8.13)."""
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
    """First blocker of the ask or of its whole application, or None; nodes are not searched."""
    blocker = application_blocker(context, asking.app, reserved=asking.is_reserved)
    return blocker or ask_blocker(context, asking)


def is_cluster(blocker: Blocker, leaf: Queue) -> bool:
    """True if the blocker is root's maximum, which is the size of the cluster."""
    return isinstance(blocker, QuotaShortage) and blocker.quota is leaf.lineage[-1]


def note_over_quota(group: AskGroup, blocker: QuotaShortage, now: float) -> None:
    """Log on the group, for `explain`, that its asks exceed the quota (spec § 8.13)."""
    quota = blocker.quota
    by_queue = isinstance(quota, Queue)
    group.attempted |= by_queue
    reason = NO_QUEUE_QUOTA if by_queue else NO_USER_QUOTA
    group.note(quota.lack if isinstance(quota, SharedQuota) else reason, now)
