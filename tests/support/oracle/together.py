"""The victims for several equal asks of a queue: all sets of victims are tried, for one combined ask.

The combined ask may be spread over nodes. Its first part is the first ask.
"""

from collections.abc import Sequence
from dataclasses import replace

from licorne_core.model.apps.requests import RequestState
from support.oracle.books import AppRecord, AskRecord
from support.oracle.order import Look
from support.oracle.queues import seconds
from support.oracle.victims import Plan, search_for
from support.preemption.brute_force import BruteForce, Parties, Party, Rules
from support.preemption.records import NodeRecord

Key = tuple[tuple[int, int], int]
"""Price and number of victims: the smallest key is the best."""


class AsOne:
    """A number of equal asks, combined into one."""

    def __init__(self, tried: BruteForce, number: int, put_off: Sequence[str] = ()) -> None:
        """Exclude victims of the leaves `put_off`, which are only stopped for a single ask."""
        self.tried = tried
        self.number = number
        size = {name: value * number for name, value in tried.ask.size.items()}
        self.rules = Rules(tried.cluster, replace(tried.ask, size=size), fair=tried.rules.fair)
        self.hosts = sorted(
            [node for node in tried.cluster.nodes if tried.may_host(node)], key=lambda node: node.name
        )
        ranked = [one for one in self.rules.candidates if self._is_plain(one, put_off)]
        self.allowed: Parties = tuple(sorted(ranked, key=lambda one: str(one.first.node)))

    def _is_plain(self, party: Party, put_off: Sequence[str]) -> bool:
        first, in_units = party.first, self.tried.cluster.elastic
        plain = party.opted_in and not party.originator and first.leaf not in put_off
        return plain and not (first.is_member and first.app in in_units)

    def slots(self, node: NodeRecord, gone: Parties) -> int:
        """The number of asks that fit on the node without the victims and amounts promised to others."""
        cluster = self.tried.cluster
        here = [one.first for one in gone if one.first.node == node.name]
        beside = [one for one in self.tried.holders(node) if one.triggered]
        there = [one for one in cluster.requests if one.node == node.name]
        most = 1 if any(one.state is RequestState.NOTICED for one in there) else self.number
        for name, wanted in self.tried.ask.size.items():
            room = cluster.free(node, name) + _sum(here, name) - _sum(beside, name)
            most = min(most, room // wanted if wanted else most)
        return max(0, most)

    def is_enough(self, gone: Parties) -> bool:
        """True if all asks fit on nodes and in their queues without the victims."""
        over = any(self.rules.missing_quota(path, [one.first for one in gone]) for path in self.rules.way)
        return not over and sum(self.slots(node, gone) for node in self.hosts) >= self.number

    def key(self, gone: Parties) -> Key:
        """The sort key of a set: its price, then its size; lower is better."""
        return self.rules.price(gone), len(gone)

    def best(self, fixed: Parties = ()) -> Parties | None:
        """The best legal set that includes `fixed`; of equal ones the first by node and rank."""
        best: tuple[Parties, Key] | None = None
        left = tuple(one for one in self.allowed if one not in fixed)
        open_sets: list[tuple[Parties, int]] = [(fixed, 0)] if self.tried.is_legal(fixed) else []
        while open_sets:
            gone, start = open_sets.pop()
            if best is not None and self.key(gone) >= best[1]:
                continue
            if self.is_enough(gone):
                best = gone, self.key(gone)
            elif (best is None or len(gone) + 1 < best[1][1] or self.rules.by_cost) and self.is_enough(
                (*gone, *left[start:])
            ):
                more = [((*gone, left[at]), at + 1) for at in reversed(range(start, len(left)))]
                open_sets += [one for one in more if self.tried.is_legal(one[0])]
        return None if best is None else best[0]


def _sum(requests: Sequence[object], name: str) -> int:
    return sum(one.size.get(name, 0) for one in requests)  # type: ignore[attr-defined]


def with_equals(look: Look, app: AppRecord, ask: AskRecord, plan: Plan, number: int) -> Plan:
    """The plan of one ask, or a better one for as many equal asks as it can serve."""
    tried = search_for(look, app, ask, fair=plan.fair)
    put_off = [
        queue.path
        for queue in look.queues.values()
        if seconds(queue.properties.get("preemption.notice", "0s"))
    ]
    names = [*plan.on_node, *plan.elsewhere]
    for count in range(number, 1, -1):
        as_one = AsOne(tried, count, put_off)
        if not names or plan.kind or not as_one.rules.is_due():
            continue
        plain = AsOne(tried, 1, put_off)
        if not {*names} <= {_name(one) for one in plain.allowed}:
            return plan
        fixed = tuple(one for one in as_one.allowed if _name(one) in names)
        extended = as_one.best(fixed) if len(fixed) == len(names) else None
        best = as_one.best()
        if best is not None and extended is not None and as_one.key(best) >= as_one.key(extended):
            return plan
        if best is not None:
            return _first_part(as_one, best, plan)
    return plan


def _first_part(as_one: AsOne, gone: Parties, plan: Plan) -> Plan:
    """The victims for the first ask: on the first node where it fits, and then on other nodes."""
    one_ask = AsOne(as_one.tried, 1)
    for node in as_one.hosts:
        here = tuple(one for one in gone if one.first.node == node.name)
        first = next((here[:end] for end in range(len(here) + 1) if one_ask.slots(node, here[:end])), None)
        if first is None:
            continue
        for one in gone:
            missing = _missing(one_ask, first)
            if one not in first and _missing(one_ask, (*first, one)) != missing:
                first = (*first, one)
        on_node = [_name(one) for one in first if one.first.node == node.name]
        elsewhere = [_name(one) for one in first if one.first.node != node.name]
        return plan._replace(node_id=node.name, on_node=on_node, elsewhere=elsewhere)
    raise AssertionError("the asks fit somewhere")


def _missing(one_ask: AsOne, gone: Parties) -> list[int]:
    """The amount of each type by which queues exceed their maxima with the ask and without the victims."""
    cluster, rules = one_ask.tried.cluster, one_ask.rules
    missing = []
    for name, wanted in rules.ask.size.items():
        beyond = [0]
        for path in rules.way:
            limit = cluster.most(path, name)
            if limit is not None:
                beyond.append(cluster.settled(path, name) + wanted - limit)
        missing.append(max(0, max(beyond) - _sum([one.first for one in gone], name)))
    return missing


def _name(party: Party) -> tuple[str, str]:
    return party.first.app, party.first.key
