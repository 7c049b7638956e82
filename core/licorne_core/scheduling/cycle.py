"""The regular pass: which ask is served next, and by which node (spec §§ 8.2-8.4).

The pass goes down from root in key order: queues, applications, runs of asks; the first ask that
every gate lets through wins. What is blocked is parked under its gate on the way, so the
next pass starts where this one had to stop looking.
"""

from licorne_core.apps.application import Application, PendingAsk, Run
from licorne_core.apps.states import AppState
from licorne_core.nodes.node import Node
from licorne_core.queues.queue import Queue
from licorne_core.quotas import may_run_one_more, within_max
from licorne_core.ranking import Ranking
from licorne_core.scheduling.candidates import NodeIndex
from licorne_core.scheduling.frontier import RUNNING, Frontier, Gate
from licorne_core.tuning import Tuning

Candidate = tuple[Queue, Application, PendingAsk, Node]
"""The decision: this ask of this application in this leaf goes to this node."""


class Cycle:
    """Finds the next decision in one partition; changes nothing but the rankings."""

    __slots__ = ("_frontier", "_index", "_parked", "_parking", "_root", "tried")

    def __init__(self, root: Queue, index: NodeIndex, frontier: Frontier, tuning: Tuning) -> None:
        """Over these queues and nodes."""
        self._root = root
        self._index = index
        self._frontier = frontier
        self._parking = tuning.parking
        self._parked: list[Ranking[Run]] = []
        self.tried = 0

    def next(self) -> Candidate | None:
        """The next decision; None when nothing can be done until something changes."""
        frontier = self._frontier
        frontier.settle()
        candidate = self._in_queue(self._root)
        if candidate is None:
            frontier.awake.clear()
        if not self._parking:
            self._unpark()
        return candidate

    def _in_queue(self, queue: Queue) -> Candidate | None:
        """The first decision in the queue, its children or applications in key order."""
        ranking = queue.ranking
        awake = self._frontier.awake
        while True:
            if awake and ranking.parked_under:
                ranking.wake(awake & ranking.parked_under.keys())
            child = ranking.top()
            if child is None:
                return None
            if not queue.is_leaf:
                found = self._in_queue(child)
            elif child.state is AppState.ACCEPTED and (gate := self._start_gate(child)) is not None:
                awake.discard(gate)
                self._park(ranking, child, (gate,))
                continue
            else:
                found = self._in_app(queue, child)
            if found is not None:
                return found
            self._park(ranking, child, child.ranking.gates())

    def _in_app(self, leaf: Queue, app: Application) -> Candidate | None:
        """The application's first ask that passes (spec § 8.3)."""
        ranking = app.ranking
        awake = self._frontier.awake
        while True:
            if awake and ranking.parked_under:
                ranking.wake(awake & ranking.parked_under.keys())
            run = ranking.top()
            if run is None:
                return None
            self.tried += 1
            gate = self._quota_gate(app, run)
            if gate is None:
                node = self._index.best(run.ask_class)
                if node is not None:
                    return leaf, app, run.heap[0], node
                gate = run.ask_class
            awake.discard(gate)
            self._park(ranking, run, (gate,))

    def _quota_gate(self, app: Application, run: Run) -> Gate | None:
        """The first maximum of user, group or queues that is in the way (§ 8.3c, e)."""
        ask_class = run.ask_class
        for quota in app.quotas:
            if not within_max(quota, ask_class.items):
                quota.short_of[ask_class] = None
                return (quota, ask_class)
        return None

    def _start_gate(self, app: Application) -> Gate | None:
        """The first quota under which the application may not start to run (§§ 4.12, 10.5)."""
        for quota in app.quotas:
            if not may_run_one_more(quota):
                return (quota, RUNNING)
        return None

    def _park(self, ranking: Ranking[Run], item: Run, gates: "tuple[Gate, ...]") -> None:
        ranking.park(item, gates)
        if not self._parking:
            self._parked.append(ranking)

    def _unpark(self) -> None:
        """Without parking every pass tries everything again."""
        for ranking in self._parked:
            ranking.wake_all()
        self._parked.clear()
