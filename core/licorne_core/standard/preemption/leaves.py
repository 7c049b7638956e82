"""Leaves with possible victims of one ask, and the bounds on victims in them (spec § 9.3, laws 2 to 7)."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from licorne_core.config.schema import PreemptionPolicy, VictimOrder
from licorne_core.model.queues.queue import Queue
from licorne_core.standard.preemption.laws import (
    Claim,
    Comparison,
    Fence,
    Out,
    above_guarantee,
    branch_of,
    compared,
    highest_priority,
    is_over_guarantee,
)
from licorne_core.standard.preemption.shares import DueShares
from licorne_core.standard.preemption.victim_index import VictimIndex
from licorne_core.standard.preemption.victims import Allowance
from licorne_core.values.resources import Items


class VictimLeaf(NamedTuple):
    """A leaf with possible victims of the ask, and the bounds on these victims."""

    leaf: Queue
    priority: int | None
    """Highest priority of a victim; None if there is no bound."""
    allowances: tuple[Allowance, ...]
    """Amounts that may be taken from the queues up to the meeting queue: the excess over the guarantee of
    queues with one, and for a claim to a fair share the excess over each share.
    """
    above: tuple[tuple[Queue, Mapping[str, int]], ...]
    """The same amounts before any what-if victim, each with its queue."""
    losses: Allowance
    """Losses that the leaf may still have in this hour, by the types of its loss limit."""
    may_lose: Mapping[str, int]
    """The same losses, before any what-if victim."""
    counted: tuple[str, ...]
    """Types that count for the fair shares of these queues; a victim has to use each of them."""
    checkpoint: float | None
    """Checkpoint assumed for allocations whose RM reported none, in unix seconds; None if unknown."""

    def is_counted(self, sizes: Mapping[str, int]) -> bool:
        """True if a victim of these sizes is charged to each fair share (law 5)."""
        return all(sizes.get(name, 0) > 0 for name in self.counted)


class VictimLeaves:
    """The leaves with possible victims of one search, in the order of their paths; found lazily."""

    def __init__(
        self, index: VictimIndex, leaf: Queue, claim: Claim, fence: Fence, wanted: Items, now: float
    ) -> None:
        """Prepare a search for an ask of the leaf with this claim."""
        self._index = index
        self._leaf = leaf
        self.claim = claim
        """The claim of the ask."""
        self._fence = fence
        self._wanted = wanted
        self.now = now
        """The time of the search, in unix seconds."""
        self.by_cost = leaf.settings.preemption_victim_order is VictimOrder.COST
        """True if the ask's queue compares costs of victims."""
        self.judged = 0
        """Number of leaves examined."""
        self._known: dict[Queue, VictimLeaf | Out] = {}
        self._books: dict[Queue, Mapping[str, int]] = {}
        self._allowances: dict[Queue, Allowance] = {}
        self._excess: dict[Queue, Allowance | None] = {}

    def __iter__(self) -> Iterator[VictimLeaf]:
        """Leaves with possible victims, in the order of their paths."""
        for leaf in self.inside():
            victim_leaf = self.of(leaf)
            if isinstance(victim_leaf, VictimLeaf):
                yield victim_leaf

    def any(self) -> bool:
        """True if any leaf has possible victims. Otherwise no node has to be examined."""
        return next(iter(self), None) is not None

    def inside(self) -> Iterator[Queue]:
        """All leaves inside the fence."""
        waiting = [self._fence.root]
        while waiting:
            queue = waiting.pop()
            if queue.is_leaf:
                yield queue
            else:
                below = queue.children
                waiting += [below[name] for name in sorted(below, reverse=True)]

    def of(self, leaf: Queue) -> VictimLeaf | Out:
        """Return the bounds on victims in the leaf, or the reason why it has none."""
        known = self._known.get(leaf)
        if known is None:
            known = self._known[leaf] = self._judge_leaf(leaf)
        return known

    def compared(self, leaf: Queue, priority: int) -> Comparison:
        """Compare the ask to an allocation of a leaf inside the fence (law 6)."""
        branch = branch_of(leaf, self._fence)
        assert branch, f"{leaf!r} is inside the fence, and not the ask's"
        return compared(branch, self._fence, priority)

    def next_loss_change(self, leaf: Queue) -> float | None:
        """Time at which the oldest loss of the leaf expires; None if it has no losses."""
        return self._index.losses.next_change(leaf.path, self.now)

    def _judge_leaf(self, leaf: Queue) -> VictimLeaf | Out:
        self.judged += 1
        if leaf is self._leaf or self.claim.queue in leaf.lineage:
            return Out.OWN_QUEUE
        branch = branch_of(leaf, self._fence)
        if branch is None:
            return Out.OUTSIDE_FENCE
        if leaf.settings.preemption is PreemptionPolicy.DISABLED:
            return Out.DISABLED_POLICY
        priority = highest_priority(branch, self._fence)
        if isinstance(priority, Out):
            return priority
        above = [(queue, self._above(queue)) for queue in branch if queue.guaranteed]
        if not is_over_guarantee([rest for _, rest in above], self._wanted):
            return Out.BELOW_GUARANTEE
        allowances = [self._allowances[queue] for queue, _ in above]
        counted: list[str] = []
        if self.claim.shares is not None:
            for queue in branch:
                excess = self._above_share(queue, self.claim.shares)
                if excess is None:
                    return Out.BELOW_FAIR_SHARE
                allowances.append(excess)
                above.append((queue, dict(excess)))
                counted += excess
        may_lose = self._index.losses.remaining(leaf, self.now)
        checkpoint = None
        if may_lose or self.by_cost:
            checkpoint = self._index.assumed_checkpoint(leaf)
        bounds = tuple(allowances), tuple(above), dict(may_lose), may_lose
        return VictimLeaf(leaf, priority, *bounds, tuple(counted), checkpoint)

    def _above(self, queue: Queue) -> Mapping[str, int]:
        """Amounts of the queue above its guarantee, before any what-if victim is removed."""
        known = self._books.get(queue)
        if known is None:
            known = self._books[queue] = above_guarantee(queue)
            self._allowances[queue] = dict(known)
        return known

    def _above_share(self, queue: Queue, shares: DueShares) -> Allowance | None:
        """Allowance of the queue above its fair share; None if it does not exceed its share."""
        if queue not in self._excess:
            self._excess[queue] = shares.excess(queue)
        return self._excess[queue]
