"""Messages of `licorne.v1.Admin`: differences between configurations, and plans.

Differences are listed by queue, under the names of the configuration's keys.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import NamedTuple

from licorne.v1 import admin_pb2 as pb
from licorne_core.config.schema import (
    Configuration,
    FilterConfig,
    LimitConfig,
    PartitionConfig,
    PlacementRuleConfig,
    QueueConfig,
)
from licorne_core.messages.plans import (
    ADDED,
    CHANGED,
    NEW_NODE_ID,
    REMOVED,
    ConfigurationPlan,
    ConfigurationPlanRefused,
    DefaultedValue,
    ExceededLimit,
    PlanCounts,
    PlannedAsk,
    PlannedQueue,
    PlannedValue,
    PlannedVictim,
    StartChange,
    StartTrial,
    SubmissionPlan,
)
from licorne_core.values.errors import Problem
from licorne_core.values.resources import Resources, print_amounts
from licorne_server.reads.reports import filled
from licorne_server.wire.features import names

_value = filled(pb.PlannedValue, PlannedValue)
_queue = filled(pb.PlannedQueue, PlannedQueue, {"values": ("values", partial(map, _value))})
_exceeded_limit = filled(
    pb.ExceededLimit,
    ExceededLimit,
    {
        "user": lambda limit: limit.name if limit.kind == "user" else "",
        "group": lambda limit: limit.name if limit.kind == "group" else "",
    },
)
_ask = filled(
    pb.PlannedAsk,
    PlannedAsk,
    {"application_id": "app_id", "allocation_key": "key", "resource": "resources"},
)
_victim = filled(
    pb.PlannedVictim,
    PlannedVictim,
    {
        "application_id": "app_id",
        "allocation_key": "key",
        "for_application_id": "beneficiary_app_id",
        "for_allocation_key": "beneficiary_key",
        "resource": "resources",
    },
)
_configuration = filled(
    pb.PlanConfigurationResponse,
    ConfigurationPlan,
    {
        "base_revision": None,
        "horizon_seconds": "horizon",
        "queues": ("queues", partial(map, _queue)),
        "exceeded_limits": ("exceeded_limits", partial(map, _exceeded_limit)),
        "placed": ("placed", partial(map, _ask)),
        "blocked": ("blocked", partial(map, _ask)),
        "victims": ("victims", partial(map, _victim)),
        "defaults": ("defaults", partial(map, filled(pb.DefaultedValue, DefaultedValue))),
        "counts": ("counts", filled(pb.PlanCounts, PlanCounts)),
    },
)
problem_message = filled(pb.ConfigurationProblem, Problem)
_submission = filled(
    pb.PlanSubmissionResponse,
    SubmissionPlan,
    {
        "application_id": None,
        "horizon_seconds": "horizon",
        "asks": ("asks", partial(map, _ask)),
        "victims": ("victims", partial(map, _victim)),
    },
)
start_trial = filled(
    pb.StartTrial,
    StartTrial,
    {
        "message": StartTrial.text,
        "node_id": lambda trial: "" if trial.node_id == NEW_NODE_ID else trial.node_id,
        "changes": ("changes", partial(map, filled(pb.StartChange, StartChange))),
    },
)


def start_advice(lacking: StartTrial) -> pb.StartTrial:
    """The requirements of a start that the checks report as missing, without a trial."""
    message = start_trial(lacking)
    message.message = lacking.advice()
    return message


def configuration_plan(plan: ConfigurationPlan, base: int) -> pb.PlanConfigurationResponse:
    """The effect of a configuration; `base` is the number of the revision in force."""
    message = _configuration(plan)
    message.base_revision = base
    return message


def submission_plan(plan: SubmissionPlan, app_id: str) -> pb.PlanSubmissionResponse:
    """The planned placement of the application with this id."""
    message = _submission(plan)
    message.application_id = app_id
    return message


def refused_plan(refused: ConfigurationPlanRefused) -> pb.ValidateConfigurationResponse:
    """The refusal of a configuration."""
    problems = map(problem_message, refused.problems)
    return pb.ValidateConfigurationResponse(reason=refused.reason, problems=problems)


Values = dict[str, str]
_SWITCHES = names("SWITCHES")


MAX_CHANGES = 1_000
MAX_BYTES = 1024 * 1024
"""Maximum number of bytes of the listed changes; further changes are only counted."""


class Differences(NamedTuple):
    """Changes of partitions and queues, and their total number, as not all may be listed."""

    changes: list[pb.ConfigurationChange]
    total: int


def differences(before: Configuration, after: Configuration) -> Differences:
    """The partitions and queues that differ; those in `before` are first."""
    changes: list[pb.ConfigurationChange] = []
    old, new = _things(before), _things(after)
    size = total = 0
    for name in dict.fromkeys((*old, *new)):
        values = _values(old.get(name, {}), new.get(name, {}))
        if name in old and name in new and not values:
            continue
        what = CHANGED if name in old and name in new else ADDED if name in new else REMOVED
        change = pb.ConfigurationChange(name=name, change=what, values=values)
        total += 1
        size += change.ByteSize()
        if total <= MAX_CHANGES and size <= MAX_BYTES:
            changes.append(change)
    return Differences(changes, total)


def _values(old: Values, new: Values) -> list[pb.PlannedValue]:
    """The values that differ, by name; an empty text for a missing one."""
    return [
        pb.PlannedValue(name=name, before=old.get(name, ""), after=new.get(name, ""))
        for name in sorted(old.keys() | new.keys())
        if old.get(name, "") != new.get(name, "")
    ]


def _things(configuration: Configuration) -> dict[str, Values]:
    """The partitions and queues by name, each with its values."""
    things: dict[str, Values] = {}
    several = len(configuration.partitions) > 1
    for partition in configuration.partitions:
        things[f"partition {partition.name}"] = _of_partition(partition)
        prefix = f"[{partition.name}]" if several else ""
        for path, queue in _queues(partition.root, ""):
            things[f"queue {prefix}{path}"] = _of_queue(queue)
    return things


def _queues(queue: QueueConfig, above: str) -> Iterator[tuple[str, QueueConfig]]:
    path = f"{above}.{queue.name}" if above else queue.name
    yield path, queue
    for child in queue.queues:
        yield from _queues(child, path)


def _of_partition(partition: PartitionConfig) -> Values:
    values = {
        "preemption": _on(partition.preemption_enabled),
        **{_SWITCHES.get(key, key): _on(on) for key, on in partition.switches.items()},
        "node sort policy": partition.node_sort.type.value,
    }
    if partition.node_sort.attribute:
        values["node sort attribute"] = partition.node_sort.attribute
    weights = partition.node_sort.weights
    values["node sort weights"] = ",".join(f"{name}={weights[name]:g}" for name in sorted(weights))
    for number, rule in enumerate(partition.placement_rules, start=1):
        values[f"placement rule {number}"] = _rule(rule)
    return values


def _of_queue(queue: QueueConfig) -> Values:
    values = {
        "guaranteed": _amounts(queue.guaranteed),
        "max": _amounts(queue.max),
        "max applications": _count(queue.max_applications),
        "submit acl": queue.submit_acl.text,
        "admin acl": queue.admin_acl.text,
        "parent": "yes" if queue.parent and not queue.queues else "",
    }
    values |= _properties("property", queue.properties)
    for limit in queue.limits:
        values[f"limit {_whom(limit)}"] = _limit(limit)
    template = queue.child_template
    if template is not None:
        values |= {
            "template guaranteed": _amounts(template.guaranteed),
            "template max": _amounts(template.max),
            "template max applications": _count(template.max_applications),
            **_properties("template property", template.properties),
        }
    return {key: value for key, value in values.items() if value}


def _properties(kind: str, properties: Mapping[str, str]) -> Values:
    return {f"{kind} {name}": value for name, value in properties.items()}


def _whom(limit: LimitConfig) -> str:
    users = f"users {','.join(limit.users)}" if limit.users else ""
    groups = f"groups {','.join(limit.groups)}" if limit.groups else ""
    return " ".join(filter(None, (users, groups)))


def _limit(limit: LimitConfig) -> str:
    parts = (_amounts(limit.max_resources), _count(limit.max_applications, "applications="))
    return ",".join(filter(None, parts))


def _rule(rule: PlacementRuleConfig) -> str:
    parts = [rule.name]
    if rule.value:
        parts.append(f"value={rule.value}")
    if rule.create:
        parts.append("create")
    if rule.filter is not None:
        parts.append(_filter(rule.filter))
    if rule.parent is not None:
        parts.append(f"below ({_rule(rule.parent)})")
    return " ".join(parts)


def _filter(rule: FilterConfig) -> str:
    entries = ",".join((*rule.users.entries, *rule.groups.entries))
    return f"{'allow' if rule.allow else 'deny'}({entries})"


def _amounts(resources: Resources | None) -> str:
    return "" if resources is None else print_amounts(resources)


def _count(number: int, before: str = "") -> str:
    return f"{before}{number}" if number else ""


def _on(value: bool) -> str:
    return "on" if value else "off"
