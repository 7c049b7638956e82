"""Review of reservations: ends those whose ask could not use the node (spec § 8.6).

Reservations are reviewed each second, after a pass without a decision. In a partition whose passes never end,
a turn begins with a review that has been due for `OVERDUE` seconds. The node of a reservation is given up if
the reservation

* is *idle*: its ask could not be placed even on the empty node. A maximum, a limit, the state of its
  application or a refusal of the RM has been an obstacle for as long as `reservation.idle.timeout`;
* *gives way*: its ask would take its queue above the guarantee, and the node has room for a *rival*: an ask
  that stays within its own queue's guarantee and that only the nodes stop. A rival without room remains a
  rival until the next review, and ends the first such reservation whose node has room by then. The node is
  not reserved again before the next review, as the rival may be later in the order than asks that would
  reserve the node.

The priority pass places no ask above its queue's guarantee on a node where a rival fits. It places the rival
of highest priority instead, and of these the oldest one. The reservation remains.

A node that is given up is open. The ask is pending under its old rank, and may have another node
reserved as soon as only the nodes stop it. A reservation with a promise never gives way, as victims
were stopped for it (spec § 9.4.8).

A review covers a bounded number of reservations, and of groups of the backlog. The next review continues
after them. So the time until each reservation and each group is reviewed depends only on their numbers.
"""

from typing import NamedTuple

from licorne_core.model.apps.application import Application, Asking
from licorne_core.model.apps.groups import AskGroup
from licorne_core.model.apps.requests import Request
from licorne_core.model.apps.states import SCHEDULABLE
from licorne_core.model.effort import COMPARISONS_OF_A_TRY, Search
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.guarantees import is_within_guarantee
from licorne_core.scheduling.measures import first_blocker, is_cluster
from licorne_core.scheduling.order import Holder, place_in_order
from licorne_core.scheduling.rules import CheckContext
from licorne_core.scheduling.stages import Position, Stage
from licorne_core.scheduling.waiting.blockers import Blocker
from licorne_core.values.asks import AskClass, Reservation
from licorne_core.values.resources import Items

OVERDUE = 2.0
"""Maximum number of seconds for which a review waits for the end of a pass."""

MOST_REVIEWED = 128
"""Maximum number of reservations in a review."""

MOST_GROUPS = 512
"""Maximum number of groups of the backlog in a review."""

MOST_CLASSES = 32
"""Maximum number of ask classes of rivals in a review."""


class ReviewFinding(NamedTuple):
    """Fields of a reservation that a review sets."""

    idle_since: float | None
    gives_way: bool


class ToGiveUp(NamedTuple):
    """A decision: reservations that lose their nodes.

    `idle` reservations could not use their nodes; `yielded` ones give way.
    """

    idle: list[Reservation]
    yielded: list[Reservation]
    findings: dict[Reservation, ReviewFinding] | None
    """Findings of all reviewed reservations; None if the decision is not from a review."""


