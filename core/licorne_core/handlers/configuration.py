"""Registration and configuration updates (spec §§ 1.6.2-3, 2.7, 13.1).

A configuration is applied to a partition queue by queue (`build`, `reload`); a partition that is not
configured any more is removed (`remove_partition`, spec § 2.7.5).
"""

from collections.abc import Iterator
from typing import Final

from licorne_core.config import InvalidConfiguration, SubmittedConfig, built_in
from licorne_core.config.schema import Configuration, PartitionConfig
from licorne_core.handlers.apps import drop_asks, release_all
from licorne_core.handlers.bounds import check_size
from licorne_core.handlers.lifecycle import advance, clean_later, rebook
from licorne_core.handlers.nodes import forget_foreign_on
from licorne_core.handlers.outcome import Commands, OutcomeJob
from licorne_core.messages.commands import Hold, Options, RegisterRm, RemoveRm, UpdateConfiguration
from licorne_core.messages.effects import (
    ApplicationUpdate,
    ConfigurationRefused,
    ConfigurationUpdated,
    Effect,
    Registered,
    RegistrationFailed,
)
from licorne_core.messages.events.apps import group_changed
from licorne_core.messages.events.cluster import node_removed
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import RequestState
from licorne_core.model.apps.states import AppEvent
from licorne_core.model.limits import group_kept_or_found
from licorne_core.model.queues.changes import Change, facts, limit_facts, queue_facts, snapshot
from licorne_core.model.queues.tree import check_reload, stop
from licorne_core.partitions.jobs import CommandJob
from licorne_core.partitions.partition import Partition
from licorne_core.partitions.registry import Registry, Rm, follow
from licorne_core.points import Former
from licorne_core.scheduling.stays import ask_again
from licorne_core.values.app_states import AppState
from licorne_core.values.errors import ConfigError, Problem
from licorne_core.values.ids import PartitionName, RmId, partition_key
from licorne_core.values.resources import add, charge, refund
from licorne_core.values.rm_caps import Holdings, MemoryShortage

PARTITION = 16
"""Cost of creating an empty partition, in queues."""


def build(job: CommandJob, rm: Rm, config: PartitionConfig, options: Options) -> Iterator[int]:
    """Build a partition, and add it to its RM with the last step."""
    partition = Partition(rm.name_of(config.name), rm.context, config, job.now, options, rm.extensions)
    follow(partition, rm.extra)
    for extension in partition.points.take_marks:
        extension.take_marks(rm.marks_in(partition.name, extension.name))
    for kept in rm.retained.of(partition.name):
        for extension in partition.points.restore:
            yield from extension.restore(kept.get(extension.name, {}), job.now)
    yield PARTITION
    yield from _settle_queues(job, partition, config, is_new=True)
    rm.retained.forget(partition.name)
    rm.partitions[partition.name] = partition


def reload(job: CommandJob, partition: Partition, config: PartitionConfig) -> Iterator[int]:
    """Apply another configuration: rules, node order and queues (spec § 2.7.2)."""
    # The next pass has to examine all items. No pass runs before the last step of this reload.
    partition.wakeups.waiting.runnable = True
    if config.node_sort != partition.config.node_sort:
        yield from partition.index.reorder(config.node_sort, partition.nodes.order.packs)
    yield PARTITION
    yield from _settle_queues(job, partition, config)
    partition.config = config
    for extension in partition.points.reloaded:
        extension.reloaded(job.now)
    yield from partition.limits.limit_anew(partition.tree.get)
    for app in list(partition.applications.values()):
        yield from _follow_limits(job, partition, app)
        for request in list(app.reserved.values()):
            partition.reservations.follow_settings(app, request)
            yield 1
    for extension in partition.points.adapt:
        yield from extension.adapt(partition, config, job.now)
    yield from partition.dirty.change_everything()
    for app in list(partition.applications.values()):
        for group in list(app.groups.values()):
            partition.escalation.start_afresh(group, job.now)
            yield 1
        yield from partition.points.enter_leaf(app, app.leaf, job.now)
    partition.wakeups.reserved_node_waits.clear()
    ask_again(partition.stays, job.now)


