"""Topology domains: their nodes, their free room, and their slots for gang members."""

from collections import Counter
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from heapq import nlargest

from licorne_core.extensions.topology.domains import Domain, Domains
from licorne_core.extensions.topology.extension import topology_of
from licorne_core.model.apps.application import Asking
from licorne_core.model.nodes.node import Node
from licorne_core.partitions.partition import Partition
from licorne_core.scheduling.checks import EVER_FITS
from licorne_core.scheduling.gang_packing import slots_on
from licorne_core.values.asks import AskClass
from licorne_core.values.ids import NodeId
from licorne_core.values.resources import Resources, add
from licorne_core.values.slices import in_runs

STEP = 250
"""Number of nodes, allocations and applications that are examined between possible pauses of the reader."""

LOOKS_OF_A_GROUP = 5
"""Number of examined objects that cost as much as a group of asks."""

SHAPES = 4
"""Maximum number of shapes of waiting asks that are tried on the nodes, the largest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainReport:
    """A topology domain.

    `path` has the values of the attributes from the widest level down, such as ``zone-a/rack-1``. The amounts
    are those of its nodes, but `available` is only that of schedulable nodes. `slots` is the number of
    members of the report's shape that fit now. `members` is the number of members of topology gangs that run
    or reserve room there.
    """

    level: str
    path: str
    nodes: int
    schedulable_nodes: int
    capacity: Resources
    available: Resources
    slots: int
    members: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyReport:
    """The levels of a partition, the widest first, and its domains, each before those inside it.

    `shape` is the size of one member; if none was given and no ask waits, it is empty and there are no slots.
    `unasked` is true if there is a predicate: the RM was not asked, and the slots consider only amounts.
    """

    levels: tuple[str, ...]
    shape: Resources
    domains: tuple[DomainReport, ...]
    unasked: bool = False


def topology(
    partition: Partition, level: str = "", shape: Resources | None = None
) -> Iterator[TopologyReport | None]:
    """The domains of one level, or of all levels; a None marks a possible pause of the reader.

    Without a `shape`, the first pending topology gang gives it, or else the largest pending ask with room.
    """
    levels = topology_of(partition).domains.levels
    if shape is None:
        shape = yield from _waiting_shape(partition)
    wanted = AskClass.of(shape) if shape else None
    domains = Domains(levels, ())
    rows: dict[Domain, _Row] = {}
    members = yield from _members(partition)
    for looks, node in enumerate(list(partition.nodes.by_id.values()) if levels else (), 1):
        for domain in domains.paths(node)[1:]:
            if not level or levels[domain[0] - 1] == level:
                rows.setdefault(domain, _Row()).add(node, wanted, members[node.node_id])
        if not looks % STEP:
            yield None
    found: list[DomainReport] = []
    in_order = in_runs(list(rows), key=_path_of)
    for looks, one in enumerate(in_order, 1):
        if one is not None:
            depth = one[0]
            found.append(rows[one].report(partition, levels[depth - 1], one))
        if one is None or not looks % STEP:
            yield None
    unasked = partition.rm.predicates is not None
    yield TopologyReport(levels=levels, shape=shape, domains=tuple(found), unasked=unasked)


def _path_of(domain: Domain) -> tuple[list[str], int]:
    """Sort key of the report: the displayed paths, whose values may contain a slash."""
    depth, path = domain
    return "/".join(path).split("/"), depth


class _Row:
    """Sums over the nodes of a domain."""

    def __init__(self) -> None:
        self._nodes = self._schedulable = self._slots = self._members = 0
        self._capacity: dict[str, int] = {}
        self._available: dict[str, int] = {}

    def add(self, node: Node, wanted: AskClass | None, members: int) -> None:
        self._nodes += 1
        self._capacity = add(self._capacity, node.capacity)
        self._members += members
        if node.schedulable:
            self._schedulable += 1
            self._available = add(self._available, node.available)
        if wanted is not None:
            self._slots += slots_on(node, wanted)

    def report(self, partition: Partition, level: str, domain: Domain) -> DomainReport:
        shown = partition.rm.core.floating.shown
        return DomainReport(
            level=level,
            path="/".join(domain[1]),
            nodes=self._nodes,
            schedulable_nodes=self._schedulable,
            capacity=shown(self._capacity),
            available=shown(self._available),
            slots=self._slots,
            members=self._members,
        )


def _members(partition: Partition) -> Generator[None, None, Counter[NodeId]]:
    """Number of members of topology gangs, by node."""
    members: Counter[NodeId] = Counter()
    looks = 0
    for app in list(partition.applications.values()):
        for request in list(app.requests.values()) if app.gang.is_whole else ():
            if request.allocation is not None and request.ask.task_group:
                members[request.allocation.node_id] += 1
            looks += 1
            if not looks % STEP:
                yield
        looks += 1
        if not looks % STEP:
            yield
    return members


def _waiting_shape(partition: Partition) -> Generator[None, None, Resources]:
    """Shape of the first waiting topology gang, or else of the largest waiting ask that has room now.

    If none has room, it is the shape of the largest ask. Asks that can never start do not count.
    """
    for blocker in partition.wakeups.gangs:
        if blocker.classes:
            return blocker.classes[0].resources
    shares: dict[AskClass, float] = {}
    looks = 0
    for app in list(partition.applications.values()):
        for group in list(app.groups.values()) if app.pending_count else ():
            if group.waiting and EVER_FITS.obstacle(partition.check_context, Asking(app, group)) is None:
                shares[AskClass.of(group.ask_class.resources)] = _share(partition, group.ask_class)
            looks += LOOKS_OF_A_GROUP
            if looks >= STEP:
                looks = 0
                yield
        looks += 1
        if looks >= STEP:
            looks = 0
            yield
    largest = nlargest(SHAPES, shares, key=shares.__getitem__)
    for wanted in largest:
        for looks, node in enumerate(list(partition.nodes.by_id.values()), 1):
            if slots_on(node, wanted):
                return wanted.resources
            if not looks % STEP:
                yield
    return largest[0].resources if largest else {}


def _share(partition: Partition, wanted: AskClass) -> float:
    """The largest fraction of the partition's amount of a resource that the ask requests."""
    total = partition.nodes.total
    return max((value / total[name] for name, value in wanted.items if total.get(name)), default=0.0)


def levels(partition: Partition) -> Iterator[str]:
    """Names of node attributes, the widest first; none without `topology.levels`."""
    yield from topology_of(partition).domains.levels


LISTS = {"topology": topology, "topology_levels": levels}
