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
    """State changes, releases, allocations and rejections, in the order in which they are told.

    Releases come first: an allocation may take the place of what was released.
    """

    __slots__ = ("last_updates", "made", "rejections", "released", "updates")

    def __init__(self) -> None:
        """Nothing yet."""
        self.updates: list[ApplicationUpdate] = []
        self.last_updates: list[ApplicationUpdate] = []
        """State changes that follow from the releases, and are told behind them."""
        self.made: dict[Partition, list[Allocation]] = {}
        self.rejections: list[AllocationRejection] = []
        self.released: dict[Partition, list[Release]] = {}

    def release(self, partition: Partition, release: Release) -> None:
        """The RM is told of one more release."""
        self.released.setdefault(partition, []).append(release)

    def effects(self, rm_id: RmId, *, made_first: bool = False) -> list[Effect]:
        """One effect for each kind and partition.

        With `made_first` releases come behind allocations: one turn may make a placeholder and
        tell the RM to stop it, and the RM has to know what it is to stop.
        """
        effects: list[Effect] = []
        if self.updates:
            effects.append(ApplicationsUpdated(rm_id=rm_id, updates=self.updates))
        released: list[Effect] = []
        for partition, releases in self.released.items():
            name = partition.name
            released.append(AllocationsReleased(rm_id=rm_id, partition=name, releases=releases))
        made: list[Effect] = []
        for partition, some in self.made.items():
            made.append(AllocationsMade(rm_id=rm_id, partition=partition.name, allocations=some))
        effects += [*made, *released] if made_first else [*released, *made]
        if self.rejections:
            effects.append(AllocationsRejected(rm_id=rm_id, rejections=self.rejections))
        if self.last_updates:
            effects.append(ApplicationsUpdated(rm_id=rm_id, updates=self.last_updates))
        return effects
