"""Preemption by trying everything: every set of victims on every node (spec § 9.4)."""

from collections.abc import Iterator
from itertools import chain, combinations
from typing import Any, NamedTuple

from licorne_core.scheduling.preemption import Law
from support.preemption.records import Cluster, NodeRecord, RequestRecord, total
from support.preemption.rules import Rules

RESPECTED = 4.0


class BrutePlan(NamedTuple):
    """A node, and the keys of who goes there and elsewhere, each in rank order."""

    node: str
    on_node: tuple[str, ...]
    elsewhere: tuple[str, ...]


class BruteForce:
    """All there is to say about one ask."""

    def __init__(self, cluster: Cluster, ask: RequestRecord) -> None:
        """Nothing is tried yet."""
        self.cluster = cluster
        self.ask = ask
        self.rules = Rules(cluster, ask)

    def answer(self, most: int) -> list[BrutePlan] | Law:
        """The best plans, each for another node, or the law in the way."""
        if self.rules.entitled is None:
            return Law.NO_GUARANTEE
        if not self.rules.is_due():
            return Law.OVER_GUARANTEE
        hosts = [node for node in self.cluster.nodes if self.may_host(node)]
        kept = any(self.is_kept(node) for node in self.cluster.nodes)
        if not hosts and kept:
            return Law.NODES_KEPT
        if not hosts:
            refused = any(self.is_free(node) and node.refused for node in self.cluster.nodes)
            return Law.RM_REFUSED if refused and self.ask.predicate else Law.NO_NODE
        if any(self.is_enough(node, ()) for node in hosts):
            return Law.WAITS_FOR_RELEASES
        if not self.rules.candidates:
            return Law.NO_VICTIMS
        legal = [gone for gone in self._sets() if self.is_legal(gone)]
        found = [best for node in hosts if (best := self._best_on(node, legal))]
        failed = Law.NODES_KEPT if kept else Law.NOT_ENOUGH
        return [plan for _, plan in sorted(found)[:most]] or failed

    def may_host(self, node: NodeRecord) -> bool:
        """Whether the node could be kept for the ask, and the RM does not mind."""
        if self.ask.predicate is not None:
            if False in node.refused:
                return False
            if True in node.refused and self.has_room(node, ()):
                return False
        return self.is_free(node)

    def is_kept(self, node: NodeRecord) -> bool:
        """Whether somebody on the node may go, and it is kept for another ask, and only that."""
        refused = self.ask.predicate is not None and False in node.refused
        may_go = any(one.node == node.name for one in self.rules.candidates)
        return may_go and self._is_large(node) and not refused and not self.is_free(node)

    def _is_large(self, node: NodeRecord) -> bool:
        """Whether the node is schedulable, and holds the ask if nothing else is there."""
        return node.schedulable and all(
            node.capacity.get(name, 0) >= wanted for name, wanted in self.ask.size.items()
        )

    def is_free(self, node: NodeRecord) -> bool:
        """Whether the node could be kept for the ask, as far as the RM has no say."""
        if not self._is_large(node):
            return False
        others = [
            one
            for one in self.cluster.requests
            if one.hold is not None and one.hold.node == node.name and one is not self.ask
        ]
        return all(
            one.priority < self.ask.priority
            and not one.triggered
            and one.hold is not None
            and not one.hold.required
            and self.cluster.now - one.hold.time > RESPECTED
            for one in others
        )

    def is_legal(self, gone: tuple[RequestRecord, ...]) -> bool:
        """Whether the victims' queues keep what is theirs."""
        return self.rules.keeps_guarantees(gone) and self.rules.keeps_losses(gone)

    def is_enough(self, node: NodeRecord, gone: tuple[RequestRecord, ...]) -> bool:
        """Whether the ask fits on the node and in its queues when they are gone."""
        return self.has_room(node, gone) and not any(
            self.rules.missing_quota(path, gone) for path in self.rules.way
        )

    def has_room(self, node: NodeRecord, gone: tuple[RequestRecord, ...]) -> bool:
        """Whether the ask fits on the node when they are gone."""
        here = [one for one in gone if one.node == node.name]
        return all(
            self.cluster.free(node, name) + total(here, name) >= wanted
            for name, wanted in self.ask.size.items()
        )

    def _sets(self) -> Iterator[tuple[RequestRecord, ...]]:
        """Every set of candidates, each in rank order."""
        candidates = self.rules.candidates
        return chain.from_iterable(combinations(candidates, size) for size in range(1, len(candidates) + 1))

    def _best_on(
        self, node: NodeRecord, legal: list[tuple[RequestRecord, ...]]
    ) -> tuple[tuple[int, int, str], BrutePlan] | None:
        """The best plan for one node, with its score."""
        enough = [gone for gone in legal if self.is_enough(node, gone)]
        if not enough:
            return None
        best = min(enough, key=lambda gone: self._key(node, gone))
        here = tuple(one.key for one in best if one.node == node.name)
        there = tuple(one.key for one in best if one.node != node.name)
        kind = 2 * any(not one.opted_in for one in best) + any(one.originator for one in best)
        return (kind, len(best), node.name), BrutePlan(node.name, here, there)

    def _key(self, node: NodeRecord, gone: tuple[RequestRecord, ...]) -> tuple[Any, ...]:
        place = {one.key: index for index, one in enumerate(self.rules.candidates)}
        here = [place[one.key] for one in gone if one.node == node.name]
        there = [place[one.key] for one in gone if one.node != node.name]
        return (
            any(not one.opted_in for one in gone),
            any(one.originator for one in gone),
            len(here),
            here,
            len(there),
            there,
        )
