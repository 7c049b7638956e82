"""Search for victims: the best node for an ask, with the fewest victims (spec § 9.4).

1. Law 4: the ask's queue has to stay within its guarantee or fair share. The ask's fence is found (law 7).
2. Nodes that could be reserved for the ask. An ask that fits without victims waits.
3. For each node, the fewest victims: regular ones before originators, originators before victims that opted
   out. Those on the node make room, those on other nodes bring the ask's queues below their maxima. Of equal
   numbers, the fewest are on the node. All laws hold after each victim.
4. The plans are sorted by kind of victims, number of victims, and node id. The best are first.

Most searches examine a few nodes only. The first nodes are tried by id, as most searches end there.
The other nodes follow by their least number of victims, until none can beat the plans found.

A search counts its what-if steps. One node may use up a tenth of them; then the node is tried greedily: each
candidate that helps is taken in rank order, and superfluous ones are put back. When the search has no steps
left, it returns its best plans so far; without a plan, the other nodes are tried greedily.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Final, NamedTuple

from licorne_core.config.schema import VictimOrder
from licorne_core.messages.preemption import PreemptionRule, Spared
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import Request, seconds_lost, seconds_run
from licorne_core.model.effort import Search
from licorne_core.model.nodes.book import NodeBook
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.guarantees import guaranteed, settled
from licorne_core.model.queues.queue import Queue
from licorne_core.scheduling.waiting.dirty import Dirty
from licorne_core.standard.preemption.candidates import Candidates
from licorne_core.standard.preemption.covering import gang_amounts, may_be_complete
from licorne_core.standard.preemption.hosts import FIRST_NODES, AskHosts, next_to_yield
from licorne_core.standard.preemption.laws import (
    Claim,
    Comparison,
    Law,
    Out,
    claims_of,
    fence_of,
    quota_shortage,
)
from licorne_core.standard.preemption.leaves import VictimLeaf, VictimLeaves
from licorne_core.standard.preemption.losses import Losses
from licorne_core.standard.preemption.planning import Planning, VictimPlan
from licorne_core.standard.preemption.shares import Divisions
from licorne_core.standard.preemption.standing import candidates_for, plan_stands, without_promise
from licorne_core.standard.preemption.together import (
    FEW_NODES,
    Together,
    is_least,
    is_plain,
    spots_for,
    times,
)
from licorne_core.standard.preemption.units import Units
from licorne_core.standard.preemption.victim_counts import CountsBySize
from licorne_core.standard.preemption.victim_index import VictimIndex
from licorne_core.standard.preemption.victims import WhatIf
from licorne_core.values.asks import Reservation
from licorne_core.values.ids import AppId, QueuePath
from licorne_core.values.resources import Resources

ALLOCATIONS_OF_A_TRY: Final = 8
"""Number of allocations whose examination costs as much as one try of an ask."""

STEPS = 20_000
"""Maximum number of what-if steps of one search."""
_FOR_ANY_CLAIM = (Law.NODES_KEPT, Law.WAITS_FOR_RELEASES)
"""Refusals after which no other claim of the ask is tried: another search follows."""
NODES = 10
"""Maximum number of plans of one search, each for another node, about which the RM is asked."""


def alone() -> int:
    """The number of equal asks if the search is for one ask only."""
    return 1


class SearchRefusal(NamedTuple):
    """The reason why there is no plan."""

    law: Law
    queue: QueuePath
    """Queue whose guarantee or fair share counts for the ask; the ask's leaf if it has no claim to either."""
    requested: Resources
    settled: Resources
    """Settled usage of the queue, in the ask's types."""
    guaranteed: Resources
    """Guarantee of the queue, in the ask's types."""
    share: Resources | None = None
    """Fair share of the queue in the ask's types, if the ask may preempt up to it."""
    out: Mapping[Out, int] = {}
    """Number of excluded leaves, and of excluded allocations of other leaves, by reason.

    At most `MOST_COUNTED` allocations are counted.
    """
    spared: tuple[Comparison, ...] = ()
    """Comparisons with allocations that their priority protects (law 6).

    Of each meeting queue, the comparison with the lowest priority; the lowest queue first.
    """
    until: float | None = None
    """Time at which the result may change by itself, in unix seconds; None if it cannot.

    At that time a candidate is old enough, a loss expires, or a reservation yields. The time is that of the
    search if not all candidates that may become old enough were examined.
    """


