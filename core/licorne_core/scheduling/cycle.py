"""The pass: which ask is served next, and by which node (spec §§ 8.1-8.7).

Reserved asks come first. Then the regular pass goes down from root in key order: queues,
applications, runs of asks; the first ask that every gate lets through wins. What is blocked is
parked under its gate on the way, so the next pass starts where this one had to stop looking.
"""

from typing import Any, NamedTuple

from licorne_core.apps.application import Application
from licorne_core.apps.runs import Claim, ClaimKey, PendingAsk, Run, claim_key
from licorne_core.apps.states import SCHEDULABLE, AppState
from licorne_core.asks import AskClass
from licorne_core.nodes.book import NodeBook
from licorne_core.nodes.node import Node
from licorne_core.queues.queue import Queue
from licorne_core.quotas import may_start, within_max
from licorne_core.ranking import Ranking
from licorne_core.scheduling.candidates import NodeIndex, refusals
from licorne_core.scheduling.frontier import Frontier
from licorne_core.scheduling.gates import BACKOFF, PREDICATES, RUNNING, Gate, QuotaGate
from licorne_core.scheduling.questions import Questions
from licorne_core.scheduling.watching import Watch
from licorne_core.tuning import Tuning

REFUSAL_TIME = 15.0
"""Seconds in which the reasons of the RM for refusing all nodes are told only once (§ 8.4)."""

NO_USER_QUOTA = "Not enough user quota"
NO_QUEUE_QUOTA = "Not enough queue quota"

Candidate = tuple[Queue, Application, PendingAsk, Node]
"""The decision: this ask of this application in this leaf goes to this node."""


class Claimed(NamedTuple):
    """The other decision: this node is to be reserved for this ask (spec §§ 8.5, 8.7)."""

    leaf: Queue
    app: Application
    entry: PendingAsk
    node: Node


