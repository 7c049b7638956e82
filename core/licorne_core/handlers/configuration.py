"""Registration, configuration updates and farewell (spec §§ 1.6.2-3, 2.7, 13.1)."""

from collections.abc import Mapping

from licorne_core.apps.application import Application
from licorne_core.apps.requests import RequestState
from licorne_core.commands import Hold, RegisterRm, UpdateConfiguration
from licorne_core.config import InvalidConfiguration, SubmittedConfig, built_in
from licorne_core.config.schema import Configuration, PartitionConfig
from licorne_core.effects import (
    ConfigurationRefused,
    ConfigurationUpdated,
    Effect,
    Registered,
    RegistrationFailed,
    Unfinished,
)
from licorne_core.errors import ConfigError, Problem
from licorne_core.facts.apps import GroupChanged
from licorne_core.handlers.bounds import check_size
from licorne_core.handlers.partition_removal import remove_partition
from licorne_core.handlers.quota_change import watch_quotas
from licorne_core.handlers.slices import Slice
from licorne_core.ids import PartitionName, RmId, partition_key
from licorne_core.lifecycle import (
    clean_later,
    note_queue_changes,
    queues_watched,
)
from licorne_core.options import Options
from licorne_core.partition import Partition
from licorne_core.placement.chain import Placer
from licorne_core.queues.reload import check_reload
from licorne_core.registry import Registry, Rm, follow
from licorne_core.resources import add, refund
from licorne_core.rm_caps import Holdings

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
        _check_supplies(registry, rm_id)
        before = registry.rms.get(rm_id)
        holds = [hold for hold in before.holds if hold in _OF_THE_SERVER] if before else []
        session, slice_size = registry.next_session(rm_id), options.tuning.slice_size
        holdings = Holdings(rm_id, options.rm_caps, registry.supplies)
        rm = Rm(command, configuration, session, holds, now, slice_size, holdings)
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
        ConfigError: the submitted one is invalid, or has more than an RM may have.
    """
    if isinstance(config, InvalidConfiguration):
        raise ConfigError(config.problems)
    usable = config or options.default_config or built_in()
    check_size(usable, options.rm_caps)
    return usable


def _check_supplies(registry: Registry, rm_id: RmId) -> None:
    """Refuse an RM that was not here, while the process is short of memory."""
    if registry.supplies.shortage and rm_id not in registry.rms:
        raise ConfigError([Problem(message=registry.supplies.reason, path="rmID")])


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
    told = _remove_others(registry, rm, configuration, now)
    wanted = _wanted(rm, configuration)
    if any(name not in wanted for name in rm.partitions):
        return [*told, Unfinished(rm_id=rm.rm_id, rest=command)]
    _apply(registry, rm, configuration, options, now)
    rm.configuration = configuration
    return [ConfigurationUpdated(rm_id=rm.rm_id, changed=True), *told]


def _check(rm: Rm, config: PartitionConfig) -> list[Problem]:
    """What stands in the way of taking over one partition's configuration."""
    partition = rm.named(config.name)
    Placer(config.placement_rules)
    return check_reload(partition.tree, config.root) if partition else []


def _wanted(rm: Rm, configuration: Configuration) -> dict[PartitionName, PartitionConfig]:
    return {rm.name_of(config.name): config for config in configuration.partitions}


def _remove_others(
    registry: Registry, rm: Rm, configuration: Configuration, now: float
) -> list[Effect]:
    """Remove the partitions that left the configuration, as far as a slice goes."""
    wanted = _wanted(rm, configuration)
    effects: list[Effect] = []
    part = Slice(rm.slice_size)
    for name in [name for name in rm.partitions if name not in wanted]:
        effects += remove_partition(registry, rm, name, now, part)
    return effects


def _apply(
    registry: Registry, rm: Rm, configuration: Configuration, options: Options, now: float
) -> None:
    """Take the new configuration into all partitions that it names."""
    for name, config in _wanted(rm, configuration).items():
        partition = rm.partitions.get(name)
        if partition is None:
            partition = registry.add(_build(rm, config, options, now))
            rm.removed.pop(partition_key(name), None)
        else:
            _reload(partition, config, now)


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