class PreemptionSearch(Search):
    """Finds victims in one partition. `work` counts allocations, leaves, nodes and what-if steps."""

    def __init__(
        self,
        root: Queue,
        nodes: NodeBook,
        applications: Mapping[AppId, Application],
        reserved: Iterable[Reservation],
        losses: Losses,
        in_units: Collection[AppId] = (),
        *,
        part: int,
        first_nodes: int = FIRST_NODES,
        dirty: Dirty | None = None,
    ) -> None:
        """Search these live objects of a partition, with all its reservations and its gangs in units.

        `first_nodes` is the number of nodes tried by id first. It affects the cost, not the result.
        A search that has to measure more than `part` nodes continues in another turn. `dirty` notes demands.
        """
        super().__init__(ALLOCATIONS_OF_A_TRY)
        self._root = root
        self._first_nodes = first_nodes
        self._index = VictimIndex(nodes, applications, reserved, losses, in_units)
        self._counts = CountsBySize(self._index, part)
        self.divisions = Divisions(nodes, dirty)
        """Fair shares of queues."""
        self.delaying = 0
        """Bits of the extensions that may delay stops of victims in a leaf."""

    def find(
        self,
        app: Application,
        request: Request,
        now: float,
        *,
        steps: int = STEPS,
        most: int = NODES,
        refused: Collection[Node] = (),
        equals: Callable[[], int] = alone,
    ) -> list[VictimPlan] | SearchRefusal:
        """Return at most `most` plans for a pending ask, each for another node, best first; never empty.

        `steps` bounds the what-if steps. No plan is for one of the `refused` nodes. The caller checks
        that the ask may trigger preemption at all (spec § 9.2). `now` is in unix seconds. `equals` counts
        the asks that are to get room together, this one included; then there is one plan.

        Raises:
            StillLooking: not all nodes have been measured yet; the next call continues there.
        """
        try:
            find = partial(self._find, app, request, now, steps, most, refused, equals)
            return without_promise(request, find)
        finally:
            self._count_divisions()

    def _find(
        self,
        app: Application,
        request: Request,
        now: float,
        steps: int,
        most: int,
        refused_nodes: Collection[Node],
        equals: Callable[[], int],
    ) -> list[VictimPlan] | SearchRefusal:
        leaf: Queue = app.leaf
        wanted = request.ask.ask_class.items
        refused, is_covered = refusal(Law.NO_GUARANTEE, Claim(leaf), request), False
        for claim in claims_of(leaf, wanted, self.divisions):
            if claim.covers(wanted):
                found = self._find_by(claim, app, request, now, steps, most, refused_nodes, equals)
                if isinstance(found, list) or found.law in _FOR_ANY_CLAIM:
                    return found
                until = earliest(found.until, refused.until)
                refused, is_covered = found._replace(until=until), True
                continue
            if not is_covered:
                refused = refusal(claim.exceeded, claim, request)
        return refused

    def _find_by(
        self,
        claim: Claim,
        app: Application,
        request: Request,
        now: float,
        steps: int,
        most: int,
        refused: Collection[Node],
        equals: Callable[[], int],
    ) -> list[VictimPlan] | SearchRefusal:
        """Do the same as `find`, by one claim of the ask that covers it."""
        leaf: Queue = app.leaf
        wanted = request.ask.ask_class.items
        beyond = quota_shortage(leaf.lineage, wanted)
        candidates = candidates_for(self._index, app, claim, request, now)
        hosts = AskHosts(self._index, self._counts, candidates, request, self._first_nodes, refused)
        what_if = WhatIf(steps)
        found: list[VictimPlan] | SearchRefusal = []
        together = gang_amounts(app, request)
        if together:
            fence = fence_of(leaf, request.priority, together, claim.shares)
            leaves = VictimLeaves(self._index, leaf, claim, fence, together, now)
            is_short = not may_be_complete(leaves, claim, leaf, together)
            self.work += leaves.judged
            if is_short:
                refused_gang = refusal(Law.GANG_INCOMPLETE, claim, request)
                return refused_gang._replace(requested=dict(together))
        left = None if any(beyond) else hosts.without_victims(most)
        if left is not None:
            found = [VictimPlan(node, (), ()) for node in left]
            found = found or refusal(Law.WAITS_FOR_RELEASES, claim, request)
        elif candidates.leaves.any():
            planning = Planning(candidates, what_if, beyond)
            with_spare = request.ask.ask_class.predicate is not None
            found = planning.best(hosts, most, with_spare=with_spare)
            plain = found and all(is_plain(one, candidates.units, self.delaying) for one in found[0].victims)
            number = equals() if plain else 1
            if number > 1:
                found = [self._for_all(app, request, claim, hosts, found[0], number, now)]
        if not found:
            found = self._refusal(candidates, hosts, claim, request)
        self.work += what_if.steps + candidates.looked_at + hosts.looked_at
        if isinstance(found, list):
            return [plan._replace(rule=claim.rule) for plan in found]
        return found

    def _for_all(
        self,
        app: Application,
        request: Request,
        claim: Claim,
        hosts: AskHosts,
        plan: VictimPlan,
        equals: int,
        now: float,
    ) -> VictimPlan:
        """The plan, or a better one that helps as many of the equal asks as possible together."""
        leaf: Queue = app.leaf
        wanted = request.ask.ask_class.items
        tables = [self._counts.of(times(wanted, number)) for number in range(1, equals + 1)]
        for number in range(equals, 1, -1):
            together = times(wanted, number)
            if not claim.covers(together):
                continue
            beyond = quota_shortage(leaf.lineage, together)
            self.work += sum([table.refresh() + table.recount() for table in tables[:number]])
            fence = fence_of(leaf, request.priority, together, claim.shares)
            candidates = Candidates(self._index, leaf, claim, fence, wanted, now)
            is_small = len(self._index.nodes) <= FEW_NODES
            if not (is_small or candidates.by_cost) and is_least(plan, tables[:number]):
                return plan
            elsewhere = candidates if is_small and any(beyond) else None
            spots = spots_for(hosts, tables[:number], plan, elsewhere, is_small=is_small)
            search = Together(candidates, spots, wanted, number, beyond, self.delaying, is_small=is_small)
            better = search.improve(plan, quota_shortage(leaf.lineage, wanted))
            self.work += search.what_if.steps + candidates.looked_at
            if better is not None:
                return better
        return plan

    def _refusal(
        self, candidates: Candidates, hosts: AskHosts, claim: Claim, request: Request
    ) -> SearchRefusal:
        """Return the refusal of an ask without a plan."""
        if hosts.are_kept():
            found = refusal(Law.NODES_KEPT, claim, request)
        elif hosts.are_refused():
            found = refusal(Law.RM_REFUSED, claim, request)
        elif hosts.any_host():
            found = why_no_candidates(candidates, claim, request)
        else:
            found = refusal(Law.NO_NODE, claim, request)
        reserved, applications = self._index.reserved, self._index.applications
        yields = next_to_yield(reserved, request, applications, candidates.now)
        return found._replace(until=earliest(found.until, yields))

    def stands(self, app: Application, request: Request, plan: VictimPlan, upto: int, now: float) -> bool:
        """True if a plan is still legal on the live books, and still necessary.

        `upto` selects the victims (`VictimPlan.victims_upto`).
        """
        stands, work = without_promise(
            request,
            lambda: plan_stands(
                self._index, self.divisions, app, request, plan, plan.victims_upto(upto), now
            ),
        )
        self.work += work
        self._count_divisions()
        return stands

    def any_claim(
        self, app: Application, request: Request, now: float, holds: Callable[[Candidates], bool]
    ) -> bool:
        """True if `holds` is true for the candidates of one of the claims that cover the ask."""
        wanted, found = request.ask.ask_class.items, False
        for claim in claims_of(app.leaf, wanted, self.divisions):
            if not found and claim.covers(wanted):
                candidates = candidates_for(self._index, app, claim, request, now)
                found = holds(candidates)
                self.work += candidates.looked_at
        self._count_divisions()
        return found

    def _count_divisions(self) -> None:
        """Count the divisions of this search as its work."""
        self.work += self.divisions.work
        self.divisions.work = 0

    def spared(
        self,
        app: Application,
        request: Request,
        node: Node,
        victims: Collection[Request],
        rule: PreemptionRule,
        now: float,
    ) -> Spared | None:
        """First allocation on the node that the ask could have stopped instead of one of the victims.

        None if the ask's queue does not compare costs, as then no alternative was compared.
        """
        leaf: Queue = app.leaf
        wanted = request.ask.ask_class.items
        claims = [one for one in claims_of(leaf, wanted, self.divisions) if one.rule is rule]
        if not claims or leaf.settings.preemption_victim_order is not VictimOrder.COST:
            return None
        candidates = candidates_for(self._index, app, claims[0], request, now)
        others = (one for one in candidates.on_node(node) if one.victim.request not in victims)
        first = next(others, None)
        self.work += candidates.looked_at
        if first is None:
            return None
        other = first.victim.request
        assumed = self.assumed_checkpoint(first.victim.app.leaf)
        lost = seconds_lost(other, assumed, now)
        return Spared(app_id=other.ask.app_id, key=other.key, lost=lost)

    def units(self) -> Units:
        """The current units of gangs."""
        index = self._index
        return Units(index.nodes, index.applications, index.in_units)

    def assumed_checkpoint(self, leaf: Queue) -> float | None:
        """Checkpoint assumed for allocations of the leaf whose RM reported none, in unix seconds."""
        return self._index.assumed_checkpoint(leaf)

    def check(self) -> None:
        """Compare the caches with nodes and leaves; raises InvariantBroken (rule P5)."""
        self._index.check()
        self._counts.check()
        self.divisions.check()


