"""Asks, existing allocations and releases (spec §§ 1.6.11, 5.3, 11)."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from licorne_core.handlers.apps import drop_asks
from licorne_core.handlers.assumed import WAITS_FOR_ANSWER, roll_back, roll_back_all, roll_back_unfitting
from licorne_core.handlers.bounds import check_growth, check_new, check_task_group
from licorne_core.handlers.checkpoints import check_reported, note_checkpoint, note_start
from licorne_core.handlers.gangs import end
from licorne_core.handlers.lifecycle import advance, after_gone, drop_ask, look_again, note_freed, placed
from licorne_core.handlers.nodes import is_foreign, release_foreign, take_foreign
from licorne_core.handlers.outcome import Commands, Outcome, OutcomeJob
from licorne_core.messages.commands import AskBackoff, ReleaseRequest, TerminationType, UpdateAllocations
from licorne_core.messages.effects import AllocationRejection, Effect, Release
from licorne_core.messages.events.allocations import Asked, allocation_resized, failed_on_rm
from licorne_core.messages.events.records import EventDetail
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.gang import Gone, PairEvent
from licorne_core.model.apps.requests import BOOKED, Request, RequestState, Setback
from licorne_core.model.apps.states import SCHEDULABLE, AppEvent
from licorne_core.partitions.partition import Partition
from licorne_core.partitions.registry import Registry, Rm
from licorne_core.values.app_states import AppState
from licorne_core.values.asks import Ask, AskClass
from licorne_core.values.errors import Refusal, Rejected
from licorne_core.values.resources import subtract
from licorne_core.values.slices import PART
from licorne_core.values.tags import check_tags

RELEASED_BY_RM = "allocation remove as per RM request"

# Tuples, because for every ask a lookup in a set would call the hash of the enumeration.
_RUN_BY_ASKS: Final = (AppState.NEW, AppState.COMPLETING)
_TAKES_ASKS: Final = (AppState.RUNNING, AppState.ACCEPTED, *_RUN_BY_ASKS, AppState.RESUMING)
_MAY_WAIT_AGAIN = frozenset({RequestState.ALLOCATED, RequestState.PLACEHOLDER})
_UNACKNOWLEDGED = frozenset({TerminationType.TIMEOUT, TerminationType.PREEMPTED_BY_SCHEDULER})
"""Termination types of the RM's own answers: the allocation is freed without a release (§ 1.6.11)."""
_ENDS = {
    TerminationType.TIMEOUT: EventDetail.ALLOC_TIMEOUT,
    TerminationType.PREEMPTED_BY_SCHEDULER: EventDetail.ALLOC_PREEMPT,
    TerminationType.PLACEHOLDER_REPLACED: EventDetail.ALLOC_REPLACED,
}
"""Published kinds of releases by termination type; other types are ALLOC_CANCEL (§ 12.1.4)."""


def _update(registry: Registry, rm: Rm, command: UpdateAllocations, now: float) -> list[Effect]:
    """Process asks and allocations in order, report rejections, then process releases (spec § 1.6.6)."""
    jobs = registry.jobs
    job = jobs.find(command) if command.releases else None
    if job is not None:
        return jobs.carry_on(job, now)
    outcome = Outcome()
    for ask in command.asks:
        try:
            _take_ask(rm, ask, now, outcome)
        except Rejected as refusal:
            outcome.rejections.append(
                AllocationRejection(
                    key=ask.key,
                    app_id=ask.app_id,
                    reason=str(refusal),
                    code=refusal.code,
                    item="ask" if ask.node_id is None else "allocation",
                )
            )
    effects = outcome.effects(rm.rm_id)
    if command.releases:
        effects += jobs.carry_on(_Releases(rm, command, now), now)
    return effects


def _take_ask(rm: Rm, ask: Ask, now: float, outcome: Outcome) -> None:
    partition = rm.find(ask.partition)
    if partition is None:
        name = rm.normalized(ask.partition)
        if rm.was_removed(ask.partition):
            raise Rejected(
                f"partition {name} is stopped; cannot process allocation {ask.key}",
                Refusal.UNKNOWN_PARTITION,
            )
        raise Rejected(
            f"Failed to find partition {name}, for application {ask.app_id} and allocation {ask.key}",
            Refusal.UNKNOWN_PARTITION,
        )
    partition.counters.asks_received += 1
    try:
        _check(ask, now)
        if ask.tags:
            if is_foreign(ask):
                take_foreign(partition, ask, now)
                return
            check_tags(ask.tags)
        app = partition.applications.get(ask.app_id)
        if app is None or app.state not in _TAKES_ASKS:
            raise Rejected(f"failed to find application {ask.app_id}", Refusal.UNKNOWN_APPLICATION)
        _take(partition, app, ask, now, outcome)
    except Rejected:
        partition.counters.allocations_rejected += 1
        partition.counters.rejection_time = now
        raise