class Cycle:
    """Finds the next decision in one partition; changes nothing but the rankings."""

    __slots__ = (
        "_frontier",
        "_index",
        "_limit",
        "_nodes",
        "_now",
        "_parked",
        "_parking",
        "_questions",
        "_reserving",
        "_root",
        "_watch",
        "tired",
        "tried",
    )

    def __init__(
        self,
        root: Queue,
        nodes: NodeBook,
        index: NodeIndex,
        frontier: Frontier,
        questions: Questions,
        watch: Watch,
        tuning: Tuning,
        *,
        reserving: bool,
    ) -> None:
        """Over these queues and nodes; without `reserving` no node is ever reserved."""
        self._root = root
        self._nodes = nodes.by_id
        self._index = index
        self._frontier = frontier
        self._questions = questions
        self._watch = watch
        self._parking = tuning.parking
        self._reserving = reserving
        self._parked: list[Ranking[Any]] = []
        self._now = 0.0
        self._limit: int | None = None
        self.tired = False
        self.tried = 0

    def begin_turn(self, now: float, work: int) -> None:
        """Time is `now` for the turn, and it may try about so much (see `NodeIndex.work`)."""
        self._now = now
        self._limit = self.tried + self._index.work + work if self._parking else None
        self.tired = False

    def next(self) -> Candidate | Claimed | None:
        """The next decision; None when nothing can be done until something changes.

        Or when the turn has tried enough: then the cycle is `tired`, and goes on where it stopped.
        """
        frontier = self._frontier
        frontier.settle()
        candidate: Candidate | Claimed | None = None
        if frontier.reserved.ready:
            candidate = self._among_reserved()
        if candidate is None and not self.tired:
            candidate = self._in_queue(self._root)
            if candidate is None and not self.tired:
                frontier.gates.shut_all()
        if not self._parking:
            self._unpark()
        return candidate

    def _among_reserved(self) -> Candidate | None:
        """The first reserved ask that can be placed, on its node or elsewhere (spec § 8.6)."""
        reserved = self._frontier.reserved
        while reserved.ready:
            if self._is_spent():
                return None
            reservation = reserved.first(self._frontier.types)
            leaf, app, ask_class = reserved.owner(reservation)
            kept = self._keeps(app, ask_class)
            if not kept and app.state in SCHEDULABLE and self._quota_gate(app, ask_class) is None:
                node: Node | None = self._nodes[reservation.node_id]
                assert node is not None, "a reservation goes with its node"
                if not (node.fits(ask_class.items) and node.accepts(ask_class)):
                    node = None if reservation.required else self._index.best(ask_class)
                if node is not None:
                    return leaf, app, app.pending[reservation.key], node
            reserved.rest(reservation, kept)
        return None

    def _is_spent(self) -> bool:
        """Whether the turn has tried enough; if not, another try is counted."""
        if self._limit is not None and self.tried + self._index.work >= self._limit:
            self.tired = True
            return True
        self.tried += 1
        return False

    def _in_queue(self, queue: Queue) -> Candidate | Claimed | None:
        """The first decision in the queue, its children or applications in key order."""
        ranking = queue.ranking
        gates = self._frontier.gates
        while True:
            if gates.opened and ranking.parked_under:
                ranking.wake(gates)
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
                inside = child.ranking.gates()
                if queue.is_leaf and queue.settings.backoff_threshold and self._questions.full:
                    # What is not asked about counts for no back-off (§ 8.3a), but will again.
                    gates.shut(PREDICATES)
                    inside = (*inside, PREDICATES)
                self._park(ranking, child, inside)
            else:
                gates.shut(gate)
                # Nobody looks inside until this gate opens, and other gates may open meanwhile.
                child.ranking.wake_all()
                self._park(ranking, child, (gate,))

    def _in_app(self, leaf: Queue, app: Application) -> Candidate | Claimed | None:
        """The application's first ask that passes (spec § 8.3)."""
        ranking = app.ranking
        threshold = leaf.settings.backoff_threshold
        gates = self._frontier.gates
        while True:
            if gates.opened and ranking.parked_under:
                ranking.wake(gates)
            run = ranking.top()
            if run is None:
                if threshold:
                    self._rests(leaf, app, None)
                return None
            if self._is_spent():
                return None
            if isinstance(run, Claim):
                claimed = self._claim(leaf, app, run)
                if claimed is None:
                    continue
                return None if threshold and self._rests(leaf, app, claimed.entry) else claimed
            gate = self._gate(app, run.ask_class)
            if gate is not None or run.over_queue or run.over_quota:
                self._watch.room(leaf, app, run, gate, self._now)
            run.unplaceable = gate is None
            if gate is None:
                run.attempted = True
                node = self._index.best(run.ask_class)
                if node is not None:
                    run.unplaceable = False
                    found = leaf, app, run.heap[0], node
                    return None if threshold and self._rests(leaf, app, found[2]) else found
                gate = self._index.gate(run.ask_class)
                if self._reserving:
                    self._rank_claim(app, run)
            self._note_passed_over(run, gate)
            gates.shut(gate)
            self._park(ranking, run, (gate,))

    def _claim(self, leaf: Queue, app: Application, claim: Claim) -> Claimed | None:
        """A node to reserve for the first ask of the claim that is old enough (§§ 8.5, 8.7)."""
        ranking = app.ranking
        run = claim.run
        entry = claim.first(self._now)
        gate: Gate | None = None
        if entry is not None:
            key = claim_key(entry)
            if ranking.key(claim) != key:
                self._move_claim(app, claim, key)
                return None
            gate = self._gate(app, run.ask_class)
            if gate is None:
                node = self._index.to_reserve(run.ask_class)
                if node is not None:
                    return Claimed(leaf, app, entry, node)
                gate = self._index.claim_gate(run.ask_class)
        self._rest_claim(app, claim, gate)
        return None

    def _move_claim(self, app: Application, claim: Claim, key: ClaimKey) -> None:
        """The claim is for an ask further behind, until one before that is old enough."""
        app.ranking.put(claim, key)
        self._await_age(app, claim)

    def _rank_claim(self, app: Application, run: Run) -> None:
        """A run has found no node: from now on its asks may have one reserved."""
        if run.claim is None:
            run.claim = Claim(run)
            key = run.claim.key()
            if key is not None:
                app.ranking.put(run.claim, key)

    def _rest_claim(self, app: Application, claim: Claim, gate: Gate | None) -> None:
        """Put a claim aside until the gate opens, or an ask that would come first is old enough."""
        ranking = app.ranking
        key = claim.key()
        if key is None:
            ranking.discard(claim)
            return
        self._await_age(app, claim)
        # While it rests it stands where it could come to stand at the earliest.
        ranking.put(claim, key)
        if gate is None:
            self._park(ranking, claim, ())
        else:
            self._frontier.gates.shut(gate)
            self._park(ranking, claim, (gate,))

    def _await_age(self, app: Application, claim: Claim) -> None:
        """The claim is to be tried again, from the front, when an ask there is old enough."""
        ripe_at = claim.ripens(self._now)
        if ripe_at is not None and ripe_at != claim.awaited:
            app.young_claims.add(claim, ripe_at)
            self._frontier.ripening.append((app, ripe_at))

    def _note_passed_over(self, run: Run, gate: Gate) -> None:
        """Keep the reason for those who ask why (spec § 8.13)."""
        if isinstance(gate, AskClass):
            if gate.predicate is not None and self._now >= run.refused_at + REFUSAL_TIME:
                run.refused_at = self._now
                self._watch.refused(run, refusals(self._nodes.values(), gate), self._now)
        elif isinstance(gate, QuotaGate):
            by_queue = isinstance(gate.quota, Queue)
            run.attempted |= by_queue
            run.note(NO_QUEUE_QUOTA if by_queue else NO_USER_QUOTA, self._now)

    def _keeps(self, app: Application, ask_class: AskClass) -> str:
        """What keeps a reserved ask back though it may fit: empty for nothing (§§ 8.6, 10.5)."""
        if app.state is AppState.ACCEPTED and not all(may_start(q, app.app_id) for q in app.quotas):
            return RUNNING
        return PREDICATES if ask_class.predicate is not None and self._questions.full else ""

    def _gate(self, app: Application, ask_class: AskClass) -> Gate | None:
        """The first maximum in the way, or that the RM has a say and owes too many answers."""
        gate = self._quota_gate(app, ask_class)
        if gate is None and ask_class.predicate is not None and self._questions.full:
            return PREDICATES
        return gate

    def _quota_gate(self, app: Application, ask_class: AskClass) -> Gate | None:
        """The first maximum of user, group or queues that is in the way (§ 8.3c, e)."""
        items = ask_class.items
        for quota in app.quotas:
            if quota.max is not None and not within_max(quota, items):
                size = ask_class.size
                quota.short_of[size] = None
                return QuotaGate(quota, size)
        return None

    def _app_gate(self, app: Application) -> Gate | None:
        """A back-off, or the first quota that lets it not start to run (§§ 4.12, 8.2, 10.5)."""
        if app.backoff_until > self._now:
            return (app, BACKOFF)
        if app.state is AppState.ACCEPTED:
            for quota in app.quotas:
                if not may_start(quota, app.app_id):
                    self._watch.may_run(app, self._now)
                    return (quota, RUNNING)
            if app.kept_by:
                self._watch.may_run(app, self._now)
        return None

    def _rests(self, leaf: Queue, app: Application, found: PendingAsk | None) -> bool:
        """Give the application a rest if too many of its asks find no node (spec § 8.3a)."""
        settings = leaf.settings
        asking = not self._questions.full
        if not app.backs_off(settings.backoff_threshold, found, asking=asking):
            return False
        app.backoff_until = self._now + settings.backoff_delay
        self._frontier.resting.append(app)
        return True

    def _park(
        self,
        ranking: Ranking[Any],
        item: Run | Claim | Application | Queue,
        gates: "tuple[Gate, ...]",
    ) -> None:
        ranking.park(item, gates)
        if not self._parking:
            self._parked.append(ranking)

    def _unpark(self) -> None:
        """Without parking every pass tries everything again."""
        for ranking in self._parked:
            ranking.wake_all()
        self._parked.clear()
