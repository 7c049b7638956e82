"""Plan of a configuration update, and values that its text leaves to defaults (spec §§ 2, 2.7, 13)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from licorne_core.config import document, load, properties
from licorne_core.config.document import read_document
from licorne_core.config.keys import SWITCHES
from licorne_core.config.report import Report
from licorne_core.config.schema import Configuration, PartitionConfig, QueueConfig, QueueSettings
from licorne_core.messages.commands import UpdateConfiguration
from licorne_core.messages.effects import ConfigurationRefused, ConfigurationUpdated
from licorne_core.messages.plans import (
    DRAINING,
    ConfigurationPlan,
    ConfigurationPlanRefused,
    DefaultedValue,
    PlanCounts,
    PlannedAsk,
    PlannedVictim,
    Spent,
)
from licorne_core.model.apps.requests import Request, RequestState
from licorne_core.partitions.partition import Partition
from licorne_core.values.ids import AllocationKey, AppId, PartitionName, RmId, partition_key, partition_name
from licorne_core.values.resources import NO_AMOUNTS
from licorne_core.whatif import queues
from licorne_core.whatif.queues import (
    NEW,
    OVER_MAX,
    Capped,
    Excess,
    Snapshots,
    TrackerKey,
    compared,
    exceeded_limits,
    excesses,
    snapshots,
)
from licorne_core.whatif.rehearsal import (
    MOST_AHEAD,
    CopiedCore,
    Rehearsal,
    Stopped,
    has_nothing_to_wait_for,
    seconds_ahead,
)
from licorne_core.whatif.stops import WaitingAsk, waiting_asks

DEFAULT = "default"
"""Origin of a default value."""

_STANDARD = QueueSettings()
PROPERTY_DEFAULTS: Mapping[str, str] = {
    properties.APP_SORT_POLICY: _STANDARD.app_sort.value,
    properties.APP_SORT_PRIORITY: "enabled" if _STANDARD.priority_sort else "disabled",
    properties.PRIORITY_POLICY: "fence" if _STANDARD.priority_fence else DEFAULT,
    properties.PRIORITY_OFFSET: str(_STANDARD.priority_offset),
    properties.PREEMPTION_POLICY: _STANDARD.preemption.value,
    properties.PREEMPTION_DELAY: f"{_STANDARD.preemption_delay:g}s",
    properties.PREEMPTION_MINIMUM_RUNTIME: "none",
    properties.PREEMPTION_LOSS_LIMIT: "none",
    properties.PREEMPTION_VICTIM_ORDER: _STANDARD.preemption_victim_order.value,
    **{each.key.name: each.unset for each in properties.OF_FEATURES if each.unset},
}
"""Default of each property that the scheduler reads."""

_QUEUE_DEFAULTS: Mapping[str, str] = {
    "resources.guaranteed": NO_AMOUNTS,
    "resources.max": queues.UNLIMITED,
    "maxapplications": queues.UNLIMITED,
    "submitacl": "nobody but who may submit above",
    "adminacl": "nobody but who administers above",
}
_OF_THE_CLUSTER = frozenset({"resources.guaranteed", "resources.max"})
"""Keys that root cannot have: its maximum is the size of the cluster."""

_PARTITION_DEFAULTS: Mapping[str, str] = {
    "placementrules": queues.NO_RULES,
    "nodesortpolicy": "auto",
    "preemption.enabled": "true",
    **{f"preemption.{key.name}": key.default for key in SWITCHES},
}


def defaulted_values(rm_id: RmId, config: Configuration) -> Capped[DefaultedValue]:
    """Default values of a configuration: of each partition, then of its queues, parents first."""
    found: Capped[DefaultedValue] = Capped()
    given = _Given(config.text)
    for partition in config.partitions:
        name = partition_name(rm_id, partition.name)
        for what, value in _PARTITION_DEFAULTS.items():
            if not given.has(partition.place.path, what):
                _add(found, name, "", what, value, DEFAULT)
        for path, queue, above in _walk(partition):
            for what, value in _QUEUE_DEFAULTS.items():
                is_root = not above
                if not (is_root and what in _OF_THE_CLUSTER) and not given.has(queue.place.path, what):
                    _add(found, name, path, what, value, DEFAULT)
            for key, value, origin in _properties(queue, above):
                _add(found, name, path, f"property {key}", value, origin)
    return found


def _add(
    found: Capped[DefaultedValue], partition: PartitionName, path: str, name: str, value: str, origin: str
) -> None:
    if found.is_full:
        found.count_one()
    else:
        found.add(DefaultedValue(partition=partition, path=path, name=name, value=value, origin=origin))


_Above = tuple[tuple[str, QueueConfig], ...]
"""Paths and queues above a queue, the nearest first."""


def _walk(partition: PartitionConfig) -> Iterator[tuple[str, QueueConfig, _Above]]:
    waiting: list[tuple[str, QueueConfig, _Above]] = [(partition.root.name, partition.root, ())]
    while waiting:
        path, queue, above = waiting.pop()
        yield path, queue, above
        lineage = ((path, queue), *above)
        waiting += [(f"{path}.{c.name}", c, lineage) for c in reversed(queue.queues)]


def _properties(queue: QueueConfig, above: _Above) -> Iterator[tuple[str, str, str]]:
    """Properties that are not in the text of the queue: key, value and origin."""
    for key in dict.fromkeys((*PROPERTY_DEFAULTS, *sorted(queue.merged))):
        if key in queue.properties:
            continue
        value = queue.merged.get(key)
        if value is None:
            yield key, PROPERTY_DEFAULTS[key], DEFAULT
            continue
        giver = next((one for one in above if key in one[1].properties), None)
        # Not all properties are inherited (`merge_properties`).
        is_handed_on = giver is not None and giver[1].properties[key] == value
        yield key, value, giver[0] if giver is not None and is_handed_on else DEFAULT


class _Given:
    """Keys of a text. They are needed because a value in the text may equal the default."""

    def __init__(self, text: str) -> None:
        """Read the keys of a valid text."""
        self._mappings: dict[str, document.Mapping] = {}
        node = read_document(text, Report())
        waiting: list[tuple[str, document.Node | None]] = [("", node)]
        while waiting:
            path, node = waiting.pop()
            if isinstance(node, document.Mapping):
                self._mappings[path] = node
                prefix = f"{path}." if path else ""
                for key in ("partitions", "queues"):
                    if key in node.entries:
                        waiting.append((f"{prefix}{key}", node.entries[key][1]))
            elif isinstance(node, document.Sequence):
                waiting += [(f"{path}[{i}]", item) for i, item in enumerate(node.items)]

    def has(self, place: str, what: str) -> bool:
        """True if the mapping at `place` has a value for `what`: keys joined by full stops."""
        node: document.Node | None = self._mappings.get(place)
        for key in what.split("."):
            if isinstance(node, document.Scalar):
                # The text has a short form, such as only the name of the node order.
                return True
            if not isinstance(node, document.Mapping) or key not in node.entries:
                return False
            node = node.entries[key][1]
        return not (isinstance(node, document.Scalar) and node.is_null)


PARTITION_REMOVED = "PARTITION_REMOVED"
"""Code of asks in a partition that the update would remove."""

REMOVED_RULE = "partition-removed"
"""Rule of allocations in a partition that the update would remove."""

FOR_BEFORE = 0.25
"""Maximum share of the budget for the checks of asks before the update."""

_Name = tuple[PartitionName, AppId, AllocationKey]


@dataclass(frozen=True, slots=True)
class _Before:
    """State before the update."""

    partitions: list[Partition]
    queues: Snapshots
    waiting: dict[Request, WaitingAsk]
    excesses: dict[TrackerKey, Excess]
    holds: tuple[str, ...]
    removed: list[PlannedVictim]
    """Allocations in partitions that the new configuration leaves out."""


def plan_configuration(
    scheduler: CopiedCore, command: UpdateConfiguration, now: float, spent: Spent = lambda: 0.0
) -> ConfigurationPlan | ConfigurationPlanRefused:
    """Plan a registered RM's update at `now`, in unix seconds.

    The scheduler is changed, so pass a copy. `spent` returns the spent share of the budget. A plan
    is incomplete if the budget was spent.
    """
    rehearsal = Rehearsal(scheduler, command.rm_id, now, spent)
    before = _look(rehearsal, command)
    effects = rehearsal.carry_out(command)
    for effect in effects:
        if isinstance(effect, ConfigurationRefused):
            return ConfigurationPlanRefused(reason=effect.reason, problems=effect.problems)
    report = scheduler.views.rm(command.rm_id)
    in_force = command.config
    if not isinstance(in_force, Configuration):
        in_force = load(report.config)
    if ConfigurationUpdated(rm_id=command.rm_id, changed=True) not in effects:
        return ConfigurationPlan(checksum=report.checksum, changed=False, warnings=in_force.warnings)
    return _plan(rehearsal, before, in_force)


def _look(rehearsal: Rehearsal, command: UpdateConfiguration) -> _Before:
    partitions = rehearsal.partitions
    asks = waiting_asks(partitions, lambda: rehearsal.has_budget(FOR_BEFORE))
    wanted = set()
    if isinstance(command.config, Configuration):
        named = (partition_name(command.rm_id, one.name) for one in command.config.partitions)
        wanted = {partition_key(name) for name in named}
    return _Before(
        partitions=partitions,
        queues=snapshots(partitions),
        waiting={ask.request: ask for ask in asks},
        excesses=excesses(partitions),
        holds=rehearsal.holds,
        removed=[
            victim
            for partition in partitions
            if partition_key(partition.name) not in wanted
            for victim in _all_of(partition)
        ],
    )


def _plan(rehearsal: Rehearsal, before: _Before, config: Configuration) -> ConfigurationPlan:
    """Plan of an update that the rehearsal has processed."""
    queues = compared(before.queues, rehearsal.partitions)
    limits = exceeded_limits(rehearsal.partitions, before.excesses)
    ahead = seconds_ahead(rehearsal.partitions, rehearsal.now)
    horizon = min(ahead, MOST_AHEAD)
    rehearsal.go_on(rehearsal.now + horizon, lambda: has_nothing_to_wait_for(rehearsal.partitions))
    placed, blocked, victims = (
        _placed(rehearsal, before),
        _blocked(rehearsal, before),
        _victims(rehearsal, before),
    )
    defaults = defaulted_values(rehearsal.rm_id, config)
    return ConfigurationPlan(
        checksum=config.checksum,
        changed=True,
        warnings=config.warnings,
        complete=not (rehearsal.is_cut_short or before.holds) and ahead <= MOST_AHEAD,
        horizon=horizon,
        holds=before.holds,
        queues=queues.items,
        exceeded_limits=limits.items,
        placed=placed.items,
        blocked=blocked.items,
        victims=victims.items,
        defaults=defaults.items,
        counts=PlanCounts(
            queues=queues.count,
            exceeded_limits=limits.count,
            placed=placed.count,
            blocked=blocked.count,
            victims=victims.count,
            defaults=defaults.count,
            queues_draining=queues.kinds[DRAINING],
            queues_over_max=queues.kinds[OVER_MAX],
            newly_exceeded=limits.kinds[NEW],
            newly_blocked=blocked.kinds[NEW],
        ),
    )


def _placed(rehearsal: Rehearsal, before: _Before) -> Capped[PlannedAsk]:
    """Asks that were waiting before and are placed now, in the order of placement."""
    waited: dict[_Name, WaitingAsk] = {
        (ask.partition.name, ask.app.app_id, ask.request.key): ask for ask in before.waiting.values()
    }
    found: Capped[PlannedAsk] = Capped()
    for name, allocation, seconds in rehearsal.placed:
        ask = waited.pop((name, allocation.ask.app_id, allocation.key), None)
        if ask is not None:
            found.add(
                PlannedAsk(
                    partition=name,
                    app_id=ask.app.app_id,
                    key=allocation.key,
                    queue=ask.app.queue_path,
                    node_id=allocation.node_id,
                    code_before=ask.code,
                    resources=allocation.ask.ask_class.resources,
                    seconds=seconds,
                )
            )
    return found


def _blocked(rehearsal: Rehearsal, before: _Before) -> Capped[PlannedAsk]:
    """Asks with a new obstacle, and asks of removed partitions."""
    found: Capped[PlannedAsk] = Capped()
    there = {partition.name for partition in rehearsal.partitions}
    for ask in before.waiting.values():
        if ask.partition.name not in there:
            message = f"partition {ask.partition.name} is removed"
            found.add(_stopped(ask, ask.code, PARTITION_REMOVED, message), *_kinds(ask))
    for ask in waiting_asks(rehearsal.partitions, lambda: rehearsal.has_budget(1.0)):
        known = before.waiting.get(ask.request)
        if known is None or ask.code in ("", known.code):
            continue
        message = "" if found.is_full else ask.message()
        found.add(_stopped(ask, known.code, ask.code, message), *_kinds(known))
    return found


def _kinds(before: WaitingAsk) -> Iterator[str]:
    """Kinds of a blocked ask: NEW if it had no obstacle before the update."""
    if not before.code:
        yield NEW


def _stopped(ask: WaitingAsk, code_before: str, code: str, message: str) -> PlannedAsk:
    return PlannedAsk(
        partition=ask.partition.name,
        app_id=ask.app.app_id,
        key=ask.request.key,
        queue=ask.app.queue_path,
        code=code,
        message=message,
        code_before=code_before,
        resources=ask.request.ask.ask_class.resources,
    )


def _victims(rehearsal: Rehearsal, before: _Before) -> Capped[PlannedVictim]:
    found: Capped[PlannedVictim] = Capped()
    there = {partition.name for partition in rehearsal.partitions}
    for victim in before.removed:
        if victim.partition not in there:
            found.add(victim)
    for stopped in rehearsal.stopped:
        found.add(victim_of(stopped))
    return found


def victim_of(stopped: Stopped) -> PlannedVictim:
    """The planned victim for a victim of preemption."""
    record = stopped.record
    return PlannedVictim(
        partition=stopped.partition,
        app_id=record.app_id,
        key=record.key,
        queue=record.victim_queue.path,
        node_id=record.node_id,
        rule=record.rule.value,
        beneficiary_app_id=record.beneficiary_app_id,
        beneficiary_key=record.beneficiary_key,
        resources=record.resources,
        seconds=stopped.seconds,
    )


def _all_of(partition: Partition) -> Iterator[PlannedVictim]:
    """All allocations in a partition that were reported to the RM."""
    for app in partition.applications.values():
        for request in app.booked():
            if request.allocation is not None and request.state is not RequestState.ASSUMED:
                yield PlannedVictim(
                    partition=partition.name,
                    app_id=app.app_id,
                    key=request.key,
                    queue=app.queue_path,
                    node_id=request.allocation.node_id,
                    rule=REMOVED_RULE,
                    resources=request.ask.ask_class.resources,
                )
