"""Nodes that are kept for others, and who would have victims there (spec § 9.2).

A search for victims that fails only because nodes are kept for other asks is made again as soon as
one of them is given up. Until then, or until the usual interval is over, all asks that are
alike wait: for them the search would come to the same, so that one is enough for all.
"""

from licorne_core.model.apps.requests import Request
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.queue import Queue
from licorne_core.scheduling.preemption import Refusal
from licorne_core.scheduling.waiting.blockers import Blocker
from licorne_core.values.asks import AskClass
from licorne_core.values.ids import AllocationKey, AppId, QueuePath

MOST_KEPT = 256
"""Likenesses that a node which is given up wakes; of more the earliest wait for their interval."""

MOST_GIVEN_UP = 64
"""Nodes that are remembered as given up, the latest; who has waited for others searches again."""

Likeness = tuple[QueuePath, AskClass, int, tuple[AppId, AllocationKey] | None]
"""Leaf, class and priority. An ask that has a node of its own reserved is like no other."""


class Kept(Blocker):
    """The nodes are kept that asks of one likeness would have victims on."""

    __slots__ = ("_all", "ask_class", "refusal", "since", "until")

    def __init__(self, ask_class: AskClass, nodes: "KeptNodes") -> None:
        """Nothing was searched for yet."""
        super().__init__()
        self._all = nodes
        self.ask_class = ask_class
        self.refusal: Refusal | None = None
        """What the last search came to."""
        self.since = 0
        """How many nodes had been given up by then."""
        self.until = 0.0
        """When the next search is due in any case, in unix seconds."""

    def lets_through(self) -> bool:
        """Whether a node was given up since the last search, and is there for everybody."""
        return self._all.any_since(self.since, self)

    def may_use(self, node: Node) -> bool:
        """Whether the node is reserved for nobody, large enough, and not refused by the RM."""
        free = node.schedulable and not node.reservations
        if not (free and node.holds(self.ask_class.items)):
            return False
        return not node.results.get((self.ask_class, False))


class KeptNodes:
    """Who waits for kept nodes in one partition, and which nodes were given up.

    Nodes are counted as they are given up, and those that asks may still use are looked at from the
    latest back. What was found for a likeness is remembered as long as it holds. Both are bounded,
    as a node is offered to all likenesses and a likeness looks at all nodes.
    """

    __slots__ = ("_by_likeness", "_count", "_forgotten", "_given_up")

    def __init__(self) -> None:
        """Nobody waits."""
        self._by_likeness: dict[Likeness, Kept] = {}
        self._given_up: dict[Node, int] = {}
        self._count = 0
        # The number of the last node that is not remembered.
        self._forgotten = 0

    def clear(self) -> None:
        """Nobody waits any more: settings have changed."""
        self._by_likeness.clear()
        self._given_up.clear()

    def find(self, leaf: Queue, request: Request, now: float) -> Kept | None:
        """What asks like this one wait for; None if a search is due."""
        known = self._by_likeness.get(_likeness(leaf, request))
        if known is None or now >= known.until or known.lets_through():
            return None
        return known

    def note(
        self, leaf: Queue, request: Request, refusal: Refusal, now: float, until: float
    ) -> Kept:
        """A search failed because nodes are kept: those who are alike wait for them."""
        self._forget_expired(now)
        likeness = _likeness(leaf, request)
        known = self._by_likeness.pop(likeness, None) or Kept(request.ask.ask_class, self)
        self._by_likeness[likeness] = known
        if len(self._by_likeness) > MOST_KEPT:
            del self._by_likeness[next(iter(self._by_likeness))]
        known.refusal, known.since, known.until = refusal, self._count, until
        return known

    def give_up(self, node: Node) -> None:
        """An ask that had the node reserved has it no more."""
        if self._by_likeness:
            self._count += 1
            self._given_up.pop(node, None)
            self._given_up[node] = self._count
            if len(self._given_up) > MOST_GIVEN_UP:
                self._forgotten = self._given_up.pop(next(iter(self._given_up)))

    def left(self, node: Node) -> None:
        """The node is gone."""
        self._given_up.pop(node, None)

    def that_may_use(self, node: Node) -> list[Kept]:
        """Who of those that wait may use the node, if it was given up."""
        if node not in self._given_up:
            return []
        waiting = (kept for kept in self._by_likeness.values() if not kept.blocks_nobody)
        return [kept for kept in waiting if kept.may_use(node)]

    def any_since(self, count: int, kept: Kept) -> bool:
        """Whether they may use a node that was given up after so many others, as far as known.

        One that is kept again counts when it is given up again: until then nobody looks at it.
        """
        if count < self._forgotten:
            return True
        taken, found = [], False
        for node, number in reversed(self._given_up.items()):
            if number <= count or found:
                break
            if node.reservations:
                taken.append(node)
            found = kept.may_use(node)
        for node in taken:
            del self._given_up[node]
        return found

    def _forget_expired(self, now: float) -> None:
        """Forget what was found first, as far as it holds no more."""
        while self._by_likeness:
            likeness, kept = next(iter(self._by_likeness.items()))
            if now < kept.until or not kept.blocks_nobody:
                return
            del self._by_likeness[likeness]
        self._given_up.clear()


def _likeness(leaf: Queue, request: Request) -> Likeness:
    ask, reservation = request.ask, request.reservation
    has_own = reservation is not None and reservation.node_id is not None
    return leaf.path, ask.ask_class, ask.priority, (ask.app_id, ask.key) if has_own else None
