"""The review of reservations: no node is kept for an ask that could not have it (spec § 8.6).

Each second, once a pass has found nothing else to do, the reservations are looked at. One is given
up where its ask

* is *idle*: it would not be placed if its node were empty, as a maximum, a limit or its
  application's state is in the way, and has been so for `reservation.idle.timeout`;
* *gives way*: it would take its queue above its guarantee, and the node has room for a *claim*: an
  ask that stays within its own queue's guarantee and that nothing but the nodes stops. A claim that
  finds no room stands until the next review, and ends the first such reservation that has room.

A node that is given up is open. The ask comes back under its old rank: it may have another node
reserved as soon as nothing but the nodes stops it. Victims were told to stop for what was promised
(spec § 9.4.8), so what goes with a promise never gives way.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from licorne_core.apps.application import Application
from licorne_core.apps.groups import AskGroup
from licorne_core.apps.states import SCHEDULABLE
from licorne_core.asks import AskClass
from licorne_core.ids import NodeId
from licorne_core.nodes.node import Node
from licorne_core.preemption import is_within_guarantee
from licorne_core.queues.queue import Queue
from licorne_core.ranking import Ranking
from licorne_core.reservations import Reservation
from licorne_core.scheduling.blockers import Blocker
from licorne_core.scheduling.candidates import NodeIndex
from licorne_core.scheduling.checks import Asking, Scene, application_blocker, ask_blocker
from licorne_core.scheduling.reserved import Owner
from licorne_core.scheduling.shelf import Shelf
from licorne_core.scheduling.shortages import QuotaShortage

Shelves = Mapping[Ranking[Any], Shelf]
"""What leads to those who wait for something, by the ranking that it stands in."""

REVIEW_TIME = 1.0
"""Seconds from one review to the next."""

MOST_REVIEWED = 128
"""Reservations that a review looks at; the next one goes on behind them."""

MOST_LEAVES = 256
"""Leaves whose waiting asks a review looks at; the next one goes on behind them."""

MOST_OF_A_LEAF = 16
"""Applications of a leaf, and ask groups of an application, that it looks at."""

MOST_GROUPS = 1024
"""Ask groups that it looks at in all."""

MOST_CLASSES = 32
"""Ask classes for which it looks for a node."""


class Finding(NamedTuple):
    """What a review has found of a reservation; see the fields of that."""

    idle_since: float | None
    gives_way: bool


class ToGiveUp(NamedTuple):
    """The decision: some reservations lose their nodes, and this was found of all reviewed.

    `idle` ones end as their asks could not have the nodes, `yielded` ones give way.
    """

    idle: list[Reservation]
    yielded: list[Reservation]
    findings: dict[Reservation, Finding]


class Review:
    """Looks at the reservations of one partition when that is `due`; changes nothing."""

    __slots__ = (
        "_claims",
        "_index",
        "_leaf_cursor",
        "_nodes",
        "_reservation_cursor",
        "_root",
        "_scene",
        "due",
    )

    def __init__(
        self, root: Queue, nodes: Mapping[NodeId, Node], index: NodeIndex, scene: Scene
    ) -> None:
        """Over these queues and nodes."""
        self._root = root
        self._nodes = nodes
        self._index = index
        self._scene = scene
        self._reservation_cursor = 0
        self._leaf_cursor = 0
        self._claims: dict[AskClass, None] = {}
        self.due = False
        """Whether a second has gone since the last review, and something is reserved."""

    def decide(self, now: float) -> ToGiveUp:
        """What is to be given up in unix seconds `now`."""
        self.due = False
        reserved = self._scene.wakeups.reserved
        found = ToGiveUp([], [], {})
        yielding: list[Reservation] = []
        for reservation in self._next_reservations():
            owner = reserved.owner(reservation)
            if reservation.node_id is None or not owner.request.is_pending:
                continue
            since = self._idle_since(reservation, owner, now)
            finding = Finding(since, self._gives_way(reservation, owner))
            found.findings[reservation] = finding
            if since is not None and now - since >= owner.leaf.settings.reservation_idle_timeout:
                found.idle.append(reservation)
            elif finding.gives_way:
                yielding.append(reservation)
        self._claims = self._waiting_classes() if yielding else {}
        found.yielded.extend(one for one in yielding if self._is_claimed(one))
        return found

    def call(self) -> None:
        """Reservations are to be reviewed once a pass finds nothing else to do."""
        self.due = True
        self._scene.wakeups.waiting.runnable = True

    def gives_way(self, reservation: Reservation) -> bool:
        """Whether the reservation ends for a claim that has room on its node by now."""
        if not (reservation.gives_way and self._claims):
            return False
        # Victims may have been told to stop for it since.
        promise = self._scene.wakeups.reserved.owner(reservation).request.promise
        return promise is None and self._is_claimed(reservation)

    def _is_claimed(self, reservation: Reservation) -> bool:
        """Whether there is a claim to its node. A claim is made good once."""
        node = None if reservation.node_id is None else self._nodes[reservation.node_id]
        if node is None or not node.schedulable:
            return False
        for ask_class in self._claims:
            if node.takes(ask_class, reserved=True):
                del self._claims[ask_class]
                return True
        return False

    def _next_reservations(self) -> list[Reservation]:
        reserved = self._scene.wakeups.reserved
        start = self._reservation_cursor
        part = list(islice(reserved, start, start + MOST_REVIEWED))
        self._reservation_cursor = start + len(part) if len(part) == MOST_REVIEWED else 0
        return part

    def _idle_since(self, reservation: Reservation, owner: Owner, now: float) -> float | None:
        blocker = holder_blocker(self._scene, owner)
        if blocker is not None:
            blocker.retire_if_unused()
        elif owner.app.state in SCHEDULABLE:
            return None
        return now if reservation.idle_since is None else reservation.idle_since

    def _gives_way(self, reservation: Reservation, owner: Owner) -> bool:
        if reservation.required or owner.request.promise is not None:
            return False
        return not is_within_guarantee(owner.leaf, owner.request.ask.ask_class.items)

    def _waiting_classes(self) -> dict[AskClass, None]:
        """The classes of asks that only nodes stop and that stay within their queue's guarantee."""
        found: dict[AskClass, None] = {}
        waiting = (
            (leaf, group)
            for leaf, shelves in self._next_leaves()
            for group in _waiting_in(leaf, shelves)
        )
        for leaf, group in islice(waiting, MOST_GROUPS):
            ask_class = group.ask_class
            if ask_class in found or not is_within_guarantee(leaf, ask_class.items):
                continue
            if self._is_free_to_go(group):
                found[ask_class] = None
                if len(found) == MOST_CLASSES:
                    break
        in_order = sorted(found, key=lambda item: (item.items, item.predicate or ""))
        return dict.fromkeys(in_order)

    def _next_leaves(self) -> Iterator[tuple[Queue, Shelves]]:
        """The leaves in which asks wait for nodes, from where the last review ended.

        They wait for a node, or for the size of the cluster.
        """
        leaves: list[tuple[Queue, Shelves]] = []
        shortages = self._scene.wakeups.shortages
        for shelves in (self._index.waiting_for_nodes, shortages.waiting_for(self._root)):
            parents = [self._root]
            while parents:
                queue = parents.pop()
                shelf = shelves.get(queue.ranking)
                if shelf is not None and queue.is_leaf:
                    leaves.append((queue, shelves))
                elif shelf is not None:
                    parents.extend(shelf.members)
        start = self._leaf_cursor if self._leaf_cursor < len(leaves) else 0
        self._leaf_cursor = start + MOST_LEAVES
        return islice(leaves, start, start + MOST_LEAVES)

    def _is_free_to_go(self, group: AskGroup) -> bool:
        """Whether nothing but the nodes stops the group now; it may have been tried long ago."""
        app: Application = group.app
        blocker = application_blocker(self._scene, app)
        if blocker is None:
            blocker = ask_blocker(self._scene, Asking(app, group))
        if blocker is not None:
            blocker.retire_if_unused()
        return blocker is None or _is_cluster(blocker, app.leaf)


