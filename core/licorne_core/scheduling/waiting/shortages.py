"""Shortages of quotas (spec § 8.3c, e), and reserved nodes that block victim searches (§ 9.2).

A victim search that fails only because nodes are reserved for other asks is repeated as soon as one of these
reservations ends. Until then, or until the end of the usual interval, all similar asks wait: one search is
enough, as it would have the same result for all of them.
"""

from licorne_core.model.apps.requests import Request
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.guarantees import held_by
from licorne_core.model.queues.queue import Queue
from licorne_core.model.quotas import Quota, SharedQuota, headroom, within_max
from licorne_core.scheduling.waiting.blockers import Blocker, Blockers, Pool, Shortage, Timed
from licorne_core.scheduling.waiting.waiting_line import Amounts
from licorne_core.values.asks import AskClass
from licorne_core.values.ids import AllocationKey, AppId, QueuePath
from licorne_core.values.resources import Items


class QuotaPool(Pool):
    """Headroom under a maximum, and the shortages of items that wait for it, by amounts."""

    __slots__ = ("_all", "known", "thing")

    def __init__(self, quota: Quota, blockers: Blockers) -> None:
        """Start without waiting items."""
        super().__init__()
        self.thing = quota
        self._all = blockers
        self.known: dict[Items, QuotaShortage] = {}
        for shared in self._shared():
            shared.waiters[self] = blockers.partition

    def _shared(self) -> list[SharedQuota]:
        return [quota for quota in self.thing.bounding() if isinstance(quota, SharedQuota)]

    def shortage(self, items: Items) -> "QuotaShortage":
        """The shortage for these amounts; a new one if there is none."""
        shortage = self.known.get(items)
        if shortage is None:
            shortage = self.known[items] = QuotaShortage(self, items)
        return shortage

    def may_fit(self, least: Amounts) -> bool:
        """True if these amounts are available under the maximum."""
        return self.fits(tuple(least.items()))

    def fits(self, items: Items) -> bool:
        """True if the amounts fit under the maximum."""
        return within_max(self.thing, items)

    def that_may_open(self) -> list[Blocker]:
        """Return the blockers that may open after part of the quota was freed."""
        found: list[Blocker] = [self] if self.waiting_lines and self.lets_through() else []
        if len(self.watched):
            may_fit = self.watched.that_may_fit(headroom(self.thing))
            found += [shortage for shortage in may_fit if shortage.is_covered()]
        return found

    def drop(self, items: Items) -> None:
        """Forget a shortage without blocked items."""
        del self.known[items]
        if not self.known:
            self._drop()

    def _drop(self) -> None:
        self._all.drop(type(self), self.thing)
        for shared in self._shared():
            shared.waiters.pop(self, None)


class QuotaShortage(Shortage):
    """Blocks amounts that exceed the maximum of a queue, user or group (spec § 8.3c, e).

    Its items are the amounts that do not fit. An amount is zero if it was promised to the ask, and a
    lowered maximum has withdrawn it.
    """

    __slots__ = ("_of", "quota")

    def __init__(self, pool: QuotaPool, items: Items) -> None:
        """Create one of the pool's shortages."""
        super().__init__(pool, items)
        self.quota = pool.thing
        self._of = pool

    def is_covered(self) -> bool:
        """True if the amounts fit under the maximum."""
        return self._of.fits(self.items)

    def retire(self) -> None:
        """Remove this shortage from its pool."""
        self._of.drop(self.items)


class HeldPool(QuotaPool):
    """Asks that would use amounts of a quota that claims hold; by leaf, amounts, runtime and own claim."""

    __slots__ = ("stopped",)

    def __init__(self, quota: Quota, blockers: Blockers) -> None:
        """Start without waiting items."""
        super().__init__(quota, blockers)
        self.stopped: dict[tuple[Queue, Items, float, object], HeldShortage] = {}

    def behind(self, leaf: Queue, items: Items, runtime: float, own: object) -> "HeldShortage":
        """The blocker of asks with these values; a new one if there is none."""
        key = (leaf, items, runtime, own)
        shortage = self.stopped.get(key)
        if shortage is None:
            shortage = self.stopped[key] = HeldShortage(self, leaf, items, runtime, own)
        return shortage

    def may_fit(self, least: Amounts) -> bool:
        """Always True: once no claim stops the asks any more, the maximum itself may still do so."""
        return True

    def that_may_open(self) -> list[Blocker]:
        """Return the blockers that may open after part of the quota was freed, or a claim has gone."""
        found: list[Blocker] = [self] if self.waiting_lines else []
        found += [one for one in self.stopped.values() if one.priority_pass and one.is_covered()]
        return found

    def forget(self, shortage: "HeldShortage") -> None:
        """Forget a shortage without blocked items."""
        del self.stopped[shortage.leaf, shortage.items, shortage.runtime, shortage.own]
        if not self.stopped:
            self._drop()


class HeldShortage(Shortage):
    """Blocks asks that fit under a maximum, but would delay a claim on it (`model/claims.py`)."""

    __slots__ = ("_of", "leaf", "own", "quota", "runtime")

    def __init__(self, pool: HeldPool, leaf: Queue, items: Items, runtime: float, own: object) -> None:
        """Create one of the pool's shortages."""
        super().__init__(pool, items)
        self.quota: Quota = pool.thing
        self.leaf, self.runtime, self.own = leaf, runtime, own
        self._of = pool

    def is_covered(self) -> bool:
        """True if the asks delay no claim; otherwise the shortage is shut until its pool changes."""
        if held_by(self.quota, self.leaf, self.items, self.runtime, self.own) is None:
            return True
        self.shut_at = self.pool.changes
        return False

    def retire(self) -> None:
        """Remove this shortage from its pool."""
        self._of.forget(self)


