"""Review of reservations: ends those whose ask could not use the node (spec § 8.6).

Reservations are reviewed each second, once a pass has found nothing else to do. In a partition whose
passes never end, a turn begins with a review that has been due for `OVERDUE` seconds. A reservation is
given up if it

* is *idle*: its ask could not be placed even on the empty node. A maximum, a limit, the state of its
  application or a refusal of the RM has been an obstacle for `reservation.idle.timeout`;
* *gives way*: its ask would take its queue above the guarantee, and the node has room for a *claim*: an
  ask that stays within its own queue's guarantee and that only the nodes stop. A claim without room
  stands until the next review, and ends the first such reservation whose node has room by then.
  The node is not reserved again before the next review, as the claim may come later in the order than
  asks that would reserve the node.

The priority pass serves no ask above its queue's guarantee on a node where a claim fits. The claim of
highest priority, and of these the oldest one, is served instead. The reservation stays.

A node that is given up is open. The ask is pending under its old rank, and may have another node
reserved as soon as only the nodes stop it. A reservation with a promise never gives way, as victims
were stopped for it (spec § 9.4.8).

A review covers a bounded number of reservations, and of groups of the backlog. The next review continues
behind them. So the time until each reservation and each group is reviewed depends only on their numbers.
"""

from typing import NamedTuple

from licorne_core.model.apps.application import Application, Asking
from licorne_core.model.apps.groups import AskGroup
from licorne_core.model.apps.requests import Request
from licorne_core.model.apps.states import SCHEDULABLE
from licorne_core.model.effort import LOOKS_OF_A_TRY, Search
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.guarantees import is_within_guarantee
from licorne_core.scheduling.measures import first_blocker, is_cluster
from licorne_core.scheduling.order import Holder
from licorne_core.scheduling.rules import CheckContext
from licorne_core.scheduling.stages import Position, Stage
from licorne_core.scheduling.waiting.blockers import Blocker
from licorne_core.values.asks import AskClass, Reservation
from licorne_core.values.resources import Items

OVERDUE = 2.0
"""Most seconds for which a review waits for the end of a pass."""

MOST_REVIEWED = 128
"""Most reservations in a review."""

MOST_GROUPS = 512
"""Most groups of the backlog in a review."""

MOST_CLASSES = 32
"""Most ask classes with a claim in a review."""


class Finding(NamedTuple):
    """Fields of a reservation that a review sets."""

    idle_since: float | None
    gives_way: bool


class ToGiveUp(NamedTuple):
    """A decision: reservations that lose their nodes.

    `idle` ones could not use their nodes, `yielded` ones give way.
    """

    idle: list[Reservation]
    yielded: list[Reservation]
    findings: dict[Reservation, Finding] | None
    """Findings of all reviewed reservations; None if the decision is not from a review."""