def _settle_queues(
    job: CommandJob, partition: Partition, config: PartitionConfig, *, is_new: bool = False
) -> Iterator[int]:
    """Apply the settings of a partition's queues, with extensions, and publish the changes."""
    points, watched = partition.points, partition.journal.on
    for extension in points.configure:
        extension.configure(config)
    limited: list[Change] = []
    for visit in partition.tree.visits(config.root):
        queue = visit.queue
        before = snapshot(queue) if watched and not (is_new or visit.is_new) else None
        former = Former(queue.max, queue.settings, queue.managed)
        partition.tree.settle(visit)
        if watched:
            _note(job, partition, (queue, before, snapshot(queue)), limited)
        partition.attach(queue, former, job.now)
        if queue.is_empty and not is_new:
            clean_later(partition, queue, job.now)
        yield 1
    yield from _note_limits(job, partition, limited)


def _note(job: CommandJob, partition: Partition, change: Change, limited: list[Change]) -> None:
    """Publish changes of a queue immediately, and collect changes of its limits for later (§ 12.1.4)."""
    partition.journal.note_all(queue_facts(change, job.now))
    _, before, after = change
    if (before.limits if before else ()) != (after.limits if after else ()):
        limited.append(change)


def _note_limits(job: CommandJob, partition: Partition, limited: list[Change]) -> Iterator[int]:
    for change in limited:
        for fact in limit_facts(change, job.now):
            partition.journal.note(fact)
            yield 1


def _follow_limits(job: CommandJob, partition: Partition, app: Application) -> Iterator[int]:
    """Apply changed limits to an application, possibly those of another group (spec § 10.7).

    An application changes its group only if its current group is not limited any more.
    """
    if app.leaf is None:
        return
    leaf, before, owner = partition.leaf_of(app), app.group, app.owner
    group = group_kept_or_found(leaf, app.user, before)
    yield 1
    if partition.limits.is_booked_right(app, leaf, group):
        return
    held = rebook(partition, app, lambda: partition.limits.rebook(app, leaf, group))
    if group != before:
        used, passing = _used(app)
        partition.meter.move(owner, app.owner, used, passing, job.now)
        moved = group_changed(job.now, app.app_id, app.queue_path, before, group, used)
        partition.journal.note_all(moved)
    yield len(app.requests) + held


def _used(app: Application) -> tuple[dict[str, int], dict[str, int]]:
    """Usage as published in events, and the part that passed claims. Assumed asks are not published yet."""
    used, passing = add(app.allocated, app.placeholder_allocated), dict[str, int]()
    for request in app.booked():
        items = request.ask.ask_class.items
        if request.state is RequestState.ASSUMED:
            refund(used, items)
        elif request.allocation is not None and request.allocation.passed is not None:
            charge(passing, items)
    return used, passing


PARTITION_REMOVED = "PartitionRemoved"
_LAST_EVENT = {AppState.FAILING: AppEvent.FAIL, AppState.COMPLETING: AppEvent.COMPLETE}


def remove_partition(job: OutcomeJob, registry: Registry, rm: Rm, name: PartitionName) -> Iterator[int]:
    """Stop and empty the partition: its applications fail, and its allocations are released.

    The partition exists until the last step.
    """
    partition = rm.partitions[name]
    stop(partition.tree)
    yield PARTITION
    for app in list(partition.applications.values()):
        yield from _end(job, partition, app)
    for node in list(partition.nodes.by_id.values()):
        yield from forget_foreign_on(job, partition, node)
        partition.cluster.remove(node, job.now)
        total = partition.rm.core.floating.shown(partition.nodes.total)
        partition.journal.note_all(node_removed(job.now, node.node_id, total))
        yield 1
    job.tell()
    partition.settle(job.now)
    if partition.journal.on:
        queues = [(queue, snapshot(queue), None) for queue in partition.tree.walk()]
        for fact in facts(reversed(queues), job.now):
            partition.journal.note(fact)
            yield 1
    for kept in partition.retained(job.now):
        yield PARTITION
        if kept is not None:
            rm.retained.keep(name, kept)
    rm.forget(name)
    registry.drop(partition)