def _check(ask: Ask, now: float) -> None:
    if not ask.key:
        raise Rejected("allocation key is empty", Refusal.INVALID)
    if ask.ask_class.shape.has_negative:
        raise Rejected("allocation contains negative resources", Refusal.INVALID)
    if not ask.ask_class.items:
        raise Rejected("allocation contains no resources", Refusal.INVALID)
    if ask.node_id and ask.tags:
        check_reported(ask, now)
    if ask.placeholder and not ask.task_group:
        raise Rejected(f"allocation {ask.key} is a placeholder without a task group name", Refusal.INVALID)


def _take(partition: Partition, app: Application, ask: Ask, now: float, outcome: Outcome) -> None:
    """Accept an ask with a new key, or with an existing one (spec § 5.3.4-6)."""
    request = app.requests.get(ask.key)
    if request is not None and request.state in WAITS_FOR_ANSWER and _is_news(request.ask, ask):
        roll_back(partition, app, request, PairEvent.DROPPED, now)
    if request is None:
        if app.interests:
            for extension in partition.points.arriving:
                ask = extension.arriving(app, ask)
        app.holdings.check_ask(ask.key, ask.footprint, exists=ask.node_id is not None)
        if ask.placeholder:
            check_task_group(app, ask)
        if ask.node_id:
            _recover(partition, app, ask, now, outcome)
        else:
            _add(partition, app, ask, now, outcome)
    elif request.is_pending:
        _ask_again(partition, app, request, ask, now, outcome)
    else:
        _resize_allocation(partition, app, request, ask, now)


def _add(partition: Partition, app: Application, ask: Ask, now: float, outcome: Outcome) -> None:
    check_new(partition, ask)
    partition.asks.add(app, ask, now if ask.create_time is None else ask.create_time, now)
    if app.state in _RUN_BY_ASKS:
        outcome.updates += advance(partition, app, AppEvent.RUN, now)
    # The hot path: `Journal.note` is written out here.
    if partition.journal.on:
        partition.journal.facts.append(Asked(now, ask))


def _is_news(assumed: Ask, ask: Ask) -> bool:
    """True if the RM changes an assumed ask; repeating the ask changes nothing (§ 5.3.5)."""
    return bool(ask.node_id) or ask.ask_class.items != assumed.ask_class.items


def _ask_again(
    partition: Partition, app: Application, request: Request, ask: Ask, now: float, outcome: Outcome
) -> None:
    """Take a pending ask again, in another size or placed by the RM on a node (§ 5.3.5); raises Rejected."""
    known = request.ask
    resized = _resized(known, ask)
    if ask.node_id:
        if ask.node_id not in partition.nodes.by_id:
            raise Rejected(f"failed to find node {ask.node_id}", Refusal.UNKNOWN_NODE)
        node = partition.nodes.by_id[ask.node_id]
        check_growth(partition, ask.key, (), resized.ask_class.items, node)
        app.holdings.check_growth(ask.key, resized.footprint - known.footprint)
        partition.asks.withdraw(app, request, now)
        placed_by_rm = replace(resized, node_id=ask.node_id)
        _book(partition, app, placed_by_rm, request.create_time, now, outcome)
    elif resized is not known:
        check_growth(partition, ask.key, known.ask_class.items, resized.ask_class.items)
        app.holdings.check_growth(ask.key, resized.footprint - known.footprint)
        replace_ask(partition, app, request, resized, now)


def replace_ask(partition: Partition, app: Application, request: Request, ask: Ask, now: float) -> None:
    """Replace a pending ask by one of another size, or another priority of its application.

    It keeps its reserved node if the node, when empty, can hold it, and its promise up to its new size.
    """
    reservation, promise = request.reservation, request.promise
    own = None if reservation is None else reservation.node_id
    other = partition.asks.replace(app, request, ask, now)
    if reservation is not None and own is not None:
        node = partition.nodes.by_id[own]
        if reservation.required or node.holds(ask.ask_class.items):
            partition.reservations.reserve(
                app, other, node, reservation.time, now, provisional=reservation.provisional
            )
            partition.dirty.mark_node(node)
    if promise is not None:
        partition.reservations.take_over(promise, other, own, now)


