"""Gang scheduling: admission, whole gangs, completion, and the end of an allocation (spec § 6).

`free` ends any allocation: a real request that waits for the end of its placeholder replaces it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from licorne_core.config.schema import AppSortPolicy
from licorne_core.handlers.assumed import assume, roll_back, roll_back_all
from licorne_core.handlers.lifecycle import advance, after_gone, allocation_made, look_again, note_ended
from licorne_core.handlers.outcome import (
    ON_COMPLETION,
    Deadline,
    Deadlines,
    Decisions,
    Outcome,
    TimerJob,
    time_out,
)
from licorne_core.messages.commands import NewApplication
from licorne_core.messages.events.allocations import Freed
from licorne_core.messages.events.records import EventDetail
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.gang import DEFAULT_TIMEOUT, Gang, GangStyle, Gone, PairEvent, PairStep
from licorne_core.model.apps.requests import Request, RequestEvent, RequestState
from licorne_core.model.apps.states import AppEvent
from licorne_core.model.queues.queue import Queue
from licorne_core.partitions.partition import Partition
from licorne_core.scheduling.gang_placement import GangPlacement, MemberPlacement
from licorne_core.scheduling.measures import Candidate
from licorne_core.scheduling.stays import end_stay
from licorne_core.values.app_states import AppState
from licorne_core.values.asks import Allocation
from licorne_core.values.errors import Refusal, Rejected
from licorne_core.values.ids import AppId
from licorne_core.values.resources import Resources, describe, fits_max_undefined, min_undefined
from licorne_core.values.rule_kinds import tag_value
from licorne_core.values.slices import PART
from licorne_core.values.timers import Due

LEAST_TIMEOUT = 0.001
"""Minimum timeout in seconds, for placeholders that arrive after it has passed."""

CREATION_TAG = "yunikorn.apache.org/creationTime"
"""Tag of an application with its creation time in unix seconds, at which the timeout starts."""

_MAX_MILLISECONDS = (2**63 - 1) // 1_000_000


def gang_of(partition: Partition, new: NewApplication, now: float) -> Gang:
    """Gang of a new application."""
    units = partition.points.units_by(new.tags)
    return Gang(
        new.placeholder_ask,
        GangStyle.of(new.gang_scheduling_style),
        placeholder_timeout(new.execution_timeout, new.tags, now),
        partition.points.terms_by(new.tags),
        units,
    )


def placeholder_timeout(milliseconds: int, tags: Mapping[str, str], now: float) -> float:
    """Seconds until placeholders time out: the configured time, less the time that has passed (§ 5.4).

    The timeout starts at the application's creation, which its tag gives in unix seconds.
    """
    timeout = DEFAULT_TIMEOUT
    if 0 < milliseconds <= _MAX_MILLISECONDS:
        timeout = milliseconds / 1000
    created = tag_value(tags, CREATION_TAG)
    if created.isascii() and created.isdigit() and len(created) < 18:
        timeout -= max(0.0, now - int(created))
    return max(LEAST_TIMEOUT, timeout)


def check_terms(partition: Partition, app_id: AppId, gang: Gang) -> None:
    """Refuse a gang in units with placeholders, and terms that an extension rejects."""
    if gang.units is not None and gang.is_wanted:
        raise Rejected(
            f"application {app_id} has {gang.units.asked_by} and a placeholderAsk: "
            f"{gang.units.no_placeholders}",
            Refusal.GANG_NOT_POSSIBLE,
        )
    for extension in partition.points.joining:
        extension.joining(app_id, gang)


def check_gang(app_id: AppId, leaf: Queue, leaf_max: Resources | None, gang: Gang) -> None:
    """Refuse a gang with negative amounts, or that its queue could never run (§ 6.1).

    `leaf_max` is the maximum of the leaf with the application's own tags.
    """
    for name, value in gang.placeholder_ask.items():
        if value < 0:
            raise Rejected(
                f"application {app_id} has a negative placeholderAsk: {name} of {value}",
                Refusal.INVALID,
            )
    if leaf.settings.app_sort is AppSortPolicy.FAIR:
        raise Rejected(
            f"queue {leaf.path} cannot run application {app_id} with task group request: "
            "unsupported sort type",
            Refusal.GANG_NOT_POSSIBLE,
        )
    largest = leaf_max or {}
    for queue in leaf.lineage[1:-1]:
        largest = min_undefined(largest, queue.max or {})
    if not fits_max_undefined(largest, gang.placeholder_ask):
        raise Rejected(
            f"queue {leaf.path} cannot fit application {app_id}: task group request "
            f"{describe(gang.placeholder_ask)} larger than max queue allocation "
            f"{describe(largest)}",
            Refusal.GANG_NOT_POSSIBLE,
        )


def place_whole(partition: Partition, found: GangPlacement, now: float, outcome: Outcome) -> list[Allocation]:
    """Book all members of a gang; the RM has accepted each node that needed its answer."""
    leaf, app = found.leaf, found.app
    return [_place(partition, (leaf, app, request, node), now, outcome) for request, node in found.members]


def place_member(
    partition: Partition, found: MemberPlacement, now: float, outcome: Outcome
) -> list[Allocation]:
    """Book one later member of a placed gang; return no allocation if the RM has to be asked first."""
    leaf, app, request, node, room = found
    candidate = (leaf, app, request, node)
    if partition.predicates.is_needed(request.ask.ask_class, node):
        if room is not None:
            room.hold_for(request)
        assume(partition, candidate, now)
        return []
    allocation = _place(partition, candidate, now, outcome)
    if room is not None:
        room.end()
    return [allocation]


def _place(partition: Partition, candidate: Candidate, now: float, outcome: Outcome) -> Allocation:
    leaf, app, _, _ = candidate
    allocation = partition.allocations.allocate(candidate, now)
    outcome.updates += allocation_made(partition, leaf, app, allocation, now)
    return allocation


def time_to_complete(job: TimerJob) -> Iterator[int]:
    """Stop the remaining placeholders; once they have ended, the application completes (§ 6.9)."""
    partition = job.partition
    app = partition.applications[job.timer.app_id]
    state = app.state
    if app.placeholder_count:
        yield from roll_back_all(job, partition, app, PairEvent.TOLD)
        if app.state is not state or app.leaf is None:
            return
        partition.placeholders.end_cancelled(app)
        yield from stop_kept(job, app, list(app.requests.values()), ON_COMPLETION)
        end_if_none_left(job, app, state)
    else:
        job.outcome.updates += advance(partition, app, AppEvent.COMPLETE, job.now)


def stop_kept(job: TimerJob, app: Application, had: Sequence[Request], message: str) -> Iterator[int]:
    """Stop the placeholders in `had` that still hold room."""
    for number, request in enumerate(had if app.placeholder_count else (), 1):
        if request.state is RequestState.PLACEHOLDER and still_has(app, request):
            job.partition.pairs.stop(app, request)
            job.outcome.release(job.partition, time_out(app, request, message))
            yield 1
        elif not number % PART:
            yield 1


def still_has(app: Application, request: Request) -> bool:
    """True if the request has not ended in the meantime."""
    return app.requests.get(request.key) is request


def end_if_none_left(job: TimerJob, app: Application, state: AppState) -> None:
    """Let the application leave `state` immediately, unless a placeholder has to end first."""
    if app.leaf is not None and app.state is state and not app.placeholder_count:
        updates = after_gone(job.partition, app, Gone.PLACEHOLDER, job.now)
        job.outcome.last_updates += updates


def end(
    partition: Partition,
    app: Application,
    request: Request,
    detail: EventDetail,
    now: float,
    outcome: Outcome,
) -> None:
    """Free an allocation; `detail` is published.

    The tables of `gang` decide if the application completes, fails or continues.
    """
    freed = free(partition, app, request, detail, now, outcome)
    outcome.updates += after_gone(partition, app, what_went(request), now, freed)


def what_went(request: Request) -> Gone:
    """Kind of a booked request that ends."""
    return Gone.PLACEHOLDER if request.ask.placeholder else Gone.REAL


def free(
    partition: Partition,
    app: Application,
    request: Request,
    detail: EventDetail,
    now: float,
    outcome: Outcome,
    *,
    with_node: bool = False,
) -> Freed | None:
    """Free an allocation; `with_node` if its node is removed as well.

    If a real request waits for the end of the placeholder, it replaces the placeholder (spec §§ 6.6, 6.12);
    returns None then. Otherwise returns the fact to publish, which is not recorded yet.
    """
    if request.state is RequestState.NOTICED:
        end_stay(partition.stays, request)
    heir = _heir(partition, app, request, now, with_node=with_node)
    kept = request.allocation
    assert kept is not None, f"{request!r} is booked"
    freed = Freed(now, kept, app.owner, detail)
    partition.ledger.released(app.app_id, request.key, now)
    preempted = request.state is RequestState.PREEMPTING
    begin = kept.allocation_time
    if preempted and request.checkpoint is not None:
        begin = max(begin, request.checkpoint)
    partition.meter.end(app.owner, kept, begin, now, preempted=preempted)
    if heir is None:
        if app.interests:
            for extension in partition.points.freed:
                extension.freed(app, request, now)
        if detail is EventDetail.ALLOC_CANCEL:
            note_ended(partition, app, request, now)
        partition.allocations.release(app, request)
        return freed
    partition.journal.note(freed)
    allocation = partition.pairs.take_place(app, *heir, now)
    outcome.made.setdefault(partition, []).append(allocation)
    leaf = partition.leaf_of(app)
    outcome.updates += allocation_made(partition, leaf, app, allocation, now)
    # The RM may have resized it while it waited for its placeholder.
    for extension in partition.points.grown:
        extension.grown(leaf, now)
    look_again(partition, partition.nodes.by_id[allocation.node_id], now)
    return None


def _heir(
    partition: Partition, app: Application, request: Request, now: float, *, with_node: bool
) -> tuple[Request, PairStep] | None:
    """The real request that replaces the placeholder, if any; one that cannot replace it is pending again."""
    heir = request.partner
    if heir is None:
        return None
    event = PairEvent.PLACE_LOST if with_node and _shares_node(request, heir) else PairEvent.ENDED
    if heir.state is RequestState.MATCHED:
        roll_back(partition, app, heir, event, now)
        return None
    step = partition.pairs.step(heir, event)
    if step.real is RequestEvent.CONFIRM:
        return heir, step
    partition.pairs.part(app, heir, event, now)
    return None


def _shares_node(placeholder: Request, request: Request) -> bool:
    kept, own = placeholder.allocation, request.allocation
    return own is None or (kept is not None and own.node_id == kept.node_id)


DECISIONS: Final[Decisions] = {
    GangPlacement: place_whole,
    MemberPlacement: place_member,
}
DEADLINES: Final[Deadlines] = {
    Due.COMPLETE: Deadline(work=time_to_complete, on_hold=False),
}