def _end(job: OutcomeJob, partition: Partition, app: Application) -> Iterator[int]:
    """End the application's requests; the application ends with the last request."""
    job.outcome.updates += _begin_to_fail(partition, app, job.now)
    yield from drop_asks(job, partition, app)
    yield from release_all(job, partition, app, PARTITION_REMOVED)
    event = _LAST_EVENT[app.state]
    job.outcome.last_updates += advance(partition, app, event, job.now, PARTITION_REMOVED)
    yield 1


def _begin_to_fail(partition: Partition, app: Application, now: float) -> list[ApplicationUpdate]:
    """Let the application fail, unless it is completing already."""
    updates: list[ApplicationUpdate] = []
    if app.state is AppState.RESUMING:
        # No transition leads from RESUMING directly to FAILING.
        updates += advance(partition, app, AppEvent.RUN, now, PARTITION_REMOVED)
    if app.state is not AppState.FAILING:
        updates += advance(partition, app, AppEvent.FAIL, now, PARTITION_REMOVED)
    return updates


_OF_THE_SERVER = frozenset({Hold.DRAINING, Hold.OUTBOX_FULL})
"""Holds that a new registration does not end."""

_ID_LIMITS = "rmID must not be empty and must not hold '[' or ']'"


def register(registry: Registry, command: RegisterRm, now: float) -> list[Effect]:
    """Replace the RM's old state by an empty one; a refused registration changes nothing."""
    job = registry.jobs.find(command)
    if job is None:
        rm_id = command.rm_id
        try:
            if not rm_id or "[" in rm_id or "]" in rm_id:
                raise ConfigError([Problem(message=f"{_ID_LIMITS}: '{rm_id}'", path="rmID")])
            configuration = _usable(command.config, registry.options)
            _check_pressure(registry, rm_id)
        except ConfigError as error:
            reason = f"registration of RM failed: {error}"
            return [RegistrationFailed(rm_id=rm_id, reason=reason, problems=error.problems)]
        job = _Registration(registry, command, configuration, now)
    return registry.jobs.carry_on(job, now)


def _usable(config: SubmittedConfig, options: Options) -> Configuration:
    """The configuration to use: the submitted one, or the default if none was submitted.

    Raises:
        ConfigError: the submitted one is invalid, or has more partitions or queues than an RM may have.
    """
    if isinstance(config, InvalidConfiguration):
        raise ConfigError(config.problems)
    usable = config or options.default_config or built_in()
    check_size(usable, options.rm_caps)
    return usable


def _check_pressure(registry: Registry, rm_id: RmId) -> None:
    """Refuse a new RM while the process is short of memory.

    While all additions are refused, an RM with state is refused too: its state would be dropped, and its
    recovery would be refused.
    """
    pressure = registry.pressure
    if pressure.shortage is MemoryShortage.ALL or (pressure.shortage and rm_id not in registry.rms):
        raise ConfigError([Problem(message=pressure.reason, path="rmID")])


class _Registration(CommandJob):
    """A registration with a checked configuration.

    Its partitions are built separately; the RM's old partitions are in force until the last step.
    """

    def __init__(
        self, registry: Registry, command: RegisterRm, configuration: Configuration, now: float
    ) -> None:
        """Prepare a registration with a checked configuration."""
        self._registry = registry
        options = registry.options
        holdings = Holdings(command.rm_id, options.rm_caps, registry.pressure)
        self._rm = Rm(
            command, configuration, options.tuning.slice_size, holdings, registry.core, registry.extensions
        )
        super().__init__(command, options.tuning.slice_size, now)

    def steps(self) -> Iterator[int]:
        """Build all partitions, then activate them."""
        rm, registry = self._rm, self._registry
        for config in rm.configuration.partitions:
            yield from build(self, rm, config, registry.options)
        before = registry.rms.get(rm.rm_id)
        holds = before.holds if before is not None else ()
        rm.holds.update(dict.fromkeys(hold for hold in holds if hold in _OF_THE_SERVER))
        rm.session = registry.next_session(rm.rm_id)
        rm.registered_time = self.now
        registry.put(rm)
        self.effects.append(Registered(rm_id=rm.rm_id, session=rm.session))