MOST_COUNTED = 2_000
"""Maximum number of allocations that a refusal counts."""


def earliest(*times: float | None) -> float | None:
    """The earliest of these times; None if all are None."""
    return min([time for time in times if time is not None], default=None)


def refusal(law: Law, claim: Claim, request: Request) -> SearchRefusal:
    """Return the refusal of an ask with the claim that counts for it."""
    queue, names = claim.queue, [name for name, _ in request.ask.ask_class.items]
    return SearchRefusal(
        law=law,
        queue=queue.path,
        requested=request.ask.ask_class.resources,
        settled={name: settled(queue, name) for name in names},
        guaranteed={name: due for name in names if (due := guaranteed(queue, name))},
        share=None if claim.shares is None else claim.shares.of(queue),
    )


def why_no_candidates(candidates: Candidates, claim: Claim, wanted: Request) -> SearchRefusal:
    """Return the refusal of an ask that may trigger preemption, with counts of excluded allocations."""
    why = _Reasons(candidates)
    for leaf in candidates.leaves.inside():
        victim_leaf = candidates.leaves.of(leaf)
        if isinstance(victim_leaf, VictimLeaf):
            why.count(victim_leaf)
        else:
            why.out[victim_leaf] += 1
            if victim_leaf is Out.HIGHER_FENCE:
                # The fence's own priority counts, so the priority inside does not matter.
                why.note_priority(leaf, 0)
    law = Law.NOT_ENOUGH if candidates.found else Law.NO_VICTIMS
    plain = refusal(law, claim, wanted)
    return plain._replace(out=dict(why.out), spared=why.spared(), until=why.until())


