"""Constraints of gangs on the domains of their nodes, and the domains in which gangs are tried."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from licorne_core.extensions.topology.domain_search import DomainSearch, Inside, slices_of
from licorne_core.extensions.topology.domains import DomainBook, Domains, DomainSlots, Path
from licorne_core.extensions.topology.terms import SLICE, TOPOLOGY, read_slice, read_topology
from licorne_core.messages.together import TogetherCheck
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.gang import Gang
from licorne_core.model.claims import MemberRoom
from licorne_core.model.nodes.book import NodeBook
from licorne_core.model.nodes.node import Node
from licorne_core.scheduling.gang_packing import Beside, Free, PackingEffort
from licorne_core.scheduling.gang_sets import Bundle, MemberKind, NodeSets, NodeTerms, SetSearch, no_place
from licorne_core.scheduling.gang_slots import Slots
from licorne_core.values.errors import Refusal, Rejected, shown
from licorne_core.values.ids import AppId


class DomainTerms(NodeTerms):
    """Constraints of a gang on the domains of its nodes.

    All members have to be in one domain of the `level`, if that is `required`; if not, they are in the
    narrowest domain that fits, from that level up to the whole partition. An empty level is the whole
    partition. Each `slice_size` members of one task group have to be in one domain of `slice_level`; 0 for no
    gang slices.
    """

    def __init__(
        self, book: DomainBook, level: str, slice_size: int, slice_level: str, *, required: bool
    ) -> None:
        """Create constraints on the domains of a partition, whose levels may change later."""
        self._book = book
        self.level = level
        self.required = required
        self.slice_size = slice_size
        self.slice_level = slice_level

    @property
    def is_strict(self) -> bool:
        """True if a lost member's replacement has to be in the domain of the gang, or of its slice."""
        return self.required or self.slice_size > 0

    def sets(self, app: Application) -> NodeSets | str:
        """The domains of the required level, or the whole partition; a text if the level does not exist."""
        domains = self._book.current()
        depth, slice_depth = domains.depth(self.level), domains.depth(self.slice_level)
        if min(depth, slice_depth) < 0:
            return f"the partition has no topology level {self.level if depth < 0 else self.slice_level}"
        last = depth if self.required else 0
        nodes = self._book.nodes
        held = {level: _held(app, nodes, domains, level) for level in range(last, depth + 1)}
        return DomainSets(Inside(domains, depth, last, held, self.slice_size, slice_depth))

    def nodes_of(self, app: Application) -> Sequence[Collection[Node]] | None:
        """The nodes of each domain that has members of the gang; None if no level is required."""
        if not self.required:
            return None
        domains = self._book.current()
        depth = domains.depth(self.level)
        paths = _held(app, self._book.nodes, domains, depth) if depth > 0 else None
        return [domains.nodes[depth].get(path, {}) for path in paths or ()]

    def no_node(self, app_id: AppId, room: MemberRoom | None) -> TogetherCheck:
        """The reason for a member that finds no node in its domain."""
        path = "" if room is None else room.where
        where = f"domain {path}" if path else "the domain of its gang"
        return no_place(app_id, f"{where} has no node for it", path)


def read_terms(book: DomainBook, tags: Mapping[str, str]) -> DomainTerms | None:
    """Constraints of a gang by its tags; None if no tag sets any. Raises Rejected for invalid tags."""
    if TOPOLOGY not in tags and SLICE not in tags:
        return None
    level, required = read_topology(tags)
    return DomainTerms(book, level, *read_slice(tags), required=required)


def check_terms(app_id: AppId, gang: Gang, levels: Sequence[str]) -> None:
    """Refuse terms without a gang, and terms with a level that the partition does not have.

    Raises:
        Rejected: the application cannot have these terms.
    """
    terms = gang.terms
    if not isinstance(terms, DomainTerms):
        return
    tag = SLICE if not terms.level else TOPOLOGY
    if gang.units is None and not gang.is_wanted:
        raise Rejected(
            f"application {app_id} has tag {tag}, which needs a gang, and no placeholderAsk",
            Refusal.GANG_NOT_POSSIBLE,
        )
    for name, level in ((TOPOLOGY, terms.level), (SLICE, terms.slice_level)):
        if level and level not in levels:
            known = f"it has {', '.join(levels)}" if levels else "topology.levels is not set"
            raise Rejected(
                f"application {app_id}: tag {name} names topology level '{shown(level)}', which the "
                f"partition does not have: {known}",
                Refusal.GANG_NOT_POSSIBLE,
            )


def _held(app: Application, nodes: NodeBook, domains: Domains, depth: int) -> list[Path] | None:
    """Paths of the domains of current members of the gang; None if there are none."""
    if not (depth and app.allocation_count):
        return None
    held: dict[Path, None] = {}
    for request in app.booked():
        if request.allocation is not None and app.gang.has(request.ask.task_group):
            domain = domains.domain_of(nodes.by_id[request.allocation.node_id], depth)
            if domain is not None:
                held[domain[1]] = None
    return list(held) or None


class DomainSets(NodeSets):
    """The domains, by path, one of which has to contain all members of a gang."""

    def __init__(self, inside: Inside) -> None:
        """Use the depths that the terms allow."""
        self._inside = inside
        self._domains = inside.domains
        self.layout = inside.domains
        self.stamp = inside

    def names(self) -> Iterable[Path]:
        """Paths of the domains of current members, or else of all domains of the last depth, in order."""
        last = self._inside.last
        return self._inside.held[last] or sorted(self._domains.nodes[last])

    def nodes(self, key: Path) -> Collection[Node]:
        """The nodes of a domain of the last depth."""
        return self._domains.nodes[self._inside.last].get(key, {})

    def key_of(self, node: Node) -> Path | None:
        """Path of the domain of the node at the last depth; None if it is in no domain."""
        domain = self._domains.domain_of(node, self._inside.last)
        return None if domain is None else domain[1]

    def bundles(self, members: Sequence[int]) -> list[Bundle]:
        """The members of each kind, grouped into gang slices if there are any."""
        return slices_of(members, self._inside.slice_size) or super().bundles(members)

    def parts(self, key: Path) -> Sequence[Collection[Node]]:
        """The domains of the level of gang slices inside the domain."""
        inside = self._inside
        if not inside.slice_size:
            return super().parts(key)
        rooms = self._domains.grouped(inside.last, inside.slice_depth).get(key, ())
        return [self._domains.nodes[depth].get(path, {}) for depth, path in rooms]

    def no_slots(self) -> Slots:
        """An empty table of slots on nodes and in domains."""
        return DomainSlots(self._domains)

    def search(
        self, kinds: Sequence[MemberKind], beside: Beside, free: Free, effort: PackingEffort
    ) -> SetSearch:
        """A search from the level of the gang's constraints up to the last level that they allow."""
        return DomainSearch(self._inside, kinds, beside, free, effort)
