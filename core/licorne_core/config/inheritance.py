"""Properties of each queue, with inherited ones (spec § 2.4)."""

from collections.abc import Mapping
from dataclasses import replace

from licorne_core.config.caps import PROPERTIES_IN_FORCE
from licorne_core.config.properties import merge_properties, settings_of
from licorne_core.config.report import Report
from licorne_core.config.schema import QueueConfig


def inheriting(queue: QueueConfig, above: Mapping[str, str], report: Report) -> QueueConfig:
    """The queue and those below it with `merged` and `settings`; `above` are the parent's merged.

    Raises:
        ConfigError: all queues together have too many properties.
    """
    merged = merge_properties(above, queue.properties)
    report.count(PROPERTIES_IN_FORCE, f"{queue.place.path}.properties", len(merged))
    return replace(
        queue,
        merged=merged,
        settings=settings_of(merged),
        queues=tuple(inheriting(child, merged, report) for child in queue.queues),
    )
