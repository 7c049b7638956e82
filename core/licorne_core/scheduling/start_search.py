"""The search for a shadow start: the earliest time at which a node has room for an ask.

Room on a node grows with time, as allocations end; what is held for other starts is taken from now on, until
their expected ends. The node with the earliest time wins, then the first in node order. A search of very many
nodes goes on in the next turn, like that of `node_search/heaps.py`; nodes that have changed meanwhile are
looked at again.
"""

from collections.abc import Iterator, Mapping
from math import inf
from typing import NamedTuple

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import Request
from licorne_core.model.nodes.book import NodeBook
from licorne_core.model.nodes.node import Node
from licorne_core.model.runtimes import Confidence, Runtimes
from licorne_core.scheduling.node_search.heaps import StillLooking
from licorne_core.scheduling.shadows import GRACE, Plan, ShadowStart
from licorne_core.values.asks import Allocation, Ask, AskClass
from licorne_core.values.ids import AppId
from licorne_core.values.resources import Items, charge, refund
from licorne_core.values.tags import RUNTIME, read_seconds


def declared_runtime(app: Application, ask: Ask) -> int | None:
    """Seconds that the ask, or else its application, says it runs; None if neither does."""
    own = read_seconds(ask.tags, RUNTIME) if ask.tags else None
    return read_seconds(app.tags, RUNTIME) if own is None else own


def extended(end: float, now: float) -> float:
    """Expected end of what should have ended at `end`: soon, ever less soon the longer it is overdue."""
    if end > now:
        return end
    more = GRACE
    while end + more <= now:
        more *= 2
    return end + more


class _End(NamedTuple):
    """Amounts that are free from `time` on; `known` of an allocation, not of a start."""

    time: float
    items: Items
    known: Confidence


class _Found(NamedTuple):
    """The earliest time at which a node has room, and that of the first end on it."""

    time: float
    first_end: float


class StartSearch:
    """Searches the nodes of one partition; books nothing."""

    __slots__ = ("_applications", "_at", "_found", "_nodes", "_of", "_part", "_rest", "runtimes", "work")

    def __init__(
        self,
        nodes: NodeBook,
        applications: Mapping[AppId, Application],
        part: int,
        runtimes: Runtimes | None,
    ) -> None:
        """Search these nodes; a search of more than `part` looks goes on in another turn."""
        self._nodes = nodes
        self._applications = applications
        self._part = part
        self._of: Request | None = None
        self._at = 0
        self._found: dict[Node, _Found] = {}
        self._rest: Iterator[Node] = iter(())
        self.runtimes = runtimes
        """Learnt runtimes; None where backfill is off."""
        self.work = 0
        """Nodes and allocations looked at so far."""

    def plan(self, app: Application, request: Request, now: float) -> Plan | None:
        """The earliest start of the ask at unix seconds `now`, None if no end that it needs is known.

        Raises:
            StillLooking: not all nodes have been searched yet.
        """
        if self._of is not request:
            self._of, self._at = request, self._nodes.changed.count
            self._found = {}
            self._rest = iter(list(self._nodes.by_id.values()))
        until = self.work + self._part
        for node in self._rest:
            self._look(node, request, now)
            if self.work >= until:
                raise StillLooking
        self._of = None
        for node in self._nodes.changed.since(self._at):
            self._look(node, request, now)
        for node, found in list(self._found.items()):
            if found.first_end <= now:
                self._look(node, request, now)
        known = self._nodes.by_id
        fitting = ((f.time, n.score, n.node_id) for n, f in self._found.items() if n.node_id in known)
        best = min(fitting, default=None)
        self._found = {}
        return None if best is None else self._made(app, request, known[best[2]], best[0], now)

    def forget(self) -> None:
        """Drop an unfinished search."""
        self._of = None
        self._found = {}
        self._rest = iter(())

    def _look(self, node: Node, request: Request, now: float) -> None:
        """Note the earliest time at which the node has room, if there is one."""
        self.work += 1 + len(node.allocations)
        found = self._earliest(node, request, now) if _may_hold(node, request.ask.ask_class) else None
        if found is None:
            self._found.pop(node, None)
        else:
            self._found[node] = found

    def _earliest(self, node: Node, request: Request, now: float) -> _Found | None:
        free = dict(node.available)
        ends = [self._end_of(allocation, now) for allocation in node.allocations]
        shadow: ShadowStart
        for shadow, room in node.plans.items():
            if shadow is not request.shadow:
                refund(free, room.items)
                ends.append(_End(room.end, room.items, Confidence.DECLARED))
        ends.sort()
        first = ends[0].time if ends else inf
        wanted = request.ask.ask_class.items
        time = now
        for end in ends:
            if end.time > time:
                if _fits(wanted, free):
                    break
                time = end.time
            charge(free, end.items)
        return _Found(time, first) if time < inf and _fits(wanted, free) else None

    def _end_of(self, allocation: Allocation, now: float) -> _End:
        """Expected end of an allocation, inf for unknown."""
        ask = allocation.ask
        seconds, known = self.expected(self._applications[ask.app_id], ask)
        time = inf if seconds is None else extended(allocation.allocation_time + seconds, now)
        return _End(time, ask.ask_class.items, known)

    def expected(self, app: Application, ask: Ask) -> tuple[float | None, Confidence]:
        """Expected runtime of an ask in seconds, None for unknown."""
        declared = declared_runtime(app, ask)
        if self.runtimes is None:
            return declared, Confidence.UNKNOWN if declared is None else Confidence.DECLARED
        return self.runtimes.expected(app.queue_path, ask.ask_class.shape, declared)

    def _made(self, app: Application, request: Request, node: Node, start: float, now: float) -> Plan:
        """The plan for the node that has room at the start."""
        ends = {allocation: self._end_of(allocation, now) for allocation in node.allocations}
        going = [allocation for allocation, end in ends.items() if end.time <= start]
        learnt = any(ends[allocation].known is Confidence.LEARNT for allocation in going)
        seconds, _ = self.expected(app, request.ask)
        return Plan(
            app,
            request,
            start,
            inf if seconds is None else start + seconds,
            Confidence.LEARNT if learnt else Confidence.DECLARED,
            {node: request.ask.ask_class.items},
            {node: frozenset((one.ask.app_id, one.ask.key) for one in going)},
        )


def _may_hold(node: Node, ask_class: AskClass) -> bool:
    """True if room on the node may be held for asks of the class."""
    if not node.schedulable or node.reservations or not node.holds(ask_class.items):
        return False
    results = node.results
    return not (results and (results.get((ask_class, True)) or results.get((ask_class, False))))


def _fits(items: Items, free: Mapping[str, int]) -> bool:
    return all(free.get(name, 0) >= value for name, value in items)
