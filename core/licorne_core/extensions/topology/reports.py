"""Topology domains: their nodes, their room, and how many gang members would fit."""

from collections import Counter
from collections.abc import Generator, Iterator
from dataclasses import dataclass

from licorne_core.extensions.topology.domains import Domain, Domains
from licorne_core.extensions.topology.extension import topology_of
from licorne_core.model.nodes.node import Node
from licorne_core.partitions.partition import Partition
from licorne_core.scheduling.gang_packing import slots_on
from licorne_core.values.asks import AskClass
from licorne_core.values.ids import NodeId
from licorne_core.values.resources import Resources, add
from licorne_core.values.slices import in_runs

STEP = 250
"""Nodes, allocations and groups that are looked at before the reader may pause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainReport:
    """A topology domain.

    `path` has the values of the attributes from the widest level down, such as ``zone-a/rack-1``. The
    amounts are those of its nodes, `available` those of the schedulable ones. `slots` is the number of
    members of the report's shape that fit now. `members` is the number of members of topology gangs that
    run or keep room there.
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
    """The levels of a partition, the widest first, and its domains, each before those inside.

    `shape` is what one member wants; empty if nothing waits and none was given: then there are no slots.
    `unasked` is true if the RM judges nodes: it was not asked, and the slots are by amounts alone.
    """

    levels: tuple[str, ...]
    shape: Resources
    domains: tuple[DomainReport, ...]
    unasked: bool = False


def topology(
    partition: Partition, level: str = "", shape: Resources | None = None
) -> Iterator[TopologyReport | None]:
    """The domains of a level, or of all; a None before it wherever the reader may pause.

    Without a `shape` it is that of the first waiting topology gang, or else of the largest waiting ask.
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
    """Order of the report: that of the paths as they are shown, in which a value may have a slash."""
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
    """Shape of the first waiting topology gang, or else of the waiting ask with the largest share."""
    for blocker in partition.wakeups.gangs:
        if blocker.classes:
            return blocker.classes[0].resources
    total, largest = partition.nodes.total, 0.0
    found: Resources = {}
    looks = 0
    for app in list(partition.applications.values()):
        for group in list(app.groups.values()) if app.pending_count else ():
            shares = (value / total[name] for name, value in group.ask_class.items if total.get(name))
            share = max(shares, default=0.0) if group.waiting else 0.0
            if share > largest:
                largest, found = share, group.ask_class.resources
            looks += 1
            if not looks % STEP:
                yield
        looks += 1
        if not looks % STEP:
            yield
    return found


def levels(partition: Partition) -> Iterator[str]:
    """Names of node attributes, the widest first; none without `topology.levels`."""
    yield from topology_of(partition).domains.levels


LISTS = {"topology": topology, "topology_levels": levels}
