"""Review of reservations: ends those whose ask could not use the node (spec § 8.6).

Each second, once a pass has found nothing else to do, the reservations are looked at. In a
partition that is never done with its passes, a turn begins with the review that has been due for
`OVERDUE` seconds. A reservation is given up where its ask

* is *idle*: it would not be placed if its node were empty, as a maximum, a limit, the state of its
  application or a refusal of the RM is in the way, and has been so for `reservation.idle.timeout`;
* *gives way*: it would take its queue above its guarantee, and the node has room for a *claim*: an
  ask that stays within its own queue's guarantee and that nothing but the nodes stops. A claim that
  finds no room stands until the next review, as long as that is so, and ends the first such
  reservation that has room.
  No ask has that node reserved before the next review: the claim may come later in the order than
  asks that would.

The priority pass serves no ask above its queue's guarantee as long as a claim fits there: its node,
or another one that it would have, goes to the claim. Of several it is the ask of highest priority,
and then the oldest. The reservation stays.

A node that is given up is open. The ask comes back under its old rank: it may have another node
reserved as soon as nothing but the nodes stops it. Victims were stopped for a promise
(spec § 9.4.8), so a reservation with a promise never gives way.

A review looks at so many reservations and hears so many groups of the backlog, and the next review
goes on behind them. So each reservation is reviewed, and each group heard, after a number of reviews
that follows from how many there are: whatever reservations begin and end, and whatever leaf and
application the groups are in.
"""

from math import inf
from typing import NamedTuple

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.groups import AskGroup
from licorne_core.model.apps.requests import Request
from licorne_core.model.apps.states import SCHEDULABLE
from licorne_core.model.nodes.node import Node
from licorne_core.scheduling.checks import Asking, CheckContext
from licorne_core.scheduling.measures import first_blocker, is_cluster
from licorne_core.scheduling.order import Holder
from licorne_core.scheduling.preemption import is_within_guarantee
from licorne_core.scheduling.waiting.blockers import Blocker
from licorne_core.values.asks import AskClass, Reservation
from licorne_core.values.resources import Items

REVIEW_TIME = 1.0
"""Seconds from one review to the next."""

OVERDUE = 2.0
"""Seconds for which a review waits for the end of a pass."""

MOST_REVIEWED = 128
"""Reservations that a review looks at."""

MOST_GROUPS = 512
"""Groups of the backlog that a review hears."""

MOST_CLASSES = 32
"""Ask classes for which it looks for a node."""

LOOKS_OF_A_TRY = 10
"""Comparing so many nodes with asks costs as much as trying one ask."""


class Finding(NamedTuple):
    """The fields of a reservation that a review sets."""

    idle_since: float | None
    gives_way: bool


class ToGiveUp(NamedTuple):
    """The decision: some reservations lose their nodes.

    `idle` ones end as their asks could not have the nodes, `yielded` ones give way.
    """

    idle: list[Reservation]
    yielded: list[Reservation]
    findings: dict[Reservation, Finding] | None
    """Of all reservations that were reviewed; None if this is no review."""


