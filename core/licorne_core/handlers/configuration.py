"""Registration, configuration updates and farewell (spec §§ 1.6.2-3, 2.7, 13.1)."""

from collections.abc import Mapping

from licorne_core.apps.application import Application
from licorne_core.apps.gang_rules import PairEvent
from licorne_core.apps.requests import RequestState
from licorne_core.apps.states import AppEvent, AppState
from licorne_core.commands import Hold, RegisterRm, TerminationType, UpdateConfiguration
from licorne_core.config import InvalidConfiguration, SubmittedConfig, built_in
from licorne_core.config.schema import Configuration, PartitionConfig
from licorne_core.effects import (
    AllocationsReleased,
    ApplicationsUpdated,
    ApplicationUpdate,
    ConfigurationRefused,
    ConfigurationUpdated,
    Effect,
    Registered,
    RegistrationFailed,
    Release,
)
from licorne_core.errors import ConfigError, Problem
from licorne_core.events import EventDetail
from licorne_core.facts.apps import GroupChanged
from licorne_core.facts.nodes import NodeRemoved
from licorne_core.handlers.predicates import roll_back_all
from licorne_core.handlers.quota_change import watch_quotas
from licorne_core.ids import PartitionName, partition_key
from licorne_core.lifecycle import (
    advance,
    clean_later,
    drop_ask,
    note_freed,
    note_queue_changes,
    queues_watched,
)
from licorne_core.options import Options
from licorne_core.partition import Partition
from licorne_core.placement.chain import Placer
from licorne_core.queues.changes import changes
from licorne_core.queues.reload import check_reload
from licorne_core.registry import Registry, Rm, follow
from licorne_core.resources import add, refund

PARTITION_REMOVED = "PartitionRemoved"
_LAST_EVENT = {
    AppState.FAILING: AppEvent.FAIL,
    AppState.COMPLETING: AppEvent.COMPLETE,
}
_OF_THE_SERVER = frozenset({Hold.DRAINING, Hold.OUTBOX_FULL})
"""Holds that a new registration does not end."""

_ID_LIMITS = "rmID must not be empty and must not hold '[' or ']'"


def register(registry: Registry, command: RegisterRm, options: Options, now: float) -> list[Effect]:
    """Drop what the RM had and start anew; a refused registration changes nothing."""
    rm_id = command.rm_id
    try:
        if not rm_id or "[" in rm_id or "]" in rm_id:
            raise ConfigError([Problem(message=f"{_ID_LIMITS}: '{rm_id}'", path="rmID")])
        configuration = _usable(command.config, options)
        before = registry.rms.get(rm_id)
        holds = [hold for hold in before.holds if hold in _OF_THE_SERVER] if before else []
        rm = Rm(command, configuration, registry.next_session(rm_id), holds, now)
        for config in configuration.partitions:
            _build(rm, config, options, now)
    except ConfigError as error:
        reason = f"registration of RM failed: {error}"
        return [RegistrationFailed(rm_id=rm_id, reason=reason, problems=error.problems)]
    registry.put(rm)
    return [Registered(rm_id=rm_id, session=rm.session)]


def _usable(config: SubmittedConfig, options: Options) -> Configuration:
    """The configuration to use: the submitted one, or the default where there is none.

    Raises:
        ConfigError: the submitted one is invalid.
    """
    if isinstance(config, InvalidConfiguration):
        raise ConfigError(config.problems)
    return config or options.default_config or built_in()


def _build(rm: Rm, config: PartitionConfig, options: Options, now: float) -> Partition:
    name = rm.name_of(config.name)
    partition = rm.partitions[name] = Partition(name, rm.context, config, now, options)
    follow(partition, rm.extra)
    note_queue_changes(partition, {}, now)
    return partition


def update_configuration(
    registry: Registry,
    rm: Rm,
    command: UpdateConfiguration,
    options: Options,
    now: float,
) -> list[Effect]:
    """Take a new configuration whole or not at all, over all partitions (spec § 2.7).

    The extra configuration stays in force even where the queues are refused (§ 13.1).
    """
    if command.extra_config:
        rm.set_extra(command.extra_config)
    try:
        configuration = _usable(command.config, options)
        is_new = configuration.checksum != rm.configuration.checksum
        partitions = configuration.partitions if is_new else ()
        problems = [problem for config in partitions for problem in _check(rm, config)]
        if problems:
            raise ConfigError(problems)
    except ConfigError as error:
        reason = f"update of configuration failed: {error}"
        return [ConfigurationRefused(rm_id=rm.rm_id, reason=reason, problems=error.problems)]
    rm.policy_group = command.policy_group or rm.policy_group
    if not is_new:
        return [ConfigurationUpdated(rm_id=rm.rm_id, changed=False)]
    effects = _apply(registry, rm, configuration, options, now)
    rm.configuration = configuration
    return [ConfigurationUpdated(rm_id=rm.rm_id, changed=True), *effects]