def is_foreseen(blocker: Blocker | None) -> bool:
    """True if its end can be foreseen: by the time, or by allocations under a maximum, with claims or not."""
    return isinstance(blocker, QuotaShortage | HeldShortage | Timed)


MOST_KEPT = 256
"""Maximum number of likenesses that wait for reserved nodes; earlier ones wait for the usual interval."""

MOST_GIVEN_UP = 64
"""Maximum number of recorded ended reservations; if one is dropped, asks that wait for it search again."""

Likeness = tuple[QueuePath, AskClass, int, tuple[AppId, AllocationKey] | None]
"""Leaf, class and priority. An ask that has a node reserved has a likeness of its own."""


class NodesReserved(Blocker):
    """Blocks similar asks while the nodes of their possible victims are reserved for others."""

    __slots__ = ("_all", "ask_class", "refusal", "since", "until")

    def __init__(self, ask_class: AskClass, nodes: "ReservedNodeWaits") -> None:
        """Start without a search."""
        super().__init__()
        self._all = nodes
        self.ask_class = ask_class
        self.refusal: object = None
        """Result of the last search, for the module that searches."""
        self.since = 0
        """Number of nodes that had been given up before that search."""
        self.until = 0.0
        """Time at which the next search is due in any case, in unix seconds."""

    def lets_through(self) -> bool:
        """True if a node was given up since the last search, and is available to all asks."""
        return self._all.any_since(self.since, self)

    def may_use(self, node: Node) -> bool:
        """True if the node is large enough, its victims are not protected, and the RM has not refused it."""
        free = node.schedulable and not node.keeps_victims
        if not (free and node.holds(self.ask_class.items)):
            return False
        return not node.results.get((self.ask_class, False))


class ReservedNodeWaits:
    """The blockers of asks that wait for reserved nodes in one partition, and the nodes given up.

    Nodes are numbered as they are given up; those that asks may still use are searched from the latest back.
    Both are bounded, as every given-up node is compared with every group of similar asks.
    """

    def __init__(self) -> None:
        """Start empty."""
        self._by_likeness: dict[Likeness, NodesReserved] = {}
        self._given_up: dict[Node, int] = {}
        self._count = 0
        # The number of the node that was last dropped from the record.
        self._forgotten = 0

    def clear(self) -> None:
        """Drop all, as settings have changed."""
        self._by_likeness.clear()
        self._given_up.clear()

    def find(self, leaf: Queue, request: Request, now: float) -> NodesReserved | None:
        """Return the blocker of asks like this one; None if a search is due."""
        known = self._by_likeness.get(_likeness(leaf, request))
        if known is None or now >= known.until or known.lets_through():
            return None
        return known

    def note(self, leaf: Queue, request: Request, refusal: object, now: float, until: float) -> NodesReserved:
        """Note a search that failed because nodes are reserved: similar asks wait for them."""
        self._forget_expired(now)
        likeness = _likeness(leaf, request)
        known = self._by_likeness.pop(likeness, None) or NodesReserved(request.ask.ask_class, self)
        self._by_likeness[likeness] = known
        if len(self._by_likeness) > MOST_KEPT:
            del self._by_likeness[next(iter(self._by_likeness))]
        known.refusal, known.since, known.until = refusal, self._count, until
        return known

    def give_up(self, node: Node) -> None:
        """Note that the reservation of a node has ended."""
        if self._by_likeness:
            self._count += 1
            self._given_up.pop(node, None)
            self._given_up[node] = self._count
            if len(self._given_up) > MOST_GIVEN_UP:
                self._forgotten = self._given_up.pop(next(iter(self._given_up)))

    def left(self, node: Node) -> None:
        """Drop a removed node."""
        self._given_up.pop(node, None)

    def that_may_use(self, node: Node) -> list[NodesReserved]:
        """Return the blockers whose asks may use the node, if it was given up."""
        if node not in self._given_up:
            return []
        waiting = (kept for kept in self._by_likeness.values() if not kept.is_unused)
        return [kept for kept in waiting if kept.may_use(node)]

    def any_since(self, count: int, kept: NodesReserved) -> bool:
        """True if the asks may use a recorded node that was given up after the first `count` ones.

        A node that is reserved again counts when it is given up again.
        """
        if count < self._forgotten:
            return True
        taken, found = [], False
        for node, number in reversed(self._given_up.items()):
            if number <= count or found:
                break
            if node.keeps_victims:
                taken.append(node)
            found = kept.may_use(node)
        for node in taken:
            del self._given_up[node]
        return found

    def _forget_expired(self, now: float) -> None:
        """Drop expired blockers, oldest first."""
        while self._by_likeness:
            likeness, kept = next(iter(self._by_likeness.items()))
            if now < kept.until or not kept.is_unused:
                return
            del self._by_likeness[likeness]
        self._given_up.clear()


def _likeness(leaf: Queue, request: Request) -> Likeness:
    ask, reservation = request.ask, request.reservation
    has_own = request.promise is not None or (reservation is not None and reservation.node_id is not None)
    return leaf.path, ask.ask_class, request.priority, (ask.app_id, ask.key) if has_own else None
