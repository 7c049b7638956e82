"""Differences between two configurations, queue by queue, in the words of the configuration."""

from collections.abc import Iterator, Mapping

from licorne_cli.output.text import NOTHING, human_resources, printable
from licorne_core.config import load
from licorne_core.config.schema import (
    Configuration,
    FilterConfig,
    LimitConfig,
    PartitionConfig,
    PlacementRuleConfig,
    QueueConfig,
)
from licorne_core.values.errors import ConfigError
from licorne_core.values.resources import Resources

Values = dict[str, str]


def summary(before: str, after: str) -> list[str] | None:
    """A line for each queue or partition that differs, and for each value in it.

    Empty where nothing differs; None where one of the texts is no valid configuration.
    """
    try:
        old, new = _things(load(before)), _things(load(after))
    except ConfigError:
        return None
    lines: list[str] = []
    for name in [*old, *(name for name in new if name not in old)]:
        if name not in new:
            lines.append(f"- {name}")
        elif name not in old:
            lines.append(f"+ {name}{_listed(new[name])}")
        elif old[name] != new[name]:
            lines.append(f"~ {name}")
            lines += _changed(old[name], new[name])
    return [printable(line) for line in lines]


def _changed(old: Values, new: Values) -> Iterator[str]:
    for key in sorted(old.keys() | new.keys()):
        before, after = old.get(key, NOTHING), new.get(key, NOTHING)
        if before != after:
            yield f"    {key}: {before} -> {after}"


def _listed(values: Values) -> str:
    pairs = "; ".join(f"{key}: {value}" for key, value in sorted(values.items()))
    return f" ({pairs})" if pairs else ""


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
        "quota preemption": _on(partition.quota_preemption_enabled),
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
    return "" if resources is None else human_resources(resources)


def _count(number: int, before: str = "") -> str:
    return f"{before}{number}" if number else ""


def _on(value: bool) -> str:
    return "on" if value else "off"
