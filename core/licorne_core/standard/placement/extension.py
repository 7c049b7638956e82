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
    """Finds the leaf of each application, unless another feature has found one."""

    def __init__(self, name: str, bit: int, context: CheckContext) -> None:
        """Start with the implicit rules."""
        super().__init__(name, bit, context)
        self.placer = Placer(())

    def configure(self, config: PartitionConfig) -> None:
        """Apply the rules of a new configuration."""
        self.placer = Placer(config.placement_rules)

    def leaf_for(self, new: NewApplication, gang: Gang) -> Home:
        """The leaf of the first matching rule, existing or created; tags may set the leaf's size."""
        return Home(self.placer.place(new, self.context.tree), may_size=True)


def placer_of(partition: Partition) -> Placer:
    """The placement rules of a partition."""
    own = partition.points.named(NAME)
    assert isinstance(own, Placement)
    return own.placer


KIND: Final = Placement
