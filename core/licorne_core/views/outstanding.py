"""Shortage of a cluster: asks that quota would admit and no node takes (spec § 8.12)."""

from collections.abc import Iterable, Iterator

from licorne_core.messages.reports import OutstandingShape
from licorne_core.values.asks import Shape
from licorne_core.values.ids import QueuePath
from licorne_core.values.runs import in_runs
from licorne_core.views.outstanding_scan import Outstanding

_Size = tuple[int, Shape, dict[QueuePath, int]]
"""A size: minus its number of asks, its amounts, and its number of asks by queue."""


def outstanding_shapes(found: Iterable[Outstanding | None]) -> Iterator[OutstandingShape | None]:
    """Outstanding asks by size, the most frequent first.

    There is a None wherever the reader may pause.
    """
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