class Review(Stage):
    """Reviews the reservations of one partition, without changing the books."""

    def __init__(self, context: CheckContext) -> None:
        """Start without a due review."""
        self.due: list[float] = []
        """Time from which a review is due, in unix seconds; empty if none is due."""
        super().__init__(context, Position.BEHIND, self.due)
        self.yielded: dict[Node, None] = {}
        """Nodes that the last review took from asks, and that are not reserved before the next one."""
        self._rivals: dict[AskClass, list[AskGroup]] = {}
        self.search = Search(COMPARISONS_OF_A_TRY)
        """`work` counts comparisons of nodes with asks."""
        context.effort.count(self.search)

    def call(self, now: float) -> None:
        """Make a review due at `now`, in unix seconds."""
        self.due[:] = (now,)
        self.context.wakeups.waiting.runnable = True

    def decide(self, now: float) -> ToGiveUp:
        """Review some reservations at `now`, in unix seconds; return those to release."""
        self.due.clear()
        reserved = self.context.wakeups.reserved
        findings: dict[Reservation, ReviewFinding] = {}
        idle: list[Reservation] = []
        yielding: list[Reservation] = []
        for reservation in reserved.next_ones(MOST_REVIEWED):
            self.search.work += COMPARISONS_OF_A_TRY
            holder = reserved.holder(reservation)
            if reservation.node_id is None or not holder.request.is_pending:
                continue
            since = self._idle_since(reservation, holder, now)
            finding = ReviewFinding(since, self._gives_way(reservation, holder))
            findings[reservation] = finding
            if since is not None and now - since >= holder.leaf.settings.reservation_idle_timeout:
                idle.append(reservation)
            elif finding.gives_way:
                yielding.append(reservation)
        self._rivals = self._next_rivals() if yielding else {}
        return ToGiveUp(idle, [one for one in yielding if self._take_rival(one)], findings)

    def gives_way(self, reservation: Reservation) -> bool:
        """True if the reservation yields to a rival of the last review that fits on its node now."""
        if not (reservation.gives_way and self._rivals):
            return False
        # Since that review the RM may have been asked to stop victims for the ask.
        promise = self.context.wakeups.reserved.holder(reservation).request.promise
        return promise is None and self._take_rival(reservation)

    def served_first(self, node: Node, reservation: Reservation) -> Holder:
        """The ask to place on a node that has room for the reserved ask.

        If the reservation may yield, this is the first rival that fits on the node. If the reservation is
        provisional, it is the first ask of the same size in order. Otherwise it is the reserved ask.
        """
        holder = self.context.wakeups.reserved.holder(reservation)
        if not node.schedulable:
            return holder
        if self._gives_way(reservation, holder):
            rival = self._rival_on(node, reservation)
            if rival is not None:
                return rival
        if reservation.provisional:
            return self._first_in_order(node, reservation, holder)
        return holder

    def _rival_on(self, node: Node, reservation: Reservation) -> Holder | None:
        """The first rival that fits on the node; None if there is none."""
        is_own = reservation.node_id == node.node_id
        first: AskGroup | None = None
        for group in self.context.wakeups.backlog.first_groups(MOST_GROUPS):
            self.search.work += 1
            if first is not None and not _comes_before(group, first):
                continue
            if node.takes(group.ask_class, reserved=is_own) and self._is_rival(group, strict=True):
                first = group
        return None if first is None else Holder(first.app.leaf, first.app, first.first().request)

    def _first_in_order(self, node: Node, reservation: Reservation, holder: Holder) -> Holder:
        """The first ask in order among the holder and asks of its size for which the node has room."""
        items = holder.request.ask.ask_class.items
        types, is_own = self.context.dirty.ranks.types, reservation.node_id == node.node_id
        found, best = holder, place_in_order(holder.app, holder.request.place[:3], types)
        for group in self.context.wakeups.backlog.first_groups(MOST_GROUPS):
            self.search.work += 1
            if group.ask_class.items != items or not (group.waiting and group.nowhere):
                continue
            self.search.work += COMPARISONS_OF_A_TRY
            first = group.first()
            place = place_in_order(group.app, first[:3], types)
            fits = place < best and node.takes(group.ask_class, reserved=is_own)
            if fits and self._is_free(group, strict=True):
                found, best = Holder(group.app.leaf, group.app, first.request), place
        return found

    def _take_rival(self, reservation: Reservation) -> bool:
        """Remove the first rival that has room on the reserved node; return True if there is one.

        Rivals are checked again: their asks may have ended, or their queue may have reached its guarantee.
        """
        node = None if reservation.node_id is None else self.context.nodes[reservation.node_id]
        if node is None or not node.schedulable:
            return False
        for ask_class, groups in self._rivals.items():
            self.search.work += 1
            if node.takes(ask_class, reserved=True) and any(map(self._is_rival, groups)):
                del self._rivals[ask_class]
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
        """True if the RM has refused the node to the ask, and all victims on the node have ended."""
        node_id, promise = reservation.node_id, request.promise
        if node_id is None or not self.context.nodes[node_id].is_refused(request.ask.ask_class):
            return False
        return promise is None or not promise.waits_on(node_id)

    def _gives_way(self, reservation: Reservation, holder: Holder) -> bool:
        if reservation.required or holder.request.promise is not None:
            return False
        return not is_within_guarantee(holder.leaf, holder.request.ask.ask_class.items)

    def _next_rivals(self) -> dict[AskClass, list[AskGroup]]:
        """Groups of rivals among the next groups of the backlog, by class."""
        found: dict[AskClass, list[AskGroup]] = {}
        for group in self.context.wakeups.backlog.next_groups(MOST_GROUPS):
            if group is not None and self._is_rival(group):
                found.setdefault(group.ask_class, []).append(group)
                if len(found) == MOST_CLASSES:
                    break
        return dict(sorted(found.items(), key=lambda item: _class_key(item[0])))

    def _is_rival(self, group: AskGroup, *, strict: bool = False) -> bool:
        """True if the group is a rival: its pending asks are within the guarantee, and only nodes block them.

        The group found no node at its last try, which may be long ago. With `strict` the cluster as a whole
        must have room for an ask.
        """
        self.search.work += COMPARISONS_OF_A_TRY
        if not (group.waiting and group.nowhere):
            return False
        if not is_within_guarantee(group.app.leaf, group.ask_class.items):
            return False
        return self._is_free(group, strict=strict)

    def _is_free(self, group: AskGroup, *, strict: bool) -> bool:
        """True if only the nodes block the group now; unless `strict`, a full cluster may block it too."""
        app: Application = group.app
        if not app.is_ranked:
            return False
        blocker = first_blocker(self.context, Asking(app, group))
        if blocker is not None:
            blocker.retire_if_unused()
        return blocker is None or (not strict and is_cluster(blocker, app.leaf))


class Overdue(Stage):
    """A review that has waited too long for the end of a pass."""

    def __init__(self, review: Review) -> None:
        """Begin the turn with this review."""
        super().__init__(review.context, Position.OVERDUE, review.due)
        self._review = review

    def decide(self, now: float) -> ToGiveUp | None:
        """The result of the review if it is overdue; else None."""
        return self._review.decide(now) if now >= self._review.due[0] + OVERDUE else None


def _comes_before(group: AskGroup, other: AskGroup) -> bool:
    """True if the group's first ask precedes the first ask of the other: by priority, then by age."""
    if not group.waiting:
        return False
    key, other_key = group.heap[0][:3], other.heap[0][:3]
    return (key, group.app.app_id) < (other_key, other.app.app_id)


def _class_key(ask_class: AskClass) -> tuple[Items, str]:
    """Sort key of the class of a rival."""
    return ask_class.items, ask_class.predicate or ""


def holder_blocker(context: CheckContext, holder: Holder) -> Blocker | None:
    """First blocker of a reserved ask, except the nodes; or None.

    A full cluster is no blocker here, as an empty node would make room in it; nor are unanswered checks,
    which are answered or time out soon.
    """
    _, app, request = holder
    blocker = first_blocker(context, Asking(app, request.group, request))
    if blocker is None or blocker is context.predicates.owed:
        return None
    if is_cluster(blocker, holder.leaf):
        blocker.retire_if_unused()
        return None
    return blocker
