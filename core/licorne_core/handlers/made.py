"""What goes with an allocation that the core has made, beside the allocation itself."""

from licorne_core.apps.application import Application
from licorne_core.asks import Allocation
from licorne_core.config.properties import AppSortPolicy
from licorne_core.effects import ApplicationUpdate
from licorne_core.lifecycle import note_start, placed
from licorne_core.partition import Partition
from licorne_core.queues.queue import Queue


def tell(
    partition: Partition,
    leaf: Queue,
    app: Application,
    allocation: Allocation,
    now: float,
    updates: list[ApplicationUpdate],
) -> None:
    """Count it; its application runs now, or is starting (spec §§ 5.1.1, 5.2)."""
    partition.counters.allocations_made += 1
    leaf.counters.allocations_made += 1
    by_state = leaf.settings.app_sort is AppSortPolicy.STATE_AWARE
    starts = by_state and partition.changes.is_state_aware(leaf)
    if starts or leaf.admission.starting is app:
        note_start(partition, leaf, app, now)
    updates += placed(partition, app, allocation, now)