class Review(Stage):
    """Reviews the reservations of one partition; changes no books."""

    def __init__(self, context: CheckContext) -> None:
        """Start without a due review."""
        self.due: list[float] = []
        """The unix seconds from which a review is due, if one is."""
        super().__init__(context, Position.BEHIND, self.due)
        self.yielded: dict[Node, None] = {}
        """Nodes that the last review took from asks: nobody has them reserved before the next one."""
        self._claims: dict[AskClass, list[AskGroup]] = {}
        self.search = Search(LOOKS_OF_A_TRY)
        """`work` counts comparisons of nodes with asks."""
        context.effort.count(self.search)

    def call(self, now: float) -> None:
        """Make a review due at unix seconds `now`."""
        self.due[:] = (now,)
        self.context.wakeups.waiting.runnable = True

    def decide(self, now: float) -> ToGiveUp:
        """Review some reservations at unix seconds `now`; return those to give up."""
        self.due.clear()
        reserved = self.context.wakeups.reserved
        findings: dict[Reservation, Finding] = {}
        idle: list[Reservation] = []
        yielding: list[Reservation] = []
        for reservation in reserved.next_ones(MOST_REVIEWED):
            self.search.work += LOOKS_OF_A_TRY
            holder = reserved.holder(reservation)
            if reservation.node_id is None or not holder.request.is_pending:
                continue
            since = self._idle_since(reservation, holder, now)
            finding = Finding(since, self._gives_way(reservation, holder))
            findings[reservation] = finding
            if since is not None and now - since >= holder.leaf.settings.reservation_idle_timeout:
                idle.append(reservation)
            elif finding.gives_way:
                yielding.append(reservation)
        self._claims = self._next_claims() if yielding else {}
        return ToGiveUp(idle, [one for one in yielding if self._take_claim(one)], findings)

    def gives_way(self, reservation: Reservation) -> bool:
        """True if the reservation gives way to a claim of the last review that has room by now."""
        if not (reservation.gives_way and self._claims):
            return False
        # Victims may have been told to stop for it since.
        promise = self.context.wakeups.reserved.holder(reservation).request.promise
        return promise is None and self._take_claim(reservation)

    def served_first(self, node: Node, reservation: Reservation) -> Holder:
        """The ask to place on a node that takes the reserved ask.

        If the reservation may give way, it is the first claim that fits there, or else the reserved ask.
        """
        holder = self.context.wakeups.reserved.holder(reservation)
        if not (node.schedulable and self._gives_way(reservation, holder)):
            return holder
        is_own = reservation.node_id == node.node_id
        first: AskGroup | None = None
        for group in self.context.wakeups.backlog.first_groups(MOST_GROUPS):
            self.search.work += 1
            if first is not None and not _comes_before(group, first):
                continue
            if node.takes(group.ask_class, reserved=is_own) and self._is_claim(group, strict=True):
                first = group
        if first is None:
            return holder
        return Holder(first.app.leaf, first.app, first.first().request)

    def _take_claim(self, reservation: Reservation) -> bool:
        """Use up the first claim that has room on the reserved node; True if there is one.

        Claims are checked again: their asks may be removed, or their queue may have got its guarantee.
        """
        node = None if reservation.node_id is None else self.context.nodes[reservation.node_id]
        if node is None or not node.schedulable:
            return False
        for ask_class, groups in self._claims.items():
            self.search.work += 1
            if node.takes(ask_class, reserved=True) and any(map(self._is_claim, groups)):
                del self._claims[ask_class]
                return True
        return False

    def _idle_since(self, reservation: Reservation, holder: Holder, now: float) -> float | None:
        blocker = holder_blocker(self.context, holder)
        if blocker is not None:
            blocker.retire_if_unused()
        elif holder.app.state in SCHEDULABLE and not self._is_refused(reservation, holder.request):
            return None
        return now if reservation.idle_since is None else reservation.idle_since

    def _is_refused(self, reservation: Reservation, request: Request) -> bool:
        """True if the RM has refused the node to the ask, and all victims there have ended."""
        node_id, promise = reservation.node_id, request.promise
        if node_id is None or not self.context.nodes[node_id].is_refused(request.ask.ask_class):
            return False
        return promise is None or not promise.waits_on(node_id)

    def _gives_way(self, reservation: Reservation, holder: Holder) -> bool:
        if reservation.required or holder.request.promise is not None:
            return False
        return not is_within_guarantee(holder.leaf, holder.request.ask.ask_class.items)

    def _next_claims(self) -> dict[AskClass, list[AskGroup]]:
        """Groups with a claim among the next ones of the backlog, by class."""
        found: dict[AskClass, list[AskGroup]] = {}
        for group in self.context.wakeups.backlog.next_groups(MOST_GROUPS):
            if group is not None and self._is_claim(group):
                found.setdefault(group.ask_class, []).append(group)
                if len(found) == MOST_CLASSES:
                    break
        return dict(sorted(found.items(), key=lambda item: _class_key(item[0])))

    def _is_claim(self, group: AskGroup, *, strict: bool = False) -> bool:
        """True if the group has a claim: pending asks within the guarantee that only nodes stop.

        The group found no node at its last try, which may be long ago. With `strict` the cluster as a
        whole must have room for an ask.
        """
        self.search.work += LOOKS_OF_A_TRY
        if not (group.waiting and group.nowhere):
            return False
        if not is_within_guarantee(group.app.leaf, group.ask_class.items):
            return False
        return self._is_free(group, strict=strict)

    def _is_free(self, group: AskGroup, *, strict: bool) -> bool:
        """True if only the nodes stop the group now, or a full cluster unless `strict`."""
        app: Application = group.app
        if app not in app.leaf.ranking:
            return False
        blocker = first_blocker(self.context, Asking(app, group))
        if blocker is not None:
            blocker.retire_if_unused()
        return blocker is None or (not strict and is_cluster(blocker, app.leaf))


class Overdue(Stage):
    """A review that has waited for the end of a pass for too long."""

    def __init__(self, review: Review) -> None:
        """See that this review has its turn."""
        super().__init__(review.context, Position.OVERDUE, review.due)
        self._review = review

    def decide(self, now: float) -> ToGiveUp | None:
        """The review, which is due; None while it may wait."""
        return self._review.decide(now) if now >= self._review.due[0] + OVERDUE else None


def _comes_before(group: AskGroup, other: AskGroup) -> bool:
    """True if the first ask of the group has a higher priority than that of the other, or is older."""
    if not group.waiting:
        return False
    key, other_key = group.heap[0][:3], other.heap[0][:3]
    return (key, group.app.app_id) < (other_key, other.app.app_id)


def _class_key(ask_class: AskClass) -> tuple[Items, str]:
    """Sort key of a claim among others."""
    return ask_class.items, ask_class.predicate or ""


def holder_blocker(context: CheckContext, holder: Holder) -> Blocker | None:
    """First blocker of a reserved ask, apart from the nodes.

    A full cluster does not count, as an empty node would make room in it; nor do answers that the RM
    owes, which arrive or time out soon.
    """
    _, app, request = holder
    blocker = first_blocker(context, Asking(app, request.group, request))
    if blocker is None or blocker is context.predicates.owed:
        return None
    if is_cluster(blocker, holder.leaf):
        blocker.retire_if_unused()
        return None
    return blocker
