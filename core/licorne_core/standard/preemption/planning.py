"""Plans: the best victims for each node, and the best nodes (spec § 9.4)."""

from bisect import insort
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from licorne_core.messages.preemption import PreemptionRule
from licorne_core.model.nodes.node import Node
from licorne_core.standard.preemption.candidates import Candidates
from licorne_core.standard.preemption.cheapest import CheapestSet
from licorne_core.standard.preemption.covering import REGULAR, Kinds, OtherNodes, sets_of
from licorne_core.standard.preemption.hosts import AskHosts
from licorne_core.standard.preemption.victims import (
    GROWTH,
    NO_PRICE,
    OPTED_OUT,
    ORIGINATOR,
    Candidate,
    Price,
    Vector,
    Victim,
    WhatIf,
    covers,
    kind_of,
    less,
    price_of,
)
from licorne_core.values.ids import NodeId

Score = tuple[int, Price, int, NodeId]
"""Kind of the victims, their price, their number, and the node; the smallest score is the best."""


class VictimPlan(NamedTuple):
    """A node for an ask, and the victims to be stopped for it."""

    node: Node
    on_node: tuple[Victim, ...]
    """Victims on the node, in order of rank."""
    other_nodes: tuple[Victim, ...]
    """Victims on other nodes, in order of rank: unless they are stopped, a queue would exceed its maximum, or
    a unit of a gang would be split."""
    spare: tuple[Victim, ...] = ()
    """Further possible victims on the node, in order of rank. The RM may choose some of them as well."""
    step: int = 0
    """Lowest step number, if all necessary victims are steps of gangs; else 0."""
    price: Price = NO_PRICE
    """Price of the necessary victims."""
    spare_prices: tuple[Price, ...] = ()
    """Prices of the spare victims."""
    rule: PreemptionRule = PreemptionRule.GUARANTEE
    """Rule by which the victims are stopped."""

    @property
    def victims(self) -> tuple[Victim, ...]:
        """All necessary victims."""
        return self.on_node + self.other_nodes

    @property
    def offered(self) -> tuple[Victim, ...]:
        """Victims on the node as sent to the RM: the necessary ones, then the spare ones."""
        return self.on_node + self.spare

    def victims_upto(self, upto: int) -> tuple[Victim, ...]:
        """Offered victims up to the index `upto` (-1: none of them), and all victims on other nodes."""
        return self.offered[: upto + 1] + self.other_nodes

    @property
    def start(self) -> int:
        """Index of the last necessary victim in `offered`; -1 if there is none."""
        return len(self.on_node) - 1

    def score_upto(self, upto: int) -> Score:
        """Sort key with the victims of `victims_upto`; opted-out victims weigh more than originators.

        Steps of gangs are preferred, the highest step first.
        """
        kind, victims = 0, self.victims_upto(upto)
        for victim in victims:
            kind |= kind_of(victim.request)
        if self.step and upto == self.start:
            kind = -self.step
        price = price_of((self.price, *self.spare_prices[: upto - self.start]))
        return (kind, price, len(victims), self.node.node_id)


SPARE = 32
"""Maximum number of spare victims of a plan."""

SHARES = 10
"""Divisor of the steps of a search; the quotient is the maximum for one node."""

MOST_COMPARED = 64
"""Maximum number of nodes compared by cost, and of candidates on other nodes for each of them."""

NEVER = 1 << 30
"""Number of victims that stands for "no number suffices"."""

MOST_SETS = 32
"""Maximum number of sufficient sets on a node that are combined with victims on other nodes."""

GREEDY_STEPS = 20_000
"""Additional steps for greedy attempts, after the steps of the search are used up."""

ONLY_GROWTH: Kinds = frozenset({GROWTH})
KINDS: tuple[Kinds, ...] = (
    REGULAR,
    REGULAR | {ORIGINATOR},
    REGULAR | {OPTED_OUT},
    REGULAR | {ORIGINATOR, OPTED_OUT, ORIGINATOR + OPTED_OUT},
)
"""Allowed kinds of victims, in the order of trial; `ONLY_GROWTH` precedes them if a gang has grown. The index
of a set is the first part of the score of its plans."""

