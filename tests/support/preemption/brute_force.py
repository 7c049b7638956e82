"""Preemption by exhaustive search: every set of victims on every node (spec § 9.4).

An ask has up to two claims: to the guarantee of a queue and to the fair share of its leaf. Each is tried.

The rules for victims are those of spec § 9, applied to records.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, combinations, takewhile
from typing import Any, NamedTuple

from licorne_core.config.schema import PreemptionPolicy, VictimOrder
from licorne_core.model.apps.requests import VICTIMS, RequestState
from licorne_core.standard.preemption.keys import RECLAIM
from licorne_core.standard.preemption.laws import Law
from support.preemption.records import (
    Cluster,
    LossRecord,
    NodeRecord,
    RequestRecord,
    guarantees,
    lineage,
    total,
)
from support.preemption.shares import Shares

HOUR = 3600
LOWEST, HIGHEST = -(2**31), 2**31 - 1


class Party:
    """Allocations that are stopped together: a single one, or a step or all of an elastic gang."""

    def __init__(self, members: tuple[RequestRecord, ...], step: int = 0) -> None:
        """Set the members."""
        self.members = members
        self.opted_in = all(one.opted_in for one in members)
        self.originator = any(one.originator for one in members)
        self.step = step if self.opted_in and not self.originator else 0
        self.first = min(members, key=lambda one: (-one.created, one.key))

    def __repr__(self) -> str:
        """The keys of the members."""
        return f"Party({[one.key for one in self.members]}, {self.step})"

    def is_on(self, node: str) -> bool:
        """True if any member is on the node."""
        return any(one.node == node for one in self.members)


Parties = tuple[Party, ...]


def members_of(parties: Iterable[Party]) -> tuple[RequestRecord, ...]:
    """The members of all parties."""
    return tuple(one for party in parties for one in party.members)


def kind_of(parties: Sequence[Party]) -> int:
    """The order of stops: growth of gangs first, the highest steps before all others."""
    if parties and all(one.step for one in parties):
        return -min(one.step for one in parties)
    return 2 * any(not one.opted_in for one in parties) + any(one.originator for one in parties)


def units_of(cluster: Cluster, app: str) -> Iterator[Party]:
    """The parts of an elastic gang that are stopped together: the whole gang, or one of its steps."""
    least, step = cluster.elastic[app]
    here = [r for r in cluster.requests if r.app == app and r.is_member]
    there = tuple(r for r in here if r.counts and r.state not in VICTIMS)
    if there:
        yield Party(there)
    for number, start in enumerate(range(least, len(there), step), 1):
        yield Party(there[start : start + step], number)


class Rules:
    """The laws for one ask of a cluster, under one of its claims."""

    def __init__(self, cluster: Cluster, ask: RequestRecord, *, fair: bool = False) -> None:
        """Start without results. With `fair`, the claim is that to the fair share."""
        self.cluster = cluster
        self.ask = ask
        self.fair = fair
        self.shares = Shares(cluster, ask)
        self.way = lineage(ask.leaf)

    @cached_property
    def entitled(self) -> str | None:
        """The queue that guarantees a type of the ask, or the leaf that may claim its fair share."""
        if self.fair:
            reclaims = self.cluster.queue(self.ask.leaf).settings.of(RECLAIM)
            return self.ask.leaf if reclaims else None
        for path in self.way:
            if guarantees(self.cluster, path).keys() & self.ask.size.keys():
                return path
        return None

    def is_due(self) -> bool:
        """Law 4: the ask stays within the guarantee, or within the fair share."""
        assert self.entitled is not None
        if self.fair:
            return self.shares.keep(self.entitled)
        due = guarantees(self.cluster, self.entitled)
        return all(
            self.cluster.settled(self.entitled, name) + wanted <= due[name]
            for name, wanted in self.ask.size.items()
            if name in due
        )

    def missing_quota(self, path: str, removed: Iterable[RequestRecord] = ()) -> bool:
        """True if the ask exceeds a maximum of the queue without the victims."""
        gone = [one for one in removed if path in lineage(one.leaf)]
        for name, wanted in self.ask.size.items():
            most = self.cluster.most(path, name)
            if most is None:
                continue
            if self.cluster.settled(path, name) + wanted - total(gone, name) > most:
                return True
        return False

    def eligible(self) -> list[str]:
        """The leaves whose allocations may be victims by laws 3 and 7."""
        fence = "root"
        for path in self.way:
            settings = self.cluster.queue(path).settings
            if settings.preemption is PreemptionPolicy.FENCE or self._is_full(path):
                fence = path
                break
        return [
            queue.path
            for queue in self.cluster.queues
            if queue.is_leaf
            and fence in lineage(queue.path)
            and queue.path != self.ask.leaf
            and self.entitled not in lineage(queue.path)
            and queue.settings.preemption is not PreemptionPolicy.DISABLED
        ]

    def counted(self, one: RequestRecord, other: RequestRecord) -> int:
        """The priority of one as a child of the lowest queue that it shares with the other.

        An ask with the lowest of all priorities passes every queue unchanged, because such a queue looks like
        one without asks (§ 4.11). This does not apply to allocations, which are spared in case of doubt.
        """
        priority = one.priority
        for path in lineage(one.leaf):
            if path in lineage(other.leaf) or (one is self.ask and priority == LOWEST):
                break
            settings = self.cluster.queue(path).settings
            priority = settings.priority_offset + (0 if settings.priority_fence else priority)
            priority = max(LOWEST, min(HIGHEST, priority))
        return priority

    def _is_full(self, path: str) -> bool:
        """True if the ask exceeds the queue's maximum, or under its claim the fair share; always for root."""
        if path == "root":
            return True
        return self.missing_quota(path) or (self.fair and not self.shares.keep(path))

    def apart(self, leaf: str) -> list[str]:
        """The queues from the leaf up to the lowest common queue with the ask."""
        return [path for path in lineage(leaf) if path not in self.way]

    def is_over(self, leaf: str) -> bool:
        """Law 5: the queues that lose a victim exceed their guarantees, or their fair shares."""
        if self.fair and not all(self.shares.excess(path) for path in self.apart(leaf)):
            return False
        if not any(guarantees(self.cluster, path) for path in self.apart(leaf)):
            return True
        for name in self.ask.size:
            bound = [p for p in self.apart(leaf) if name in guarantees(self.cluster, p)]
            if bound and all(
                self.cluster.settled(path, name) > guarantees(self.cluster, path)[name] for path in bound
            ):
                return True
        return False

    def most_of(self, path: str, name: str) -> int:
        """The amount of a type that victims in a queue can free, within its excess over its guarantee."""
        if self.cluster.queue(path).is_leaf:
            may_lose = path in self.eligible() and self.is_over(path)
            there = [one for one in self.cluster.inside(path) if one.counts and one.state not in VICTIMS]
            most = total(there, name) if may_lose else 0
        else:
            below = [one.path for one in self.cluster.queues if lineage(one.path)[1:2] == [path]]
            most = sum(self.most_of(child, name) for child in below)
        if path in self.way:
            return most
        due = guarantees(self.cluster, path).get(name)
        if due is not None:
            most = max(0, min(most, self.cluster.settled(path, name) - due))
        above = self.shares.excess(path) if self.fair else None
        return min(most, above[1]) if above is not None and above[0] == name else most

    @cached_property
    def candidates(self) -> list[Party]:
        """All candidates, in the order of stops."""
        leaves = [leaf for leaf in self.eligible() if self.is_over(leaf)]
        units = [unit for app in self.cluster.elastic for unit in units_of(self.cluster, app)]
        grouped = {id(one) for one in members_of(units)}
        alone = [Party((one,)) for one in self.cluster.requests if id(one) not in grouped]
        found = [one for one in (*units, *alone) if one.first.leaf in leaves and self._may_all_go(one)]
        return sorted(found, key=self._rank)

    def _may_all_go(self, party: Party) -> bool:
        helps = any(one.size.keys() & self.ask.size.keys() for one in party.members)
        return helps and all(map(self._may_go, party.members))

    def _may_go(self, one: RequestRecord) -> bool:
        settings = self.cluster.queue(one.leaf).settings
        return (
            one.state in (RequestState.ALLOCATED, RequestState.PLACEHOLDER)
            and one.required_node is None
            and is_charged(self, one)
            and self.counted(one, self.ask) <= self.counted(self.ask, one)
            and self.seconds(one) >= settings.preemption_minimum_runtime
            and self.keeps_losses([one])
        )

    def seconds(self, one: RequestRecord) -> float:
        """The runtime so far."""
        return self.cluster.now - (one.created if one.brought else one.started)

    def seconds_lost(self, one: RequestRecord) -> float:
        """The seconds of work lost: since its checkpoint, or else since the median checkpoint of its leaf."""
        since, run = one.checkpoint, self.seconds(one)
        if since is None:
            here = [r for r in self.cluster.requests if r.leaf == one.leaf and r.counts]
            known = sorted(r.checkpoint for r in here if r.checkpoint is not None)
            since = known[(len(known) - 1) // 2] if known else None
        return run if since is None else max(0.0, min(run, self.cluster.now - since))

    @property
    def by_cost(self) -> bool:
        """True if the ask's queue compares losses."""
        return self.cluster.queue(self.ask.leaf).settings.preemption_victim_order is VictimOrder.COST

    def price(self, parties: Iterable[Party]) -> tuple[int, int]:
        """The highest priority among the members, and their lost work: parts of the cluster times seconds."""
        if not self.by_cost:
            return (LOWEST, 0)
        found = [
            (0 if party.step else one.priority, _lost_by(self, one))
            for party in parties
            for one in party.members
        ]
        return (max([LOWEST, *(priority for priority, _ in found)]), sum(lost for _, lost in found))

    def _rank(self, party: Party) -> tuple[object, ...]:
        head: tuple[object, ...] = (-party.step, not party.opted_in, party.originator)
        if self.by_cost:
            head += (*self.price((party,)), any(one.checkpoint is None for one in party.members))
        elif party.step:
            return (*head, 0, party.first.app, party.first.key, len(party.members))
        return (*head, -party.first.created, party.first.app, party.first.key, len(party.members))

    def keeps_guarantees(self, gone: Iterable[RequestRecord]) -> bool:
        """Law 2: no queue falls below its guarantee."""
        gone = list(gone)
        for victim in gone:
            for path in self.apart(victim.leaf):
                removed = [one for one in gone if path in lineage(one.leaf)]
                above = self.shares.excess(path) if self.fair else None
                if self.fair and (above is None or total(removed, above[0]) > above[1]):
                    return False
                for name, due in guarantees(self.cluster, path).items():
                    if name not in victim.size:
                        continue
                    if self.cluster.settled(path, name) - total(removed, name) < due:
                        return False
        return True

    def keeps_losses(self, gone: Iterable[RequestRecord]) -> bool:
        """True if no leaf loses more in an hour than its limit."""
        gone = list(gone)
        for leaf in {one.leaf for one in gone}:
            lost = [
                loss
                for loss in self.cluster.losses
                if loss.leaf == leaf and self.cluster.now - loss.time < HOUR
            ]
            for name, most in self.cluster.queue(leaf).settings.preemption_loss_limit:
                before = sum(_loss(loss, name) for loss in lost)
                here = [one for one in gone if one.leaf == leaf]
                if before + sum(self.seconds_lost(o) * o.size.get(name, 0) for o in here) > most:
                    return False
        return True


def is_charged(rules: Rules, one: RequestRecord) -> bool:
    """True if it uses the types in which the queues that lose it exceed their fair shares."""
    above = [rules.shares.excess(path) for path in rules.apart(one.leaf)] if rules.fair else []
    return all(found is None or one.size.get(found[0], 0) > 0 for found in above)


def _lost_by(rules: Rules, one: RequestRecord) -> int:
    """The lost work: parts of all nodes times seconds, times their cost."""
    nodes = rules.cluster.nodes
    parts = [
        value / size
        for name, value in sorted(one.size.items())
        if (size := sum(node.capacity.get(name, 0) for node in nodes))
    ]
    cost = float(one.tags.get("licorne/preemption-cost", "1"))
    return round(min(cost * (max(0.0, rules.seconds_lost(one)) * sum(parts) * 10**9), 1e30))


def _loss(loss: LossRecord, name: str) -> float:
    return loss.size.get(name, 0) * loss.seconds


RESPECTED = 4.0


class BrutePlan(NamedTuple):
    """A node, and the keys of victims on it and on other nodes, each in rank order."""

    node: str
    on_node: tuple[str, ...]
    elsewhere: tuple[str, ...]


class BruteForce:
    """The exhaustive search for one ask."""

    def __init__(self, cluster: Cluster, ask: RequestRecord, *, fair: bool = False) -> None:
        """Start without results. With `fair`, the claim is that to the fair share."""
        self.cluster = cluster
        self.ask = ask
        self.rules = Rules(cluster, ask, fair=fair)

    def claims(self) -> list["BruteForce"]:
        """The searches by the claim to a guarantee and by that to a fair share, if the ask has them now."""
        both = (self, BruteForce(self.cluster, self.ask, fair=True))
        return [one for one in both if one.rules.entitled is not None and one.rules.is_due()]

    def answer(self, most: int) -> list[BrutePlan] | Law:
        """The best plans, at most `most`, each for another node; or the blocking law."""
        law = Law.NO_GUARANTEE if self.rules.entitled is None else Law.OVER_GUARANTEE
        if BruteForce(self.cluster, self.ask, fair=True).rules.entitled is not None:
            law = Law.OVER_FAIR_SHARE
        for one in self.claims():
            found = one.answer_by_claim(most)
            if isinstance(found, list) or found in (Law.NODES_KEPT, Law.WAITS_FOR_RELEASES):
                return found
            law = found
        return law

    def answer_by_claim(self, most: int) -> list[BrutePlan] | Law:
        """The plans by the present claim, or the blocking law."""
        hosts = [node for node in self.cluster.nodes if self.may_host(node)]
        kept = any(self.is_kept(node) for node in self.cluster.nodes)
        if not hosts and kept:
            return Law.NODES_KEPT
        if not hosts:
            refused = any(self.is_free(node) and node.refused for node in self.cluster.nodes)
            return Law.RM_REFUSED if refused and self.ask.predicate else Law.NO_NODE
        if any(self.is_enough(node, ()) for node in hosts):
            left = [BrutePlan(name, (), ()) for name in self.left_beside(hosts)]
            return left[:most] or Law.WAITS_FOR_RELEASES
        if not self.rules.candidates:
            return Law.NO_VICTIMS
        legal = [gone for gone in self._sets() if self.is_legal(gone)]
        found = [best for node in hosts if (best := self._best_on(node, legal))]
        return [plan for _, plan in sorted(found)[:most]] or (Law.NODES_KEPT if kept else Law.NOT_ENOUGH)

    def may_host(self, node: NodeRecord) -> bool:
        """True if the node could be reserved for the ask, and the RM has not refused it."""
        refused = False in node.refused or (True in node.refused and self.has_room(node, ()))
        return self.is_free(node) and not (refused and self.ask.predicate is not None)

    def is_kept(self, node: NodeRecord) -> bool:
        """True if the node has candidates, and is only closed by reservations of other asks."""
        refused = self.ask.predicate is not None and False in node.refused
        may_go = any(one.is_on(node.name) for one in self.rules.candidates)
        return may_go and self._is_large(node) and not refused and not self.is_free(node)

    def _is_large(self, node: NodeRecord) -> bool:
        """True if the node is schedulable, holds the ask when empty, and starts in the way give way to it."""
        is_large = all(node.capacity.get(name, 0) >= wanted for name, wanted in self.ask.size.items())
        return node.schedulable and is_large and all(self._gives_way(node, one) for one in node.in_the_way)

    def _gives_way(self, node: NodeRecord, holder: tuple[str, str]) -> bool:
        """True if the ask precedes a planned start: by a guarantee, if the start is not within one now."""
        (one,) = (Rules(self.cluster, one) for one in self.cluster.requests if (one.app, one.key) == holder)
        is_due = holder not in node.closed and one.entitled is not None and one.is_due()
        return not self.rules.fair and not is_due

    def is_free(self, node: NodeRecord) -> bool:
        """True if the node could be reserved for the ask, regardless of the RM."""
        if not self._is_large(node):
            return False
        return all(self.yields(one) or one.triggered for one in self.holders(node)) and not (
            self.is_shared(node) and (self.ask.predicate or self._is_closed(node))
        )

    def is_shared(self, node: NodeRecord) -> bool:
        """True if amounts on the node are promised to others, so that the ask may use the remainder."""
        return any(one.triggered for one in self.holders(node))

    def holders(self, node: NodeRecord) -> list[RequestRecord]:
        """The other requests with a reservation of the node."""
        return [
            one
            for one in self.cluster.requests
            if one.hold is not None and one.hold.node == node.name and one is not self.ask
        ]

    def yields(self, one: RequestRecord) -> bool:
        """True if the request would lose its reserved node to the ask."""
        return one.hold is not None and (
            one.hold.provisional
            or (
                one.priority < self.ask.priority
                and not one.triggered
                and not one.hold.required
                and self.cluster.now - one.hold.time > RESPECTED
            )
        )

    def _is_closed(self, node: NodeRecord) -> bool:
        """True if the ask cannot use the remainder: a victim may be spared, or the node is not shared."""
        noticed = any(
            one.node == node.name and one.state is RequestState.NOTICED for one in self.cluster.requests
        )
        alone = [one for one in self.holders(node) if one.triggered and one.hold is not None]
        return noticed or any(one.predicate or (one.hold is not None and one.hold.is_alone) for one in alone)

    def is_legal(self, parties: Parties) -> bool:
        """True if no victim is listed twice, and the victims' queues keep their guarantees."""
        gone = members_of(parties)
        twice = len({id(one) for one in gone}) < len(gone)
        return not twice and self.rules.keeps_guarantees(gone) and self.rules.keeps_losses(gone)

    def is_enough(self, node: NodeRecord, parties: Parties) -> bool:
        """True if the ask fits on the node and in its queues once the victims have ended."""
        gone = members_of(parties)
        return self.has_room(node, parties) and not any(
            self.rules.missing_quota(path, gone) for path in self.rules.way
        )

    def has_room(self, node: NodeRecord, parties: Parties) -> bool:
        """True if the ask fits on the node without the victims and the amounts promised to others."""
        here = [one for one in members_of(parties) if one.node == node.name]
        promised = [one for one in self.holders(node) if one.triggered]
        return all(
            self.cluster.free(node, name) + total(here, name) - total(promised, name) >= wanted
            for name, wanted in self.ask.size.items()
        )

    def left_beside(self, hosts: Iterable[NodeRecord]) -> list[str]:
        """The nodes where the ask fits, up to the first on which nobody else has a promise or a start."""
        fit = [one for one in sorted(hosts, key=lambda one: one.name) if self.is_enough(one, ())]
        return [one.name for one in takewhile(lambda one: self.is_shared(one) or one.starts, fit)]

    def _sets(self) -> Iterator[Parties]:
        """Every set of candidates, each in rank order."""
        candidates = self.rules.candidates
        return chain.from_iterable(combinations(candidates, size) for size in range(1, len(candidates) + 1))

    def _best_on(
        self, node: NodeRecord, legal: list[Parties]
    ) -> tuple[tuple[int, tuple[int, int], int, str], BrutePlan] | None:
        """The best plan for one node, with its score."""
        enough = [gone for gone in legal if self.is_enough(node, gone)]
        if not enough:
            return None
        best = min(enough, key=lambda gone: self._key(node, gone))
        best = tuple(sorted(best, key=lambda one: not one.is_on(node.name)))
        gone = members_of(best)
        here = tuple(one.key for one in gone if one.node == node.name)
        there = tuple(one.key for one in gone if one.node != node.name)
        score = (kind_of(best), self.rules.price(best), len(gone), node.name)
        return score, BrutePlan(node.name, here, there)

    def _key(self, node: NodeRecord, gone: Parties) -> tuple[Any, ...]:
        """The sort key: growth first, the fewest parties, and of them the fewest on the node.

        By cost, the smallest loss and then the fewest victims.
        """
        place = {one: index for index, one in enumerate(self.rules.candidates)}
        here = [place[one] for one in gone if one.is_on(node.name)]
        there = [place[one] for one in gone if not one.is_on(node.name)]
        grows = all(one.step for one in gone)
        order = sorted((not one.is_on(node.name), place[one]) for one in gone)
        by_cost = self.rules.by_cost and not grows
        cheapest = (self.rules.price(gone), len(members_of(gone)), order) if by_cost else ()
        return (
            not grows,
            any(not one.opted_in for one in gone),
            any(one.originator for one in gone),
            cheapest,
            len(gone),
            len(here),
            here,
            there,
        )