def _resized(known: Ask, ask: Ask) -> Ask:
    """The existing ask with the size of the new one; its tags remain, and its footprint never shrinks."""
    if ask.ask_class.items == known.ask_class.items:
        return known
    before = known.ask_class
    resized = AskClass.of(ask.ask_class.resources, before.required_node, before.predicate, before.runtime)
    footprint = max(known.footprint, ask.footprint)
    return replace(known, ask_class=resized, footprint=footprint)


def _resize_allocation(
    partition: Partition, app: Application, request: Request, ask: Ask, now: float
) -> None:
    """Resize a running allocation; it is booked regardless of limits (§ 5.3.5)."""
    known = request.ask
    if ask.node_id and request.state in _MAY_WAIT_AGAIN:
        # The RM reports that it is running.
        request.setback = None
    if ask.tags and request.state in BOOKED:
        note_start(request, ask, now)
        note_checkpoint(partition, app, request, ask, now)
    resized = _resized(known, ask)
    if resized is known:
        return
    app.holdings.check_growth(ask.key, resized.footprint - known.footprint)
    if request.state is RequestState.LINKED:
        _resize_linked(partition, app, request, resized, now)
        return
    assert request.allocation is not None, f"{request!r} is booked"
    node = partition.nodes.by_id[request.allocation.node_id]
    check_growth(partition, ask.key, known.ask_class.items, resized.ask_class.items, node)
    partition.moves.resize(app, request, resized)
    change = subtract(resized.ask_class.resources, known.ask_class.resources)
    grown = {name: value for name, value in change.items() if value > 0}
    shrunk = {name: -value for name, value in change.items() if value < 0}
    passed = request.allocation.passed is not None
    partition.meter.change(app.owner, tuple(change.items()), now, passed=passed)
    partition.journal.note_all(allocation_resized(now, app.owner, grown, shrunk))
    for extension in partition.points.grown:
        extension.grown(partition.leaf_of(app), now)
    roll_back_unfitting(partition, node, now)


def _resize_linked(partition: Partition, app: Application, request: Request, ask: Ask, now: float) -> None:
    """Resize a linked request; it uses free room only on a node other than that of its placeholder."""
    own = request.allocation
    node = None if own is None else partition.nodes.by_id[own.node_id]
    check_growth(partition, ask.key, request.ask.ask_class.items, ask.ask_class.items, node)
    partition.moves.resize(app, request, ask)
    if node is not None:
        roll_back_unfitting(partition, node, now)


def _recover(partition: Partition, app: Application, ask: Ask, now: float, outcome: Outcome) -> None:
    """Add an existing allocation even beyond quotas, and echo it to the RM (§ 11.3); raises Rejected."""
    if ask.node_id not in partition.nodes.by_id:
        raise Rejected(f"failed to find node {ask.node_id}", Refusal.UNKNOWN_NODE)
    node = partition.nodes.by_id[ask.node_id]
    check_growth(partition, ask.key, (), ask.ask_class.items, node)
    if ask.placeholder:
        partition.asks.placeholder_added(app, ask)
    create_time = now if ask.create_time is None else ask.create_time
    _book(partition, app, ask, create_time, now, outcome)


def _book(
    partition: Partition, app: Application, ask: Ask, create_time: float, now: float, outcome: Outcome
) -> None:
    assert ask.node_id is not None
    app.arrivals += 1
    request = Request(ask, create_time, app.arrivals)
    if app.priority is not None:
        request.priority = app.priority
    node = partition.nodes.by_id[ask.node_id]
    allocation = partition.allocations.take(app, request, node, now)
    if ask.tags:
        note_start(request, ask, now)
        note_checkpoint(partition, app, request, ask, now)
    partition.counters.allocations_recovered += 1
    if app.state in (AppState.NEW, AppState.RESUMING):
        outcome.updates += advance(partition, app, AppEvent.RUN, now)
    outcome.updates += placed(partition, app, allocation, now)
    for extension in partition.points.grown:
        extension.grown(partition.leaf_of(app), now)
    look_again(partition, node, now)
    outcome.made.setdefault(partition, []).append(allocation)
    roll_back_unfitting(partition, node, now)


