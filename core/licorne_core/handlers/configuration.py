"""Registration and configuration updates (spec §§ 1.6.2-3, 2.7, 13.1).

Also here:

* A partition that left its RM's configuration (spec § 2.7.5).
"""

from collections.abc import Iterator

from licorne_core.config import InvalidConfiguration, SubmittedConfig, built_in
from licorne_core.config.schema import Configuration, PartitionConfig
from licorne_core.events.nodes import NodeRemoved
from licorne_core.handlers.apps import drop_asks, release_all
from licorne_core.handlers.bounds import check_size
from licorne_core.handlers.lifecycle import advance
from licorne_core.handlers.nodes import forget_foreign_on
from licorne_core.handlers.outcome import OutcomeJob
from licorne_core.handlers.settling import PARTITION, build, reload
from licorne_core.messages.commands import Hold, Options, RegisterRm, UpdateConfiguration
from licorne_core.messages.effects import (
    ApplicationUpdate,
    ConfigurationRefused,
    ConfigurationUpdated,
    Effect,
    Registered,
    RegistrationFailed,
)
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.states import AppEvent, AppState
from licorne_core.model.placement.chain import Placer
from licorne_core.model.queues.changes import facts, snapshot
from licorne_core.model.queues.tree import check_reload, stop
from licorne_core.partitions.jobs import CommandJob
from licorne_core.partitions.partition import Partition
from licorne_core.partitions.registry import Registry, Rm
from licorne_core.values.errors import ConfigError, Problem
from licorne_core.values.ids import PartitionName, RmId, partition_key
from licorne_core.values.rm_caps import Holdings, Shortage

PARTITION_REMOVED = "PartitionRemoved"
_LAST_EVENT = {
    AppState.FAILING: AppEvent.FAIL,
    AppState.COMPLETING: AppEvent.COMPLETE,
}


def remove_partition(job: OutcomeJob, registry: Registry, rm: Rm, name: PartitionName) -> Iterator[int]:
    """Stop and empty the partition: its applications fail, and its allocations are released.

    It is there until the last step.
    """
    partition = rm.partitions[name]
    stop(partition.tree)
    yield PARTITION
    for app in list(partition.applications.values()):
        yield from _end(job, partition, app)
    for node in list(partition.nodes.by_id.values()):
        yield from forget_foreign_on(job, partition, node)
        partition.cluster.remove(node, job.now)
        partition.journal.note(NodeRemoved(job.now, node.node_id, partition.nodes.total))
        yield 1
    job.tell()
    if partition.journal.on:
        queues = [(queue, snapshot(queue), None) for queue in partition.tree.walk()]
        for fact in facts(reversed(queues), job.now):
            partition.journal.note(fact)
            yield 1
    rm.forget(name)
    registry.drop(partition)


def _end(job: OutcomeJob, partition: Partition, app: Application) -> Iterator[int]:
    """End the application's requests, and it with the last of them."""
    job.outcome.updates += _begin_to_fail(partition, app, job.now)
    yield from drop_asks(job, partition, app)
    yield from release_all(job, partition, app, PARTITION_REMOVED)
    event = _LAST_EVENT[app.state]
    job.outcome.last_updates += advance(partition, app, event, job.now, PARTITION_REMOVED)
    yield 1


def _begin_to_fail(partition: Partition, app: Application, now: float) -> list[ApplicationUpdate]:
    """The application fails, unless it is completing already."""
    updates: list[ApplicationUpdate] = []
    if app.state is AppState.RESUMING:
        # From there it cannot fail.
        updates += advance(partition, app, AppEvent.RUN, now, PARTITION_REMOVED)
    if app.state is not AppState.FAILING:
        updates += advance(partition, app, AppEvent.FAIL, now, PARTITION_REMOVED)
    return updates


_OF_THE_SERVER = frozenset({Hold.DRAINING, Hold.OUTBOX_FULL})
"""Holds that a new registration does not end."""

_ID_LIMITS = "rmID must not be empty and must not hold '[' or ']'"