def _check(rm: Rm, config: PartitionConfig) -> list[Problem]:
    """What stands in the way of taking over one partition's configuration."""
    partition = rm.named(config.name)
    Placer(config.placement_rules)
    return check_reload(partition.tree, config.root) if partition else []


def _apply(
    registry: Registry, rm: Rm, configuration: Configuration, options: Options, now: float
) -> list[Effect]:
    wanted = {rm.name_of(config.name): config for config in configuration.partitions}
    effects: list[Effect] = []
    for name in [name for name in rm.partitions if name not in wanted]:
        effects += _remove_partition(registry, rm, name, now)
    for name, config in wanted.items():
        partition = rm.partitions.get(name)
        if partition is None:
            partition = registry.add(_build(rm, config, options, now))
            rm.removed.pop(partition_key(name), None)
        else:
            _reload(partition, config, now)
    return effects


def _reload(partition: Partition, config: PartitionConfig, now: float) -> None:
    """Rules, node order, queues: in the order of spec § 2.7.2."""
    before = queues_watched(partition)
    terms = partition.quota_clock.terms(partition.tree.walk())
    groups = {app: app.group for app in partition.applications.values()}
    partition.placer = Placer(config.placement_rules)
    if config.node_sort != partition.config.node_sort:
        partition.index.reorder(config.node_sort)
    partition.tree.reload(config.root)
    partition.tree.root.max = partition.nodes.total
    partition.config = config
    promises = partition.reservations.promises.booked()
    for promise in promises:
        promise.unbook()
    partition.limits.rejoin(partition.applications.values(), partition.leaf_of)
    for promise in promises:
        promise.book()
    note_queue_changes(partition, before, now)
    _note_groups(partition, groups, now)
    partition.changes.everything_changed()
    partition.preemption.enabled = config.preemption_enabled
    for app in partition.applications.values():
        for group in app.groups.values():
            partition.escalation.start_afresh(group)
    enforced = config.quota_preemption_enabled
    partition.quota_clock.on_reload(partition.tree.walk(), terms, now, enabled=enforced)
    watch_quotas(partition, now)
    for queue in list(partition.tree.walk()):
        if queue.is_empty:
            clean_later(partition, queue, now)


def _note_groups(partition: Partition, before: Mapping[Application, str], now: float) -> None:
    """Those who watch hear which applications count for another group since then."""
    for app, group in before.items():
        if app.group != group:
            # What is assumed was not told of yet.
            used = add(app.allocated, app.placeholder_allocated)
            for request in app.booked():
                if request.state is RequestState.ASSUMED:
                    refund(used, request.ask.ask_class.items)
            fact = GroupChanged(now, app.app_id, app.queue_path, group, app.group, used)
            partition.journal.note(fact)


def _remove_partition(registry: Registry, rm: Rm, name: PartitionName, now: float) -> list[Effect]:
    """A partition that left the configuration stops at once (spec § 2.7.5).

    Its applications fail, what runs is released, and in the end nothing is left of them.
    """
    partition = rm.forget(name)
    registry.drop(partition)
    partition.tree.stop()
    apps = list(partition.applications.values())
    updates: list[ApplicationUpdate] = []
    releases: list[Release] = []
    for app in apps:
        if app.state is AppState.RESUMING:
            # From there it cannot fail.
            updates += advance(partition, app, AppEvent.RUN, now, PARTITION_REMOVED)
        if app.state is not AppState.FAILING:
            updates += advance(partition, app, AppEvent.FAIL, now, PARTITION_REMOVED)
        roll_back_all(partition, app, PairEvent.DROPPED, now)
        for request in [*app.pending(), *app.replacing()]:
            drop_ask(partition, app, request, now)
        for request in list(app.booked()):
            allocation = partition.allocations.release(app, request)
            note_freed(partition, app, allocation, EventDetail.ALLOC_CANCEL, now)
            releases.append(
                Release(
                    app_id=app.app_id,
                    key=request.key,
                    termination=TerminationType.STOPPED_BY_RM,
                    message=PARTITION_REMOVED,
                )
            )
    ended: list[ApplicationUpdate] = []
    for app in apps:
        ended += advance(partition, app, _LAST_EVENT[app.state], now, PARTITION_REMOVED)
    for node in list(partition.nodes.by_id.values()):
        partition.cluster.remove(node, now)
        partition.journal.note(NodeRemoved(now, node.node_id, partition.nodes.total))
    for fact in changes(queues_watched(partition), {}, now):
        partition.journal.note(fact)
    effects: list[Effect] = []
    if updates:
        effects.append(ApplicationsUpdated(rm_id=rm.rm_id, updates=updates))
    if releases:
        effects.append(AllocationsReleased(rm_id=rm.rm_id, partition=name, releases=releases))
    if ended:
        effects.append(ApplicationsUpdated(rm_id=rm.rm_id, updates=ended))
    return effects
