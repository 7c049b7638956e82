"""The domains and the places of lost members in one partition, and the hook points of topology."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

from licorne_core.config.schema import PartitionConfig
from licorne_core.extensions.topology import NAME
from licorne_core.extensions.topology.domain_terms import DomainTerms, check_terms, read_terms
from licorne_core.extensions.topology.domains import DomainBook
from licorne_core.extensions.topology.lost_places import LostPlaces
from licorne_core.extensions.topology.recount import check_places
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.gang import Gang
from licorne_core.model.apps.requests import Request
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.queue import Queue
from licorne_core.partitions.partition import Partition
from licorne_core.points import Extension
from licorne_core.scheduling.rules import CheckContext
from licorne_core.values.ids import AppId


class Topology(Extension):
    """Domains, and room reserved for lost members.

    Each application whose gang has constraints on domains has the bit.
    """

    def __init__(self, name: str, bit: int, context: CheckContext) -> None:
        """Start without places of lost members."""
        super().__init__(name, bit, context)
        self.domains = DomainBook(context.node_book)
        self.places = LostPlaces(context, self.domains)

    def configure(self, config: PartitionConfig) -> None:
        """Set the levels of root."""
        before, self.domains.levels = self.domains.levels, config.root.settings.of(NAME, ())
        if self.domains.levels != before:
            # From now on waiting gangs are compared with empty nodes again when a node changes its size.
            for node in islice(self.domains.nodes.by_id.values(), 1):
                self.domains.nodes.sized.note(node)

    def node_terms(self, tags: Mapping[str, str]) -> DomainTerms | None:
        """The terms of a new application, by its tags; None without constraints."""
        return read_terms(self.domains, tags)

    def joining(self, app_id: AppId, gang: Gang) -> None:
        """Refuse terms of an application that is no gang, and terms with unknown levels."""
        check_terms(app_id, gang, self.domains.levels)

    def apply_leaf(self, app: Application, leaf: Queue, now: float) -> Iterator[int]:
        """Set the bit of an application whose gang has constraints on domains."""
        if isinstance(app.gang.terms, DomainTerms):
            app.interests |= self.bit
        return iter(())

    def freed(self, app: Application, request: Request, now: float) -> None:
        """Record the place of a lost member."""
        self.places.lost(app, request, now)

    def seek(self) -> None:
        """Find nodes for places without one."""
        self.places.seek()

    def node_lost(self, node: Node) -> None:
        """Remove the node from its domains."""
        self.domains.remove(node)

    def app_gone(self, app: Application) -> None:
        """Drop the places of an ended application, or all places if its partition was removed."""
        if app.app_id in self.context.applications:
            self.places.forget(app)
        else:
            app.gang.rooms.clear()

    def dispose(self) -> Iterator[int]:
        """Drop references from places and domains to applications and nodes."""
        self.places.clear()
        yield 1
        yield from self.domains.clear()

    def recount(self, applications: Mapping[AppId, Application], *, settled: bool) -> None:
        """Check the places of lost members (`recount.py`)."""
        check_places(self.places, self.context)


def topology_of(partition: Partition) -> Topology:
    """The topology extension of the partition."""
    own = partition.points.named(NAME)
    assert isinstance(own, Topology)
    return own


KIND: Final = Topology
