"""The placement of new applications in one partition."""

from typing import Final

from licorne_core.config.schema import PartitionConfig
from licorne_core.messages.commands import NewApplication
from licorne_core.model.apps.gang import Gang
from licorne_core.partitions.partition import Partition
from licorne_core.points import Extension, Home
from licorne_core.scheduling.rules import CheckContext
from licorne_core.standard.placement import NAME
from licorne_core.standard.placement.chain import Placer


class Placement(Extension):
    """Places each application that no other feature has a leaf for."""

    def __init__(self, name: str, bit: int, context: CheckContext) -> None:
        """Start with the rules that are in force where none is configured."""
        super().__init__(name, bit, context)
        self.placer = Placer(())

    def configure(self, config: PartitionConfig) -> None:
        """Follow the rules of another configuration."""
        self.placer = Placer(config.placement_rules)

    def leaf_for(self, new: NewApplication, gang: Gang) -> Home:
        """The leaf that a rule gives it, found or created; its tags may size that."""
        return Home(self.placer.place(new, self.context.tree), may_size=True)


def placer_of(partition: Partition) -> Placer:
    """The rules of a partition."""
    own = partition.points.named(NAME)
    assert isinstance(own, Placement)
    return own.placer


KIND: Final = Placement