class Review:
    """Looks at the reservations of one partition when that is due, and changes no books."""

    __slots__ = (
        "_claims",
        "_context",
        "due_since",
        "work",
    )

    def __init__(self, context: CheckContext) -> None:
        """No review is due yet."""
        self._context = context
        self._claims: dict[AskClass, list[AskGroup]] = {}
        self.due_since = inf
        """Since when a review is due, in unix seconds: a second after the last one; inf if none is."""
        self.work = 0
        """Comparisons of nodes with asks so far: `LOOKS_OF_A_TRY` of them cost as much as a try."""

    def call(self, now: float) -> None:
        """Plan a review from unix seconds `now` on, as soon as a pass finds nothing else to do."""
        self.due_since = now
        self._context.wakeups.waiting.runnable = True

    def decide(self, now: float) -> ToGiveUp:
        """The reservations to give up in unix seconds `now`."""
        self.due_since = inf
        reserved = self._context.wakeups.reserved
        findings: dict[Reservation, Finding] = {}
        idle: list[Reservation] = []
        yielding: list[Reservation] = []
        for reservation in reserved.next_ones(MOST_REVIEWED):
            self.work += LOOKS_OF_A_TRY
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
        """True if the reservation ends for a claim that has room on its node by now."""
        if not (reservation.gives_way and self._claims):
            return False
        # Victims may have been told to stop for it since.
        promise = self._context.wakeups.reserved.holder(reservation).request.promise
        return promise is None and self._take_claim(reservation)

    def goes_first(self, node: Node, reservation: Reservation) -> Holder:
        """The ask that goes to a node where the holder of the reservation could go.

        It is the first claim that fits there, unless the holder's queue is due the room itself.
        """
        holder = self._context.wakeups.reserved.holder(reservation)
        if not (node.schedulable and self._gives_way(reservation, holder)):
            return holder
        is_own = reservation.node_id == node.node_id
        first: AskGroup | None = None
        for group in self._context.wakeups.backlog.first_groups(MOST_GROUPS):
            self.work += 1
            if first is not None and not _comes_before(group, first):
                continue
            if node.takes(group.ask_class, reserved=is_own) and self._is_claim(group, strict=True):
                first = group
        if first is None:
            return holder
        return Holder(first.app.leaf, first.app, first.first().request)

    def _take_claim(self, reservation: Reservation) -> bool:
        """Give the node to the first claim that has room on it; True if there is one.

        The asks of a claim may be gone by now, or their queue has got its guarantee.
        """
        node = None if reservation.node_id is None else self._context.nodes[reservation.node_id]
        if node is None or not node.schedulable:
            return False
        for ask_class, groups in self._claims.items():
            self.work += 1
            if node.takes(ask_class, reserved=True) and any(map(self._is_claim, groups)):
                del self._claims[ask_class]
                return True
        return False

    def _idle_since(self, reservation: Reservation, holder: Holder, now: float) -> float | None:
        blocker = holder_blocker(self._context, holder)
        if blocker is not None:
            blocker.retire_if_unused()
        elif holder.app.state in SCHEDULABLE and not self._is_refused(reservation, holder.request):
            return None
        return now if reservation.idle_since is None else reservation.idle_since

    def _is_refused(self, reservation: Reservation, request: Request) -> bool:
        """True if the RM has refused the ask its node, and no victim is yet to go there."""
        node_id, promise = reservation.node_id, request.promise
        if node_id is None or not self._context.nodes[node_id].is_refused(request.ask.ask_class):
            return False
        return promise is None or not promise.waits_on(node_id)

    def _gives_way(self, reservation: Reservation, holder: Holder) -> bool:
        if reservation.required or holder.request.promise is not None:
            return False
        return not is_within_guarantee(holder.leaf, holder.request.ask.ask_class.items)

    def _next_claims(self) -> dict[AskClass, list[AskGroup]]:
        """The groups with a claim, by class."""
        found: dict[AskClass, list[AskGroup]] = {}
        for group in self._context.wakeups.backlog.next_groups(MOST_GROUPS):
            if group is not None and self._is_claim(group):
                found.setdefault(group.ask_class, []).append(group)
                if len(found) == MOST_CLASSES:
                    break
        return dict(sorted(found.items(), key=lambda item: _class_key(item[0])))

    def _is_claim(self, group: AskGroup, *, strict: bool = False) -> bool:
        """True if asks of the group wait that only nodes stop, within their queue's guarantee.

        The group may have been tried long ago, but then it found no node. With `strict` the cluster
        as a whole must have room for an ask.
        """
        self.work += LOOKS_OF_A_TRY
        if not (group.waiting and group.nowhere):
            return False
        if not is_within_guarantee(group.app.leaf, group.ask_class.items):
            return False
        return self._is_free(group, strict=strict)

    def _is_free(self, group: AskGroup, *, strict: bool) -> bool:
        """True if nothing but the nodes stops the group now, or the cluster unless `strict`."""
        app: Application = group.app
        if app not in app.leaf.ranking:
            return False
        blocker = first_blocker(self._context, Asking(app, group))
        if blocker is not None:
            blocker.retire_if_unused()
        return blocker is None or (not strict and is_cluster(blocker, app.leaf))


def _comes_before(group: AskGroup, other: AskGroup) -> bool:
    """True if the first ask of the group is of higher priority than that of the other, or older."""
    if not group.waiting:
        return False
    key, other_key = group.heap[0][:3], other.heap[0][:3]
    return (key, group.app.app_id) < (other_key, other.app.app_id)


def _class_key(ask_class: AskClass) -> tuple[Items, str]:
    """Sort key of a claim among others."""
    return ask_class.items, ask_class.predicate or ""


def holder_blocker(context: CheckContext, holder: Holder) -> Blocker | None:
    """First obstacle of a reserved ask, apart from the nodes.

    A full cluster is no obstacle, as the room on the node would be in it; nor are answers that the
    RM owes, which come soon or are given up.
    """
    _, app, request = holder
    blocker = first_blocker(context, Asking(app, request.group, request))
    if blocker is None or blocker is context.predicates.owed:
        return None
    if is_cluster(blocker, holder.leaf):
        blocker.retire_if_unused()
        return None
    return blocker
