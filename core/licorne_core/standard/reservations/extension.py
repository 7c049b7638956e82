"""Reservations in one partition."""

from typing import Final

from licorne_core.model.apps.groups import ReservationRequest
from licorne_core.partitions.partition import Partition
from licorne_core.points import Extension
from licorne_core.scheduling.rules import CheckContext
from licorne_core.standard.reservations import NAME
from licorne_core.standard.reservations.remedy import Reserving
from licorne_core.standard.reservations.review import Overdue, Review
from licorne_core.standard.reservations.stage import Reserved


class NodeReservations(Extension):
    """Reserves nodes, places the reserved asks, and reviews the reservations."""

    def __init__(self, name: str, bit: int, context: CheckContext) -> None:
        """Start without reservations."""
        super().__init__(name, bit, context)
        self.review = Review(context)
        self.remedies = {ReservationRequest: Reserving(context)}
        self.stages = (Overdue(self.review), Reserved(context, self.review), self.review)


KIND: Final = NodeReservations


def review_of(partition: Partition) -> Review:
    """The review of the partition."""
    own = partition.points.named(NAME)
    assert isinstance(own, NodeReservations)
    return own.review