class _Reasons:
    """Counts of excluded leaves and allocations by reason, and the times at which reasons change."""

    __slots__ = ("_candidates", "_is_cut_off", "_least", "_left", "_times", "out")

    def __init__(self, candidates: Candidates) -> None:
        """Start with zero counts."""
        self._candidates = candidates
        self._left = MOST_COUNTED
        # True if an allocation that was not examined may become old enough.
        self._is_cut_off = False
        self.out: Counter[Out] = Counter()
        self._times: list[float] = []
        self._least: dict[QueuePath, Comparison] = {}

    def spared(self) -> tuple[Comparison, ...]:
        """The comparison with the lowest priority of each meeting queue, the lowest queue first."""
        return tuple(sorted(self._least.values(), key=lambda one: -one.queue.count(".")))

    def note_priority(self, leaf: Queue, priority: int) -> None:
        """Record that their priority protects allocations of this priority in the leaf."""
        found = self._candidates.leaves.compared(leaf, priority)
        least = self._least.get(found.queue)
        if least is None or found.other < least.other:
            self._least[found.queue] = found

    def until(self) -> float | None:
        """Time at which the first excluded allocation becomes a candidate; None if none ever does.

        It is the time of the search if allocations that were not counted may become candidates at any time.
        """
        first = min(self._times, default=None)
        return self._candidates.now if first is None and self._is_cut_off else first

    def count(self, victim_leaf: VictimLeaf) -> None:
        """Count the excluded allocations of a leaf, up to the maximum."""
        candidates = self._candidates
        minimum = victim_leaf.leaf.settings.preemption_minimum_runtime
        if self._left > 0:
            for together, judged in candidates.judged_in(victim_leaf):
                self._left -= len(together)
                if judged is not None:
                    self.out[judged] += len(together)
                if judged is Out.HIGHER_PRIORITY:
                    highest = max([request.priority for request in together])
                    self.note_priority(victim_leaf.leaf, highest)
                if judged is Out.TOO_YOUNG:
                    youngest = min([seconds_run(request, candidates.now) for request in together])
                    self._times.append(candidates.now + minimum - youngest)
                if self._left <= 0:
                    break
        self._is_cut_off |= self._left <= 0 and minimum > 0
        until = candidates.leaves.next_loss_change(victim_leaf.leaf) if victim_leaf.may_lose else None
        if until is not None:
            self._times.append(until)