Chosen = tuple[Sequence[Candidate], Sequence[Candidate]]
"""Candidates on the plan's node, and on other nodes."""


class Found(NamedTuple):
    """A plan, its candidates and its score."""

    plan: VictimPlan
    chosen: Chosen
    score: Score


class Planning:
    """Makes plans for one ask."""

    def __init__(self, candidates: Candidates, what_if: WhatIf, beyond: Vector) -> None:
        """Plan for an ask; `beyond` is its excess over the maxima of its queues."""
        self._candidates = candidates
        self._what_if = what_if
        self._beyond = beyond
        self._other_nodes = OtherNodes(candidates, what_if)
        # True after a node without a solution: from then on the totals of all candidates are compared.
        self._failed = False
        # By node, the highest step of any gang with members there.
        self._growth: dict[Node, int] = {}
        for steps in candidates.units.growing().values():
            for node, step in steps.items():
                self._growth[node] = max(step, self._growth.get(node, 0))
        self._highest = max(self._growth.values(), default=0)
        self._share = what_if.steps_left
        self._limit = what_if.steps_left

    def best(self, hosts: AskHosts, most: int, *, with_spare: bool) -> list[VictimPlan]:
        """Return the best plans, best first: at most `most`, each for another node.

        Must not be called for an ask that fits on a node and within the maxima of its queues.
        """
        plans: list[Found] = []
        self._share = max(1, self._what_if.steps_left // SHARES)
        self._limit = self._what_if.steps_left + GREEDY_STEPS
        if self._candidates.by_cost:
            self._try_cheap(hosts, plans, most)
        elif not self._try_first(hosts, plans, most):
            self._try_others(hosts, plans, most)
        return [self._with_spare(one) if with_spare else one.plan for one in plans]

    def _try_first(self, hosts: AskHosts, plans: list[Found], most: int) -> bool:
        """Try the first nodes by id; True if no other node can have a better plan."""
        for fewest, node, short in hosts.first():
            if fewest > self._least():
                return False
            self._try(fewest, node, short, plans, most)
            worst = _worst(plans, most)
            if worst is not None and (worst[0], worst[2]) <= (-self._highest, self._least()):
                return True
        return False

    def _try_cheap(self, hosts: AskHosts, plans: list[Found], most: int) -> None:
        """Try the nodes that need the fewest victims, as any of them may have the cheapest set."""
        for fewest, node in islice(hosts.others(), MOST_COMPARED):
            self._try(fewest, node, hosts.lacking(node), plans, most)
            if self._what_if.exhausted and (plans or self._what_if.steps > self._limit):
                return

    def _try_others(self, hosts: AskHosts, plans: list[Found], most: int) -> None:
        """Try the other nodes by their least number of victims, smallest first."""
        if self._failed and self._is_hopeless(hosts):
            return
        for fewest, node in hosts.others():
            worst = _worst(plans, most)
            if worst is not None:
                least = self._least()
                step = self._highest if any(self._beyond) else self._growth.get(node, 0)
                if (-step, NO_PRICE, max(fewest, least), node.node_id) > worst:
                    if fewest >= least and not self._growth:
                        return
                    continue
            self._try(fewest, node, hosts.lacking(node), plans, most)
            if self._what_if.exhausted and (plans or self._what_if.steps > self._limit):
                return
            if self._failed and self._is_hopeless(hosts):
                return

    def _is_hopeless(self, hosts: AskHosts) -> bool:
        """True if each node lacks more than all candidates together can free."""
        return not hosts.least_is_within(self._other_nodes.most)

    def _try(self, fewest: int, node: Node, short: Vector | None, plans: list[Found], most: int) -> None:
        """Search for victims on a node, and keep the plan if it is among the `most` best.

        `short` is the room that the node lacks, None if it cannot host the ask.
        """
        if short is None:
            return
        if self._failed and not covers(self._other_nodes.most, short):
            return
        may_be_alone = fewest == 1 and not self._growth and not self._candidates.by_cost
        alone = self._alone(node, short) if may_be_alone else None
        chosen = self._within(node, short) if alone is None else ((alone,), ())
        if chosen is None:
            self._failed = True
        else:
            score, worst = _score(node, chosen), _worst(plans, most)
            if worst is None or score < worst:
                # Victims are listed only now: a victim in the minimum of a gang adds all members of the gang.
                insort(plans, Found(_plan(node, chosen), chosen, score), key=lambda one: one.score)
                del plans[most:]

    def _least(self) -> int:
        """Lower bound on the number of victims of any plan."""
        known = self._other_nodes.least() if any(self._beyond) else None
        return 1 if known is None else known

    def _within(self, node: Node, short: Vector) -> Chosen | None:
        """Victims for a node; searched greedily once the node's share of the steps is used up."""
        what_if = self._what_if
        if not what_if.exhausted:
            chosen = what_if.within(self._share, lambda: self._on_host(node, short))
            if chosen is not None or not what_if.gave_up:
                return chosen
        return self._greedily(node, short)

    def _on_host(self, node: Node, short: Vector) -> Chosen | None:
        """Victims for a node: first by kind, then the fewest, and of equal numbers the fewest on it."""
        regular, by_cost = ONLY_GROWTH if self._growth else REGULAR, self._candidates.by_cost
        if not (any(short) or by_cost):
            there = self._other_nodes.cached_first(node, regular, self._beyond)
            if there is not None and len(there) <= self._least():
                return (), there
        here = self._candidates.on_node(node)
        if not here and any(short):
            return None
        others = self._other_nodes
        tried: frozenset[int] = frozenset()
        present = {one.kind for one in here}
        for kinds in (ONLY_GROWTH, *KINDS) if self._growth else KINDS:
            if not others.asked and kinds is not regular and kinds & present <= tried:
                continue
            tried = kinds & present
            allowed, chosen = [one for one in here if one.kind in kinds], None
            if by_cost and kinds is not ONLY_GROWTH:
                chosen = self._cheapest(allowed, node, kinds, short)
            chosen = chosen or self._of_kinds(allowed, node, kinds, short)
            if chosen is not None:
                return chosen
        return None

    def _cheapest(self, here: list[Candidate], node: Node, kinds: Kinds, short: Vector) -> Chosen | None:
        """The victims with the least lost work, on the node and others; None if no compared set suffices."""
        missing, gains = short, [(one, one.gives) for one in here]
        if not covers(short, self._beyond):
            missing, gains = short + self._beyond, [(one, one.gives + one.total) for one in here]
            self._other_nodes.asked = True
            no_room = (0,) * len(short)
            there = islice(self._other_nodes.all_but(node), MOST_COMPARED)
            gains += [(one, no_room + one.gives) for one in there if one.kind in kinds]
        found = CheapestSet(gains, self._what_if).of(missing)
        if found is None:
            return None
        on_node = [one for one in found if one.is_on(node)]
        return on_node, [one for one in found if not one.is_on(node)]

    def _alone(self, node: Node, short: Vector) -> Candidate | None:
        """Return the first regular candidate that suffices alone; it precedes all other sets.

        A shortcut: most searches end here, after very few candidates.
        """
        for one in self._candidates.regular_on(node):
            if covers(one.gives, short) and self._what_if.take(one):
                self._what_if.put_back(one)
                return one if covers(one.total, self._beyond) else None
        return None

    def _of_kinds(self, here: list[Candidate], node: Node, kinds: Kinds, short: Vector) -> Chosen | None:
        others, all_beyond = self._other_nodes, self._beyond
        # The best sets so far, the last one best of all; its number of candidates; number of sets to compare.
        best: list[Chosen] = []
        number, left = NEVER, MOST_SETS

        def completed(chosen: Sequence[Candidate]) -> bool:
            """True if no further set on the node can be part of fewer victims, or none is compared."""
            nonlocal number, left
            beyond, left = all_beyond, left - 1
            for candidate in chosen:
                beyond = less(beyond, candidate.total)
            found: tuple[Candidate, ...] | None = ()
            if any(beyond):
                if len(chosen) + others.fewest(beyond) >= number:
                    found = None
                elif chosen:
                    found = others.first(beyond, node, kinds)
                else:
                    found = others.cached_first(node, kinds, beyond)
            if found is not None and len(chosen) + len(found) < number:
                best.append(([*chosen], found))
                number = len(chosen) + len(found)
            if left <= 0 and best:
                return True
            return number <= len(chosen) or number <= others.fewest(all_beyond)

        needed = short
        if not covers(short, all_beyond):
            # The node has to free the amounts that other nodes cannot.
            needed = tuple(map(max, short, less(all_beyond, others.most)))
        sets_of(here, len(short), self._what_if, completed).first(needed)
        return best[-1] if best else None

    def _greedily(self, node: Node, short: Vector) -> Chosen | None:
        missing = all_missing = short + self._beyond
        types = len(short)
        taken: list[tuple[Candidate, Vector]] = []
        for one, gives in self._with_gains(node):
            no_help = not one.is_on(node) and any(missing[:types])
            if no_help or not any(missing):
                break
            rest = less(missing, gives)
            if rest != missing and self._what_if.take(one):
                taken.append((one, gives))
                missing = rest
        for one, _ in taken:
            self._what_if.put_back(one)
        if any(missing):
            return None
        needed = [one for one, _ in _without_surplus(taken, all_missing)]
        return ([one for one in needed if one.is_on(node)], [one for one in needed if not one.is_on(node)])

    def _with_gains(self, node: Node) -> Iterator[tuple[Candidate, Vector]]:
        """Yield candidates on the node, then on other nodes, with their gains of room and quota."""
        for one in self._candidates.on_node(node):
            yield one, one.gives + one.total
        no_room = (0,) * len(self._beyond)
        for one in self._other_nodes.all_but(node):
            yield one, no_room + one.gives

    def _with_spare(self, found: Found) -> VictimPlan:
        """Return the plan with spare victims, each of which is legal in addition to all before it."""
        plan, (on_node, other_nodes), _ = found
        taken = [one for one in (*on_node, *other_nodes) if self._what_if.take(one)]
        going = {victim.request for victim in plan.victims}
        spare: list[Candidate] = []
        for one in self._candidates.on_node(plan.node):
            if len(spare) == SPARE:
                break
            if one.victim.request not in going and len(one.victims) == 1 and self._what_if.take(one):
                spare.append(one)
        for one in (*taken, *spare):
            self._what_if.put_back(one)
        prices = tuple([one.price for one in spare])
        return plan._replace(spare=tuple(one.victim for one in spare), spare_prices=prices)


def _without_surplus(
    taken: Sequence[tuple[Candidate, Vector]], missing: Vector
) -> list[tuple[Candidate, Vector]]:
    """Return the necessary victims: the last chosen ones are restored first."""
    surplus = [-need for need in missing]
    for _, gives in taken:
        surplus = [have + amount for have, amount in zip(surplus, gives, strict=True)]
    needed = []
    for one, gives in reversed(taken):
        rest = [have - amount for have, amount in zip(surplus, gives, strict=True)]
        if min(rest) >= 0:
            surplus = rest
        else:
            needed.append((one, gives))
    return needed[::-1]


def _score(node: Node, chosen: Chosen) -> Score:
    """Score of the plan with these candidates."""
    kind = number = 0
    for one in (*chosen[0], *chosen[1]):
        kind |= max(0, one.kind)
        number += len(one.victims)
    return (-_step(chosen) or kind, _price(chosen), number, node.node_id)


def _price(chosen: Chosen) -> Price:
    return price_of([one.price for one in (*chosen[0], *chosen[1])])


def _step(chosen: Chosen) -> int:
    """Lowest step number, if all candidates are steps of gangs; else 0."""
    return min((one.step if one.kind == GROWTH else 0 for one in (*chosen[0], *chosen[1])), default=0)


def _plan(node: Node, chosen: Chosen) -> VictimPlan:
    on_node, other_nodes = chosen
    victims = [victim for one in (*on_node, *other_nodes) for victim in one.victims]
    return VictimPlan(
        node,
        tuple(victim for victim in victims if victim.node is node),
        tuple(victim for victim in victims if victim.node is not node),
        step=min((one.step for one in (*on_node, *other_nodes)), default=0),
        price=_price(chosen),
    )


def _worst(plans: list[Found], most: int) -> Score | None:
    """The score that another plan has to beat; None while there are fewer than `most` plans."""
    return plans[-1].score if len(plans) == most else None
