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
from licorne_core.scheduling.frontier import BACKOFF, RUNNING, Frontier, Gate
from licorne_core.tuning import Tuning

Candidate = tuple[Queue, Application, PendingAsk, Node]
"""The decision: this ask of this application in this leaf goes to this node."""


class Cycle:
    """Finds the next decision in one partition; changes nothing but the rankings."""

    __slots__ = (
        "_frontier",
        "_index",
        "_limit",
        "_now",
        "_parked",
        "_parking",
        "_root",
        "tired",
        "tried",
    )

    def __init__(self, root: Queue, index: NodeIndex, frontier: Frontier, tuning: Tuning) -> None:
        """Over these queues and nodes."""
        self._root = root
        self._index = index
        self._frontier = frontier
        self._parking = tuning.parking
        self._parked: list[Ranking[Run]] = []
        self._now = 0.0
        self._limit: int | None = None
        self.tired = False
        self.tried = 0

    def begin_turn(self, now: float, work: int) -> None:
        """Time is `now` for the turn, and it may try about so much (see `NodeIndex.work`)."""
        self._now = now
        self._limit = self.tried + self._index.work + work if self._parking else None
        self.tired = False

    def next(self) -> Candidate | None:
        """The next decision; None when nothing can be done until something changes.

        Or when the turn has tried enough: then the cycle is `tired`, and goes on where it stopped.
        """
        frontier = self._frontier
        frontier.settle()
        candidate = self._in_queue(self._root)
        if candidate is None and not self.tired:
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
            found, gate = None, None
            if not queue.is_leaf:
                found = self._in_queue(child)
            else:
                if child.backoff_until or child.state is AppState.ACCEPTED:
                    gate = self._app_gate(child)
                if gate is None:
                    found = self._in_app(queue, child)
            if found is not None or self.tired:
                return found
            if gate is None and queue.is_leaf:
                # It may just have been sent to rest.
                gate = self._app_gate(child)
            if gate is None:
                self._park(ranking, child, child.ranking.gates())
            else:
                awake.discard(gate)
                # Nobody looks inside until this gate opens, and other gates may open meanwhile.
                child.ranking.wake_all()
                self._park(ranking, child, (gate,))

    def _in_app(self, leaf: Queue, app: Application) -> Candidate | None:
        """The application's first ask that passes (spec § 8.3)."""
        ranking = app.ranking
        threshold = leaf.settings.backoff_threshold
        awake = self._frontier.awake
        while True:
            if awake and ranking.parked_under:
                ranking.wake(awake & ranking.parked_under.keys())
            run = ranking.top()
            if run is None:
                if threshold:
                    self._rests(leaf, app, None)
                return None
            if self._limit is not None and self.tried + self._index.work >= self._limit:
                self.tired = True
                return None
            self.tried += 1
            gate = self._quota_gate(app, run)
            run.unplaceable = gate is None
            if gate is None:
                node = self._index.best(run.ask_class)
                if node is not None:
                    run.unplaceable = False
                    found = leaf, app, run.heap[0], node
                    return None if threshold and self._rests(leaf, app, found[2]) else found
                gate = run.ask_class
            awake.discard(gate)
            self._park(ranking, run, (gate,))

    def _quota_gate(self, app: Application, run: Run) -> Gate | None:
        """The first maximum of user, group or queues that is in the way (§ 8.3c, e)."""
        ask_class = run.ask_class
        items = ask_class.items
        for quota in app.quotas:
            if quota.max is not None and not within_max(quota, items):
                quota.short_of[ask_class] = None
                return (quota, ask_class)
        return None

    def _app_gate(self, app: Application) -> Gate | None:
        """A back-off, or the first quota that lets it not start to run (§§ 4.12, 8.2, 10.5)."""
        if app.backoff_until > self._now:
            return (app, BACKOFF)
        if app.state is AppState.ACCEPTED:
            for quota in app.quotas:
                if not may_run_one_more(quota):
                    return (quota, RUNNING)
        return None

    def _rests(self, leaf: Queue, app: Application, found: PendingAsk | None) -> bool:
        """Give the application a rest if too many of its asks find no node (spec § 8.3a)."""
        settings = leaf.settings
        if not app.backs_off(settings.backoff_threshold, found):
            return False
        app.backoff_until = self._now + settings.backoff_delay
        self._frontier.resting.append(app)
        return True

    def _park(self, ranking: Ranking[Run], item: Run, gates: "tuple[Gate, ...]") -> None:
        ranking.park(item, gates)
        if not self._parking:
            self._parked.append(ranking)

    def _unpark(self) -> None:
        """Without parking every pass tries everything again."""
        for ranking in self._parked:
            ranking.wake_all()
        self._parked.clear()
