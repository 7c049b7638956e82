"""Adds and removes applications (spec §§ 3, 5.1)."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from licorne_core.config.schema import TemplateConfig
from licorne_core.handlers.assumed import roll_back_all
from licorne_core.handlers.gangs import check_gang, check_terms, gang_of
from licorne_core.handlers.lifecycle import (
    advance,
    drop_ask,
    end_placeholder_time,
    note_ended,
    note_freed,
    unlink,
)
from licorne_core.handlers.outcome import Commands, OutcomeJob
from licorne_core.messages.commands import NewApplication, TerminationType, UpdateApplications
from licorne_core.messages.effects import ApplicationRejection, ApplicationsAnswered, Effect, Release
from licorne_core.messages.events.apps import app_added, state_entered
from licorne_core.messages.events.cluster import queue_changed, queue_guaranteed_changed, queue_max_changed
from licorne_core.messages.events.records import EventChange, EventDetail
from licorne_core.model.apps.admission import checked_user, is_forced
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.gang import Gang, PairEvent
from licorne_core.model.apps.requests import TO_REPLACE, RequestState
from licorne_core.model.apps.states import AppEvent
from licorne_core.model.queues.queue import RECOVERY_PATH, Queue
from licorne_core.model.queues.tree import apply_sizes, max_with
from licorne_core.partitions.jobs import Job
from licorne_core.partitions.partition import Partition, remember_rejected
from licorne_core.partitions.registry import Registry, Rm
from licorne_core.scheduling.stays import end_stay
from licorne_core.values.app_states import AppState
from licorne_core.values.errors import Refusal, Rejected
from licorne_core.values.ids import AppId, QueuePath
from licorne_core.values.resources import EMPTY, INT64_MAX, Resources, is_strictly_greater_than_zero
from licorne_core.values.rm_caps import footprint_of, footprint_of_names
from licorne_core.values.rule_kinds import IndexedTags, tag_value
from licorne_core.values.slices import PART
from licorne_core.values.tags import check_tags

QUOTA = "namespace.resourcequota"
GUARANTEED = "namespace.resourceguaranteed"
MAX_APPLICATIONS = "namespace.resourcemaxapps"

_PENDING = frozenset({RequestState.PENDING})

_MAX_TEXT = 16_384
_UINT64_MAX = 2**64 - 1


def _brought_with(leaf: Queue, tags: Mapping[str, str]) -> TemplateConfig | None:
    """Template from the tags of an application and of earlier ones in the leaf.

    Only dynamic queues other than the recovery queue follow tags: None for all other queues. A tag is
    ignored if it cannot be read, has an amount below zero, or has only zeros.
    """
    if leaf.managed or leaf.path == RECOVERY_PATH:
        return None
    maximum = _resources(tag_value(tags, QUOTA))
    guaranteed = _resources(tag_value(tags, GUARANTEED))
    applications = _count(tag_value(tags, MAX_APPLICATIONS))
    return TemplateConfig(
        max=maximum or leaf.brought.max,
        guaranteed=guaranteed or leaf.brought.guaranteed,
        max_applications=applications or leaf.brought.max_applications,
    )


def _resources(text: str) -> Resources | None:
    """The amounts of ``{"resources":{"memory":{"value":10}}}``; None if unreadable or not above zero."""
    if not text or len(text) > _MAX_TEXT:
        return None
    try:
        found = {name: _value(entry) for name, entry in json.loads(text)["resources"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    in_range = all(value <= INT64_MAX for value in found.values())
    return found if in_range and is_strictly_greater_than_zero(found) else None


def _value(entry: Any) -> int:
    value = entry["value"]
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise TypeError("an amount is a whole number")
    return int(value)


def _count(text: str) -> int:
    """The number in the text; 0 if it is not a number."""
    if not text.isdecimal() or not text.isascii() or len(text) > 20:
        return 0
    value = int(text)
    return value if value <= _UINT64_MAX else 0


def _update(registry: Registry, rm: Rm, command: UpdateApplications, now: float) -> list[Effect]:
    """Process all additions, answer them together, then process the removals (spec § 1.6.6)."""
    jobs = registry.jobs
    job = jobs.find(command)
    if job is not None:
        return jobs.carry_on(job, now)
    effects = _add_all(rm, command, now)
    if command.remove:
        effects += jobs.carry_on(_Removals(rm, command, now), now)
    return effects


def _add_all(rm: Rm, command: UpdateApplications, now: float) -> list[Effect]:
    accepted: list[AppId] = []
    rejected: list[ApplicationRejection] = []
    for new in command.new:
        try:
            app = _add(rm, new, now)
        except Rejected as refusal:
            rejected.append(ApplicationRejection(app_id=new.app_id, reason=str(refusal), code=refusal.code))
            state = AppState.REJECTED.value
            rm.journal.note(state_entered(now, new.app_id, state, str(refusal)))
            _keep_rejected(rm, new, str(refusal), now)
        else:
            accepted.append(app.app_id)
    if not (accepted or rejected):
        return []
    return [ApplicationsAnswered(rm_id=rm.rm_id, accepted=accepted, rejected=rejected)]


def _add(rm: Rm, new: NewApplication, now: float) -> Application:
    app_id = new.app_id
    partition = rm.find(new.partition)
    if partition is None:
        name = rm.normalized(new.partition)
        if rm.was_removed(new.partition):
            raise Rejected(
                f"partition {name} is stopped cannot add a new application {app_id}",
                Refusal.UNKNOWN_PARTITION,
            )
        raise Rejected(
            f"Failed to add application {app_id} to partition {name}, partition doesn't exist",
            Refusal.UNKNOWN_PARTITION,
        )
    partition.counters.applications_submitted += 1
    if not app_id:
        raise Rejected("application ID is empty", Refusal.INVALID)
    if app_id in partition.applications:
        raise Rejected(
            f"adding application {app_id} to partition {partition.name}, but application already existed",
            Refusal.ALREADY_THERE,
        )
    check_tags(new.tags)
    footprint = _footprint(new)
    rm.holdings.check_application(app_id, footprint)
    user = checked_user(new, forced=is_forced(new))
    # Placement rules look up tags by name.
    placed = replace(new, user=user, tags=IndexedTags(new.tags))
    gang = gang_of(partition, new, now)
    if not is_forced(placed):
        check_terms(partition, app_id, gang)
    leaf, brought = _place(partition, placed, gang, now)
    app = Application(
        app_id,
        leaf.path,
        placed.user,
        new.tags,
        now,
        gang,
        holdings=rm.holdings,
        tally=partition.tally,
        footprint=footprint,
    )
    rm.holdings.application_added(footprint)
    app.leaf = leaf
    for _ in partition.points.enter_leaf(app, leaf, now):
        pass
    partition.applications[app_id] = app
    partition.tally.listed(app.state.value)
    if gang.units is not None:
        partition.tally.in_units[app_id] = None
    leaf.applications[app_id] = app
    partition.limits.join(app, leaf)
    partition.journal.note_all(app_added(now, app_id, leaf.path, app.group))
    if brought is not None:
        _bring(partition, leaf, brought, now)
    partition.counters.applications_accepted += 1
    return app


def _place(
    partition: Partition, placed: NewApplication, gang: Gang, now: float
) -> tuple[Queue, TemplateConfig | None]:
    """Return the leaf for the application, and the template from its tags.

    The gang is compared with the maximum that the application sets itself. If it is refused, queues created
    for it are removed.
    """
    tree = partition.tree
    before = len(tree)
    leaf, may_size = partition.points.home_of(placed, gang)
    created = len(tree) - before
    brought = _brought_with(leaf, placed.tags) if may_size else None
    if gang.is_wanted and not is_forced(placed):
        leaf_max = leaf.max if brought is None else max_with(leaf, brought)
        try:
            check_gang(placed.app_id, leaf, leaf_max, gang)
        except Rejected:
            tree.take_back(created)
            raise
    for queue in tree.newest(created):
        partition.journal.note(queue_changed(now, queue.path, EventChange.ADD, managed=False))
        partition.attach(queue, None, now)
    return leaf, brought


def _footprint(new: NewApplication) -> int:
    """Estimated bytes of memory of its description."""
    described = footprint_of(new.tags) + footprint_of(new.placeholder_ask)
    return described + footprint_of_names((new.app_id, *new.user.groups))


def _bring(partition: Partition, leaf: Queue, brought: TemplateConfig, now: float) -> None:
    """Set the maximum, guarantee and maximum of applications of a dynamic leaf.

    The settings remain until a later application changes them, even after this application has left.
    """
    if brought == leaf.brought:
        # Most applications of a namespace set the same sizes as their predecessors.
        return
    maximum, guaranteed = leaf.max, leaf.guaranteed
    leaf.brought = brought
    apply_sizes(leaf)
    partition.dirty.mark_resized(leaf)
    if leaf.max != maximum:
        partition.journal.note(queue_max_changed(now, leaf.path, leaf.max or EMPTY))
    if leaf.guaranteed != guaranteed:
        partition.journal.note(queue_guaranteed_changed(now, leaf.path, leaf.guaranteed or EMPTY))


def _keep_rejected(rm: Rm, new: NewApplication, reason: str, now: float) -> None:
    """List a rejected application (spec § 3.12).

    It is not listed if its partition or its id is unknown, or while memory is short. An application that
    exists is not listed either: a repeated command must change nothing.
    """
    partition = rm.find(new.partition)
    if partition is None:
        return
    partition.counters.applications_rejected += 1
    named = partition.tree.get(new.queue_name)
    if named is not None and named.is_leaf:
        named.counters.applications_rejected += 1
    if not new.app_id or new.app_id in partition.applications or rm.holdings.pressure.shortage:
        return
    app = Application(
        new.app_id,
        QueuePath(new.queue_name),
        new.user,
        new.tags,
        now,
        holdings=rm.holdings,
        footprint=_footprint(new) + len(new.queue_name) + len(reason),
    )
    app.enter(AppEvent.REJECT, now)
    app.message = reason
    app.finished_time = now
    remember_rejected(partition, app, now)


class _Removals(OutcomeJob):
    """The removal of applications."""

    def __init__(self, rm: Rm, command: UpdateApplications, now: float) -> None:
        """Begin the removal of the applications in the command."""
        self._rm = rm
        self._removals = command.remove
        super().__init__(command, rm.slice_size, now)

    def steps(self) -> Iterator[int]:
        """Remove the applications one by one; see `Job`."""
        for removal in self._removals:
            partition = self._rm.find(removal.partition)
            app = partition.applications.get(removal.app_id) if partition else None
            if partition is not None and app is not None:
                yield from self._remove(partition, app)
                self.tell()

    def _remove(self, partition: Partition, app: Application) -> Iterator[int]:
        """Release everything of the application; then its id is free again (spec § 5.1.3)."""
        yield from drop_asks(self, partition, app)
        if app.allocation_count and app.state is not AppState.COMPLETING:
            # An application in state Completing would be completed before its requests are freed.
            self.outcome.updates += advance(partition, app, AppEvent.COMPLETE, self.now)
        yield from release_all(self, partition, app, f"Application {app.app_id} Removed")
        unlink(partition, app, self.now)


def drop_asks(job: Job, partition: Partition, app: Application) -> Iterator[int]:
    """Drop all asks of the application, the pending ones first; yield the costs of the steps."""
    yield from roll_back_all(job, partition, app, PairEvent.DROPPED)
    if app.allocation_count == len(app.requests):
        return
    had = list(app.requests.values())
    for states in (_PENDING, TO_REPLACE):
        for number, request in enumerate(had, 1):
            if request.state in states:
                drop_ask(partition, app, request, job.now)
                end_placeholder_time(partition, app)
                yield 1
            elif not number % PART:
                yield 1


def release_all(job: OutcomeJob, partition: Partition, app: Application, message: str) -> Iterator[int]:
    """Free all allocations of an application without asks; yield the costs of the steps."""
    for request in list(app.requests.values()):
        note_ended(partition, app, request, job.now)
        if request.state is RequestState.NOTICED:
            end_stay(partition.stays, request)
        allocation = partition.allocations.release(app, request)
        note_freed(partition, app, allocation, EventDetail.ALLOC_CANCEL, job.now)
        release = Release(
            app_id=app.app_id, key=request.key, termination=TerminationType.STOPPED_BY_RM, message=message
        )
        job.outcome.release(partition, release)
        end_placeholder_time(partition, app)
        yield 1


COMMANDS: Final[Commands] = {UpdateApplications: _update}
