"""One application: who submitted it, what it asks for and what it has (spec § 5)."""

from collections.abc import Mapping
from heapq import heappush, nsmallest

from licorne_core.apps.runs import RUN_SLACK, Claim, PendingAsk, Run, YoungClaims
from licorne_core.apps.states import TRANSITIONS, AppEvent, AppState
from licorne_core.asks import Allocation, Ask, AskClass
from licorne_core.facts.allocations import Owner
from licorne_core.facts.apps import Bound
from licorne_core.identity import UserGroup
from licorne_core.ids import AllocationKey, AppId, QueuePath
from licorne_core.priorities import PriorityCounts
from licorne_core.quotas import Quota, within_max
from licorne_core.ranking import Ranking
from licorne_core.reservations import Reservation
from licorne_core.resources import charge, refund
from licorne_core.trackers import Tracker

EMPTY_RUNS = 16
"""Runs that an application may have before one that becomes empty is forgotten."""


class Application:
    """An application's own books. Nothing here knows of queues, nodes or other applications."""

    __slots__ = (
        "allocated",
        "allocations",
        "app_id",
        "arrivals",
        "backoff_until",
        "finished_time",
        "held",
        "kept_by",
        "max_allocated",
        "message",
        "owner",
        "pending",
        "pending_total",
        "priorities",
        "queue_path",
        "quotas",
        "ranking",
        "reservations",
        "ripe_at",
        "runs",
        "start_time",
        "state",
        "state_log",
        "submission_time",
        "tags",
        "trackers",
        "user",
        "young_claims",
    )

    def __init__(
        self,
        app_id: AppId,
        queue_path: QueuePath,
        user: UserGroup,
        tags: Mapping[str, str],
        now: float,
    ) -> None:
        """A new application in a queue; times are in unix seconds."""
        self.app_id = app_id
        self.queue_path = queue_path
        self.user = user
        self.tags = tags
        self.submission_time = now
        self.start_time = 0.0
        self.finished_time = 0.0
        self.backoff_until = 0.0
        self.ripe_at = 0.0
        self.young_claims = YoungClaims()
        self.state = AppState.NEW
        self.state_log: list[tuple[float, AppState]] = [(now, AppState.NEW)]
        self.message = ""
        self.arrivals = 0
        self.pending: dict[AllocationKey, PendingAsk] = {}
        self.pending_total: dict[str, int] = {}
        self.runs: dict[AskClass, Run] = {}
        self.ranking: Ranking[Run | Claim] = Ranking()
        self.priorities = PriorityCounts()
        self.allocations: dict[AllocationKey, Allocation] = {}
        self.allocated: dict[str, int] = {}
        self.max_allocated: dict[str, int] = {}
        # Nodes that are reserved for pending asks; allocations that wait for a word of the RM.
        self.reservations: dict[AllocationKey, Reservation] = {}
        self.held: dict[AllocationKey, PendingAsk] = {}
        # What those who watch know to let it not start (spec § 4.12).
        self.kept_by: tuple[Bound, ...] = ()
        # Set by the limit book: what counts the application's usage, and what bounds its asks.
        self.owner = Owner(queue_path, user.user, "")
        self.trackers: tuple[Tracker, ...] = ()
        self.quotas: tuple[Quota, ...] = ()

    def __repr__(self) -> str:
        """``<Application app-1 Running in root.a: 3 pending, 2 allocated>``."""
        return (
            f"<Application {self.app_id} {self.state.value} in {self.queue_path}: "
            f"{len(self.pending)} pending, {len(self.allocations)} allocated>"
        )

    @property
    def group(self) -> str:
        """The group of its user that it counts for; empty for none."""
        return self.owner.group

    def can(self, event: AppEvent) -> bool:
        """Whether the event leads anywhere from the present state."""
        return (self.state, event) in TRANSITIONS

    def enter(self, event: AppEvent, now: float) -> bool:
        """Follow the event; True when the state changed. Only for events it `can` follow."""
        state = TRANSITIONS[self.state, event]
        if state is self.state:
            return False
        self.state = state
        self.state_log.append((now, state))
        if state is AppState.RUNNING and not self.start_time:
            self.start_time = now
        return True

    def run_of(self, ask_class: AskClass) -> Run:
        """The run of a class, an empty one if nothing of the class is pending."""
        run = self.runs.get(ask_class)
        if run is None:
            run = self.runs[ask_class] = Run(ask_class, self.pending, self.reservations)
        return run

    def add_ask(self, run: Run, ask: Ask, create_time: float, arrival: int = 0) -> bool:
        """Take a pending ask into the run of its class; True when there is something new to try.

        `arrival` is its place among equals, given only to one that had been here before.
        """
        if not arrival:
            self.arrivals += 1
            arrival = self.arrivals
        entry = (-ask.priority, create_time, arrival, ask)
        self.pending[ask.key] = entry
        heappush(run.heap, entry)
        run.waiting += 1
        charge(self.pending_total, ask.ask_class.items)
        self.priorities.add(ask.priority)
        if create_time < self.submission_time:
            self.submission_time = create_time
        claims = run.claim is not None and self.claim_again(run.claim, entry)
        if run.heap[0] is not entry:
            return claims
        self.ranking.put(run, entry[:3])
        return True

    def drop_ask(self, key: AllocationKey) -> tuple[Ask, Run]:
        """Forget a pending ask that was allocated or is not wanted any more; it and its run."""
        entry = self.pending.pop(key)
        ask = entry[3]
        run = self.runs[ask.ask_class]
        run.waiting -= 1
        run.told.discard(key)
        refund(self.pending_total, ask.ask_class.items)
        self.priorities.remove(ask.priority)
        if run.waiting == 0:
            self.ranking.discard(run)
            if run.claim is not None:
                self.ranking.discard(run.claim)
            run.empty()
            self._forget_idle(run)
        elif run.heap[0] is entry:
            first = run.first()
            assert first is not None, "a run with waiting asks has a first one"
            self.ranking.put(run, first[:3])
        elif len(run.heap) > RUN_SLACK + 2 * run.waiting:
            run.heap = sorted(filter(run.waits, run.heap))
        return ask, run

    def hold_ask(self, key: AllocationKey) -> tuple[Ask, Run]:
        """A pending ask waits for a word of the RM; its run is not forgotten meanwhile."""
        entry = self.held[key] = self.pending[key]
        self.runs[entry[3].ask_class].held += 1
        return self.drop_ask(key)

    def end_hold(self, key: AllocationKey) -> Run:
        """The word has come, or is not waited for any more; the run that the ask is of."""
        run = self.runs[self.held.pop(key)[3].ask_class]
        run.held -= 1
        self._forget_idle(run)
        return run

    def _forget_idle(self, run: Run) -> None:
        """A few runs are kept, as asks of the same classes keep coming."""
        if run.is_idle:
            run.start_afresh()
            if len(self.runs) > EMPTY_RUNS:
                del self.runs[run.ask_class]

    def claim_again(self, claim: Claim, entry: PendingAsk) -> bool:
        """An ask is new in a claim, or has lost its node; True when the claim should be tried."""
        if not claim.add(entry):
            return False
        key = claim.key()
        assert key is not None, "somebody wants a node now"
        self.ranking.put(claim, key)
        return True

    def add_allocation(self, allocation: Allocation) -> None:
        """Book an allocation."""
        self.allocations[allocation.ask.key] = allocation
        allocated = self.allocated
        highest = self.max_allocated
        for name, value in allocation.ask.ask_class.items:
            total = allocated[name] = allocated.get(name, 0) + value
            if total > highest.get(name, 0):
                highest[name] = total
        if allocation.request_time < self.submission_time:
            self.submission_time = allocation.request_time

    def drop_allocation(self, key: AllocationKey) -> Allocation:
        """Forget an allocation that ended."""
        allocation = self.allocations.pop(key)
        refund(self.allocated, allocation.ask.ask_class.items)
        return allocation

    def backs_off(self, threshold: int, found: PendingAsk | None, *, asking: bool) -> bool:
        """Whether so many asks that no node takes stand before another ask (spec § 8.3a).

        The other ask is `found`, the one that could be served, or without one any at all. Asks
        that are not tried do not count, whatever nodes there are: those beyond a quota and,
        unless the RM is being asked (`asking`), those of which it has a say.
        """
        # Without another ask, one stuck ask more than allowed is the one that shows it.
        enough = threshold if found is not None else threshold + 1
        stuck = 0
        for run in self.runs.values():
            if run.comes_before(found) and self._is_stuck(run, asking=asking):
                stuck += run.count_before(found, enough - stuck)
                if stuck >= enough:
                    return True
        if found is not None or stuck < threshold:
            return False
        last = max(
            entry
            for run in self.runs.values()
            if self._is_stuck(run, asking=asking)
            for entry in run.heap
            if run.waits(entry)
        )
        return any(last < entry for entry in self.pending.values())

    def _is_stuck(self, run: Run, *, asking: bool) -> bool:
        """Whether no node takes the asks of the run, though they would be tried."""
        tried = asking or run.ask_class.predicate is None
        return run.unplaceable and tried and self.within_quotas(run)

    def within_quotas(self, run: Run) -> bool:
        """Whether the run's asks fit under every maximum of user, group and queues."""
        return all(within_max(quota, run.ask_class.items) for quota in self.quotas)

    @property
    def is_allocating(self) -> bool:
        """Whether a node is reserved or held for one of its asks."""
        return bool(self.reservations or self.held)

    def is_idle(self) -> bool:
        """Whether it has neither asks nor allocations (spec § 5.1.1: time to complete)."""
        return not self.pending and not self.allocations

    def asks_in_order(self, limit: int | None = None) -> list[PendingAsk]:
        """What waits, held asks too, as it is looked at (spec § 5.3.2), all or the first."""
        waiting = [*self.pending.values(), *self.held.values()]
        return sorted(waiting) if limit is None else nsmallest(limit, waiting)
