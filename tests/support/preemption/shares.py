"""Fair shares by exact fractions: amounts are divided in rounds, and rounded at the end."""

from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property
from math import inf

from licorne_core.model.apps.requests import VICTIMS, RequestState
from support.preemption.records import Cluster, NodeRecord, RequestRecord, guarantees, lineage, total


class Shares:
    """The fair shares of all queues in the types of an ask."""

    def __init__(self, cluster: Cluster, ask: RequestRecord) -> None:
        """Prepare the shares for this ask."""
        self.cluster = cluster
        self.ask = ask

    @cached_property
    def all(self) -> dict[str, dict[str, Fraction]]:
        """The fair shares of all queues, by type of the ask."""
        return {name: fair_shares(self.cluster, name) for name in self.ask.size}

    def of(self, path: str, name: str) -> int:
        """The fair share of a queue, in whole units."""
        return int(self.all[name][path])

    def excess(self, path: str) -> tuple[str, int] | None:
        """The type of which a queue most exceeds its share, with the excess; None if it exceeds none."""
        above = {
            name: (used, due)
            for name in sorted(self.ask.size)
            if (used := self.cluster.settled(path, name)) > (due := self.of(path, name))
        }
        if not above:
            return None
        most = max(above, key=lambda name: inf if not above[name][1] else above[name][0] / above[name][1])
        return most, above[most][0] - above[most][1]

    def keep(self, path: str) -> bool:
        """True if the queue stays within its fair share with the ask."""
        return all(
            self.cluster.settled(path, name) + wanted <= self.of(path, name)
            for name, wanted in self.ask.size.items()
        )


def fair_shares(cluster: Cluster, name: str) -> dict[str, Fraction]:
    """The fair share of each queue in a type: its parent's share is divided in two rounds, exactly."""
    shares = {"root": Fraction(sum(_usable(cluster, node, name) for node in cluster.nodes))}
    waiting = ["root"]
    while waiting:
        parent = waiting.pop()
        below = [one.path for one in cluster.queues if lineage(one.path)[1:2] == [parent]]
        wanted = {path: _wanted(cluster, path, name) for path in below}
        due = {path: min(guarantees(cluster, path).get(name, 0), wanted[path]) for path in below}
        weights = {path: guarantees(cluster, path).get(name, 0) for path in below}
        left = Fraction(int(shares[parent]))
        first = _level(left, due, weights)
        left -= sum(first.values())
        open_ = {path: wanted[path] - due[path] for path in below}
        more = _level(left, {path: open_[path] for path in below if weights[path]}, weights)
        left -= sum(more.values())
        rest = _level(
            left, {path: open_[path] for path in below if not weights[path]}, dict.fromkeys(below, 1)
        )
        shares |= {path: first[path] + more.get(path, 0) + rest.get(path, 0) for path in below}
        waiting += below
    return shares


def _usable(cluster: Cluster, node: NodeRecord, name: str) -> int:
    """The usable amount of a node: without foreign allocations, and on a closed node at most its usage."""
    free = 0 if node.schedulable else cluster.free(node, name)
    return max(0, node.capacity.get(name, 0) - node.occupied.get(name, 0) - free)


def _wanted(cluster: Cluster, path: str, name: str) -> int:
    """The demand: usage without victims and pending amounts, at most the maximum."""
    there = [
        one
        for one in cluster.inside(path)
        if (one.counts and one.state not in VICTIMS) or one.state is RequestState.PENDING
    ]
    most = (cluster.queue(path).max or {}).get(name)
    return total(there, name) if most is None else min(most, total(there, name))


def _level(amount: Fraction, bounds: Mapping[str, int], weights: Mapping[str, int]) -> dict[str, Fraction]:
    """The amounts after they were raised by weight, until each is at its bound or nothing is left."""
    parts = dict.fromkeys(bounds, Fraction(0))
    while True:
        rising = [path for path in bounds if parts[path] < bounds[path] and weights[path]]
        if not rising or amount <= 0:
            return parts
        weight = sum(weights[path] for path in rising)
        step = min(amount / weight, *[(bounds[path] - parts[path]) / weights[path] for path in rising])
        for path in rising:
            parts[path] += step * weights[path]
        amount -= step * weight