class _Releases(OutcomeJob):
    """The releases of one command."""

    def __init__(self, rm: Rm, command: UpdateAllocations, now: float) -> None:
        """Begin with the first release."""
        self._rm = rm
        self._releases = command.releases
        super().__init__(command, rm.slice_size, now)

    def steps(self) -> Iterator[int]:
        """Process the releases in order (spec § 1.6.11); unknown ones are ignored."""
        for release in self._releases:
            partition = self._rm.find(release.partition)
            if partition is None:
                continue
            if not release.app_id:
                release_foreign(partition, release.key, self.now)
                continue
            app = partition.applications.get(release.app_id)
            if app is None:
                continue
            if release.key:
                self._release_one(partition, app, release)
            else:
                yield from self._release_all(partition, app, release.termination)

    def _release_one(self, partition: Partition, app: Application, release: ReleaseRequest) -> None:
        """Release the request with the key. An assumed request is still a pending ask for the RM."""
        request = app.requests.get(release.key)
        if request is None:
            return
        now, termination = self.now, release.termination
        if request.state in WAITS_FOR_ANSWER:
            roll_back(partition, app, request, PairEvent.DROPPED, now)
        if termination is TerminationType.SCHEDULING_FAILED_ON_RM:
            _ask_back(partition, app, request, now)
        elif request.state in BOOKED:
            _free(partition, app, request, termination, now, self.outcome)
        elif termination is not TerminationType.TIMEOUT:
            drop_ask(partition, app, request, now)
            self.outcome.updates += after_gone(partition, app, Gone.ASK, now)

    def _release_all(
        self, partition: Partition, app: Application, termination: TerminationType
    ) -> Iterator[int]:
        """Release everything of the application, first the requests that the RM counts as asks."""
        yield from roll_back_all(self, partition, app, PairEvent.DROPPED)
        if termination is TerminationType.SCHEDULING_FAILED_ON_RM:
            return
        booked: list[Request] = []
        for number, request in enumerate(list(app.requests.values()), 1):
            if request.state in BOOKED:
                booked.append(request)
            if not number % PART:
                yield 1
        if termination is not TerminationType.TIMEOUT and len(booked) < len(app.requests):
            yield from drop_asks(self, partition, app)
            self.outcome.updates += after_gone(partition, app, Gone.ASK, self.now)
        for request in booked:
            if app.requests.get(request.key) is request:
                _free(partition, app, request, termination, self.now, self.outcome)
            yield 1


def _free(
    partition: Partition,
    app: Application,
    request: Request,
    termination: TerminationType,
    now: float,
    outcome: Outcome,
) -> None:
    detail = _ENDS.get(termination, EventDetail.ALLOC_CANCEL)
    end(partition, app, request, detail, now, outcome)
    confirms = termination in _UNACKNOWLEDGED or (
        request.ask.placeholder and termination is TerminationType.PLACEHOLDER_REPLACED
    )
    if not confirms:
        release = Release(
            app_id=app.app_id,
            key=request.key,
            termination=TerminationType.STOPPED_BY_RM,
            message=RELEASED_BY_RM,
        )
        outcome.release(partition, release)


def _ask_back(partition: Partition, app: Application, request: Request, now: float) -> None:
    """Let an allocation that the RM could not run become pending again, after a back-off (spec § 1.4).

    It is the last among the asks of its priority and age. An allocation of an application that is neither
    accepted nor running does not change.
    """
    if request.state not in _MAY_WAIT_AGAIN or app.state not in SCHEDULABLE:
        return
    if request.partner is not None:
        roll_back(partition, app, request.partner, PairEvent.ENDED, now)
    setback = _setback(partition.ask_backoff, request, now)
    allocation = partition.allocations.ask_back(app, request, setback, now)
    partition.counters.allocations_failed_on_rm += 1
    note_freed(partition, app, allocation, EventDetail.ALLOC_CANCEL, now, ask_gone=False)
    partition.journal.note(failed_on_rm(now, request.ask, *setback))


def _setback(backoff: AskBackoff, request: Request, now: float) -> Setback:
    """Count another failure. An allocation that lasted longer than any back-off counts as a success."""
    assert request.allocation is not None, f"{request!r} could not be run"
    stood = now - request.allocation.allocation_time
    before = request.setback
    failures = 1 if before is None or stood > backoff.most else before.failures + 1
    return Setback(failures, now + backoff.after(failures))


COMMANDS: Final[Commands] = {UpdateAllocations: _update}
