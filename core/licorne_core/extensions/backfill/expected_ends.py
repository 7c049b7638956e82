"""Expected ends of allocations on nodes as of now, and the free amounts after each of them.

They follow what is learnt, and an unknown one is inf. Nodes are ranked for reservations by other ends
(`node.room_at`), which must not become earlier: by `Allocation.expected_runtime`, which stays as it was at
the beginning. `Runtimes.expected` and `extended` are the rules of both.

Data of a node are cached until the node changes, its first expected end is reached, or a learnt runtime on
which they depend changes: a search for a start reads all nodes, and most are unchanged since the last search.
"""

from collections.abc import Iterator, Mapping
from math import inf
from typing import Final, NamedTuple

from licorne_core.extensions.backfill.start_sets import End
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import TO_REPLACE
from licorne_core.model.nodes.book import NodeBook
from licorne_core.model.nodes.node import Node
from licorne_core.model.runtimes import Confidence, Runtimes
from licorne_core.values.asks import Allocation, Ask, AskClass, extended
from licorne_core.values.ids import AllocationKey, AppId
from licorne_core.values.tags import RUNTIME

MOST_CLASSES = 1_000
"""Maximum number of cached classes with a runtime; beyond it the cache is emptied."""

Classes = dict[tuple[AskClass, str], AskClass]
"""Classes with a runtime, by the class without it and the text of the tag; `_NO_TEXT` has the reverse."""

_NO_TEXT: Final = ""
"""Stands for the tag of an ask whose class is to have no runtime; no tag has this value."""

_DECLARED = -1
"""Stands for the version of learnt runtimes where all runtimes are declared."""

COST_OF_A_NODE, COST_OF_AN_ALLOCATION = 2, 5
"""Cost of reading a node again, and of each allocation on it; using a cached node costs 2."""


def with_runtime(app: Application, ask: Ask, classes: Classes, *, backfills: bool = True) -> Ask:
    """The ask with its declared runtime in its class; without backfill its class has none.

    Asks of one class and runtime share one class object in `classes`, so that most tags are not parsed.
    """
    known = ask.ask_class
    if backfills == (known.runtime < inf):
        return ask
    text = (ask.tags if RUNTIME in ask.tags else app.tags).get(RUNTIME) if backfills else _NO_TEXT
    if text is None:
        return ask
    found = classes.get((known, text))
    if found is None:
        declared = app.declared_runtime(ask) if backfills else None
        runtime = inf if declared is None else float(declared)
        found = AskClass.of(known.resources, known.required_node, known.predicate, runtime)
        if len(classes) >= MOST_CLASSES:
            classes.clear()
        classes[known, text] = found
    return ask.in_class(found)


def is_charged(app: Application, key: AllocationKey) -> bool:
    """True if an allocation itself, and not its placeholder, counts in the quotas of its application."""
    return not app.replacing_count or app.requests[key].state not in TO_REPLACE


class Forecast(NamedTuple):
    """Free amounts of a node over time: `now`, without planned room, and after each expected end.

    It is valid before `until` and, if it depends on learnt runtimes, while their version is `learnt`.
    """

    free: Mapping[str, int]
    ends: list[End]
    until: float
    learnt: int


class ExpectedEnds:
    """The expected ends in one partition, as of now."""

    def __init__(
        self, nodes: NodeBook, applications: Mapping[AppId, Application], runtimes: Runtimes
    ) -> None:
        """Start without cached nodes."""
        self._nodes = nodes
        self._applications = applications
        self.runtimes = runtimes
        self._forecasts: dict[Node, Forecast] = {}
        self._read = 0
        self.classes: Classes = {}
        self.undeclared = 0
        """Cached nodes on which some runtime is not declared."""
        self.work = 0
        """Cost so far of reading nodes again."""

    @property
    def known(self) -> int:
        """Number of cached nodes."""
        return len(self._forecasts)

    def catch_up(self) -> None:
        """Drop changed nodes from the cache; to be called before nodes are read at a new time."""
        changed = self._nodes.changed
        for node in changed.since(self._read):
            self.forget(node)
        self._read = changed.count

    def forget(self, node: Node) -> None:
        """Drop a node that was removed or has to be read again."""
        known = self._forecasts.pop(node, None)
        self.undeclared -= known is not None and known.learnt != _DECLARED

    def forget_all(self) -> Iterator[int]:
        """Drop all nodes, in steps."""
        while self._forecasts:
            self._forecasts.popitem()
            yield 1

    def on(self, node: Node, now: float) -> Forecast:
        """The forecast of the node from unix seconds `now` on."""
        known = self._forecasts.get(node)
        if known is not None and now < known.until:
            learnt = known.learnt
            if learnt in (_DECLARED, self.runtimes.version):
                return known
        self.work += COST_OF_A_NODE + COST_OF_AN_ALLOCATION * len(node.allocations)
        self.forget(node)
        known = self._forecasts[node] = self._read_node(node, now)
        self.undeclared += known.learnt != _DECLARED
        return known

    def _read_node(self, node: Node, now: float) -> Forecast:
        free = dict(node.available)
        for name, value in node.kept.items():
            free[name] = free.get(name, 0) - value
        ends: list[End] = []
        learnt = _DECLARED
        for allocation in node.allocations:
            time, known = self.end_of(allocation, now)
            unsure = known is not Confidence.DECLARED
            if unsure:
                learnt = self.runtimes.version
            if time < inf:
                unsure = unsure or allocation.allocation_time + allocation.ask.ask_class.runtime <= now
                ends.append(End(time, allocation.ask.ask_class.items, unsure))
        ends.sort()
        return Forecast(free, ends, ends[0].time if ends else inf, learnt)

    def end_of(self, allocation: Allocation, now: float) -> tuple[float, Confidence]:
        """Expected end of an allocation in unix seconds, inf for unknown."""
        ask = allocation.ask
        seconds, known = self.runtimes.expected(self._applications[ask.app_id], ask)
        time = inf if seconds is None else extended(allocation.allocation_time + seconds, now)
        return time, known
