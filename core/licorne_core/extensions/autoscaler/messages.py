"""Reports to an RM about asks that wait for a larger cluster."""

from collections.abc import Sequence
from dataclasses import dataclass

from licorne_core.messages.effects import ExtensionEffect
from licorne_core.values.ids import AllocationKey, AppId, PartitionName


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerState:
    """An ask that quotas would admit but that fits no node (spec § 8.12): its state is FAILED."""

    app_id: AppId
    key: AllocationKey
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerStatesChanged(ExtensionEffect):
    """Asks that wait for a larger cluster; each is sent once."""

    partition: PartitionName
    states: Sequence[ContainerState]
