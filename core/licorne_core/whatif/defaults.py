"""Default values of a configuration, and their origins (spec § 2)."""

from collections.abc import Iterator, Mapping

from licorne_core.config import document
from licorne_core.config.document import read_document
from licorne_core.config.properties import (
    APP_SORT_POLICY,
    APP_SORT_PRIORITY,
    BACKOFF_DELAY,
    BACKOFF_THRESHOLD,
    PREEMPTION_DELAY,
    PREEMPTION_LOSS_LIMIT,
    PREEMPTION_MINIMUM_RUNTIME,
    PREEMPTION_POLICY,
    PREEMPTION_VICTIM_ORDER,
    PRIORITY_OFFSET,
    PRIORITY_POLICY,
    QUOTA_PREEMPTION_DELAY,
    QueueSettings,
)
from licorne_core.config.report import Report
from licorne_core.config.schema import Configuration, PartitionConfig, QueueConfig
from licorne_core.values.ids import PartitionName, RmId, partition_name
from licorne_core.whatif import queues
from licorne_core.whatif.plans import Capped, DefaultedValue

DEFAULT = "default"
"""Origin of a default value."""

_STANDARD = QueueSettings()
PROPERTY_DEFAULTS: Mapping[str, str] = {
    APP_SORT_POLICY: _STANDARD.app_sort.value,
    APP_SORT_PRIORITY: "enabled" if _STANDARD.priority_sort else "disabled",
    PRIORITY_POLICY: "fence" if _STANDARD.priority_fence else DEFAULT,
    PRIORITY_OFFSET: str(_STANDARD.priority_offset),
    PREEMPTION_POLICY: _STANDARD.preemption.value,
    PREEMPTION_DELAY: f"{_STANDARD.preemption_delay:g}s",
    PREEMPTION_MINIMUM_RUNTIME: "none",
    PREEMPTION_LOSS_LIMIT: "none",
    PREEMPTION_VICTIM_ORDER: _STANDARD.preemption_victim_order.value,
    QUOTA_PREEMPTION_DELAY: "never",
    BACKOFF_THRESHOLD: "off",
    BACKOFF_DELAY: f"{_STANDARD.backoff_delay:g}s",
}
"""Default of each property that the scheduler reads."""

_QUEUE_DEFAULTS: Mapping[str, str] = {
    "resources.guaranteed": queues.NONE,
    "resources.max": queues.UNLIMITED,
    "maxapplications": queues.UNLIMITED,
    "submitacl": "nobody but who may submit above",
    "adminacl": "nobody but who administers above",
}
_OF_THE_CLUSTER = frozenset({"resources.guaranteed", "resources.max"})
"""Properties that root cannot have: it has the size of its nodes."""

_PARTITION_DEFAULTS: Mapping[str, str] = {
    "placementrules": queues.NO_RULES,
    "nodesortpolicy": "fair",
    "preemption.enabled": "true",
    "preemption.quotapreemptionenabled": "false",
}


def defaulted_values(rm_id: RmId, config: Configuration) -> Capped[DefaultedValue]:
    """All of them: for each partition its own, and then its queues', each parent first."""
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
    found: Capped[DefaultedValue],
    partition: PartitionName,
    path: str,
    name: str,
    value: str,
    origin: str,
) -> None:
    if found.is_full:
        found.count_one()
    else:
        found.add(DefaultedValue(partition=partition, path=path, name=name, value=value, origin=origin))


_Above = tuple[tuple[str, QueueConfig], ...]
"""The queues above one with their paths, the nearest first."""


def _walk(partition: PartitionConfig) -> Iterator[tuple[str, QueueConfig, _Above]]:
    waiting: list[tuple[str, QueueConfig, _Above]] = [(partition.root.name, partition.root, ())]
    while waiting:
        path, queue, above = waiting.pop()
        yield path, queue, above
        lineage = ((path, queue), *above)
        waiting += [(f"{path}.{c.name}", c, lineage) for c in reversed(queue.queues)]


def _properties(queue: QueueConfig, above: _Above) -> Iterator[tuple[str, str, str]]:
    """Properties that the queue does not give itself: key, value and origin."""
    for key in dict.fromkeys((*PROPERTY_DEFAULTS, *sorted(queue.merged))):
        if key in queue.properties:
            continue
        value = queue.merged.get(key)
        if value is None:
            yield key, PROPERTY_DEFAULTS[key], DEFAULT
            continue
        giver = next((one for one in above if key in one[1].properties), None)
        # Some properties start over in every queue (`merge_properties`).
        is_handed_on = giver is not None and giver[1].properties[key] == value
        yield key, value, giver[0] if giver is not None and is_handed_on else DEFAULT


class _Given:
    """Keys of a text: a given value may be the default."""

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
        """True if the thing at a place has a value under keys that are joined by full stops."""
        node: document.Node | None = self._mappings.get(place)
        for key in what.split("."):
            if isinstance(node, document.Scalar):
                # A short form, such as the name of the node order alone.
                return True
            if not isinstance(node, document.Mapping) or key not in node.entries:
                return False
            node = node.entries[key][1]
        return not (isinstance(node, document.Scalar) and node.is_null)
