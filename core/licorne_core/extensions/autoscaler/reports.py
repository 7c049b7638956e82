"""Outstanding asks by size, for autoscalers."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from licorne_core.extensions.autoscaler.scan import Outstanding, scan
from licorne_core.partitions.partition import Partition
from licorne_core.standard.predicates.extension import judged_of
from licorne_core.values.asks import Shape
from licorne_core.values.ids import QueuePath
from licorne_core.values.resources import Resources
from licorne_core.values.slices import in_runs


@dataclass(frozen=True, slots=True, kw_only=True)
class OutstandingShape:
    """Asks of one size that quotas would admit but that fit no node, counted by queue."""

    resources: Resources
    count: int
    queues: Mapping[QueuePath, int]


_Size = tuple[int, Shape, dict[QueuePath, int]]
"""Negated number of asks, their shape, and their number by queue."""


def outstanding(partition: Partition) -> Iterator[OutstandingShape | None]:
    """Outstanding asks by size, the most frequent first. Later changes may be missed.

    None marks a possible pause of the reader.
    """
    return outstanding_shapes(scan(partition.tree.root, judged_of(partition).results))


def outstanding_shapes(found: Iterable[Outstanding | None]) -> Iterator[OutstandingShape | None]:
    """Outstanding asks by size, from the results of a scan."""
    sizes: dict[Shape, dict[QueuePath, int]] = {}
    for one in found:
        if one is not None and one.asks:
            queues = sizes.setdefault(one.group.ask_class.shape, {})
            queues[one.leaf.path] = queues.get(one.leaf.path, 0) + one.asks
        yield None
    items = ((-sum(queues.values()), size, queues) for size, queues in sizes.items())
    for size in in_runs(items, key=_rank):
        if size is None:
            yield None
        else:
            yield OutstandingShape(resources=size[1].resources, count=-size[0], queues=size[2])


def _rank(size: _Size) -> tuple[int, Shape]:
    return size[:2]


LISTS = {"outstanding": outstanding}
