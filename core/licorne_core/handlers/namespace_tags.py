"""The tags in which an application brings sizes for its dynamic queue (spec § 3.13)."""

import json
from collections.abc import Mapping
from typing import Any

from licorne_core.config.schema import TemplateConfig
from licorne_core.partition import Partition
from licorne_core.queues.access import RECOVERY_PATH
from licorne_core.queues.queue import Queue
from licorne_core.queues.template import apply_sizes
from licorne_core.resources import INT64_MAX, Resources, is_strictly_greater_than_zero
from licorne_core.tags import tag_value

QUOTA = "namespace.resourcequota"
GUARANTEED = "namespace.resourceguaranteed"
MAX_APPLICATIONS = "namespace.resourcemaxapps"

_MAX_TEXT = 16_384
_UINT64_MAX = 2**64 - 1


def brought_with(leaf: Queue, tags: Mapping[str, str]) -> TemplateConfig | None:
    """What applications have brought for the leaf, with the tags of one that comes.

    Only dynamic queues follow tags, and the recovery queue does not: None for these. A tag is
    ignored if it cannot be read, has an amount below zero, or has nothing but zeros.
    """
    if leaf.managed or leaf.path == RECOVERY_PATH:
        return None
    maximum = _resources(tag_value(tags, QUOTA))
    guaranteed = _resources(tag_value(tags, GUARANTEED))
    applications = _count(tag_value(tags, MAX_APPLICATIONS))
    return TemplateConfig(
        max=maximum or leaf.brought.max,
        guaranteed=guaranteed or leaf.brought.guaranteed,
        max_applications=applications or leaf.brought.max_applications,
    )


def apply_brought(partition: Partition, leaf: Queue, brought: TemplateConfig) -> None:
    """Set the maximum, guaranteed and number of applications of a dynamic leaf.

    The queue keeps a size until a later application brings another one, also when the application
    that brought it leaves.
    """
    if brought == leaf.brought:
        # Most applications of a namespace say what those before them said.
        return
    before = (leaf.max, leaf.guaranteed)
    leaf.brought = brought
    apply_sizes(leaf)
    if before != (leaf.max, leaf.guaranteed):
        partition.changes.resized(leaf)
        partition.wakeups.room_in((leaf,))
        # The fair order of applications is by what they have of the guarantee (spec § 5.2).
        for app in leaf.applications.values():
            partition.changes.app_changed(app)
    partition.wakeups.may_run_again((leaf,))


def _resources(text: str) -> Resources | None:
    """The amounts of ``{"resources":{"memory":{"value":10}}}``."""
    if not text or len(text) > _MAX_TEXT:
        return None
    try:
        found = {name: _value(entry) for name, entry in json.loads(text)["resources"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    in_range = all(value <= INT64_MAX for value in found.values())
    return found if in_range and is_strictly_greater_than_zero(found) else None


def _value(entry: Any) -> int:
    value = entry["value"]
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise TypeError("an amount is a whole number")
    return int(value)


def _count(text: str) -> int:
    """The number in the text, 0 if it is none."""
    if not text.isdecimal() or not text.isascii() or len(text) > 20:
        return 0
    value = int(text)
    return value if value <= _UINT64_MAX else 0