def _waiting_in(leaf: Queue, shelves: Shelves) -> Iterator[AskGroup]:
    for app in islice(shelves[leaf.ranking].members, MOST_OF_A_LEAF):
        shelf = shelves.get(app.ranking)
        members: Iterable[object] = () if shelf is None else shelf.members
        # Requests for nodes and for victims wait there as well.
        for member in islice(members, MOST_OF_A_LEAF):
            if isinstance(member, AskGroup):
                yield member


def _is_cluster(blocker: Blocker, leaf: Queue) -> bool:
    """Whether it is the size of the cluster that is in the way."""
    return isinstance(blocker, QuotaShortage) and blocker.quota is leaf.lineage[-1]


def holder_blocker(scene: Scene, owner: Owner) -> Blocker | None:
    """The first thing beside the nodes that keeps a reserved ask from running.

    A cluster that is full as a whole is no such thing, as the room on the node would be in it; nor
    are answers that the RM owes, which come soon or are given up.
    """
    _, app, request = owner
    blocker = application_blocker(scene, app, reserved=True)
    if blocker is None:
        blocker = ask_blocker(scene, Asking(app, request.group, request.promise), reserved=True)
    if blocker is None or blocker is scene.predicates.owed:
        return None
    if _is_cluster(blocker, owner.leaf):
        blocker.retire_if_unused()
        return None
    return blocker
