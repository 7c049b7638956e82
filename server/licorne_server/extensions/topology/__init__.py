"""Free room by topology domain: `State.ListTopology`, and the code that REST and the page share with it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

from google.protobuf.message import Message

from licorne.v1 import state_pb2 as pb
from licorne_core.extensions.topology.reports import DomainReport, TopologyReport
from licorne_core.values.errors import shown
from licorne_core.values.ids import PartitionName
from licorne_core.views import Views
from licorne_server.process.fair import Slices, walked
from licorne_server.reads.paging import Page, filled, foreign, place_token, read_place
from licorne_server.reads.reports import amounts
from licorne_server.reads.reports import filled as message_of
from licorne_server.wire.errors import invalid_argument

MAX_SHAPE = 64
"""Maximum number of resources of a requested shape."""

_domain = message_of(pb.TopologyDomain, DomainReport)


class Topology:
    """Answers calls for topology domains, in pages by path; a token names the last domain of a page."""

    def __init__(self, sources: Any, resolve: Callable[[str, Any], PartitionName]) -> None:
        """`resolve` returns the partition with a name, if the caller may see it."""
        self._sources = sources
        self._resolve = resolve

    async def answer(self, request: pb.ListTopologyRequest, context: Any) -> Message:
        """Read the domains, and encode the page, in time slices."""
        sources, partition = self._sources, self._resolve(request.partition, context)
        slices = partial(sources.time_slices.slice, sources.access.caller(context).peer)
        found = await topology_of(sources.views, partition, request.level, request.shape, slices)
        domains = _behind(found, request.page_token)
        page = await filled(Page(domains, _domain, size=request.page_size), slices)
        return pb.ListTopologyResponse(
            levels=found.levels,
            shape=amounts(found.shape),
            domains=page.rows,
            next_page_token=place_token(page.last, attrgetter("path", "level")),
            unasked=found.unasked,
        )


async def topology_of(
    views: Views, partition: PartitionName, level: str, shape: Mapping[str, int], slices: Slices
) -> TopologyReport:
    """The domains of a level, or of all levels, with their slots for that shape or for the waiting asks.

    Raises:
        CallError: there is no such level, or an amount of the shape is not above zero.
        NotFound: there is no such partition.
    """
    levels = tuple(views.listed("topology_levels", partition))
    if level and level not in levels:
        name = shown(level)
        there = f"level {name} is none of {', '.join(levels)}"
        why = there if levels else f"there is no level {name}: topology.levels of root is not set"
        raise invalid_argument(why, "level")
    if len(shape) > MAX_SHAPE:
        raise invalid_argument(f"shape has {len(shape)} entries, at most {MAX_SHAPE} are allowed", "shape")
    for name, amount in shape.items():
        if amount <= 0:
            raise invalid_argument(f"shape: {shown(name)} is {amount}, which is not above zero", "shape")
    found: Iterator[TopologyReport | None] = views.listed("topology", partition, level, dict(shape) or None)
    [report] = await walked(found, slices)
    return report


def _behind(report: TopologyReport, token: str) -> Iterator[DomainReport | None]:
    """The domains after the domain of a token, or all domains for an empty token.

    The domain of the token may have been removed.

    Raises:
        CallError: the text is no token of this list.
    """
    if not token:
        return iter(report.domains)
    path, level = read_place(token, str, str)
    if level not in report.levels:
        raise foreign(token)
    place = _place(path, level, report.levels)
    return (one if _place(one.path, one.level, report.levels) > place else None for one in report.domains)


def _place(path: str, level: str, levels: Sequence[str]) -> tuple[list[str], int]:
    """Sort key of a domain in the order of the report."""
    return path.split("/"), levels.index(level)


PAGED = {"ListTopology": (pb.ListTopologyRequest, lambda sources, resolve: Topology(sources, resolve).answer)}