def _update(registry: Registry, rm: Rm, command: UpdateConfiguration, now: float) -> list[Effect]:
    """Apply a new configuration to all partitions, either completely or not at all (spec § 2.7).

    The extra configuration remains in force even if the queues are refused (§ 13.1).
    """
    job = registry.jobs.find(command)
    if job is None:
        if command.extra_config or command.replaces_extra:
            rm.set_extra(command.extra_config)
        refused = refusal_of(rm.rm_id, rm, command.config, registry.options)
        if refused is not None:
            return [refused]
        configuration = _usable(command.config, registry.options)
        rm.policy_group = command.policy_group or rm.policy_group
        if configuration.checksum == rm.configuration.checksum:
            return [ConfigurationUpdated(rm_id=rm.rm_id, changed=False)]
        job = _Update(registry, rm, command, configuration, now)
    return registry.jobs.carry_on(job, now)


def refusal_of(
    rm_id: RmId, rm: Rm | None, config: SubmittedConfig, options: Options
) -> ConfigurationRefused | None:
    """The reason to refuse an update of the RM with the configuration; None if it is acceptable.

    `rm` is None for an RM that is not registered: then only the configuration itself is checked.
    """
    try:
        configuration = _usable(config, options)
        is_new = rm is None or configuration.checksum != rm.configuration.checksum
        partitions = configuration.partitions if is_new else ()
        problems = [problem for config in partitions for problem in _check(rm, config)]
        if problems:
            raise ConfigError(problems)
    except ConfigError as error:
        reason = f"update of configuration failed: {error}"
        return ConfigurationRefused(rm_id=rm_id, reason=reason, problems=error.problems)
    return None


def _check(rm: Rm | None, config: PartitionConfig) -> list[Problem]:
    """Obstacles to a reload of one partition's configuration."""
    partition = rm.named(config.name) if rm is not None else None
    return check_reload(partition.tree, config.root) if partition else []


class _Update(OutcomeJob):
    """An update with a checked configuration."""

    def __init__(
        self,
        registry: Registry,
        rm: Rm,
        command: UpdateConfiguration,
        configuration: Configuration,
        now: float,
    ) -> None:
        """Prepare an update with a checked configuration."""
        self._registry = registry
        self._rm = rm
        self._configuration = configuration
        super().__init__(command, registry.options.tuning.slice_size, now)

    def steps(self) -> Iterator[int]:
        """Remove partitions that are missing in the configuration, and configure the others."""
        rm, registry = self._rm, self._registry
        wanted = {rm.name_of(config.name): config for config in self._configuration.partitions}
        for name in [name for name in rm.partitions if name not in wanted]:
            yield from remove_partition(self, registry, rm, name)
        for name, config in wanted.items():
            partition = rm.partitions.get(name)
            if partition is not None:
                yield from reload(self, partition, config)
            else:
                yield from build(self, rm, config, registry.options)
                registry.add(rm.partitions[name])
                rm.removed.pop(partition_key(name), None)
        rm.configuration = self._configuration
        self.effects.insert(0, ConfigurationUpdated(rm_id=rm.rm_id, changed=True))


def _remove(registry: Registry, rm: Rm, _: RemoveRm, __: float) -> list[Effect]:
    registry.remove(rm.rm_id)
    return []


COMMANDS: Final[Commands] = {UpdateConfiguration: _update, RemoveRm: _remove}
