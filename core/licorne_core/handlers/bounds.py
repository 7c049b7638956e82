"""Bounds on values from outside, so that no total overflows (reliability A7)."""

from collections.abc import Iterable

from licorne_core.config.schema import Configuration
from licorne_core.model.apps.application import Application
from licorne_core.model.nodes.node import Node
from licorne_core.partitions.partition import Partition
from licorne_core.values.asks import Ask
from licorne_core.values.errors import ConfigError, Problem, Refusal, Rejected
from licorne_core.values.resources import EMPTY, INT64_MAX, MAX_RESOURCE_TYPES, Items, Resources
from licorne_core.values.rm_caps import RmCaps

MOST_SIZES, MOST_TYPES = 1000, 16
"""Maximum number of ask sizes that a partition caches, and of types in each: they use so little memory that
they count for no cap."""

MAX_TASK_GROUPS = 1000
"""Maximum number of task groups that an application may ever name, because all are kept until it ends."""


def check_task_group(app: Application, ask: Ask) -> None:
    """Refuse a placeholder of a gang in units, and a task group above the maximum number."""
    groups, units = app.gang.groups, app.gang.units
    if units is not None:
        raise Rejected(
            f"allocation {ask.key} is a placeholder, and application {app.app_id} has {units.asked_by}: "
            f"{units.no_placeholders}",
            Refusal.INVALID,
        )
    if ask.task_group not in groups and len(groups) >= MAX_TASK_GROUPS:
        raise Rejected(
            f"allocation {ask.key}: task group {ask.task_group} is one too many: "
            f"application {app.app_id} has {MAX_TASK_GROUPS}",
            Refusal.TOO_MANY,
        )


def check_size(configuration: Configuration, caps: RmCaps) -> None:
    """Refuse a configuration with more partitions or queues than an RM may have.

    Raises:
        ConfigError: with the number and the cap.
    """
    partitions = len(configuration.partitions)
    queues, waiting = 0, [partition.root for partition in configuration.partitions]
    while waiting:
        queue = waiting.pop()
        queues += 1
        waiting += queue.queues
    for count, things, cap in ((partitions, "partitions", caps.partitions), (queues, "queues", caps.queues)):
        if count > cap:
            message = f"the configuration has {count} {things}, at most {cap} are allowed"
            raise ConfigError([Problem(message=message, path="partitions")])


def check_growth(
    partition: Partition, key: str, before: Items, after: Items, node: Node | None = None
) -> None:
    """Refuse an ask or allocation whose new size takes a total beyond int64 (see `check_new`).

    `before` is its current size in the partition, and on the node if one is given.
    """
    for name, _ in after:
        if name not in partition.types:
            check_types(partition, [every for every, _ in after])
            break
    root = partition.tree.root
    _check_sums(key, before, after, root.pending, root.allocated)
    if node is not None:
        check_node_growth(key, before, after, node)
    tally = partition.tally
    for _, value in after:
        if value > tally.largest:
            tally.largest = value


def check_new(partition: Partition, ask: Ask) -> None:
    """Check a new ask like `check_growth`.

    A size that was accepted before needs no check of its types: while the number of requests times the
    largest amount is within int64, every total is.
    """
    shape, tally = ask.ask_class.shape, partition.tally
    if not tally.requests:
        tally.forget_sizes()
    elif shape in tally.sizes and (tally.requests + 1) * tally.largest <= INT64_MAX:
        return
    check_growth(partition, ask.key, (), shape.items)
    if len(shape.items) <= MOST_TYPES:
        if len(tally.sizes) >= MOST_SIZES:
            tally.sizes.clear()
        tally.sizes[shape] = None


def check_node_growth(key: str, before: Items, after: Items, node: Node) -> None:
    """Refuse growth of amounts that count only on a node, as foreign allocations do."""
    known = dict(before) if before else EMPTY
    for name, value in after:
        taken = node.capacity.get(name, 0) - node.available.get(name, 0)
        _check_total(key, name, value, taken - known.get(name, 0))


def check_capacity(partition: Partition, node_id: str, before: Resources, after: Resources) -> None:
    """Refuse a node whose capacity is negative, or raises the cluster's total beyond int64."""
    check_types(partition, after)
    for name, value in after.items():
        if value < 0:
            raise Rejected(f"node {node_id} has a negative capacity: {name} of {value}", Refusal.INVALID)
        if partition.nodes.total.get(name, 0) - before.get(name, 0) + value > INT64_MAX:
            raise Rejected(
                f"node {node_id}: {name} of {value} takes the cluster's total beyond int64",
                Refusal.TOO_MANY,
            )


def _check_sums(key: str, before: Items, after: Items, one: Resources, other: Resources) -> None:
    known = dict(before) if before else EMPTY
    for name, value in after:
        others = one.get(name, 0) + other.get(name, 0) - known.get(name, 0)
        _check_total(key, name, value, others)


def _check_total(key: str, name: str, value: int, others: int) -> None:
    if others + value > INT64_MAX:
        raise Rejected(f"allocation {key}: {name} of {value} takes a total beyond int64", Refusal.TOO_MANY)


def check_types(partition: Partition, names: Iterable[str]) -> None:
    """Refuse types beyond `MAX_RESOURCE_TYPES`; otherwise record all of them."""
    types = partition.types
    new = [name for name in names if name not in types]
    if new and len(types) + len(new) > MAX_RESOURCE_TYPES:
        name = new[MAX_RESOURCE_TYPES - len(types)]
        raise Rejected(
            f"resource type {name} is one too many: partition {partition.name} takes {MAX_RESOURCE_TYPES}",
            Refusal.TOO_MANY,
        )
    types.update(dict.fromkeys(new))
