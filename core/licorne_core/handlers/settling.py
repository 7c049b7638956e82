"""A partition follows a configuration, queue by queue (spec § 2.7)."""

from collections.abc import Iterator

from licorne_core.config.schema import PartitionConfig
from licorne_core.events.apps import GroupChanged
from licorne_core.handlers.lifecycle import clean_later
from licorne_core.handlers.preemption import watch_quotas
from licorne_core.messages.commands import Options
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import RequestState
from licorne_core.model.limits.book import group_kept_or_found
from licorne_core.model.placement.chain import Placer
from licorne_core.model.queues.changes import Change, limit_facts, queue_facts, snapshot
from licorne_core.partitions.jobs import CommandJob
from licorne_core.partitions.partition import Partition
from licorne_core.partitions.registry import Rm, follow
from licorne_core.scheduling.preemption.quota_change import terms_of
from licorne_core.values.resources import add, refund

PARTITION = 16
"""Making an empty partition counts for so many queues."""


def build(job: CommandJob, rm: Rm, config: PartitionConfig, options: Options) -> Iterator[int]:
    """Make a partition, and add it to its RM with the last step."""
    partition = Partition(rm.name_of(config.name), rm.context, config, job.now, options)
    follow(partition, rm.extra)
    yield PARTITION
    watched = partition.journal.on
    limited: list[Change] = []
    for visit in partition.tree.visits(config.root):
        partition.tree.settle(visit)
        if watched:
            _note(job, partition, (visit.queue, None, snapshot(visit.queue)), limited)
        yield 1
    yield from _note_limits(job, partition, limited)
    rm.partitions[partition.name] = partition


def reload(job: CommandJob, partition: Partition, config: PartitionConfig) -> Iterator[int]:
    """Follow another configuration: rules, node order, queues, as in spec § 2.7.2."""
    # From here on a pass has to look at everything, and there is none before the last step.
    partition.wakeups.waiting.runnable = True
    partition.placer = Placer(config.placement_rules)
    if config.node_sort != partition.config.node_sort:
        yield from partition.index.reorder(config.node_sort)
    partition.preemption.enabled = config.preemption_enabled
    yield PARTITION
    yield from _settle_queues(job, partition, config)
    partition.config = config
    watch_quotas(partition, job.now)
    yield from partition.limits.limit_anew(partition.tree.get)
    for app in list(partition.applications.values()):
        yield from _follow_limits(job, partition, app)
        for request in list(app.reserved.values()):
            partition.reservations.follow_settings(app, request)
            yield 1
    yield from partition.changes.change_everything()
    for app in list(partition.applications.values()):
        for group in list(app.groups.values()):
            partition.escalation.start_afresh(group)
            yield 1
    partition.wakeups.kept_nodes.clear()


def _settle_queues(job: CommandJob, partition: Partition, config: PartitionConfig) -> Iterator[int]:
    """Settle queues and the enforcement of their maxima, and publish the changes."""
    clock, watched = partition.quota_clock, partition.journal.on
    was_enabled, clock.enabled = clock.enabled, config.quota_preemption_enabled
    limited: list[Change] = []
    for visit in partition.tree.visits(config.root):
        queue = visit.queue
        before = snapshot(queue) if watched and not visit.is_new else None
        terms = terms_of(queue, enabled=was_enabled)
        partition.tree.settle(visit)
        clock.on_reload(queue, terms, job.now)
        if watched:
            _note(job, partition, (queue, before, snapshot(queue)), limited)
        if queue.is_empty:
            clean_later(partition, queue, job.now)
        yield 1
    yield from _note_limits(job, partition, limited)


def _note(job: CommandJob, partition: Partition, change: Change, limited: list[Change]) -> None:
    """Publish changes of a queue at once, and of its limits behind all queues (§ 12.1.4)."""
    for fact in queue_facts(change, job.now):
        partition.journal.note(fact)
    _, before, after = change
    if (before.limits if before else ()) != (after.limits if after else ()):
        limited.append(change)


def _note_limits(job: CommandJob, partition: Partition, limited: list[Change]) -> Iterator[int]:
    for change in limited:
        for fact in limit_facts(change, job.now):
            partition.journal.note(fact)
            yield 1


def _follow_limits(job: CommandJob, partition: Partition, app: Application) -> Iterator[int]:
    """An application is bound by other limits, maybe those of another group (spec § 10.7).

    It changes its group only if that is not limited any more.
    """
    if app.leaf is None:
        return
    leaf, before = partition.leaf_of(app), app.group
    group = group_kept_or_found(leaf, app.user, before)
    yield 1
    if partition.limits.is_booked_right(app, leaf, group):
        return
    # In the quotas that it leaves or enters, other amounts are to be kept free (§ 9.4.8).
    promises = [
        promise
        for promise in partition.reservations.promises.booked()
        if promise.app is app or app in promise.outstanding.values()
    ]
    for promise in promises:
        promise.unbook()
    partition.limits.rebook(app, leaf, group)
    for promise in promises:
        promise.book()
    if group != before:
        fact = GroupChanged(job.now, app.app_id, app.queue_path, before, group, _used(app))
        partition.journal.note(fact)
    yield len(app.requests) + len(partition.reservations.promises)


def _used(app: Application) -> dict[str, int]:
    """Usage as published in events. Assumed allocations are not published yet."""
    used = add(app.allocated, app.placeholder_allocated)
    for request in app.booked():
        if request.state is RequestState.ASSUMED:
            refund(used, request.ask.ask_class.items)
    return used