def register(registry: Registry, command: RegisterRm, options: Options, now: float) -> list[Effect]:
    """Drop the RM's old state and start anew; a refused registration changes nothing."""
    job = registry.jobs.find(command)
    if job is None:
        rm_id = command.rm_id
        try:
            if not rm_id or "[" in rm_id or "]" in rm_id:
                raise ConfigError([Problem(message=f"{_ID_LIMITS}: '{rm_id}'", path="rmID")])
            configuration = _usable(command.config, options)
            _check_pressure(registry, rm_id)
            for config in configuration.partitions:
                Placer(config.placement_rules)
        except ConfigError as error:
            reason = f"registration of RM failed: {error}"
            return [RegistrationFailed(rm_id=rm_id, reason=reason, problems=error.problems)]
        job = _Registration(registry, command, configuration, options, now)
    return registry.jobs.carry_on(job, now)


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


def _check_pressure(registry: Registry, rm_id: RmId) -> None:
    """Refuse a new RM while the process is short of memory.

    While everything is refused, a known RM is refused too: its books would go, and its recovery
    would be refused.
    """
    pressure = registry.pressure
    if pressure.shortage is Shortage.ALL or (pressure.shortage and rm_id not in registry.rms):
        raise ConfigError([Problem(message=pressure.reason, path="rmID")])


class _Registration(CommandJob):
    """A registration that can be carried out.

    Its partitions are built apart; the RM's old ones are in force until the last step.
    """

    def __init__(
        self,
        registry: Registry,
        command: RegisterRm,
        configuration: Configuration,
        options: Options,
        now: float,
    ) -> None:
        """Start a registration with a checked configuration."""
        self._registry = registry
        self._options = options
        holdings = Holdings(command.rm_id, options.rm_caps, registry.pressure)
        self._rm = Rm(command, configuration, options.tuning.slice_size, holdings)
        super().__init__(command, options.tuning.slice_size, now)

    def steps(self) -> Iterator[int]:
        """Build all partitions, and then put them in force."""
        rm, registry = self._rm, self._registry
        for config in rm.configuration.partitions:
            yield from build(self, rm, config, self._options)
        before = registry.rms.get(rm.rm_id)
        holds = before.holds if before is not None else ()
        rm.holds.update(dict.fromkeys(hold for hold in holds if hold in _OF_THE_SERVER))
        rm.session = registry.next_session(rm.rm_id)
        rm.registered_time = self.now
        registry.put(rm)
        self.effects.append(Registered(rm_id=rm.rm_id, session=rm.session))


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
    job = registry.jobs.find(command)
    if job is None:
        if command.extra_config:
            rm.set_extra(command.extra_config)
        refused = refusal_of(rm.rm_id, rm, command.config, options)
        if refused is not None:
            return [refused]
        configuration = _usable(command.config, options)
        rm.policy_group = command.policy_group or rm.policy_group
        if configuration.checksum == rm.configuration.checksum:
            return [ConfigurationUpdated(rm_id=rm.rm_id, changed=False)]
        job = _Update(registry, rm, command, configuration, options, now)
    return registry.jobs.carry_on(job, now)


def refusal_of(
    rm_id: RmId, rm: Rm | None, config: SubmittedConfig, options: Options
) -> ConfigurationRefused | None:
    """Reason that an update of the RM with the configuration is refused; None if it is not.

    `rm` is None for one that is not registered: then the configuration is looked at by itself.
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
    Placer(config.placement_rules)
    return check_reload(partition.tree, config.root) if partition else []


class _Update(OutcomeJob):
    """A configuration update that can be put in force."""

    def __init__(
        self,
        registry: Registry,
        rm: Rm,
        command: UpdateConfiguration,
        configuration: Configuration,
        options: Options,
        now: float,
    ) -> None:
        """Start an update with a checked configuration."""
        self._registry = registry
        self._rm = rm
        self._configuration = configuration
        self._options = options
        super().__init__(command, options.tuning.slice_size, now)

    def steps(self) -> Iterator[int]:
        """Remove partitions that it has not, and take it into those that it names."""
        rm, registry = self._rm, self._registry
        wanted = {rm.name_of(config.name): config for config in self._configuration.partitions}
        for name in [name for name in rm.partitions if name not in wanted]:
            yield from remove_partition(self, registry, rm, name)
        for name, config in wanted.items():
            partition = rm.partitions.get(name)
            if partition is not None:
                yield from reload(self, partition, config)
            else:
                yield from build(self, rm, config, self._options)
                registry.add(rm.partitions[name])
                rm.removed.pop(partition_key(name), None)
        rm.configuration = self._configuration
        self.effects.insert(0, ConfigurationUpdated(rm_id=rm.rm_id, changed=True))
