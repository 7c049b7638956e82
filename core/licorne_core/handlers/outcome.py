"""What a command or a turn brought about, gathered by kind (spec § 1.6.8)."""

from licorne_core.asks import Allocation
from licorne_core.effects import (
    AllocationRejection,
    AllocationsMade,
    AllocationsRejected,
    AllocationsReleased,
    ApplicationsUpdated,
    ApplicationUpdate,
    Effect,
    Release,
)
from licorne_core.ids import RmId
from licorne_core.partition import Partition


class Outcome:
    """State changes, allocations, rejections and releases, in the order in which they are told."""

    __slots__ = ("made", "rejections", "released", "updates")

    def __init__(self) -> None:
        """Nothing yet."""
        self.updates: list[ApplicationUpdate] = []
        self.made: dict[Partition, list[Allocation]] = {}
        self.rejections: list[AllocationRejection] = []
        self.released: dict[Partition, list[Release]] = {}

    def effects(self, rm_id: RmId) -> list[Effect]:
        """One effect for each kind and partition."""
        effects: list[Effect] = []
        if self.updates:
            effects.append(ApplicationsUpdated(rm_id=rm_id, updates=self.updates))
        for partition, made in self.made.items():
            effects.append(AllocationsMade(rm_id=rm_id, partition=partition.name, allocations=made))
        if self.rejections:
            effects.append(AllocationsRejected(rm_id=rm_id, rejections=self.rejections))
        for partition, releases in self.released.items():
            effects.append(
                AllocationsReleased(rm_id=rm_id, partition=partition.name, releases=releases)
            )
        return effects
